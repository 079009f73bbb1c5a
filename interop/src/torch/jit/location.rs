//! Where in the user's code an op comes from.

use ahash::AHashMap;
use bridge::dispatch::trace;
use parking_lot::Mutex;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::sync::{Arc, LazyLock};

/// File of each code object that was met, or `None` for code that is not the user's. Code objects are kept alive.
static CODES: LazyLock<Mutex<AHashMap<usize, Option<Arc<str>>>>> = LazyLock::new(Mutex::default);
static PLACES: LazyLock<Mutex<AHashMap<(usize, i32), Arc<str>>>> = LazyLock::new(Mutex::default);
static SKIPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Folders whose code is not the user's.
#[pyfunction]
pub fn set_library_folders(folders: Vec<String>) {
    *SKIPPED.lock() = folders;
}

/// Tells this thread's trace the line of the innermost frame of the user's.
pub fn mark(py: Python<'_>) {
    if let Some(place) = here(py) {
        let _ = trace::with(|t| {
            t.set_location(&place);
            Ok(())
        });
    }
}

/// `file:line` of the innermost frame of the user's.
pub fn here(py: Python<'_>) -> Option<Arc<str>> {
    // SAFETY: frames and code objects are live while they are looked at; each new reference is given back.
    unsafe {
        let mut frame: *mut PyObject = ffi::PyEval_GetFrame().cast();
        if frame.is_null() {
            return None;
        }
        ffi::Py_IncRef(frame);
        let back = pyo3::intern!(py, "f_back");
        let mut found = None;
        while !frame.is_null() && frame != ffi::Py_None() {
            let code: *mut PyObject = ffi::PyFrame_GetCode(frame.cast()).cast();
            let file = file_of(py, code);
            ffi::Py_DecRef(code);
            if file.is_some() {
                let line = ffi::PyFrame_GetLineNumber(frame.cast());
                found = Some((code as usize, line, file));
                break;
            }
            let next = ffi::PyObject_GetAttr(frame, back.as_ptr());
            ffi::Py_DecRef(frame);
            frame = next;
        }
        if frame.is_null() {
            ffi::PyErr_Clear();
        } else {
            ffi::Py_DecRef(frame);
        }
        let (code, line, file) = found?;
        let mut places = PLACES.lock();
        Some(
            places.entry((code, line)).or_insert_with(|| format!("{}:{line}", file.unwrap_or_default()).into()).clone(),
        )
    }
}

unsafe fn file_of(py: Python<'_>, code: *mut PyObject) -> Option<Arc<str>> {
    let key = code as usize;
    if let Some(known) = CODES.lock().get(&key) {
        return known.clone();
    }
    // SAFETY: a live code object.
    let code = unsafe { Bound::from_borrowed_ptr(py, code) };
    let file: String = code.getattr("co_filename").and_then(|f| f.extract()).unwrap_or_default();
    let library = file.starts_with('<') || SKIPPED.lock().iter().any(|f| file.starts_with(f));
    let short = (!library).then(|| -> Arc<str> { file.into() });
    // Kept alive for good, so that its address stays its own.
    std::mem::forget(code.unbind());
    CODES.lock().insert(key, short.clone());
    short
}

/// `file:line` of the innermost frame of the user's, for messages.
#[pyfunction]
pub fn user_location(py: Python<'_>) -> Option<String> {
    here(py).map(|p| p.to_string())
}
