//! The torch face: kernels that torch's dispatcher calls, and the helpers of the Python package.

pub mod call;
pub mod device;
pub mod dlpack;
pub mod errors;
pub mod guard;
pub mod jit;
pub mod layout;
pub mod parse;
pub mod storage;
pub mod transfer;
pub mod types;
pub mod views;
mod views_stable;

use pyo3::prelude::*;

/// Tells autograd that the tensors of a list or tuple were written to, where torch does not do it by itself.
pub fn written(tensors: &Bound<'_, PyAny>) -> PyResult<()> {
    tensors.try_iter()?.try_for_each(|tensor| was_written(&tensor?))
}

/// Tells autograd that a tensor was written to, where torch does not do it by itself.
pub fn was_written(tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    static INCREMENT: pyo3::sync::PyOnceLock<Py<PyAny>> = pyo3::sync::PyOnceLock::new();
    let py = tensor.py();
    let known = types::is_tensor_type(tensor.get_type_ptr() as usize);
    // SAFETY: a live tensor, by its type.
    if known && layout::layout(py).is_some_and(|layout| unsafe { layout.written(tensor.as_ptr()) }) {
        return Ok(());
    }
    INCREMENT.import(py, "torch._C", "_increment_version")?.call1(((tensor,),)).map(drop)
}
