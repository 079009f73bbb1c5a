//! The short way of a call: the last programs of a jit function with the arguments that they served, compared without
//! Python code. What it does not know goes the long way, through the function's table of programs.

use super::entry::Entry;
use super::shape::{Leaves, Pattern, Template};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
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
    hits: AtomicU64,
}

#[pymethods]
impl Fast {
    #[new]
    fn new(modes: Py<PyAny>, missed: Py<PyAny>) -> Self {
        Self { lines: Mutex::default(), modes, missed, hits: AtomicU64::new(0) }
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
        for at in 0..LINES {
            // The list is not locked while Python code may run.
            let Some(line) = self.lines.lock().get(at).cloned() else { break };
            let mut leaves = Leaves::default();
            if !line.pattern.fits(args, &mut leaves)? || !line.modes.bind(py).eq(&modes)? {
                continue;
            }
            // SAFETY: the arguments hold the tensors.
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
        args: &Bound<'_, PyAny>,
        modes: Bound<'_, PyTuple>,
        entry: Py<Entry>,
        result: Option<Bound<'_, PyAny>>,
        traced: Py<PyAny>,
    ) -> PyResult<()> {
        let Some(pattern) = Pattern::of(args)? else { return Ok(()) };
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
