//! Our errors as Python exceptions, of the types that torch itself raises for the same mistakes.

use bridge::{Error, op_error::OpErrorKind};
use pyo3::exceptions::{PyIndexError, PyNotImplementedError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

static OUT_OF_MEMORY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static LINALG: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static REFUSED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// What the exception type, or the function that makes exceptions, at `path` gives for a message.
fn torch_type(py: Python<'_>, cell: &'static PyOnceLock<Py<PyAny>>, path: &[&str], message: &str) -> PyErr {
    let found = cell.get_or_try_init(py, || {
        let mut at = py.import(path[0])?.into_any();
        for name in &path[1..] {
            at = at.getattr(*name)?;
        }
        Ok::<_, PyErr>(at.unbind())
    });
    match found.and_then(|t| t.bind(py).call1((message,))) {
        Ok(e) => PyErr::from_value(e),
        Err(e) => e,
    }
}

/// The Python exception for an error.
pub fn to_py(e: Error) -> PyErr {
    let message = e.to_string();
    match e {
        Error::Op { kind, message: text, .. } => match kind {
            OpErrorKind::Runtime => PyRuntimeError::new_err(message),
            OpErrorKind::Index => PyIndexError::new_err(message),
            OpErrorKind::Type => PyTypeError::new_err(message),
            OpErrorKind::Value => PyValueError::new_err(message),
            OpErrorKind::NotImplemented => PyNotImplementedError::new_err(message),
            OpErrorKind::Refused => {
                Python::attach(|py| torch_type(py, &REFUSED, &["torch_pjrt._jit_errors", "error"], &text))
            }
            OpErrorKind::LinAlg => {
                Python::attach(|py| torch_type(py, &LINALG, &["torch", "linalg", "LinAlgError"], &message))
            }
        },
        Error::OutOfMemory { .. } => {
            Python::attach(|py| torch_type(py, &OUT_OF_MEMORY, &["torch", "OutOfMemoryError"], &message))
        }
        _ => PyRuntimeError::new_err(message),
    }
}
