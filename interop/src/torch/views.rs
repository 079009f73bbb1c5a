//! View ops: a new tensor over the same torch storage. No kernel runs; the view is lowered by whoever reads it.
//!
//! torch's C shims make the alias where this torch has them; older ones go through torch's own CPU kernel, which touches
//! metadata only.

use super::call::{builtin, enter};
use super::dlpack;
use super::errors::to_py;
use bridge::Error;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use smallvec::SmallVec;
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

pub type Sizes = SmallVec<[i64; 8]>;

/// The shims, all of them or none.
struct Shims {
    from_py: unsafe extern "C" fn(*mut PyObject, *mut *mut c_void) -> i32,
    to_py: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut *mut PyObject) -> i32,
    reinterpret: unsafe extern "C" fn(*mut c_void, i64, *const i64, *const i64, i64, *mut *mut c_void) -> i32,
    delete: unsafe extern "C" fn(*mut c_void) -> i32,
}

static SHIMS: OnceLock<Option<Shims>> = OnceLock::new();

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
}

const RTLD_NOW_NOLOAD: c_int = 2 | 4;

/// Looks the shims up in torch's libraries, which are loaded already. Returns the view ops that are registered by then.
pub fn init(libraries: &[String]) -> Vec<&'static str> {
    let handles = handles(libraries);
    let symbol = |name: &std::ffi::CStr| {
        // SAFETY: valid handles and a C string.
        handles.iter().map(|&h| unsafe { dlsym(h, name.as_ptr()) }).find(|p| !p.is_null())
    };
    SHIMS.get_or_init(|| find(&symbol));
    if super::views_stable::register(symbol) {
        return vec!["as_strided", "view", "_unsafe_view", "_reshape_alias"];
    }
    Vec::new()
}

fn handles(libraries: &[String]) -> Vec<*mut c_void> {
    libraries
        .iter()
        .filter_map(|path| {
            let path = std::ffi::CString::new(path.as_str()).ok()?;
            // SAFETY: only a handle of an already loaded library is taken.
            let handle = unsafe { dlopen(path.as_ptr(), RTLD_NOW_NOLOAD) };
            (!handle.is_null()).then_some(handle)
        })
        .collect()
}

#[expect(clippy::missing_transmute_annotations, reason = "the type of the field is the annotation")]
fn find(symbol: &impl Fn(&std::ffi::CStr) -> Option<*mut c_void>) -> Option<Shims> {
    // SAFETY: the symbols have these signatures in every torch that has them.
    unsafe {
        Some(Shims {
            from_py: std::mem::transmute::<*mut c_void, _>(symbol(c"torch_tensor_from_pyobject")?),
            to_py: std::mem::transmute::<*mut c_void, _>(symbol(c"torch_tensor_to_pyobject")?),
            reinterpret: std::mem::transmute::<*mut c_void, _>(symbol(c"aoti_torch__reinterpret_tensor")?),
            delete: std::mem::transmute::<*mut c_void, _>(symbol(c"aoti_torch_delete_tensor_object")?),
        })
    }
}

/// An alias of `tensor`, `offset` elements further on.
///
/// # Safety
/// `tensor` is a live tensor and the interpreter's lock is held.
pub unsafe fn alias(
    py: Python<'_>,
    tensor: *mut PyObject,
    sizes: &[i64],
    strides: &[i64],
    offset: i64,
) -> PyResult<*mut PyObject> {
    let Some(Some(shims)) = SHIMS.get() else {
        // SAFETY: a live object.
        let tensor = unsafe { Bound::from_borrowed_ptr(py, tensor) };
        let f = py.import("torch_pjrt._views")?.getattr("alias")?;
        return Ok(f.call1((tensor, sizes.to_vec(), strides.to_vec(), offset))?.into_ptr());
    };
    // SAFETY: each shim gets handles that another one made; both handles are deleted.
    unsafe {
        let (mut handle, mut view, mut object) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        if (shims.from_py)(tensor, &mut handle) != 0 {
            return Err(failed(py));
        }
        let made =
            (shims.reinterpret)(handle, sizes.len() as i64, sizes.as_ptr(), strides.as_ptr(), offset, &mut view) == 0;
        let ok = made && (shims.to_py)(view, std::ptr::null_mut(), &mut object) == 0;
        if made {
            (shims.delete)(view);
        }
        (shims.delete)(handle);
        if ok { Ok(object) } else { Err(failed(py)) }
    }
}

fn failed(py: Python<'_>) -> PyErr {
    PyErr::take(py).unwrap_or_else(|| to_py(Error::internal("torch could not make a view".into())))
}

unsafe fn ints(py: Python<'_>, object: *mut PyObject) -> PyResult<Sizes> {
    // SAFETY: a live sequence of ints, or an int.
    unsafe {
        if ffi::PyLong_Check(object) != 0 {
            return Ok(smallvec::smallvec![ffi::PyLong_AsLongLong(object)]);
        }
        let n = ffi::PySequence_Size(object);
        if n < 0 {
            return Err(PyErr::fetch(py));
        }
        let mut out = Sizes::new();
        for i in 0..n {
            let item = Bound::from_owned_ptr_or_err(py, ffi::PySequence_GetItem(object, i))?;
            let v = ffi::PyLong_AsLongLong(item.as_ptr());
            if v == -1 && !ffi::PyErr_Occurred().is_null() {
                return Err(PyErr::fetch(py));
            }
            out.push(v);
        }
        Ok(out)
    }
}

unsafe fn argument(
    i: isize,
    name: &std::ffi::CStr,
    args: *mut PyObject,
    kwargs: *mut PyObject,
) -> Option<*mut PyObject> {
    // SAFETY: a tuple, and a dict or null.
    unsafe {
        let found = if i < ffi::PyTuple_Size(args) {
            ffi::PyTuple_GetItem(args, i)
        } else if kwargs.is_null() {
            std::ptr::null_mut()
        } else {
            ffi::PyDict_GetItemString(kwargs, name.as_ptr())
        };
        (!found.is_null() && found != ffi::Py_None()).then_some(found)
    }
}

fn missing(op: &str) -> PyErr {
    pyo3::exceptions::PyTypeError::new_err(format!("{op}: an argument is missing"))
}

/// Why no view has these sizes and strides.
pub fn impossible(sizes: &[i64], strides: &[i64], offset: i64) -> Option<String> {
    if sizes.len() != strides.len() {
        return Some("as_strided: mismatch in length of strides and shape".to_owned());
    }
    if offset < 0 {
        return Some(format!("as_strided: Tensor: invalid storage offset {offset}"));
    }
    if let Some(n) = sizes.iter().find(|&&n| n < 0) {
        return Some(format!("as_strided: Storage size calculation overflowed: got size {n}, expected none below 0"));
    }
    strides.iter().any(|&s| s < 0).then(|| {
        format!("as_strided: Negative strides are not supported at the moment, got strides: {strides:?}; flip() makes a copy")
    })
}

/// `as_strided(self, size, stride, storage_offset=None)`.
unsafe extern "C" fn as_strided(_: *mut PyObject, args: *mut PyObject, kwargs: *mut PyObject) -> *mut PyObject {
    // SAFETY: Python calls us with its lock held.
    let py = unsafe { Python::assume_attached() };
    enter(py, || {
        // SAFETY: live arguments.
        unsafe {
            let this = argument(0, c"self", args, kwargs).ok_or_else(|| missing("as_strided"))?;
            let sizes = ints(py, argument(1, c"size", args, kwargs).ok_or_else(|| missing("as_strided"))?)?;
            let strides = ints(py, argument(2, c"stride", args, kwargs).ok_or_else(|| missing("as_strided"))?)?;
            let from = argument(3, c"storage_offset", args, kwargs).map_or(0, |o| ffi::PyLong_AsLongLong(o));
            if let Some(message) = impossible(&sizes, &strides, from) {
                return Err(pyo3::exceptions::PyRuntimeError::new_err(message));
            }
            let dl = dlpack::borrow(py, this)?;
            let Some(offset) = argument(3, c"storage_offset", args, kwargs) else {
                return alias(py, this, &sizes, &strides, 0);
            };
            let wanted = ffi::PyLong_AsLongLong(offset);
            let Some(t) = dl.arg().filter(|t| t.slot != 0) else {
                // No elements, no address: torch knows the offset.
                let this = Bound::from_borrowed_ptr(py, this);
                let at: i64 = this.call_method0("storage_offset")?.extract()?;
                return alias(py, this.as_ptr(), &sizes, &strides, wanted - at);
            };
            let at = (t.offset / t.dtype.size_of() as u64) as i64;
            alias(py, this, &sizes, &strides, wanted - at)
        }
    })
}

/// `view(self, size)` and `_unsafe_view`.
unsafe extern "C" fn view(_: *mut PyObject, args: *mut PyObject, kwargs: *mut PyObject) -> *mut PyObject {
    // SAFETY: Python calls us with its lock held.
    let py = unsafe { Python::assume_attached() };
    enter(py, || {
        // SAFETY: live arguments.
        unsafe {
            let this = argument(0, c"self", args, kwargs).ok_or_else(|| missing("view"))?;
            let wanted = ints(py, argument(1, c"size", args, kwargs).ok_or_else(|| missing("view"))?)?;
            let dl = dlpack::borrow(py, this)?;
            let (sizes, strides) = view_geometry(dl.sizes(), dl.strides(), wanted).map_err(to_py)?;
            alias(py, this, &sizes, &strides, 0)
        }
    })
}

/// `_reshape_alias(self, size, stride)`.
unsafe extern "C" fn reshape_alias(_: *mut PyObject, args: *mut PyObject, kwargs: *mut PyObject) -> *mut PyObject {
    // SAFETY: Python calls us with its lock held.
    let py = unsafe { Python::assume_attached() };
    enter(py, || {
        // SAFETY: live arguments.
        unsafe {
            let this = argument(0, c"self", args, kwargs).ok_or_else(|| missing("_reshape_alias"))?;
            let sizes = ints(py, argument(1, c"size", args, kwargs).ok_or_else(|| missing("_reshape_alias"))?)?;
            let strides = ints(py, argument(2, c"stride", args, kwargs).ok_or_else(|| missing("_reshape_alias"))?)?;
            alias(py, this, &sizes, &strides, 0)
        }
    })
}

/// Sizes with -1 filled in, and the strides that view the old geometry as them.
pub fn view_geometry(old: &[i64], strides: &[i64], mut wanted: Sizes) -> Result<(Sizes, Sizes), Error> {
    let numel: i64 = old.iter().product();
    let asked = wanted.clone();
    let invalid = || Error::runtime("view", format!("shape '{:?}' is invalid for input of size {numel}", &asked[..]));
    let known: i64 = wanted.iter().filter(|&&n| n != -1).product();
    if let Some(i) = wanted.iter().position(|&n| n == -1) {
        if wanted.iter().filter(|&&n| n == -1).count() > 1 {
            return Err(Error::runtime("view", "only one dimension can be inferred".into()));
        }
        if known == 0 {
            return Err(Error::runtime(
                "view",
                format!(
                    "cannot reshape tensor of 0 elements into shape {:?} because the unspecified dimension size -1 can be any value and is ambiguous",
                    &asked[..]
                ),
            ));
        }
        if numel % known != 0 {
            return Err(invalid());
        }
        wanted[i] = numel / known;
    }
    if wanted.iter().any(|&n| n < 0) || wanted.iter().product::<i64>() != numel {
        return Err(invalid());
    }
    if numel == 0 {
        let s = if *old == wanted[..] {
            Sizes::from_slice(strides)
        } else {
            bridge::aten::args::contiguous_strides(&wanted).to_vec().into()
        };
        return Ok((wanted, s));
    }
    let mut out: Sizes = SmallVec::from_elem(1, wanted.len());
    // Runs of old dims that are contiguous among themselves are cut into new dims, from the innermost out.
    let mut d = wanted.len();
    let mut i = old.len();
    while i > 0 {
        let base = strides[i - 1];
        let mut chunk = old[i - 1];
        i -= 1;
        while i > 0 && (old[i - 1] == 1 || strides[i - 1] == chunk * base) {
            chunk *= old[i - 1];
            i -= 1;
        }
        let mut filled = 1;
        while d > 0 && (filled < chunk || wanted[d - 1] == 1) {
            out[d - 1] = filled * base;
            filled *= wanted[d - 1];
            d -= 1;
        }
        if filled != chunk {
            return Err(Error::runtime(
                "view",
                "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.".into(),
            ));
        }
    }
    while d > 0 {
        out[d - 1] = 1;
        d -= 1;
    }
    Ok((wanted, out))
}

/// The builtins, by op name.
#[pyfunction]
pub fn view_kernels(py: Python<'_>) -> PyResult<Vec<(&'static str, Py<PyAny>)>> {
    let none = std::ptr::from_ref(&()).cast_mut().cast();
    let table: [(&'static str, &'static std::ffi::CStr, ffi::PyCFunctionWithKeywords); 4] = [
        ("as_strided", c"as_strided", as_strided),
        ("view", c"view", view),
        ("_unsafe_view", c"_unsafe_view", view),
        ("_reshape_alias", c"_reshape_alias", reshape_alias),
    ];
    table.into_iter().map(|(name, c, f)| Ok((name, builtin(py, c, none, f)?))).collect()
}
