//! The short way of a call: the last programs of a jit function with the arguments that they served, compared without
//! Python code. What it does not know goes the long way, through the function's table of programs.

use super::entry::Entry;
use super::shape::{Leaves, Pattern, Statics, Template};
use parking_lot::Mutex;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Programs kept at hand.
const LINES: usize = 4;

struct Line {
    pattern: Pattern,
    /// torch's modes at the time; see `_modes_key.py`.
    modes: Py<PyTuple>,
    entry: Py<Entry>,
    /// The structure of the result; without one `traced.complete` makes it.
    result: Option<Template>,
    traced: Py<PyAny>,
}

/// The programs at hand of one jit function, the last one used first.
#[pyclass(frozen, module = "torch_pjrt._native")]
pub struct Fast {
    lines: Mutex<Vec<Arc<Line>>>,
    modes: Py<PyAny>,
    /// What a call returns when no program at hand fits.
    missed: Py<PyAny>,
    statics: Statics,
    hits: AtomicU64,
}

/// A tensor of the CPU on the device; each is moved once in a call.
fn on_device<'py>(
    py: Python<'py>,
    tensor: *mut PyObject,
    moved: &mut Vec<(*mut PyObject, Bound<'py, PyAny>)>,
) -> PyResult<*mut PyObject> {
    if let Some((_, there)) = moved.iter().find(|(here, _)| *here == tensor) {
        return Ok(there.as_ptr());
    }
    // SAFETY: a live object, held by the arguments.
    let here = unsafe { Bound::from_borrowed_ptr(py, tensor) };
    let there = here.call_method1(pyo3::intern!(py, "to"), (pyo3::intern!(py, "pjrt"),))?;
    moved.push((tensor, there.clone()));
    Ok(there.as_ptr())
}

#[pymethods]
impl Fast {
    #[new]
    fn new(modes: Py<PyAny>, missed: Py<PyAny>, positions: Vec<usize>, names: Vec<String>) -> Self {
        let statics = Statics { positions, names };
        Self { lines: Mutex::default(), modes, missed, statics, hits: AtomicU64::new(0) }
    }

    /// Calls served.
    #[getter]
    fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Runs a program at hand that fits `args`, a tuple of arguments and keyword arguments.
    fn call<'py>(&self, args: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let modes = self.modes.bind(py).call0()?;
        let mut moved: Vec<(*mut PyObject, Bound<'py, PyAny>)> = Vec::new();
        for at in 0..LINES {
            // The list is not locked while Python code may run.
            let Some(line) = self.lines.lock().get(at).cloned() else { break };
            let mut leaves = Leaves::default();
            if !line.pattern.fits(args, &mut leaves)? || !line.modes.bind(py).eq(&modes)? {
                continue;
            }
            for &k in &leaves.hosts {
                leaves.tensors[k] = on_device(py, leaves.tensors[k], &mut moved)?;
            }
            // SAFETY: the arguments hold the tensors, and `moved` those that came from the CPU.
            let ran = unsafe { line.entry.borrow(py).run(py, &leaves.tensors, &leaves.floats)? };
            let Ok((tensors, residuals, known)) = ran else { continue };
            self.hits.fetch_add(1, Ordering::Relaxed);
            if at > 0 {
                let mut lines = self.lines.lock();
                if let Some(now) = lines.iter().position(|l| Arc::ptr_eq(l, &line)) {
                    lines[..=now].rotate_right(1);
                }
            }
            return match &line.result {
                Some(template) => template.fill(py, &mut tensors.iter()),
                None => line.traced.bind(py).call_method1("complete", (tensors, residuals, known, leaves.floats)),
            };
        }
        Ok(self.missed.bind(py).clone())
    }

    /// Puts a program at hand, for arguments that it served.
    fn add(
        &self,
        args: &Bound<'_, PyTuple>,
        kwargs: &Bound<'_, PyDict>,
        modes: Bound<'_, PyTuple>,
        entry: Py<Entry>,
        result: Option<Bound<'_, PyAny>>,
        traced: Py<PyAny>,
    ) -> PyResult<()> {
        let Some(pattern) = Pattern::of(args, kwargs, &self.statics)? else { return Ok(()) };
        let result = result.map(|r| Template::parse(&r)).transpose()?;
        let mut lines = self.lines.lock();
        lines.insert(0, Arc::new(Line { pattern, modes: modes.unbind(), entry, result, traced }));
        let dropped = if lines.len() > LINES { lines.pop() } else { None };
        drop(lines);
        drop(dropped);
        Ok(())
    }

    /// Forgets everything.
    fn clear(&self) {
        let lines = std::mem::take(&mut *self.lines.lock());
        drop(lines);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.modes)?;
        visit.call(&self.missed)?;
        if let Some(lines) = self.lines.try_lock() {
            for line in lines.iter() {
                line.pattern.traverse(&visit)?;
                visit.call(&line.modes)?;
                visit.call(&line.entry)?;
                if let Some(result) = &line.result {
                    result.traverse(&visit)?;
                }
                visit.call(&line.traced)?;
            }
        }
        Ok(())
    }

    fn __clear__(&self) {
        self.clear();
    }
}
