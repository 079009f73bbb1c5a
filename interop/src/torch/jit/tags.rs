//! Tags of dicts: a word that the interpreter changes with every change of a dict, so that one that has not changed
//! need not be walked through.
//!
//! Whether there is such a word, and whether it tells all, differs between versions of Python: `_tags.py` tries it out,
//! once, and where it does not hold every dict is walked through.

use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// Where it is in a dict, behind the count of its entries.
const PLACE: usize = 24;

static TOLD: PyOnceLock<bool> = PyOnceLock::new();

/// Whether this interpreter's dicts have tags.
pub fn are_told(py: Python<'_>) -> bool {
    *TOLD.get_or_init(py, || {
        let told = py.import("torch_pjrt._tags").and_then(|tags| tags.getattr("are_told")?.call0()?.extract());
        told.unwrap_or(false)
    })
}

/// The tag of a dict.
///
/// # Safety
/// `dict` is a live dict.
#[inline]
pub unsafe fn tag(dict: *mut PyObject) -> u64 {
    // SAFETY: by the caller; a dict is larger than this in each version of Python.
    unsafe { *((dict as usize + PLACE) as *const u64) }
}

/// The word of a dict that may be its tag, and the one before it.
#[pyfunction]
pub fn dict_words(dict: &Bound<'_, PyDict>) -> (u64, u64) {
    let at = dict.as_ptr();
    // SAFETY: as for `tag`.
    unsafe { (*((at as usize + PLACE - 8) as *const u64), tag(at)) }
}
