//! Traced programs as Python objects.

use super::host;
use crate::torch::call::Gil;
use crate::torch::errors::to_py;
use bridge::dispatch::eager::Host;
use bridge::dispatch::trace::{self, Condition, JitProgram, Wanted};
use bridge::pjrt::{self, CompileOptions, Compiled, Plugin};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::PathBuf;
use std::sync::Arc;

/// A traced program.
#[pyclass(frozen, module = "torch_pjrt._native")]
pub struct Program {
    pub inner: Arc<JitProgram>,
    /// What numbers of a call must meet.
    pub conditions: Vec<Condition>,
}

/// What the end of a trace gives.
#[pyclass(frozen, get_all, module = "torch_pjrt._native")]
pub struct Finished {
    forward: Py<Program>,
    backward: Option<Py<Program>>,
    /// Places of the cells that the program reads or writes.
    used: Vec<u32>,
    /// Places of those that it writes.
    written: Vec<u32>,
}

/// Ends the trace and makes its program.
///
/// `places` names the cells that a caller supplies: `(cell, place)`. `new` are the cells of results, in order; `donated`
/// those that the caller gives away, with what their use is told, `renewed` those that result `k` takes the place of. With `gradients` (the mark that ends the forward part, and the cells of
/// the gradients) a second program is made. Cells are put back as they were, but those in `new` stay for the caller.
#[pyfunction]
#[pyo3(signature = (name, places, names, number_names, new, gradients, donated, renewed, options))]
#[allow(clippy::too_many_arguments)]
pub fn trace_finish(
    py: Python<'_>,
    name: &str,
    places: Vec<(u32, u32)>,
    names: std::collections::HashMap<u32, String>,
    number_names: Vec<String>,
    new: Vec<u32>,
    gradients: Option<(usize, Vec<u32>)>,
    donated: Vec<(u32, String)>,
    renewed: Vec<(u32, usize)>,
    options: Vec<(String, Bound<'_, PyAny>)>,
) -> PyResult<Finished> {
    let options = compile_options(&options)?;
    let mut t = trace::end().ok_or_else(|| to_py(bridge::Error::internal("no trace is running".into())))?;
    let places = places.into_iter().collect();
    let donated = donated.into_iter().map(|(slot, message)| (slot, Arc::from(message))).collect();
    let names = names.into_iter().collect();
    let gradients = gradients.as_ref().map(|(mark, cells)| (*mark, &cells[..]));
    let wanted = Wanted {
        name,
        places: &places,
        names: &names,
        number_names: &number_names,
        new: &new,
        gradients,
        donated: &donated,
        renewed: &renewed,
        options,
    };
    let finished = t.finish(&wanted);
    t.note_leaks(&new);
    t.restore();
    let finished = finished.map_err(to_py)?;
    let (used, written) = (finished.forward.places(), finished.forward.written());
    Ok(Finished {
        forward: Py::new(
            py,
            Program { inner: Arc::new(finished.forward), conditions: t.inputs.numbers.conditions.clone() },
        )?,
        backward: finished
            .backward
            .map(|p| Py::new(py, Program { inner: Arc::new(p), conditions: Vec::new() }))
            .transpose()?,
        used,
        written,
    })
}

fn compile_options(options: &[(String, Bound<'_, PyAny>)]) -> PyResult<CompileOptions> {
    use bridge::pjrt::OptionValue;
    let mut made = CompileOptions::from_env().map_err(to_py)?;
    for (name, value) in options {
        let value = if value.is_instance_of::<pyo3::types::PyBool>() {
            OptionValue::Bool(value.extract()?)
        } else if let Ok(i) = value.extract::<i64>() {
            OptionValue::Int(i)
        } else if let Ok(f) = value.extract::<f64>() {
            OptionValue::Float(f)
        } else {
            OptionValue::String(value.extract()?)
        };
        made = made.with(name, value);
    }
    Ok(made)
}

#[pymethods]
impl Program {
    /// StableHLO text; with the lines of the user's code where `locations`.
    #[pyo3(signature = (locations = true))]
    fn text(&self, locations: bool) -> String {
        if locations { self.inner.graph.to_text_with_locations() } else { self.inner.graph.to_text() }
    }

    /// (parameters, operations)
    fn size(&self) -> (usize, usize) {
        (self.inner.input_count(), self.inner.graph.mark())
    }

    /// Compiles for the process's device now instead of at the first run.
    fn compile(&self, py: Python<'_>) -> PyResult<()> {
        self.inner.executable(&host(py)).map(drop).map_err(to_py)
    }

    /// Seconds of a bare launch, the mean of `calls`; see [`JitProgram::time_launch`].
    fn time_launch(&self, py: Python<'_>, calls: u32) -> PyResult<f64> {
        self.inner.time_launch(calls, &host(py)).map(|d| d.as_secs_f64()).map_err(to_py)
    }

    fn is_compiled(&self) -> bool {
        self.inner.is_compiled()
    }

    /// Counts of the compiled program by XLA's names.
    fn cost_analysis<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let exe = self.inner.executable(&host(py)).map_err(to_py)?;
        costs(py, exe.cost_analysis().map_err(to_py)?)
    }

    fn memory_analysis<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let exe = self.inner.executable(&host(py)).map_err(to_py)?;
        memory(py, exe.memory_analysis().map_err(to_py)?)
    }

    fn serialize<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let exe = self.inner.executable(&host(py)).map_err(to_py)?;
        Ok(PyBytes::new(py, &exe.serialize().map_err(to_py)?))
    }

    /// The optimized program as text.
    fn optimized(&self, py: Python<'_>) -> PyResult<String> {
        self.inner.executable(&host(py)).and_then(|exe| exe.optimized_text()).map_err(to_py)
    }

    /// Compiles for a topology that the plugin at `plugin` knows by name, with none of its devices here.
    fn compile_for(&self, py: Python<'_>, plugin: PathBuf, topology: &str) -> PyResult<Foreign> {
        let text = self.inner.graph.to_text();
        let mut made = None;
        Gil(py).unlocked(&mut || {
            made = Some(
                Plugin::load_for_compiling(&plugin)
                    .and_then(|p| pjrt::compile_for_topology(p, topology, &text, &CompileOptions::default())),
            );
        });
        let inner = made.ok_or_else(|| PyValueError::new_err("jit: the compilation did not run"))?.map_err(to_py)?;
        Ok(Foreign { inner })
    }
}

/// A program compiled for devices that are not here.
#[pyclass(frozen, module = "torch_pjrt._native")]
pub struct Foreign {
    inner: Compiled,
}

#[pymethods]
impl Foreign {
    fn cost_analysis<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        costs(py, self.inner.cost_analysis().map_err(to_py)?)
    }

    fn memory_analysis<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        memory(py, self.inner.memory_analysis().map_err(to_py)?)
    }

    fn serialize<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.inner.serialize().map_err(to_py)?))
    }

    fn optimized(&self) -> PyResult<String> {
        self.inner.optimized_text().map_err(to_py)
    }
}

fn costs(py: Python<'_>, found: std::collections::BTreeMap<String, f64>) -> PyResult<Bound<'_, PyDict>> {
    let out = PyDict::new(py);
    for (name, value) in found {
        out.set_item(name, value)?;
    }
    Ok(out)
}

fn memory(py: Python<'_>, m: pjrt::MemoryAnalysis) -> PyResult<Bound<'_, PyDict>> {
    let out = PyDict::new(py);
    let parts = [
        ("generated_code", m.generated_code),
        ("arguments", m.arguments),
        ("outputs", m.outputs),
        ("aliased", m.aliased),
        ("temporaries", m.temporaries),
        ("peak", m.peak),
    ];
    for (name, value) in parts {
        out.set_item(name, value)?;
    }
    Ok(out)
}
