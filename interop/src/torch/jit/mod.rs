//! jit: tracing under the kernels, and calls of what was traced.

pub mod attribute;
pub mod bind;
pub mod classes;
pub mod control;
pub mod entry;
pub mod fast;
pub mod geometry;
pub mod guard;
pub mod holders;
mod hooks;
pub mod location;
pub mod look;
pub mod memory;
pub mod numbers;
pub mod program;
pub mod results;
pub mod rows;
pub mod shape;
pub mod tags;

use super::call::Gil;
use super::dlpack;
use super::errors::to_py;
use bridge::dispatch::trace::{self, Capture};
use primitives::TensorType;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;

/// Whether this thread is tracing a jit function.
#[pyfunction]
pub fn tracing() -> bool {
    trace::active()
}

/// Starts a trace.
#[pyfunction]
pub fn trace_begin(name: &str) -> PyResult<u64> {
    trace::begin(name).map_err(to_py)
}

/// Ends the trace, if one runs, and puts every cell back as it was.
#[pyfunction]
pub fn trace_abort() {
    if let Some(mut t) = trace::end() {
        t.note_leaks(&[]);
        t.restore();
    }
}

/// Operations so far: where the forward part ends.
#[pyfunction]
pub fn trace_mark() -> PyResult<usize> {
    trace::with(|t| Ok(t.graph.mark())).map_err(to_py)
}

/// Cells of tensors from outside that became parameters since the last call.
#[pyfunction]
pub fn trace_captured() -> PyResult<Vec<u32>> {
    trace::with(|t| Ok(t.inputs.take_new())).map_err(to_py)
}

/// Whether a cell was made by the running trace.
#[pyfunction]
pub fn trace_is_born(slot: u32) -> PyResult<bool> {
    trace::with(|t| Ok(t.inputs.born.contains_key(&slot))).map_err(to_py)
}

/// A tensor like `like` whose value the caller of the program hands over as number `k`.
#[pyfunction]
pub fn trace_given<'py>(py: Python<'py>, like: &Bound<'py, PyAny>, k: u32) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: a live tensor.
    let dl = unsafe { dlpack::borrow(py, like.as_ptr())? };
    let dtype = dlpack::dtype_of(dl.dtype).ok_or_else(|| pyo3::exceptions::PyTypeError::new_err("jit: dtype"))?;
    let strides = bridge::aten::args::contiguous_strides(dl.sizes());
    if dl.sizes().contains(&0) {
        return dlpack::wrap(py, 0, dtype, dl.sizes(), &strides);
    }
    let ty = TensorType::new(dtype, dl.sizes());
    let slot = trace::with(|t| t.parameter(Capture::Given(k), ty)).map_err(to_py)?;
    dlpack::wrap(py, slot, dtype, dl.sizes(), &strides)
}

/// Arguments of a program's results and parameters, for the run that follows a trace.
pub fn host(py: Python<'_>) -> Gil<'_> {
    Gil(py)
}

/// The one element of a tensor as a number that the trace follows.
#[pyfunction]
pub fn trace_read(tensor: &Bound<'_, PyAny>) -> PyResult<f64> {
    let t = dlpack::pjrt_arg("item", tensor)?;
    if t.numel() != 1 || !t.dtype.is_float() {
        return Err(refuse(tensor.py(), "item"));
    }
    trace::with(|trace| {
        let base = trace.read(t.slot)?;
        let v = bridge::aten::view::read(&mut trace.graph, base, &bridge::aten::cx::view_of(&t))?;
        let v = trace.graph.reshape(v, &[])?;
        Ok(trace.inputs.numbers.device(v))
    })
    .map_err(to_py)
}

/// Keeps the random state of this point of the trace; returns its number.
#[pyfunction]
pub fn trace_rng_save() -> PyResult<usize> {
    trace::with(|t| t.inputs.save_rng(&mut t.graph)).map_err(to_py)
}

/// Goes back to a random state that was kept.
#[pyfunction]
pub fn trace_rng_load(state: usize) -> PyResult<()> {
    trace::with(|t| t.inputs.load_rng(state)).map_err(to_py)
}

/// From here on it is remembered what is written, for `trace_choose`.
#[pyfunction]
pub fn trace_watch() -> PyResult<()> {
    trace::with(|t| {
        t.watch();
        Ok(())
    })
    .map_err(to_py)
}

/// Takes what was written since `trace_watch` back where `undo`, a tensor of one bool, holds.
#[pyfunction]
pub fn trace_choose(undo: &Bound<'_, PyAny>) -> PyResult<()> {
    let t = dlpack::pjrt_arg("GradScaler", undo)?;
    trace::with(|trace| {
        let base = trace.read(t.slot)?;
        let v = bridge::aten::view::read(&mut trace.graph, base, &bridge::aten::cx::view_of(&t))?;
        let v = trace.graph.reshape(v, &[])?;
        let v = trace.graph.convert(v, primitives::DType::Bool)?;
        trace.choose(v)
    })
    .map_err(to_py)
}

/// Whether a branch or loop is being traced.
#[pyfunction]
pub fn trace_in_branch() -> PyResult<bool> {
    trace::with(|t| Ok(t.in_branch())).map_err(to_py)
}

/// The error for something that a trace cannot follow.
pub fn refuse(py: Python<'_>, op: &str) -> PyErr {
    let made = py.import("torch_pjrt._jit_errors").and_then(|m| m.getattr("refusal")?.call1((op,)));
    match made {
        Ok(e) => PyErr::from_value(e),
        Err(e) => e,
    }
}

/// Makes a tensor whose bytes are part of the running trace.
pub fn constant<'py>(py: Python<'py>, bytes: &[u8], ty: &TensorType) -> PyResult<Bound<'py, PyAny>> {
    let slot = trace::with(|t| t.constant(bytes, ty)).map_err(to_py)?;
    dlpack::wrap(py, slot, ty.dtype, &ty.dims, &bridge::aten::args::contiguous_strides(&ty.dims))
}

/// Keeps aliases of captured tensors that Python may not be able to find again, by cell.
#[pyfunction]
pub fn trace_keep(py: Python<'_>) -> PyResult<Vec<(u32, Py<PyAny>)>> {
    let _ = py;
    Ok(KEPT.lock().drain(..).collect())
}

static KEPT: parking_lot::Mutex<Vec<(u32, Py<PyAny>)>> = parking_lot::Mutex::new(Vec::new());

/// Takes note of the tensors of a call that became parameters by it.
///
/// # Safety
/// `args` is a live tuple and `kwargs` a dict or null.
pub unsafe fn note_captures(py: Python<'_>, args: *mut PyObject, kwargs: *mut PyObject) -> PyResult<()> {
    let new = trace::with(|t| Ok(if t.inputs.has_new() { t.inputs.take_new() } else { Vec::new() })).map_err(to_py)?;
    if new.is_empty() {
        return Ok(());
    }
    // SAFETY: by the caller.
    let (args, kwargs) = unsafe {
        (Bound::from_borrowed_ptr(py, args), (!kwargs.is_null()).then(|| Bound::from_borrowed_ptr(py, kwargs)))
    };
    let found = py.import("torch_pjrt._jit_errors")?.getattr("tensors_of")?.call1((args, kwargs))?;
    for tensor in found.try_iter()? {
        let tensor = tensor?;
        // SAFETY: a live tensor.
        let dl = unsafe { dlpack::borrow(py, tensor.as_ptr())? };
        if let Some(t) = dl.arg().filter(|t| dl.is_pjrt() && new.contains(&t.slot)) {
            KEPT.lock().push((t.slot, tensor.unbind()));
        }
    }
    Ok(())
}
