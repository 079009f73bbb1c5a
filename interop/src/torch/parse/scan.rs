//! What each argument of a call is, by its kind in the schema.

use super::number::{attached, int, number, read_number, seed_from, symbolic};
use crate::torch::errors::to_py;
use crate::torch::{dlpack, types};
use bridge::Error;
use bridge::aten::schema::{ArgSpec, Kind};
use bridge::aten::{Arg, promote};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyString;
use smallvec::SmallVec;

/// One call, as its arguments are read.
pub(super) struct Scan<'s> {
    op: &'s str,
    sees_negative: bool,
    /// Highest category of a `pjrt` tensor with dims.
    highest_dim: Option<u8>,
    /// Arguments hold a floating or complex tensor.
    pub floating: bool,
    /// A tensor carries a bit that the op must honour.
    pub lazy: bool,
    /// An argument is a 0-d CPU tensor.
    host: bool,
}

impl<'s> Scan<'s> {
    pub fn new(op: &'s str, sees_negative: bool) -> Self {
        Self { op, sees_negative, highest_dim: None, floating: false, lazy: false, host: false }
    }
}

impl Scan<'_> {
    /// One argument.
    ///
    /// # Safety
    /// `object` is a live object, from which the result borrows.
    pub unsafe fn value<'a>(&mut self, py: Python<'_>, spec: &ArgSpec, object: *mut PyObject) -> PyResult<Arg<'a>> {
        // SAFETY: every call below takes a live object and checks its type.
        unsafe {
            if object == ffi::Py_None() {
                return Ok(Arg::None);
            }
            Ok(match spec.kind {
                Kind::Tensor => self.tensor(py, object)?,
                Kind::Tensors => Arg::List(items(py, object, |item| {
                    if item == ffi::Py_None() { Ok(Arg::None) } else { self.tensor(py, item) }
                })?),
                Kind::Scalar => Arg::Scalar(number(py, object)?),
                Kind::Scalars => Arg::List(items(py, object, |item| number(py, item).map(Arg::Scalar))?),
                Kind::Int => Arg::Int(int(py, object)?),
                Kind::Float => Arg::Float(number(py, object)?.as_f64()),
                Kind::Bool => {
                    let on = int(py, object)? != 0;
                    if on && spec.name == "pin_memory" {
                        return Err(self.refuse("pin_memory", "only dense CPU tensors can be pinned"));
                    }
                    Arg::Bool(on)
                }
                Kind::Ints | Kind::Bools => {
                    if ffi::PyLong_Check(object) != 0 {
                        let v = int(py, object)?;
                        Arg::Ints(SmallVec::from_elem(v, spec.fixed_len.unwrap_or(1)))
                    } else {
                        Arg::Ints(items(py, object, |item| int(py, item))?)
                    }
                }
                Kind::Floats => {
                    if ffi::PyFloat_Check(object) != 0 || ffi::PyLong_Check(object) != 0 {
                        Arg::Floats(vec![number(py, object)?.as_f64(); spec.fixed_len.unwrap_or(1)])
                    } else {
                        Arg::Floats(items(py, object, |item| number(py, item).map(|n| n.as_f64()))?)
                    }
                }
                Kind::Str => string(py, object)?,
                Kind::DType => self.dtype(spec, &Bound::from_borrowed_ptr(py, object))?,
                Kind::MemoryFormat => match types::memory_format_at(object as usize) {
                    Some(m) => Arg::MemoryFormat(m),
                    None => Arg::None,
                },
                Kind::Generator => Arg::Seed(seed_from(&Bound::from_borrowed_ptr(py, object))?),
                Kind::Device => self.device(&Bound::from_borrowed_ptr(py, object))?,
                Kind::Layout | Kind::Storage | Kind::Other => Arg::Ignored,
            })
        }
    }

    fn dtype<'a>(&self, spec: &ArgSpec, object: &Bound<'_, PyAny>) -> PyResult<Arg<'a>> {
        types::dtype_at(object.as_ptr() as usize).map(Arg::DType).ok_or_else(|| {
            let what =
                format!("{}: argument `{}`: the pjrt device has no tensors of dtype {object}", self.op, spec.name);
            PyTypeError::new_err(what)
        })
    }

    fn device<'a>(&self, object: &Bound<'_, PyAny>) -> PyResult<Arg<'a>> {
        match object.getattr("index").and_then(|i| i.extract::<i64>()) {
            Ok(i) if i != 0 => {
                let why = format!("got pjrt:{i}, expected pjrt:0, the only device of this process");
                Err(self.refuse("device", &why))
            }
            _ => Ok(Arg::Ignored),
        }
    }

    /// The error for an argument that no lowering sees.
    fn refuse(&self, name: &str, why: &str) -> PyErr {
        to_py(Error::runtime(self.op, format!("argument `{name}`: {why}")))
    }

    unsafe fn tensor<'a>(&mut self, py: Python<'_>, object: *mut PyObject) -> PyResult<Arg<'a>> {
        // torch hands a Python number that it wrapped over as the number.
        // SAFETY: a live object, by the caller.
        unsafe {
            if !types::is_tensor_type(ffi::Py_TYPE(object) as usize)
                && (ffi::PyFloat_Check(object) != 0
                    || ffi::PyLong_Check(object) != 0
                    || ffi::PyComplex_Check(object) != 0
                    || symbolic(&Bound::from_borrowed_ptr(py, object))?.is_some())
            {
                let value = number(py, object)?;
                return Ok(Arg::HostScalar { value, dtype: bridge::aten::cx::number_dtype(value), wrapped: true });
            }
        }
        // SAFETY: a live object, by the caller.
        let dl = match unsafe { dlpack::borrow(py, object) } {
            Ok(dl) => dl,
            Err(e) => return Err(self.foreign(py, object, e)),
        };
        if dl.is_pjrt() {
            let t = dl.arg().ok_or_else(|| PyTypeError::new_err(format!("{}: a dtype that pjrt lacks", self.op)))?;
            let category = promote::category(t.dtype);
            self.floating |= category >= 2;
            if t.dtype.is_complex() || self.sees_negative {
                // SAFETY: a live object, by the caller.
                self.lazy |= unsafe { has_bit(py, object, t.dtype.is_complex(), self.sees_negative)? };
            }
            if !t.sizes.is_empty() {
                self.highest_dim = self.highest_dim.max(Some(category));
            }
            return Ok(Arg::Tensor(t));
        }
        if dl.is_cpu() && dl.ndim == 0 {
            let dtype = dlpack::dtype_of(dl.dtype)
                .ok_or_else(|| PyTypeError::new_err(format!("{}: a dtype that pjrt lacks", self.op)))?;
            // SAFETY: a 0-d CPU tensor has one element at its data address.
            let value = unsafe { attached(py, object, read_number(&dl, dtype), dtype)? };
            self.host = true;
            return Ok(Arg::HostScalar { value, dtype, wrapped: true });
        }
        // SAFETY: as above.
        Err(self.foreign(py, object, PyTypeError::new_err("")))
    }

    /// The error for a tensor that lives elsewhere.
    fn foreign(&self, py: Python<'_>, object: *mut PyObject, cause: PyErr) -> PyErr {
        // SAFETY: a live object.
        let object = unsafe { Bound::from_borrowed_ptr(py, object) };
        let device = object.getattr("device").and_then(|d| d.str().map(|s| s.to_string()));
        match device {
            Ok(d) if !d.starts_with("pjrt") => to_py(Error::runtime(
                self.op,
                format!(
                    "Expected all tensors to be on the same device, but found at least two devices, pjrt:0 and {d}! Move one with `.to(...)`"
                ),
            )),
            _ => cause,
        }
    }

    /// Finds out which 0-d CPU tensors are wrapped Python numbers, where promotion depends on it. `object` gives the
    /// object of an argument, by its number.
    ///
    /// # Safety
    /// The objects are alive.
    pub unsafe fn settle_wrapped(
        &self,
        py: Python<'_>,
        out: &mut [Arg<'_>],
        object: impl Fn(usize) -> *mut PyObject,
    ) -> PyResult<()> {
        if !self.host {
            return Ok(());
        }
        for (i, arg) in out.iter_mut().enumerate() {
            let Arg::HostScalar { dtype, wrapped, .. } = arg else { continue };
            // A tensor with dims of this category or a higher one decides alone.
            if self.highest_dim.is_some_and(|c| c >= promote::category(*dtype)) {
                continue;
            }
            // SAFETY: by the caller.
            let object = unsafe { Bound::from_borrowed_ptr(py, object(i)) };
            *wrapped = types::is_wrapped_number(&object, *dtype)?;
        }
        Ok(())
    }
}

/// Whether a tensor carries a conjugate bit, or a negative one where that matters.
///
/// # Safety
/// `object` is a live tensor.
unsafe fn has_bit(py: Python<'_>, object: *mut PyObject, complex: bool, negative: bool) -> PyResult<bool> {
    // SAFETY: by the caller.
    let t = unsafe { Bound::from_borrowed_ptr(py, object) };
    let ask = |method: &Bound<'_, PyString>| t.call_method0(method)?.is_truthy();
    Ok((complex && ask(pyo3::intern!(py, "is_conj"))?) || (negative && ask(pyo3::intern!(py, "is_neg"))?))
}

/// A string, which borrows from the object.
///
/// # Safety
/// `object` is a live object, and stays so.
unsafe fn string<'a>(py: Python<'_>, object: *mut PyObject) -> PyResult<Arg<'a>> {
    let mut n = 0;
    // SAFETY: by the caller; the call raises for anything but a string, whose UTF-8 form lives as long as it.
    unsafe {
        let p = ffi::PyUnicode_AsUTF8AndSize(object, &mut n);
        if p.is_null() {
            return Err(PyErr::fetch(py));
        }
        Ok(Arg::Str(std::str::from_utf8_unchecked(std::slice::from_raw_parts(p.cast::<u8>(), n as usize))))
    }
}

/// What `read` makes of the items of a sequence.
///
/// # Safety
/// `object` is a live object.
unsafe fn items<T, C: Default + Extend<T>>(
    py: Python<'_>,
    object: *mut PyObject,
    mut read: impl FnMut(*mut PyObject) -> PyResult<T>,
) -> PyResult<C> {
    // SAFETY: by the caller; the calls raise for what is no sequence, or has become shorter.
    unsafe {
        let n = usize::try_from(ffi::PySequence_Size(object)).map_err(|_| PyErr::fetch(py))?;
        let mut found = C::default();
        for i in 0..n {
            let item = Bound::from_owned_ptr_or_err(py, ffi::PySequence_GetItem(object, i as isize))?;
            found.extend(Some(read(item.as_ptr())?));
        }
        Ok(found)
    }
}
