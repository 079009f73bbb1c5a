//! Hooks of tensors and modules: a program has run those that were there when it was traced.
//!
//! A table of hooks is a container like others. That a tensor gets its first table, or an empty one its first hook, is
//! seen by torch's count of all hooks, so that a call does not ask every tensor and module.

use super::geometry::Geometry;
use super::guard::{Found, Kind, Site, Step};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

const TABLES: [&str; 2] = ["_backward_hooks", "_post_accumulate_grad_hooks"];

const TABLES_OF_MODULES: [&str; 11] = [
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
];

/// Whether a site is a module's table of hooks with none in it.
pub fn is_empty_table(site: &Site) -> bool {
    let name = site.path.rsplit('.').next().unwrap_or_default();
    site.kind == Kind::Dict && site.items.is_empty() && TABLES_OF_MODULES.contains(&name)
}

/// Hooks registered so far in this process, of tensors and modules.
pub fn count(py: Python<'_>) -> PyResult<i64> {
    static HANDLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let handle = HANDLE.import(py, "torch.utils.hooks", "RemovableHandle")?;
    handle.getattr(pyo3::intern!(py, "next_id"))?.extract()
}

/// Whether a tensor has a table of hooks, empty or not.
pub fn has_tables(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    for name in TABLES {
        if tensor.getattr_opt(name)?.is_some_and(|table| !table.is_none()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Looks for tensors that have hooks now and had none.
///
/// # Safety
/// What was found is alive.
pub unsafe fn first_ones(py: Python<'_>, tensors: &[Geometry], found: &Found) -> PyResult<Step> {
    for (want, &object) in tensors.iter().zip(&found.objects) {
        if object.is_null() || want.hooked || !want.requires_grad {
            continue;
        }
        // SAFETY: by the caller.
        let tensor: Bound<'_, PyAny> = unsafe { Bound::from_borrowed_ptr(py, object) };
        if has_tables(&tensor)? {
            return Ok(Step::Broken(format!("{} has got a hook", want.path)));
        }
    }
    Ok(Step::Fine)
}
