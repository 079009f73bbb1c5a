//! A traced program with what it takes for granted and what a call of it does to Python objects.

use super::classes::{Classes, Given, dict_of};
use super::guard::{Found, Guard, Scratch, sites_of};
use super::holders::known_to_one;
use super::program::Program;
use super::results::{Fresh, Made};
use super::{hooks, host, tags};
use crate::torch::dlpack;
use crate::torch::errors::to_py;
use bridge::dispatch::slots::{self, DeviceArray, Held, Storage};
use bridge::dispatch::trace::{Call, Condition, JitProgram};
use parking_lot::Mutex;
use primitives::TensorType;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use pyo3::{PyTraverseError, PyVisit};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a call leaves in a container.
struct Effect {
    container: Py<PyAny>,
    /// The tensor that it is, or that it is the attributes of: the one that is in its place at a call.
    of: Option<u32>,
    attributes: bool,
    attr: bool,
    key: Py<PyAny>,
    made: Made,
    /// The tensor that the call found there, whose memory may be written to when nobody else knows it.
    replaces: Option<usize>,
    /// The program itself puts the new value into that memory.
    renewed: bool,
}

#[pyclass(module = "torch_pjrt._native")]
pub struct Entry {
    guard: Mutex<Guard>,
    /// The thread that has the guard look.
    looks: AtomicUsize,
    /// Place of each tensor's cell.
    places: Vec<Option<u32>>,
    conditions: Vec<Condition>,
    number_names: Vec<String>,
    program: Arc<JitProgram>,
    types: Vec<TensorType>,
    results: Vec<Made>,
    effects: Vec<Effect>,
    /// Tensors that the program writes: autograd's count of their versions goes on.
    written: Vec<usize>,
    /// Results that have a cell; after them the program hands over values for its backward program.
    news: usize,
    /// The caller needs the tensors that the call found, for its graph.
    differentiable: bool,
    /// Tensors that keep cells alive which the program names.
    keep: Vec<Py<PyAny>>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
    /// Its address stands for the thread.
    static ME: u8 = const { 0 };
}

/// Values of a forward program, for its backward program.
#[pyclass(frozen, module = "torch_pjrt._native")]
pub struct Residuals {
    values: Vec<Arc<DeviceArray>>,
}

type Values = SmallVec<[Arc<DeviceArray>; 4]>;

impl Entry {
    /// The first condition on the numbers that does not hold, in words.
    fn unmet(&self, numbers: &[f64]) -> Option<String> {
        let c = self.conditions.iter().find(|c| (c.number as usize) < numbers.len() && !c.met(numbers))?;
        let (name, now) = (&self.number_names[c.number as usize], numbers[c.number as usize]);
        Some(format!("{name} is {now:?}, and the program holds where {}", c.describe(name)))
    }

    /// Effects that find their tensor known to nobody but its container, and the places of those where it is not so.
    fn exclusive(&self, py: Python<'_>, found: &Found) -> PyResult<(SmallVec<[bool; 32]>, SmallVec<[u32; 8]>)> {
        let mut shared = SmallVec::new();
        let mut alone = SmallVec::with_capacity(self.effects.len());
        for effect in &self.effects {
            let Some(i) = effect.replaces else {
                alone.push(false);
                continue;
            };
            // SAFETY: a live object, held by its container.
            let is_alone = unsafe { known_to_one(py, found.objects[i])? };
            alone.push(is_alone);
            if let Some(place) = self.places[i].filter(|_| !is_alone) {
                shared.push(place);
            }
        }
        Ok((alone, shared))
    }

    /// Puts what the call leaves behind where it belongs.
    fn leave(&self, py: Python<'_>, found: &Found, alone: &[bool], values: &Values, fresh: &mut Fresh) -> PyResult<()> {
        for (effect, &alone) in self.effects.iter().zip(alone) {
            if alone
                && let (Some(i), Some(k)) = (effect.replaces, effect.made.result())
                && let Some(place) = self.places[i]
                && !fresh.has_cell(k)
            {
                // The old tensor is only the container's: it stays, with the new value.
                if !effect.renewed {
                    slots::set(found.cells[place as usize], Held::Device(values[k].clone())).map_err(to_py)?;
                }
                continue;
            }
            let object = fresh.object(py, &effect.made, found)?;
            let now = effect.of.map_or(std::ptr::null_mut(), |i| found.objects[i as usize]);
            // SAFETY: what was found is held.
            let mut now = unsafe { Bound::from_borrowed_ptr_or_opt(py, now) };
            if effect.attributes {
                now = now.as_ref().and_then(dict_of);
            }
            let (container, key) = (now.as_ref().unwrap_or(effect.container.bind(py)), effect.key.bind(py));
            if effect.attr {
                container.setattr(key.cast::<PyString>()?, object)?;
            } else {
                container.set_item(key, object)?;
            }
        }
        Ok(())
    }

    /// Tensors that a call found, held until it is over: effects may drop them from their containers.
    fn hold<'py>(&self, py: Python<'py>, found: &Found) -> SmallVec<[Bound<'py, PyAny>; 8]> {
        let specs = self.results.iter().chain(self.effects.iter().map(|e| &e.made));
        // SAFETY: a live object, held by its container.
        specs.flat_map(Made::needs).map(|i| unsafe { Bound::from_borrowed_ptr(py, found.objects[i]) }).collect()
    }
}

/// What a call of an entry gives: result tensors, values for its backward program, and the tensors that it found.
pub type Ran<'py> = (Bound<'py, PyList>, Option<Bound<'py, Residuals>>, Bound<'py, PyList>);

impl Entry {
    /// Runs the program if everything is as it was traced; else says why it does not fit.
    ///
    /// # Safety
    /// The objects of `args` are alive.
    pub unsafe fn run<'py>(
        &self,
        py: Python<'py>,
        args: &[*mut PyObject],
        floats: &[f64],
    ) -> PyResult<Result<Ran<'py>, String>> {
        if let Some(reason) = self.unmet(floats) {
            return Ok(Err(reason));
        }
        let me = ME.with(|me| std::ptr::from_ref(me) as usize);
        let mut guard = loop {
            match self.guard.try_lock() {
                Some(g) => break g,
                // Code of the user's that a look runs calls the function.
                None if self.looks.load(Ordering::Relaxed) == me => {
                    return Ok(Err("a call that is under way looks at what this one would".into()));
                }
                // Another thread is at it, and may need the interpreter.
                None => py.detach(std::thread::yield_now),
            }
        };
        self.looks.store(me, Ordering::Relaxed);
        let numbers = self.number_names.len();
        // Code of the user's that a look runs may call other functions.
        let mut scratch = SCRATCH.with(RefCell::take);
        // SAFETY: by the caller.
        let found = unsafe { guard.check(py, args, floats, numbers, &mut scratch) };
        SCRATCH.with(|s| s.replace(scratch));
        self.looks.store(0, Ordering::Relaxed);
        drop(guard);
        let found = found?;
        let mut found = match found {
            Ok(f) => f,
            Err(reason) => return Ok(Err(reason)),
        };
        if let Some(reason) = self.unmet(&found.numbers) {
            return Ok(Err(reason));
        }
        // A tensor that the program does not read may not have been looked for.
        // SAFETY: a live object, held by its container.
        let object = |i: usize| unsafe {
            Bound::from_borrowed_ptr_or_opt(py, found.objects[i]).unwrap_or_else(|| py.None().into_bound(py))
        };
        let held = self.hold(py, &found);
        let (alone, shared) = self.exclusive(py, &found)?;
        let written: SmallVec<[Bound<'_, PyAny>; 8]> = self.written.iter().map(|&i| object(i)).collect();
        let known = PyList::new(py, (0..if self.differentiable { found.objects.len() } else { 0 }).map(object))?;
        let call = Call { cells: &found.cells, numbers: &found.numbers, given: &[], shared: &shared };
        let values: Values = self.program.run(&call, &host(py)).map_err(to_py)?;
        let mut fresh = Fresh::new(&self.types, &values);
        let results = PyList::empty(py);
        // New results first: what replaces another tensor must know whether somebody else has it.
        let made: SmallVec<[Option<Bound<'_, PyAny>>; 4]> = self
            .results
            .iter()
            .map(|spec| spec.result().map(|_| fresh.object(py, spec, &found)).transpose())
            .collect::<PyResult<_>>()?;
        self.leave(py, &found, &alone, &values, &mut fresh)?;
        for (spec, made) in self.results.iter().zip(made) {
            results.append(match made {
                Some(made) => made,
                None => fresh.object(py, spec, &found)?,
            })?;
        }
        drop(held);
        written.iter().try_for_each(crate::torch::was_written)?;
        let residuals = (values.len() > self.news).then(|| values[self.news..].to_vec());
        let residuals = residuals.map(|values| Bound::new(py, Residuals { values })).transpose()?;
        found.held.clear();
        SCRATCH.with(|s| s.borrow_mut().take_back(found));
        Ok(Ok((results, residuals, known)))
    }
}

#[pymethods]
impl Entry {
    /// `tensors`: `(tensor, path, place or None, is a leaf, (has attributes, no other will do, required a gradient))`, the arguments first; `sites` as the walk found them; `objects`: `(object, path)`; `classes`: the user's;
    /// `effects`: `(container, is attribute, key, spec, index of the tensor replaced or None)`; `written`: indices of
    /// the tensors that the program writes.
    #[new]
    #[pyo3(signature = (program, tensors, sites, objects, classes, places, number_names, results, effects, written, news, differentiable, keep))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        program: &Bound<'_, Program>,
        tensors: &Bound<'_, PyList>,
        sites: &Bound<'_, PyList>,
        objects: &Bound<'_, PyList>,
        classes: Vec<Given<'_>>,
        places: usize,
        number_names: Vec<String>,
        results: &Bound<'_, PyList>,
        effects: &Bound<'_, PyList>,
        written: Vec<usize>,
        news: usize,
        differentiable: bool,
        keep: Vec<Py<PyAny>>,
    ) -> PyResult<Self> {
        // Tried out here, and not within a call.
        tags::are_told(py);
        let mut guard = Guard { places, ..Guard::default() };
        for t in tensors.iter() {
            let place = t.get_item(2)?.extract()?;
            let (path, is_leaf) = (t.get_item(1)?.extract()?, t.get_item(3)?.extract()?);
            guard.add_tensor(py, &t.get_item(0)?, path, place, is_leaf, t.get_item(4)?.extract()?)?;
        }
        sites_of(&mut guard, sites)?;
        guard.classes = Classes::new(objects, classes)?;
        guard.hooks = hooks::count(py)?;
        let mut made_effects = Vec::new();
        for e in effects.iter() {
            let container = e.get_item(0)?;
            let owner = guard.index_of_owner(py, container.as_ptr());
            made_effects.push(Effect {
                of: owner.or_else(|| guard.index_of(container.as_ptr())),
                attributes: owner.is_some(),
                container: container.unbind(),
                attr: e.get_item(1)?.extract()?,
                key: e.get_item(2)?.unbind(),
                made: Made::parse(&e.get_item(3)?)?,
                replaces: e.get_item(4)?.extract()?,
                renewed: false,
            });
        }
        let conditions = program.get().conditions.clone();
        let program = program.get().inner.clone();
        let types: Vec<TensorType> = program.new_types().cloned().collect();
        for e in &mut made_effects {
            let same = |i: &usize| e.made.result().is_some_and(|k| guard.tensors[*i].fills_its_storage_with(&types[k]));
            e.replaces = e.replaces.filter(same);
            let place = e.replaces.and_then(|i| guard.tensors[i].place);
            e.renewed = place.is_some_and(|place| program.renews(place));
        }
        Ok(Self {
            types,
            places: guard.tensors.iter().map(|t| t.place).collect(),
            guard: Mutex::new(guard),
            looks: AtomicUsize::new(0),
            conditions,
            number_names,
            program,
            results: results.iter().map(|r| Made::parse(&r)).collect::<PyResult<_>>()?,
            effects: made_effects,
            written,
            news,
            differentiable,
            keep,
        })
    }

    /// Runs the program if everything is as it was traced. Returns the result tensors, the residuals and the tensors that
    /// the call found, or the reason why it does not fit.
    fn call<'py>(
        &self,
        py: Python<'py>,
        args: Vec<Bound<'py, PyAny>>,
        floats: Vec<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let pointers: Vec<*mut PyObject> = args.iter().map(|a| a.as_ptr()).collect();
        // SAFETY: the arguments are held by `args`.
        match unsafe { self.run(py, &pointers, &floats)? } {
            Ok(ran) => Ok(ran.into_pyobject(py)?.into_any()),
            Err(reason) => Ok(reason.into_pyobject(py)?.into_any()),
        }
    }

    /// The run that follows the trace: cells are those of the trace, and the new ones get their values.
    fn first<'py>(
        &self,
        py: Python<'py>,
        cells: Vec<u32>,
        numbers: Vec<f64>,
        new: Vec<u32>,
    ) -> PyResult<Option<Bound<'py, Residuals>>> {
        // What the trace replaced may be known to anybody.
        let shared: Vec<u32> = self.effects.iter().filter_map(|e| self.places[e.replaces?]).collect();
        let call = Call { cells: &cells, numbers: &numbers, given: &[], shared: &shared };
        let values = self.program.run(&call, &host(py)).map_err(to_py)?;
        for (slot, value) in new.iter().zip(&values) {
            // A cell whose tensor died needs no value.
            let _ = slots::set(*slot, Held::Device(value.clone()));
        }
        let residuals = (values.len() > new.len()).then(|| values[new.len()..].to_vec());
        residuals.map(|values| Bound::new(py, Residuals { values })).transpose()
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
        let guard = self.guard.get_mut();
        guard.sites.clear();
        guard.no_hooks.clear();
        guard.belongings.clear();
        guard.classes = Classes::default();
        self.effects.clear();
        self.keep.clear();
        self.results.clear();
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
    let call = Call { cells: &[], numbers: &[], given: &given, shared: &[] };
    let values = program.run(&call, &host(py)).map_err(to_py)?;
    let out = PyList::empty(py);
    for (value, ty) in values.into_iter().zip(program.new_types()) {
        let storage = Storage { held: Held::Device(value), dtype: ty.dtype, dims: ty.dims.clone() };
        let slot = slots::alloc(storage).map_err(to_py)?;
        let strides = bridge::aten::args::contiguous_strides(&ty.dims);
        out.append(dlpack::wrap(py, slot, ty.dtype, &ty.dims, &strides)?)?;
    }
    Ok(out)
}
