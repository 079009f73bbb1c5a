//! A call's Python arguments as [`Arg`]s, by the overload's schema.

mod number;
mod scan;

use bridge::aten::Schema;
use bridge::aten::schema::ArgSpec;
use bridge::aten::{Arg, kernel::default_arg};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyString;
use scan::Scan;
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
        let mut scan = Scan::new(&self.op, self.sees_negative);
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
        // SAFETY: by the caller.
        unsafe { scan.settle_wrapped(py, &mut out, |i| self.object(i, args, n, kwargs))? };
        Ok(Parsed { args: out, floating: scan.floating, lazy: scan.lazy })
    }
}
