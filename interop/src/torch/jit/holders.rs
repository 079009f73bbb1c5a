//! Who holds a tensor, and who holds its memory: what somebody else has may not be used for another value.
//!
//! torch tells both counts, the second one only by way of new objects, so they are read where it keeps them.

use crate::torch::layout::layout;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Whether a tensor has one holder beside the call: no other Python object, no view with it as its base, no graph; and
/// its memory is no other tensor's.
///
/// # Safety
/// `object` is a live tensor, held by a container and by the call.
pub unsafe fn known_to_one(py: Python<'_>, object: *mut PyObject) -> PyResult<bool> {
    // SAFETY: by the caller; counts are only read.
    unsafe {
        if ffi::Py_REFCNT(object) > 2 {
            return Ok(false);
        }
        let (tensor, storage) = match layout(py) {
            Some(layout) => layout.holders(object),
            None => ask(&Bound::from_borrowed_ptr(py, object))?,
        };
        // The container's hold and its Python object's; of the memory the tensor's.
        Ok(tensor <= 2 && storage <= 1)
    }
}

/// The counts as torch tells them.
fn ask(tensor: &Bound<'_, PyAny>) -> PyResult<(u64, u64)> {
    static OWN: PyOnceLock<isize> = PyOnceLock::new();
    let py = tensor.py();
    let own = OWN.get_or_try_init(py, || Ok::<_, PyErr>(references(&storage_of(&sample(py)?)?)))?;
    let storage = storage_of(tensor)?;
    // To ask made an object of the storage, unless somebody had one.
    let elsewhere = u64::from(references(&storage) > *own);
    Ok((tensor.call_method0("_use_count")?.extract()?, told(&storage)? - 1 + elsewhere))
}

fn references(object: &Bound<'_, PyAny>) -> isize {
    // SAFETY: a live object.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) }
}

fn storage_of<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    tensor.call_method0("untyped_storage")
}

fn sample(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("torch")?.call_method1("empty", (1,))
}

fn told(storage: &Bound<'_, PyAny>) -> PyResult<u64> {
    let torch = storage.py().import("torch")?.getattr("_C")?;
    torch.getattr("_storage_Use_Count")?.call1((storage.getattr("_cdata")?,))?.extract()
}

/// Both counts of a tensor of the device, as they are read and as torch tells them.
#[pyfunction]
pub fn holders(tensor: &Bound<'_, PyAny>) -> PyResult<((u64, u64), (u64, u64))> {
    // SAFETY: a live tensor, by its type; one without a storage makes `ask` raise. To ask makes the storage's object.
    let read = layout(tensor.py()).map(|layout| unsafe { layout.holders(tensor.as_ptr()) });
    let told = ask(tensor)?;
    Ok((read.unwrap_or(told), told))
}
