//! Attributes of tensors, read past Python's search for their names.

use crate::torch::types;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

type Getter = unsafe extern "C" fn(*mut PyObject, *mut PyObject, *mut PyObject) -> *mut PyObject;

/// An attribute that torch's own tensor types define in C.
pub struct Attribute {
    name: &'static str,
    found: PyOnceLock<(Py<PyAny>, Getter)>,
}

pub static REQUIRES_GRAD: Attribute = Attribute::new("requires_grad");
pub static IS_LEAF: Attribute = Attribute::new("is_leaf");
pub static GRAD: Attribute = Attribute::new("grad");

impl Attribute {
    const fn new(name: &'static str) -> Self {
        Self { name, found: PyOnceLock::new() }
    }

    /// The attribute of `object`.
    ///
    /// # Safety
    /// `object` is a live tensor.
    pub unsafe fn get<'py>(&self, py: Python<'py>, object: *mut PyObject) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: by the caller; a getter returns a new reference or raises.
        unsafe {
            let kind = ffi::Py_TYPE(object);
            if !types::is_tensor_type(kind as usize) {
                return Bound::from_borrowed_ptr(py, object).getattr(self.name);
            }
            let (descriptor, getter) = self.found.get_or_try_init(py, || self.find(py))?;
            Bound::from_owned_ptr_or_err(py, getter(descriptor.as_ptr(), object, kind.cast()))
        }
    }

    fn find(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, Getter)> {
        let descriptor = py.import("torch")?.getattr("Tensor")?.getattr(self.name)?;
        // SAFETY: a live object; the slot of a getset descriptor has this signature.
        unsafe {
            let slot = ffi::PyType_GetSlot(ffi::Py_TYPE(descriptor.as_ptr()), ffi::Py_tp_descr_get);
            if slot.is_null() {
                return Err(pyo3::exceptions::PyTypeError::new_err(format!(
                    "torch.Tensor.{} is no attribute",
                    self.name
                )));
            }
            Ok((descriptor.unbind(), std::mem::transmute::<*mut std::ffi::c_void, Getter>(slot)))
        }
    }
}
