//! A traced program with what it takes for granted and what a call of it does to Python objects.

use super::guard::{Found, Guard, Scratch, sites_of};
use super::host;
use super::program::Program;
use crate::torch::errors::to_py;
use crate::torch::{dlpack, views};
use bridge::dispatch::slots::{self, DeviceArray, Held, Storage};
use bridge::dispatch::trace::{Call, Condition, JitProgram, Relation};
use parking_lot::Mutex;
use primitives::{DType, Dims, TensorType};
use pyo3::exceptions::PyValueError;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use std::cell::RefCell;
use std::sync::Arc;

/// A tensor that a call makes or hands back.
enum Made {
    /// A view of the storage that result `k` of the program fills.
    New { k: usize, sizes: Dims, strides: Dims, offset: i64 },
    /// The tensor that the call found.
    Known(usize),
    /// Another view of a tensor that the call found, `offset` elements further on than that.
    View { of: usize, sizes: Dims, strides: Dims, offset: i64 },
    /// A tensor without elements.
    Empty { dtype: DType, sizes: Dims, strides: Dims },
    /// An object that is always the same.
    Object(Py<PyAny>),
}

/// What a call leaves in a container.
struct Effect {
    container: Py<PyAny>,
    attr: bool,
    key: Py<PyAny>,
    made: Made,
    /// The tensor that the call found there, whose memory may be written to when nobody else knows it.
    replaces: Option<usize>,
}

#[pyclass(module = "torch_pjrt._native")]
pub struct Entry {
    guard: Mutex<Guard>,
    /// Place of each tensor's cell.
    places: Vec<Option<u32>>,
    conditions: Vec<Condition>,
    numbers: usize,
    program: Arc<JitProgram>,
    types: Vec<TensorType>,
    results: Vec<Made>,
    effects: Vec<Effect>,
    /// Values that the program hands over after its results.
    residuals: usize,
    /// The caller needs the tensors that the call found, for its graph.
    differentiable: bool,
    /// Tensors that keep cells alive which the program names.
    keep: Vec<Py<PyAny>>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Values of a forward program, for its backward program.
#[pyclass(frozen, module = "torch_pjrt._native")]
pub struct Residuals {
    values: Vec<Arc<DeviceArray>>,
}

fn made(spec: &Bound<'_, PyAny>) -> PyResult<Made> {
    let spec = spec.cast::<PyTuple>()?;
    let dims = |i: usize| -> PyResult<Dims> { Ok(Dims::from_vec(spec.get_item(i)?.extract::<Vec<i64>>()?)) };
    Ok(match spec.get_item(0)?.extract::<&str>()? {
        "new" => Made::New {
            k: spec.get_item(1)?.extract()?,
            sizes: dims(2)?,
            strides: dims(3)?,
            offset: spec.get_item(4)?.extract()?,
        },
        "known" => Made::Known(spec.get_item(1)?.extract()?),
        "view" => Made::View {
            of: spec.get_item(1)?.extract()?,
            sizes: dims(2)?,
            strides: dims(3)?,
            offset: spec.get_item(4)?.extract()?,
        },
        "empty" => {
            let dtype = crate::torch::types::dtype_at(spec.get_item(1)?.as_ptr() as usize);
            let dtype = dtype.ok_or_else(|| PyValueError::new_err("jit: a dtype that pjrt lacks"))?;
            Made::Empty { dtype, sizes: dims(2)?, strides: dims(3)? }
        }
        _ => Made::Object(spec.get_item(1)?.unbind()),
    })
}

/// The new tensors of one call: each storage is wrapped once, further tensors over it are views.
struct Fresh {
    slots: Vec<u32>,
    wrapped: Vec<Option<Py<PyAny>>>,
}

impl Entry {
    fn object<'py>(
        &self,
        py: Python<'py>,
        spec: &Made,
        found: &Found,
        fresh: &mut Fresh,
    ) -> PyResult<Bound<'py, PyAny>> {
        match spec {
            Made::Known(i) => {
                // SAFETY: the call found it and its container holds it.
                Ok(unsafe { Bound::from_borrowed_ptr(py, found.objects[*i]) })
            }
            Made::Object(o) => Ok(o.bind(py).clone()),
            Made::Empty { dtype, sizes, strides } => dlpack::wrap(py, 0, *dtype, sizes, strides),
            Made::View { of, sizes, strides, offset } => {
                // SAFETY: as above.
                unsafe {
                    let v = views::alias(py, found.objects[*of], sizes, strides, *offset)?;
                    Ok(Bound::from_owned_ptr(py, v))
                }
            }
            Made::New { k, sizes, strides, offset } => {
                let ty = &self.types[*k];
                if let Some(base) = &fresh.wrapped[*k] {
                    let at: i64 = base.bind(py).call_method0("storage_offset")?.extract()?;
                    // SAFETY: a live tensor.
                    unsafe {
                        let v = views::alias(py, base.as_ptr(), sizes, strides, *offset - at)?;
                        return Ok(Bound::from_owned_ptr(py, v));
                    }
                }
                let first = if *offset == 0 {
                    dlpack::wrap(py, fresh.slots[*k], ty.dtype, sizes, strides)?
                } else {
                    let whole = bridge::aten::args::contiguous_strides(&ty.dims);
                    let base = dlpack::wrap(py, fresh.slots[*k], ty.dtype, &ty.dims, &whole)?;
                    // SAFETY: a live tensor.
                    unsafe { Bound::from_owned_ptr(py, views::alias(py, base.as_ptr(), sizes, strides, *offset)?) }
                };
                fresh.wrapped[*k] = Some(first.clone().unbind());
                Ok(first)
            }
        }
    }

    fn launch(
        &self,
        py: Python<'_>,
        cells: &[u32],
        numbers: &[f64],
        given: &[Arc<DeviceArray>],
    ) -> PyResult<smallvec::SmallVec<[Arc<DeviceArray>; 4]>> {
        self.program.run(&Call { cells, numbers, given }, &host(py)).map_err(to_py)
    }

    /// Puts what the call leaves behind where it belongs.
    fn leave(&self, py: Python<'_>, found: &Found, values: &[Arc<DeviceArray>], fresh: &mut Fresh) -> PyResult<()> {
        for effect in &self.effects {
            if let (Some(i), Made::New { k, .. }) = (effect.replaces, &effect.made) {
                // The old tensor is only the container's: its memory gets the new value, and it stays.
                // SAFETY: a live object; the count is only read.
                let count = unsafe { pyo3::ffi::Py_REFCNT(found.objects[i]) };
                if count <= 1
                    && fresh.slots[*k] == 0
                    && let Some(place) = self.places[i]
                {
                    slots::set(found.cells[place as usize], Held::Device(values[*k].clone())).map_err(to_py)?;
                    continue;
                }
            }
            if let Made::New { k, .. } = &effect.made {
                self.fill(*k, values, fresh)?;
            }
            let object = self.object(py, &effect.made, found, fresh)?;
            let (container, key) = (effect.container.bind(py), effect.key.bind(py));
            if effect.attr {
                container.setattr(key.cast::<pyo3::types::PyString>()?, object)?;
            } else {
                container.set_item(key, object)?;
            }
        }
        Ok(())
    }

    /// A cell for result `k`, made when somebody needs it.
    fn fill(&self, k: usize, values: &[Arc<DeviceArray>], fresh: &mut Fresh) -> PyResult<()> {
        if fresh.slots[k] == 0 {
            let ty = &self.types[k];
            let held = Held::Device(values[k].clone());
            fresh.slots[k] = slots::alloc(Storage { held, dtype: ty.dtype, dims: ty.dims.clone() }).map_err(to_py)?;
        }
        Ok(())
    }
}

#[pymethods]
impl Entry {
    /// `tensors`: `(tensor, path, place or None, check_grad)`, the arguments first; `sites` as the walk found them;
    /// `effects`: `(container, is attribute, key, spec, index of the tensor replaced or None)`.
    #[new]
    #[pyo3(signature = (program, tensors, sites, places, numbers, conditions, results, effects, residuals, differentiable, keep))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        program: &Bound<'_, Program>,
        tensors: &Bound<'_, PyList>,
        sites: &Bound<'_, PyList>,
        places: usize,
        numbers: usize,
        conditions: Vec<(u32, String, f64, bool)>,
        results: &Bound<'_, PyList>,
        effects: &Bound<'_, PyList>,
        residuals: usize,
        differentiable: bool,
        keep: Vec<Py<PyAny>>,
    ) -> PyResult<Self> {
        let mut guard = Guard { places, ..Guard::default() };
        for t in tensors.iter() {
            let place = t.get_item(2)?.extract()?;
            guard.add_tensor(py, &t.get_item(0)?, t.get_item(1)?.extract()?, place, t.get_item(3)?.extract()?)?;
        }
        sites_of(&mut guard, sites)?;
        let program = program.get().inner.clone();
        let types = program.new_types().cloned().collect();
        let conditions = conditions
            .into_iter()
            .map(|(number, relation, bound, outcome)| {
                let relation = match &relation[..] {
                    "eq" => Relation::Eq,
                    "lt" => Relation::Lt,
                    _ => Relation::Le,
                };
                Condition { number, relation, bound, outcome }
            })
            .collect();
        let mut made_effects = Vec::new();
        for e in effects.iter() {
            made_effects.push(Effect {
                container: e.get_item(0)?.unbind(),
                attr: e.get_item(1)?.extract()?,
                key: e.get_item(2)?.unbind(),
                made: made(&e.get_item(3)?)?,
                replaces: e.get_item(4)?.extract()?,
            });
        }
        let results = results.iter().map(|r| made(&r)).collect::<PyResult<_>>()?;
        let places = guard.tensors.iter().map(|t| t.place).collect();
        let guard = Mutex::new(guard);
        Ok(Self {
            guard,
            places,
            conditions,
            numbers,
            program,
            types,
            results,
            effects: made_effects,
            residuals,
            differentiable,
            keep,
        })
    }

    /// Runs the program if everything is as it was traced. Returns the result tensors and the residuals, or the reason
    /// why it does not fit.
    fn call<'py>(
        &self,
        py: Python<'py>,
        args: Vec<Bound<'py, PyAny>>,
        floats: Vec<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let pointers: Vec<*mut PyObject> = args.iter().map(|a| a.as_ptr()).collect();
        let numbers = self.numbers;
        let mut guard = loop {
            match self.guard.try_lock() {
                Some(g) => break g,
                // Another thread is at it, and may need the interpreter.
                None => py.detach(std::thread::yield_now),
            }
        };
        let found = SCRATCH.with(|s| {
            // SAFETY: the arguments are held by `args`.
            unsafe { guard.check(py, &pointers, &floats, numbers, &mut s.borrow_mut()) }
        })?;
        drop(guard);
        let found = match found {
            Ok(f) => f,
            Err(reason) => return Ok(reason.into_pyobject(py)?.into_any()),
        };
        if let Some(c) = self.conditions.iter().find(|c| !c.met(&found.numbers)) {
            let now = found.numbers[c.number as usize];
            return Ok(format!("number {} is {now}, and the program was traced for another", c.number)
                .into_pyobject(py)?
                .into_any());
        }
        let values = self.launch(py, &found.cells, &found.numbers, &[])?;
        let news = self.types.len() - self.residuals_among_new();
        let mut fresh =
            Fresh { slots: vec![0; self.types.len()], wrapped: (0..self.types.len()).map(|_| None).collect() };
        for spec in &self.results {
            if let Made::New { k, .. } = spec {
                self.fill(*k, &values, &mut fresh)?;
            }
        }
        self.leave(py, &found, &values, &mut fresh)?;
        let results = PyList::empty(py);
        for spec in &self.results {
            results.append(self.object(py, spec, &found, &mut fresh)?)?;
        }
        let residuals = if self.residuals > 0 {
            Some(Bound::new(py, Residuals { values: values[news..].to_vec() })?)
        } else {
            None
        };
        let known = PyList::empty(py);
        if self.differentiable {
            for &object in &found.objects {
                // SAFETY: the call found it and its container holds it.
                known.append(unsafe { Bound::from_borrowed_ptr(py, object) })?;
            }
        }
        Ok((results, residuals, known).into_pyobject(py)?.into_any())
    }

    /// The run that follows the trace: cells are those of the trace, and the new ones get their values.
    fn first<'py>(
        &self,
        py: Python<'py>,
        cells: Vec<u32>,
        numbers: Vec<f64>,
        new: Vec<u32>,
    ) -> PyResult<Option<Bound<'py, Residuals>>> {
        let values = self.launch(py, &cells, &numbers, &[])?;
        for (slot, value) in new.iter().zip(&values) {
            // A cell whose tensor died needs no value.
            let _ = slots::set(*slot, Held::Device(value.clone()));
        }
        if self.residuals == 0 {
            return Ok(None);
        }
        Ok(Some(Bound::new(py, Residuals { values: values[new.len()..].to_vec() })?))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Some(guard) = self.guard.try_lock() {
            guard.traverse(&visit)?;
        }
        for e in &self.effects {
            visit.call(&e.container)?;
            visit.call(&e.key)?;
        }
        for k in &self.keep {
            visit.call(k)?;
        }
        Ok(())
    }

    fn __clear__(&mut self) {
        self.guard.get_mut().sites.clear();
        self.effects.clear();
        self.keep.clear();
        self.results.clear();
    }
}

impl Entry {
    /// Results of the program that are residuals rather than parameters handed over.
    fn residuals_among_new(&self) -> usize {
        let used = self.results.iter().map(|m| match m {
            Made::New { k, .. } => k + 1,
            _ => 0,
        });
        let left = self.effects.iter().map(|e| match &e.made {
            Made::New { k, .. } => k + 1,
            _ => 0,
        });
        self.types.len() - used.chain(left).max().unwrap_or(0)
    }
}

/// Runs a backward program: `residuals` of the forward part, then the gradients from outside.
#[pyfunction]
pub fn run_backward<'py>(
    py: Python<'py>,
    program: &Bound<'py, Program>,
    residuals: Option<&Bound<'py, Residuals>>,
    cotangents: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let mut given: Vec<Arc<DeviceArray>> = residuals.map(|r| r.get().values.clone()).unwrap_or_default();
    for c in &cotangents {
        let t = dlpack::pjrt_arg("backward", c)?;
        given.push(bridge::dispatch::eager::array(t.slot).map_err(to_py)?);
    }
    let program = &program.get().inner;
    let values = program.run(&Call { cells: &[], numbers: &[], given: &given }, &host(py)).map_err(to_py)?;
    let out = PyList::empty(py);
    for (value, ty) in values.into_iter().zip(program.new_types()) {
        let storage = Storage { held: Held::Device(value), dtype: ty.dtype, dims: ty.dims.clone() };
        let slot = slots::alloc(storage).map_err(to_py)?;
        let strides = bridge::aten::args::contiguous_strides(&ty.dims);
        out.append(dlpack::wrap(py, slot, ty.dtype, &ty.dims, &strides)?)?;
    }
    Ok(out)
}
