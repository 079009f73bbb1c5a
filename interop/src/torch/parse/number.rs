//! Python numbers as [`Number`]s: plain ones, those that torch wrapped, and those that a jit call follows.

use crate::torch::dlpack::DlTensor;
use crate::torch::errors::to_py;
use bridge::dispatch::trace;
use primitives::{DType, Number};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;

/// # Safety
/// `dl` is a 0-d CPU tensor of `dtype`.
pub(super) unsafe fn read_number(dl: &DlTensor, dtype: DType) -> Number {
    // SAFETY: by the caller.
    unsafe {
        let p = dl.data.cast::<u8>().add(dl.byte_offset as usize);
        Number::from_bytes(dtype, std::slice::from_raw_parts(p, dtype.size_of()))
    }
}

/// The number that torch left out of a 0-d tensor: it writes NaN for a symbolic float and attaches the object.
///
/// # Safety
/// `object` is a live tensor.
pub(super) unsafe fn attached(py: Python<'_>, object: *mut PyObject, value: Number, dtype: DType) -> PyResult<Number> {
    if dtype != DType::F64 || !matches!(value, Number::Float(f) if f.is_nan()) {
        return Ok(value);
    }
    // SAFETY: by the caller.
    let tensor = unsafe { Bound::from_borrowed_ptr(py, object) };
    if let Some(number) = tensor.getattr_opt(pyo3::intern!(py, "_wrapped_number"))?
        && let Some(f) = symbolic(&number)?
    {
        return Ok(Number::Float(f));
    }
    if trace::active() && trace::with(|t| Ok(t.inputs.numbers.attached)).map_err(to_py)? {
        return Err(to_py(trace::unattached()));
    }
    Ok(value)
}

/// The double that a number of a jit call goes by; see `_floats.py`.
pub(super) fn symbolic(object: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    let py = object.py();
    match object.getattr_opt(pyo3::intern!(py, "node"))? {
        Some(node) => match node.getattr_opt(pyo3::intern!(py, "as_argument"))? {
            Some(f) => f.call0()?.extract().map(Some),
            None => Ok(None),
        },
        None => Ok(None),
    }
}

/// Draws 64 bits from a user's generator, which advances it.
pub(super) fn seed_from(generator: &Bound<'_, PyAny>) -> PyResult<u64> {
    let helper = generator.py().import("torch_pjrt._random")?;
    helper.getattr("draw_seed")?.call1((generator,))?.extract()
}

/// # Safety
/// `object` is a live object.
pub(super) unsafe fn number(py: Python<'_>, object: *mut PyObject) -> PyResult<Number> {
    // SAFETY: type checks before each read.
    unsafe {
        if ffi::PyBool_Check(object) != 0 {
            Ok(Number::Bool(object == ffi::Py_True()))
        } else if ffi::PyFloat_Check(object) != 0 {
            Ok(Number::Float(ffi::PyFloat_AsDouble(object)))
        } else if ffi::PyLong_Check(object) != 0 {
            let mut overflow = 0;
            let v = ffi::PyLong_AsLongLongAndOverflow(object, &mut overflow);
            if overflow == 0 {
                return Ok(Number::Int(v));
            }
            let u = ffi::PyLong_AsUnsignedLongLong(object);
            if !ffi::PyErr_Occurred().is_null() {
                return Err(PyErr::fetch(py));
            }
            Ok(Number::UInt(u))
        } else if ffi::PyComplex_Check(object) != 0 {
            Ok(Number::Complex(ffi::PyComplex_RealAsDouble(object), ffi::PyComplex_ImagAsDouble(object)))
        } else {
            let object = Bound::from_borrowed_ptr(py, object);
            if let Some(f) = symbolic(&object)? {
                return Ok(Number::Float(f));
            }
            if let Ok(item) = object.call_method0("item") {
                return number(py, item.as_ptr());
            }
            object.extract::<f64>().map(Number::Float)
        }
    }
}

/// # Safety
/// `object` is a live object.
pub(super) unsafe fn int(py: Python<'_>, object: *mut PyObject) -> PyResult<i64> {
    // SAFETY: a live object; the call raises for anything but an int.
    unsafe {
        let v = ffi::PyLong_AsLongLong(object);
        if v == -1 && !ffi::PyErr_Occurred().is_null() {
            return Err(PyErr::fetch(py));
        }
        Ok(v)
    }
}
