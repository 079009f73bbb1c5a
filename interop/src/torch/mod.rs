//! The torch face: kernels that torch's dispatcher calls, and the helpers of the Python package.

pub mod call;
pub mod device;
pub mod dlpack;
pub mod errors;
pub mod guard;
pub mod jit;
pub mod parse;
pub mod storage;
pub mod transfer;
pub mod types;
pub mod views;
mod views_stable;

use pyo3::prelude::*;

/// Tells autograd that the tensors of a sequence were written to, where torch does not do it by itself.
pub fn written(tensors: &Bound<'_, PyAny>) -> PyResult<()> {
    static INCREMENT: pyo3::sync::PyOnceLock<Py<PyAny>> = pyo3::sync::PyOnceLock::new();
    INCREMENT.import(tensors.py(), "torch._C", "_increment_version")?.call1((tensors,)).map(drop)
}
