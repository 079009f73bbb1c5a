//! The structure of arguments and results, as far as it is made of tuples, lists and dicts.

use crate::torch::types;
use pyo3::exceptions::PyValueError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyWeakrefMethods, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit};

/// One piece of a structure, in the order in which a walk meets it.
enum Piece {
    Tuple(usize),
    List(usize),
    Dict(Vec<Py<PyAny>>),
    Tensor,
    /// One on the CPU, which goes to the device first.
    HostTensor,
    Float,
    /// A number, a string or the like: equal ones of the same type do.
    Value(Py<PyAny>),
    /// Any other object: this one.
    Object(Py<PyWeakrefReference>),
}

/// The structure of a call's arguments, and all of them that is neither tensor nor float.
pub struct Pattern(Vec<Piece>);

/// Tensors and floats of a call; the tensors are held by the arguments.
#[derive(Default)]
pub struct Leaves {
    pub tensors: Vec<*mut PyObject>,
    pub floats: Vec<f64>,
    /// Which of the tensors are on the CPU.
    pub hosts: Vec<usize>,
}

/// Arguments that are static as a whole, by position and by name.
pub struct Statics {
    pub positions: Vec<usize>,
    pub names: Vec<String>,
}

fn exactly(object: *mut PyObject, kind: *mut ffi::PyTypeObject) -> bool {
    // SAFETY: a live object; its type is only compared.
    unsafe { ffi::Py_TYPE(object) == kind }
}

impl Pattern {
    /// The pattern of these arguments; `None` where it has something that only the pytree registry knows.
    pub fn of(args: &Bound<'_, PyTuple>, kwargs: &Bound<'_, PyDict>, statics: &Statics) -> PyResult<Option<Self>> {
        let mut out = vec![Piece::Tuple(2), Piece::Tuple(args.len())];
        for (i, v) in args.iter().enumerate() {
            if !describe(&v, statics.positions.contains(&i), &mut out)? {
                return Ok(None);
            }
        }
        out.push(Piece::Dict(kwargs.keys().iter().map(Bound::unbind).collect()));
        for (k, v) in kwargs.iter() {
            let name = k.extract::<&str>()?;
            if !describe(&v, statics.names.iter().any(|n| n == name), &mut out)? {
                return Ok(None);
            }
        }
        Ok(Some(Self(out)))
    }

    /// Whether arguments are of this pattern; their tensors and floats go to `leaves`.
    pub fn fits(&self, args: &Bound<'_, PyAny>, leaves: &mut Leaves) -> PyResult<bool> {
        let mut rest = self.0.iter();
        fit(args.py(), &mut rest, args.as_ptr(), leaves)
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        for piece in &self.0 {
            match piece {
                Piece::Dict(keys) => keys.iter().try_for_each(|k| visit.call(k))?,
                Piece::Value(v) => visit.call(v)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Appends the pieces of an argument. What is static is told apart by its value, if that takes no code of the user's.
fn describe(v: &Bound<'_, PyAny>, is_static: bool, out: &mut Vec<Piece>) -> PyResult<bool> {
    let p = v.as_ptr();
    let (tuple, list, dict) = (&raw mut ffi::PyTuple_Type, &raw mut ffi::PyList_Type, &raw mut ffi::PyDict_Type);
    if is_static && !exactly(p, tuple) {
        if is_value(v) || exactly(p, &raw mut ffi::PyFloat_Type) {
            out.push(Piece::Value(v.clone().unbind()));
            return Ok(true);
        }
        // An object that is equal to itself alone.
        let (kind, object) = (v.get_type(), v.py().get_type::<PyAny>());
        for method in ["__eq__", "__hash__"] {
            let built_in = exactly(p, &raw mut ffi::PyCFunction_Type);
            if !built_in && !kind.getattr(method)?.is(&object.getattr(method)?) {
                return Ok(false);
            }
        }
        let weak = PyWeakrefReference::new(v);
        return Ok(weak.map(|weak| out.push(Piece::Object(weak.unbind()))).is_ok());
    }
    if exactly(p, tuple) || exactly(p, list) {
        let n = v.len()?;
        out.push(if exactly(p, tuple) { Piece::Tuple(n) } else { Piece::List(n) });
        for i in 0..n {
            if !describe(&v.get_item(i)?, is_static, out)? {
                return Ok(false);
            }
        }
    } else if exactly(p, dict) {
        let items: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> = v.cast::<PyDict>()?.iter().collect();
        // Comparing other keys could run code of the user's.
        if items.iter().any(|(k, _)| !is_value(k)) {
            return Ok(false);
        }
        out.push(Piece::Dict(items.iter().map(|(k, _)| k.clone().unbind()).collect()));
        for (_, item) in &items {
            if !describe(item, false, out)? {
                return Ok(false);
            }
        }
    } else if types::is_tensor_type(v.get_type().as_ptr() as usize) {
        out.push(if is_on_host(v)? { Piece::HostTensor } else { Piece::Tensor });
    } else if exactly(p, &raw mut ffi::PyFloat_Type) {
        out.push(Piece::Float);
    } else if is_value(v) {
        out.push(Piece::Value(v.clone().unbind()));
    } else if is_plain_object(v)? {
        match PyWeakrefReference::new(v) {
            Ok(weak) => out.push(Piece::Object(weak.unbind())),
            Err(_) => return Ok(false),
        }
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn is_on_host(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    tensor.getattr(pyo3::intern!(tensor.py(), "is_cpu"))?.extract()
}

/// Whether an object is compared by its value, by code that is not the user's.
fn is_value(v: &Bound<'_, PyAny>) -> bool {
    let p = v.as_ptr();
    let known = [
        &raw mut ffi::PyLong_Type,
        &raw mut ffi::PyBool_Type,
        &raw mut ffi::PyUnicode_Type,
        &raw mut ffi::PyBytes_Type,
    ];
    v.is_none() || known.into_iter().any(|t| exactly(p, t))
}

/// Whether the pytree registry takes an object for a leaf.
fn is_plain_object(v: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_leaf = v.py().import("torch_pjrt._flatten")?.getattr("is_leaf")?;
    is_leaf.call1((v,))?.extract()
}

fn fit(py: Python<'_>, rest: &mut std::slice::Iter<'_, Piece>, v: *mut PyObject, out: &mut Leaves) -> PyResult<bool> {
    let Some(piece) = rest.next() else { return Ok(false) };
    // SAFETY: live objects, held by the arguments; types are checked before each use.
    unsafe {
        match piece {
            Piece::Tensor => {
                if !types::is_tensor_type(ffi::Py_TYPE(v) as usize) {
                    return Ok(false);
                }
                out.tensors.push(v);
            }
            Piece::HostTensor => {
                if !types::is_tensor_type(ffi::Py_TYPE(v) as usize) || !is_on_host(&Bound::from_borrowed_ptr(py, v))? {
                    return Ok(false);
                }
                out.hosts.push(out.tensors.len());
                out.tensors.push(v);
            }
            Piece::Float => {
                if !exactly(v, &raw mut ffi::PyFloat_Type) {
                    return Ok(false);
                }
                out.floats.push(ffi::PyFloat_AsDouble(v));
            }
            Piece::Tuple(n) => {
                if !exactly(v, &raw mut ffi::PyTuple_Type) || ffi::PyTuple_Size(v) != *n as isize {
                    return Ok(false);
                }
                for i in 0..*n {
                    if !fit(py, rest, ffi::PyTuple_GetItem(v, i as isize), out)? {
                        return Ok(false);
                    }
                }
            }
            Piece::List(n) => {
                if !exactly(v, &raw mut ffi::PyList_Type) || ffi::PyList_Size(v) != *n as isize {
                    return Ok(false);
                }
                for i in 0..*n {
                    if !fit(py, rest, ffi::PyList_GetItem(v, i as isize), out)? {
                        return Ok(false);
                    }
                }
            }
            Piece::Dict(keys) => {
                if !exactly(v, &raw mut ffi::PyDict_Type) || ffi::PyDict_Size(v) != keys.len() as isize {
                    return Ok(false);
                }
                let (mut at, mut key, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
                for expected in keys {
                    if ffi::PyDict_Next(v, &mut at, &mut key, &mut value) == 0
                        || (key != expected.as_ptr() && !equal(py, key, expected)?)
                        || !fit(py, rest, value, out)?
                    {
                        return Ok(false);
                    }
                }
            }
            Piece::Value(expected) => {
                return Ok(v == expected.as_ptr() || equal(py, v, expected)?);
            }
            Piece::Object(weak) => {
                return Ok(weak.bind(py).upgrade().is_some_and(|o| o.as_ptr() == v));
            }
        }
    }
    Ok(true)
}

/// Whether two objects are of one type and equal; only for floats and those that [`is_value`] knows.
unsafe fn equal(py: Python<'_>, a: *mut PyObject, b: &Py<PyAny>) -> PyResult<bool> {
    // SAFETY: live objects.
    unsafe {
        if ffi::Py_TYPE(a) != ffi::Py_TYPE(b.as_ptr()) {
            return Ok(false);
        }
        if exactly(a, &raw mut ffi::PyFloat_Type) {
            // Zeros of both signs are equal, and NaN is not equal to itself.
            let (a, b) = (ffi::PyFloat_AsDouble(a), ffi::PyFloat_AsDouble(b.as_ptr()));
            return Ok(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()));
        }
        match ffi::PyObject_RichCompareBool(a, b.as_ptr(), ffi::Py_EQ) {
            -1 => Err(PyErr::fetch(py)),
            same => Ok(same == 1),
        }
    }
}

/// The structure of a result.
pub enum Template {
    /// The next result tensor.
    Tensor,
    Tuple(Vec<Template>),
    List(Vec<Template>),
    Dict(Vec<(Py<PyAny>, Template)>),
    Always(Py<PyAny>),
}

impl Template {
    /// From `(kind, ...)`, as `_specs.py` writes it.
    pub fn parse(spec: &Bound<'_, PyAny>) -> PyResult<Self> {
        let all =
            |items: Bound<'_, PyAny>| items.try_iter()?.map(|i| Template::parse(&i?)).collect::<PyResult<Vec<_>>>();
        Ok(match spec.get_item(0)?.extract::<&str>()? {
            "tensor" => Template::Tensor,
            "tuple" => Template::Tuple(all(spec.get_item(1)?)?),
            "list" => Template::List(all(spec.get_item(1)?)?),
            "dict" => {
                let keys = spec.get_item(1)?.try_iter()?.map(|k| Ok(k?.unbind())).collect::<PyResult<Vec<_>>>()?;
                Template::Dict(keys.into_iter().zip(all(spec.get_item(2)?)?).collect())
            }
            "always" => Template::Always(spec.get_item(1)?.unbind()),
            other => return Err(PyValueError::new_err(format!("no structure is called {other}"))),
        })
    }

    /// The result with its tensors.
    pub fn fill<'py>(
        &self,
        py: Python<'py>,
        tensors: &mut impl Iterator<Item = Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Template::Tensor => {
                tensors.next().ok_or_else(|| PyValueError::new_err("jit: a result tensor is missing"))?
            }
            Template::Always(o) => o.bind(py).clone(),
            Template::Tuple(items) => {
                let items = items.iter().map(|i| i.fill(py, tensors)).collect::<PyResult<Vec<_>>>()?;
                PyTuple::new(py, items)?.into_any()
            }
            Template::List(items) => {
                let items = items.iter().map(|i| i.fill(py, tensors)).collect::<PyResult<Vec<_>>>()?;
                PyList::new(py, items)?.into_any()
            }
            Template::Dict(items) => {
                let dict = PyDict::new(py);
                for (key, item) in items {
                    dict.set_item(key, item.fill(py, tensors)?)?;
                }
                dict.into_any()
            }
        })
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Template::Tensor => Ok(()),
            Template::Always(o) => visit.call(o),
            Template::Tuple(items) | Template::List(items) => items.iter().try_for_each(|i| i.traverse(visit)),
            Template::Dict(items) => items.iter().try_for_each(|(k, i)| visit.call(k).and_then(|()| i.traverse(visit))),
        }
    }
}
