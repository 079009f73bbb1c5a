//! The Python half of torch's device guard.
//!
//! torch asks the guard of a backend registered from Python for its device type through pybind11: it reads the attribute
//! `type_` of the guard, calls it, and drops it. It does so while a C++ exception is on its way as well, from
//! destructors: then a Python error that a hook or a backward function raised is still pending, and no call of a Python
//! object may succeed with an error pending. pybind11 would throw, out of a destructor, and the process would end.
//!
//! So the attribute is made anew by each read, and the pending error lives in it: the read takes the error away, the
//! call sees none, and the drop puts it back. pybind11 takes a builtin function for "not overridden", hence an object
//! that can be called.

use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;

/// An error taken from the interpreter: type, value, traceback; all owned, each possibly null.
struct Pending([*mut PyObject; 3]);

// SAFETY: the objects are only touched with the interpreter's lock held.
unsafe impl Send for Pending {}
// SAFETY: as above.
unsafe impl Sync for Pending {}

/// What a read of [`GuardType`] gives: called, it tells the device type; dropped, it puts the error back.
#[pyclass]
struct GuardCall {
    device_type: Py<PyAny>,
    pending: Option<Pending>,
}

#[pymethods]
impl GuardCall {
    fn __call__(&self, py: Python<'_>) -> Py<PyAny> {
        self.device_type.clone_ref(py)
    }
}

impl Drop for GuardCall {
    fn drop(&mut self) {
        if let Some(Pending([kind, value, trace])) = self.pending.take() {
            // SAFETY: objects are dropped with the lock held; the three references are ours to give.
            unsafe { ffi::PyErr_Restore(kind, value, trace) }
        }
    }
}

/// The attribute `type_` of the guard: a descriptor.
#[pyclass]
pub struct GuardType {
    device_type: Py<PyAny>,
    /// Serves every read while no error is pending.
    calm: Py<GuardCall>,
}

#[pymethods]
impl GuardType {
    #[new]
    fn new(py: Python<'_>, device_type: Py<PyAny>) -> PyResult<GuardType> {
        let calm = Py::new(py, GuardCall { device_type: device_type.clone_ref(py), pending: None })?;
        Ok(GuardType { device_type, calm })
    }

    fn __get__(
        &self,
        py: Python<'_>,
        _guard: Option<&Bound<'_, PyAny>>,
        _owner: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<GuardCall>> {
        // SAFETY: the lock is held. No method of `PyErr` will do: taking an error may raise a panic on.
        let pending = unsafe {
            if ffi::PyErr_Occurred().is_null() {
                return Ok(self.calm.clone_ref(py));
            }
            let mut parts = [std::ptr::null_mut(); 3];
            let [kind, value, trace] = &mut parts;
            ffi::PyErr_Fetch(kind, value, trace);
            Pending(parts)
        };
        Py::new(py, GuardCall { device_type: self.device_type.clone_ref(py), pending: Some(pending) })
    }
}
