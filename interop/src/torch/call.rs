//! The kernels: one Python builtin for each overload, called by torch's dispatcher with a tuple and a dict.

use super::errors::to_py;
use super::parse::Parser;
use super::{dlpack, types};
use bridge::aten::cx::Env;
use bridge::aten::schema::Return;
use bridge::aten::{Arg, Form, Kernel, Row, Schema, rows};
use bridge::dispatch::eager::{self, Failure, Host, Item, Outcome};
use bridge::dispatch::slots;
use bridge::{Error, op_error::OpErrorKind};
use primitives::{DType, Precision};
use pyo3::exceptions::PyValueError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::ffi::{CStr, CString};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// An overload as torch calls it. Its schemas are fetched on its first call: most overloads never get one.
struct Target {
    name: String,
    row: &'static Row,
    form: FormName,
    ready: OnceLock<(Kernel, Parser)>,
}

#[derive(Clone, Copy)]
enum FormName {
    Functional,
    InPlace,
    Out,
    Foreach,
    ForeachInPlace,
}

static NEXT_ID: AtomicU32 = AtomicU32::new(0);

/// Releases the interpreter's lock while a call blocks.
pub struct Gil<'py>(pub Python<'py>);

impl Host for Gil<'_> {
    fn unlocked(&self, f: &mut dyn FnMut()) {
        struct Carry<'a>(&'a mut dyn FnMut());
        // SAFETY: `detach` runs the closure on this very thread.
        unsafe impl Send for Carry<'_> {}
        let carry = Carry(f);
        self.0.detach(move || {
            let carry = carry;
            (carry.0)();
        });
    }
}

impl Target {
    fn ready(&self, py: Python<'_>) -> PyResult<&(Kernel, Parser)> {
        if let Some(r) = self.ready.get() {
            return Ok(r);
        }
        let registry = py.import("torch_pjrt._registry")?;
        let fetch = registry.getattr("schema")?;
        let text: String = fetch.call1((&self.name,))?.extract()?;
        let row_text: String = fetch.call1((self.row.name,))?.extract()?;
        let (schema, row_schema) = (Schema::parse(&text).map_err(to_py)?, Schema::parse(&row_text).map_err(to_py)?);
        let form = match self.form {
            FormName::Functional => Form::Functional,
            FormName::InPlace => Form::InPlace,
            FormName::Foreach => Form::Foreach,
            FormName::ForeachInPlace => Form::ForeachInPlace,
            FormName::Out => {
                let outs = schema.args.iter().rev().take_while(|a| a.mutated).count();
                Form::Out { first: schema.args.len() - outs }
            }
        };
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let parser = Parser::new(py, &schema);
        let kernel = Kernel::derive(id, self.row, form, schema, &row_schema).map_err(to_py)?;
        let _ = self.ready.set((kernel, parser));
        self.ready.get().ok_or_else(|| PyValueError::new_err("a kernel was lost"))
    }
}

/// The settings of this call. The default dtype matters only where no floating tensor decides.
pub fn env(py: Python<'_>, floating: bool) -> PyResult<Env> {
    Ok(Env {
        default_dtype: if floating { DType::F32 } else { types::default_dtype(py)? },
        precision: Precision::Highest,
    })
}

/// Makes the builtin for overload `name`, derived from the row `row` in the way that `form` says.
#[pyfunction]
pub fn kernel(py: Python<'_>, name: &str, row: &str, form: &str) -> PyResult<Py<PyAny>> {
    let found = rows::all().find(|r| r.name == row);
    let row = found.ok_or_else(|| PyValueError::new_err(format!("no row is called {row}")))?;
    let form = match form {
        "functional" => FormName::Functional,
        "inplace" => FormName::InPlace,
        "out" => FormName::Out,
        "foreach" => FormName::Foreach,
        "foreach_inplace" => FormName::ForeachInPlace,
        other => return Err(PyValueError::new_err(format!("no form is called {other}"))),
    };
    let target = Box::leak(Box::new(Target { name: name.to_owned(), row, form, ready: OnceLock::new() }));
    let c_name: &'static CStr = Box::leak(CString::new(name)?.into_boxed_c_str());
    builtin(py, c_name, std::ptr::from_mut(target).cast(), call_entry)
}

/// A Python builtin whose `self` is a capsule over `data`, which must live forever.
pub fn builtin(
    py: Python<'_>,
    name: &'static CStr,
    data: *mut std::ffi::c_void,
    entry: ffi::PyCFunctionWithKeywords,
) -> PyResult<Py<PyAny>> {
    let def = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionWithKeywords: entry },
        ml_flags: ffi::METH_VARARGS | ffi::METH_KEYWORDS,
        ml_doc: std::ptr::null(),
    }));
    // SAFETY: the definition and the data live forever; the capsule is handed to the function.
    unsafe {
        let capsule = Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(data, std::ptr::null(), None))?;
        let f = ffi::PyCFunction_NewEx(def, capsule.as_ptr(), std::ptr::null_mut());
        Ok(Bound::from_owned_ptr_or_err(py, f)?.unbind())
    }
}

unsafe extern "C" fn call_entry(this: *mut PyObject, args: *mut PyObject, kwargs: *mut PyObject) -> *mut PyObject {
    // SAFETY: Python calls us with its lock held; `this` is the capsule made in `kernel`.
    unsafe {
        let py = Python::assume_attached();
        let target = &*ffi::PyCapsule_GetPointer(this, std::ptr::null()).cast::<Target>();
        enter(py, || call(py, target, args, kwargs))
    }
}

/// Runs a kernel's body: an error becomes the pending exception, and so does a panic.
pub fn enter(py: Python<'_>, f: impl FnOnce() -> PyResult<*mut PyObject>) -> *mut PyObject {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    let error = match result {
        Ok(Ok(object)) => return object,
        Ok(Err(e)) => e,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default();
            pyo3::exceptions::PyRuntimeError::new_err(format!("torch_pjrt: a fault of the library: {text}"))
        }
    };
    error.restore(py);
    std::ptr::null_mut()
}

unsafe fn call(py: Python<'_>, target: &Target, args: *mut PyObject, kwargs: *mut PyObject) -> PyResult<*mut PyObject> {
    let (kernel, parser) = target.ready(py)?;
    // SAFETY: by the caller.
    let parsed = match unsafe { parser.parse(py, args, kwargs) } {
        Ok(parsed) => parsed,
        // SAFETY: by the caller.
        Err(e) => return unsafe { by_items(py, &target.name, args, kwargs)? }.ok_or(e),
    };
    if parsed.lazy {
        // SAFETY: live objects, by the caller.
        return unsafe { in_python(py, "_lazy_bits", "call", (&target.name,), args, kwargs) };
    }
    let mut env = env(py, parsed.floating)?;
    if kernel.row.precise {
        env.precision = types::matmul_precision(py)?;
    }
    let tracing = bridge::dispatch::trace::active();
    if tracing {
        super::jit::location::mark(py);
    }
    let outcome = match eager::run(kernel, &parsed.args, env, &Gil(py)) {
        Ok(o) => o,
        // SAFETY: live objects, by the caller.
        Err(Failure::Refused(e)) => return unsafe { refused(py, &target.name, e, args, kwargs) },
        Err(Failure::Failed(e)) => return Err(to_py(e)),
    };
    if tracing {
        // SAFETY: by the caller.
        unsafe { super::jit::note_captures(py, args, kwargs)? };
    }
    // SAFETY: by the caller.
    unsafe { results(py, kernel, parser, &parsed.args, outcome, args, kwargs) }
}

/// What a row does not take runs on the CPU, which raises torch's own error where torch has no kernel either; so do the
/// calls whose program cannot be built. Of a mistake torch CPU's words are the ones to raise, else the row's.
#[cold]
unsafe fn refused(
    py: Python<'_>,
    name: &str,
    error: Error,
    args: *mut PyObject,
    kwargs: *mut PyObject,
) -> PyResult<*mut PyObject> {
    let why = match &error {
        Error::Op { kind: OpErrorKind::NotImplemented, message, .. } => message.clone(),
        Error::Primitive(e) => e.to_string(),
        Error::Op { .. } => {
            // SAFETY: by the caller.
            if let Some(done) = unsafe { by_items(py, name, args, kwargs)? } {
                return Ok(done);
            }
            // SAFETY: by the caller.
            unsafe { in_python(py, "_judge", "by_name", (name,), args, kwargs)? };
            return Err(to_py(error));
        }
        _ => return Err(to_py(error)),
    };
    // SAFETY: by the caller.
    unsafe { in_python(py, "_fallback", "by_name", (name, why), args, kwargs) }
}

/// What a refused call of lists gives whose tensors are on several devices.
#[cold]
unsafe fn by_items(
    py: Python<'_>,
    name: &str,
    args: *mut PyObject,
    kwargs: *mut PyObject,
) -> PyResult<Option<*mut PyObject>> {
    if !name.starts_with("_foreach_") {
        return Ok(None);
    }
    // SAFETY: live objects, by the caller; the result is a new reference.
    let done = unsafe {
        let done = in_python(py, "_foreach", "on_several_devices", (name,), args, kwargs)?;
        Bound::from_owned_ptr(py, done)
    };
    Ok((!done.is(py.NotImplemented())).then(|| done.into_ptr()))
}

/// Hands a call to a function of the package: `head`, then the call's arguments as a tuple and a dict.
unsafe fn in_python<'py>(
    py: Python<'py>,
    module: &str,
    function: &str,
    head: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
    args: *mut PyObject,
    kwargs: *mut PyObject,
) -> PyResult<*mut PyObject> {
    // SAFETY: live objects, by the caller.
    let (args, kwargs) = unsafe {
        (Bound::from_borrowed_ptr(py, args), (!kwargs.is_null()).then(|| Bound::from_borrowed_ptr(py, kwargs)))
    };
    let kwargs = kwargs.unwrap_or_else(|| PyDict::new(py).into_any());
    let mut all: Vec<Bound<'_, PyAny>> = head.into_pyobject(py)?.iter().collect();
    all.extend([args, kwargs]);
    let f = py.import(format!("torch_pjrt.{module}"))?.getattr(function)?;
    Ok(f.call1(PyTuple::new(py, all)?)?.into_ptr())
}

unsafe fn results(
    py: Python<'_>,
    kernel: &Kernel,
    parser: &Parser,
    args: &[Arg<'_>],
    outcome: Outcome,
    tuple: *mut PyObject,
    kwargs: *mut PyObject,
) -> PyResult<*mut PyObject> {
    match kernel.form {
        // SAFETY: an in-place op has its first argument in the tuple.
        Form::InPlace => unsafe {
            let first = ffi::PyTuple_GetItem(tuple, 0);
            ffi::Py_IncRef(first);
            Ok(first)
        },
        Form::ForeachInPlace => {
            // torch leaves the versions of lists to the kernels.
            // SAFETY: such an op has its first list in the tuple.
            super::written(&unsafe { Bound::from_borrowed_ptr(py, ffi::PyTuple_GetItem(tuple, 0)) })?;
            Ok(py.None().into_ptr())
        }
        Form::Functional | Form::Foreach => {
            if let (Some(Item::Tensor(slot, new)), 1, false) =
                (outcome.items().next(), outcome.len(), kernel.returns_list())
            {
                return Ok(dlpack::wrap(py, slot, new.dtype, &new.sizes, &new.strides)?.into_ptr());
            }
            let items: Vec<Item<'_>> = outcome.items().collect();
            match (&items[..], kernel.returns_list()) {
                ([], false) => Ok(py.None().into_ptr()),
                (_, list) => {
                    let objects = items.iter().map(|i| object(py, i)).collect::<PyResult<Vec<_>>>()?;
                    if list {
                        Ok(pyo3::types::PyList::new(py, objects)?.into_ptr())
                    } else {
                        Ok(PyTuple::new(py, objects)?.into_ptr())
                    }
                }
            }
        }
        Form::Out { first } => {
            // SAFETY: by the caller.
            let n = unsafe { ffi::PyTuple_Size(tuple) } as usize;
            let mut outs = Vec::new();
            for (k, item) in outcome.items().enumerate() {
                // SAFETY: by the caller.
                let out = unsafe { parser.object(first + k, tuple, n, kwargs) };
                if out.is_null() {
                    return Err(PyValueError::new_err(format!("{}: no out argument {k}", kernel.schema.name)));
                }
                // SAFETY: a live object.
                let out = unsafe { Bound::from_borrowed_ptr(py, out) };
                store(py, &kernel.schema.name, &args[first + k], &item, &out)?;
                outs.push(out);
            }
            match outs.len() {
                1 => Ok(outs.remove(0).into_ptr()),
                _ if kernel.schema.returns.first() == Some(&Return::Alias) => Ok(PyTuple::new(py, outs)?.into_ptr()),
                _ => Ok(py.None().into_ptr()),
            }
        }
    }
}

fn object<'py>(py: Python<'py>, item: &Item<'_>) -> PyResult<Bound<'py, PyAny>> {
    match item {
        Item::Tensor(slot, new) => dlpack::wrap(py, *slot, new.dtype, &new.sizes, &new.strides),
        Item::Undefined => Ok(py.None().into_bound(py)),
    }
}

/// Puts a result into an `out=` tensor: by taking over its cell when it is all of a storage of that type, else by a copy.
fn store(py: Python<'_>, op: &str, arg: &Arg<'_>, item: &Item<'_>, out: &Bound<'_, PyAny>) -> PyResult<()> {
    let (Arg::Tensor(t), Item::Tensor(slot, new)) = (arg, item) else {
        return Err(to_py(Error::runtime(op, "out= must be a tensor on the pjrt device".into())));
    };
    let same = *t.sizes == new.sizes[..] && t.dtype == new.dtype && new.natural == new.sizes;
    if same && t.slot != 0 && t.is_contiguous() && t.offset == 0 {
        let whole = slots::with(t.slot, |s| s.dtype == t.dtype && s.dims[..] == *t.sizes).map_err(to_py)?;
        if whole {
            bridge::dispatch::trace::will_write(t.slot).map_err(to_py)?;
            let value = slots::with(*slot, |s| s.clone()).map_err(to_py)?;
            slots::replace(t.slot, value).map_err(to_py)?;
            slots::free(*slot);
            return Ok(());
        }
    }
    let result = object(py, item)?;
    py.import("torch_pjrt._copy")?.getattr("store_out")?.call1((op, out, result))?;
    Ok(())
}

/// Names of all rows.
#[pyfunction]
pub fn row_names() -> Vec<&'static str> {
    rows::all().map(|r| r.name).collect()
}
