//! A call's Python arguments as [`Arg`]s, by the overload's schema.

use super::dlpack::{self, DlTensor};
use super::types;
use bridge::aten::schema::{ArgSpec, Kind};
use bridge::aten::{Arg, kernel::default_arg, promote};
use bridge::dispatch::trace;
use bridge::{Error, aten::Schema};
use primitives::{DType, Number};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyString;
use smallvec::SmallVec;

/// What a call's arguments are parsed by, made once for an overload.
pub struct Parser {
    pub args: Vec<ArgSpec>,
    names: Vec<Py<PyString>>,
    defaults: Vec<Option<Arg<'static>>>,
    op: String,
    sees_negative: bool,
}

/// Parsed arguments, with what the keys and the wrapped-number rule need to know of them.
pub struct Parsed<'a> {
    pub args: SmallVec<[Arg<'a>; 10]>,
    /// Arguments of this call hold a floating or complex tensor: the default dtype has no say.
    pub floating: bool,
    /// A tensor carries a conjugate or negative bit that this op must honour.
    pub lazy: bool,
}

/// Ops that torch calls with a negative bit unresolved. (Those with a conjugate bit all take complex tensors.)
const SEES_NEGATIVE: [&str; 6] =
    ["clone", "copy_", "neg_", "repeat_interleave", "linalg_solve_triangular", "linalg_svd"];

impl Parser {
    pub fn new(py: Python<'_>, schema: &Schema) -> Self {
        Self {
            args: schema.args.clone(),
            names: schema.args.iter().map(|a| PyString::intern(py, &a.name).unbind()).collect(),
            defaults: schema.args.iter().map(|a| default_arg(&a.default, a.kind)).collect(),
            op: schema.name.clone(),
            sees_negative: {
                let base = schema.name.trim_start_matches("aten::").split('.').next().unwrap_or_default();
                SEES_NEGATIVE.contains(&base)
            },
        }
    }

    /// The object passed for argument `i`; null when it was left out.
    ///
    /// # Safety
    /// `args` is a tuple and `kwargs` a dict or null, both alive.
    pub unsafe fn object(&self, i: usize, args: *mut PyObject, n: usize, kwargs: *mut PyObject) -> *mut PyObject {
        // SAFETY: `i < n` is in range; the dict lookup borrows.
        unsafe {
            if i < n {
                ffi::PyTuple_GetItem(args, i as isize)
            } else if kwargs.is_null() {
                std::ptr::null_mut()
            } else {
                ffi::PyDict_GetItem(kwargs, self.names[i].as_ptr())
            }
        }
    }

    /// Parses a call.
    ///
    /// # Safety
    /// As for [`Parser::object`]; the results borrow from the arguments.
    pub unsafe fn parse<'a>(&self, py: Python<'_>, args: *mut PyObject, kwargs: *mut PyObject) -> PyResult<Parsed<'a>> {
        // SAFETY: a tuple, by the caller.
        let n = unsafe { ffi::PyTuple_Size(args) } as usize;
        let mut scan = Scan {
            highest_dim: None,
            floating: false,
            lazy: false,
            sees_negative: self.sees_negative,
            hosts: SmallVec::new(),
            op: &self.op,
        };
        let mut out: SmallVec<[Arg<'a>; 10]> = SmallVec::new();
        for (i, spec) in self.args.iter().enumerate() {
            // SAFETY: by the caller.
            let object = unsafe { self.object(i, args, n, kwargs) };
            let arg = if object.is_null() {
                match &self.defaults[i] {
                    Some(d) => d.clone(),
                    None => {
                        return Err(PyTypeError::new_err(format!("{}: missing argument `{}`", self.op, spec.name)));
                    }
                }
            } else {
                // SAFETY: a live object of the tuple or dict.
                unsafe { scan.value(py, spec, object)? }
            };
            out.push(arg);
        }
        if !scan.hosts.is_empty() {
            scan.settle_wrapped(py, &mut out, args, n, kwargs, self)?;
        }
        Ok(Parsed { args: out, floating: scan.floating, lazy: scan.lazy })
    }
}

struct Scan<'s> {
    /// Highest category of a `pjrt` tensor with dims.
    highest_dim: Option<u8>,
    floating: bool,
    lazy: bool,
    sees_negative: bool,
    /// Top-level arguments that are 0-d CPU tensors.
    hosts: SmallVec<[*mut PyObject; 2]>,
    op: &'s str,
}

impl Scan<'_> {
    unsafe fn value<'a>(&mut self, py: Python<'_>, spec: &ArgSpec, object: *mut PyObject) -> PyResult<Arg<'a>> {
        // SAFETY: every call below takes a live object and checks its type.
        unsafe {
            if object == ffi::Py_None() {
                return Ok(Arg::None);
            }
            Ok(match spec.kind {
                Kind::Tensor => self.tensor(py, object)?,
                Kind::Tensors => {
                    let n = length(py, object)?;
                    let mut items = Vec::with_capacity(n);
                    for i in 0..n {
                        let item = item(py, object, i)?;
                        items.push(if item.as_ptr() == ffi::Py_None() {
                            Arg::None
                        } else {
                            self.tensor(py, item.as_ptr())?
                        });
                    }
                    Arg::List(items)
                }
                Kind::Scalar => Arg::Scalar(number(py, object)?),
                Kind::Scalars => {
                    let n = length(py, object)?;
                    let mut items = Vec::with_capacity(n);
                    for i in 0..n {
                        items.push(Arg::Scalar(number(py, item(py, object, i)?.as_ptr())?));
                    }
                    Arg::List(items)
                }
                Kind::Int => Arg::Int(int(py, object)?),
                Kind::Float => match number(py, object)? {
                    Number::Float(f) => Arg::Float(f),
                    n => Arg::Float(n.as_f64()),
                },
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
                        let n = length(py, object)?;
                        let mut v = SmallVec::with_capacity(n);
                        for i in 0..n {
                            v.push(int(py, item(py, object, i)?.as_ptr())?);
                        }
                        Arg::Ints(v)
                    }
                }
                Kind::Floats => {
                    if ffi::PyFloat_Check(object) != 0 || ffi::PyLong_Check(object) != 0 {
                        Arg::Floats(vec![number(py, object)?.as_f64(); spec.fixed_len.unwrap_or(1)])
                    } else {
                        let n = length(py, object)?;
                        let mut v = Vec::with_capacity(n);
                        for i in 0..n {
                            v.push(number(py, item(py, object, i)?.as_ptr())?.as_f64());
                        }
                        Arg::Floats(v)
                    }
                }
                Kind::Str => {
                    let mut n = 0;
                    let p = ffi::PyUnicode_AsUTF8AndSize(object, &mut n);
                    if p.is_null() {
                        return Err(PyErr::fetch(py));
                    }
                    let bytes = std::slice::from_raw_parts(p.cast::<u8>(), n as usize);
                    Arg::Str(std::str::from_utf8_unchecked(bytes))
                }
                Kind::DType => match types::dtype_at(object as usize) {
                    Some(d) => Arg::DType(d),
                    None => {
                        return Err(PyTypeError::new_err(format!(
                            "{}: argument `{}`: the pjrt device has no tensors of dtype {}",
                            self.op,
                            spec.name,
                            Bound::from_borrowed_ptr(py, object).str()?
                        )));
                    }
                },
                Kind::MemoryFormat => match types::memory_format_at(object as usize) {
                    Some(m) => Arg::MemoryFormat(m),
                    None => Arg::None,
                },
                Kind::Generator => Arg::Seed(seed_from(&Bound::from_borrowed_ptr(py, object))?),
                Kind::Device => {
                    let index = Bound::from_borrowed_ptr(py, object).getattr("index").and_then(|i| i.extract::<i64>());
                    match index {
                        Ok(i) if i != 0 => {
                            let why = format!("got pjrt:{i}, expected pjrt:0, the only device of this process");
                            return Err(self.refuse("device", &why));
                        }
                        _ => Arg::Ignored,
                    }
                }
                Kind::Layout | Kind::Storage | Kind::Other => Arg::Ignored,
            })
        }
    }

    /// The error for an argument that no lowering sees.
    fn refuse(&self, name: &str, why: &str) -> PyErr {
        super::errors::to_py(Error::runtime(self.op, format!("argument `{name}`: {why}")))
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
            self.hosts.push(object);
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
            Ok(d) if !d.starts_with("pjrt") => super::errors::to_py(Error::runtime(
                self.op,
                format!(
                    "Expected all tensors to be on the same device, but found at least two devices, pjrt:0 and {d}! Move one with `.to(...)`"
                ),
            )),
            _ => cause,
        }
    }

    /// Finds out which 0-d CPU tensors are wrapped Python numbers, where promotion depends on it.
    fn settle_wrapped(
        &self,
        py: Python<'_>,
        out: &mut [Arg<'_>],
        args: *mut PyObject,
        n: usize,
        kwargs: *mut PyObject,
        parser: &Parser,
    ) -> PyResult<()> {
        for (i, arg) in out.iter_mut().enumerate() {
            let Arg::HostScalar { dtype, wrapped, .. } = arg else { continue };
            // A tensor with dims of this category or a higher one decides alone.
            if self.highest_dim.is_some_and(|c| c >= promote::category(*dtype)) {
                continue;
            }
            // SAFETY: the arguments are alive for the call.
            let object = unsafe { Bound::from_borrowed_ptr(py, parser.object(i, args, n, kwargs)) };
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

/// # Safety
/// `dl` is a 0-d CPU tensor of `dtype`.
unsafe fn read_number(dl: &DlTensor, dtype: DType) -> Number {
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
unsafe fn attached(py: Python<'_>, object: *mut PyObject, value: Number, dtype: DType) -> PyResult<Number> {
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
    if trace::active() && trace::with(|t| Ok(t.inputs.numbers.attached)).map_err(super::errors::to_py)? {
        return Err(super::errors::to_py(trace::unattached()));
    }
    Ok(value)
}

/// The double that a number of a jit call goes by; see `_floats.py`.
fn symbolic(object: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
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
fn seed_from(generator: &Bound<'_, PyAny>) -> PyResult<u64> {
    let helper = generator.py().import("torch_pjrt._random")?;
    helper.getattr("draw_seed")?.call1((generator,))?.extract()
}

unsafe fn number(py: Python<'_>, object: *mut PyObject) -> PyResult<Number> {
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

unsafe fn int(py: Python<'_>, object: *mut PyObject) -> PyResult<i64> {
    // SAFETY: a live object; the call raises for anything but an int.
    unsafe {
        let v = ffi::PyLong_AsLongLong(object);
        if v == -1 && !ffi::PyErr_Occurred().is_null() {
            return Err(PyErr::fetch(py));
        }
        Ok(v)
    }
}

unsafe fn length(py: Python<'_>, object: *mut PyObject) -> PyResult<usize> {
    // SAFETY: a live object.
    let n = unsafe { ffi::PySequence_Size(object) };
    usize::try_from(n).map_err(|_| PyErr::fetch(py))
}

unsafe fn item(py: Python<'_>, object: *mut PyObject, i: usize) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: a live sequence and an index within it.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PySequence_GetItem(object, i as isize)) }
}
