//! A traced program, ready to run: where its parameters come from and where its results go.

use super::TracedCheck;
use super::donate::{self, Donations, Given};
use crate::aten::cx::Check;
use crate::dispatch::eager::Host;
use crate::dispatch::slots::{self, DeviceArray, Held};
use crate::dispatch::{cache, checks, disk, eager, metrics, queue, rng, scalars};
use crate::pjrt::{Buffer, CompileOptions, Executable};
use crate::{Error, Result};
use parking_lot::Mutex;
use primitives::{DType, Graph, Number, TensorType, Value};
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};

/// Where a parameter comes from at a call.
#[derive(Clone, Debug)]
pub enum In {
    /// The cell that the caller names for this place.
    Cell(u32),
    /// This very cell, kept alive by the program's owner.
    Slot(u32),
    Host(Arc<[u8]>),
    Rng,
    Number(u32),
    /// A value that the caller hands over.
    Given(u32),
}

/// Where a result goes.
#[derive(Clone, Debug)]
pub enum Out {
    Cell(u32),
    Slot(u32),
    /// Handed to the caller, in order.
    New,
    Rng,
    Check(TracedCheck),
}

/// What a call supplies.
pub struct Call<'a> {
    pub cells: &'a [u32],
    pub numbers: &'a [f64],
    pub given: &'a [Arc<DeviceArray>],
    /// Places whose tensors somebody else knows: their memory stays, although a result takes their place.
    pub shared: &'a [u32],
}

/// A program with everything a launch needs; compiled on its first run.
pub struct JitProgram {
    pub name: String,
    pub graph: Graph,
    inputs: Vec<In>,
    outputs: Vec<Out>,
    types: Vec<TensorType>,
    sizes: Vec<u64>,
    donated: Vec<usize>,
    /// Which result renews which place; see [`Donations`].
    renews: Vec<Option<u32>>,
    given_away: Vec<Given>,
    /// Parameters whose values are handed to the caller, after the results.
    handed: Vec<usize>,
    hosts: Mutex<Vec<Option<Arc<DeviceArray>>>>,
    exe: OnceLock<Executable>,
    compiling: Mutex<()>,
    options: CompileOptions,
}

impl JitProgram {
    /// Takes a graph whose parameters are `inputs` and whose results are `outputs`. Every cell that is read and written
    /// gives its memory to its new value, unless it is handed to the caller; so do the cells of `donations`.
    pub fn new(
        mut graph: Graph,
        inputs: Vec<In>,
        outputs: Vec<Out>,
        handed: Vec<usize>,
        donations: Donations,
        options: CompileOptions,
    ) -> Result<Self> {
        let plan = donate::plan(&mut graph, &inputs, &outputs, &handed, &donations)?;
        let types: Vec<TensorType> = graph.outputs().iter().map(|&v| graph.ty(v).clone()).collect();
        Ok(Self {
            name: graph.name().to_owned(),
            sizes: types.iter().map(|t| t.size_bytes() as u64).collect(),
            types,
            hosts: Mutex::new(vec![None; inputs.len()]),
            graph,
            inputs,
            outputs,
            donated: plan.donated,
            renews: plan.renews,
            given_away: donations.given,
            handed,
            exe: OnceLock::new(),
            compiling: Mutex::new(()),
            options,
        })
    }

    /// Types of the results that are handed to the caller.
    pub fn new_types(&self) -> impl Iterator<Item = &TensorType> {
        self.outputs.iter().zip(&self.types).filter(|(o, _)| matches!(o, Out::New)).map(|(_, t)| t)
    }

    /// Places of the cells that the program reads or writes.
    pub fn places(&self) -> Vec<u32> {
        let read = self.inputs.iter().filter_map(|i| if let In::Cell(k) = i { Some(*k) } else { None });
        read.chain(self.written()).collect()
    }

    /// Places of the cells that the program writes.
    pub fn written(&self) -> Vec<u32> {
        self.outputs.iter().filter_map(|o| if let Out::Cell(k) = o { Some(*k) } else { None }).collect()
    }

    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// The compiled program.
    pub fn executable(&self, host: &dyn Host) -> Result<&Executable> {
        if let Some(e) = self.exe.get() {
            return Ok(e);
        }
        let mut made = Ok(());
        host.unlocked(&mut || {
            let _one = self.compiling.lock();
            if self.exe.get().is_none() {
                made = disk::executable_with(&self.graph.to_text(), &self.options).map(|e| {
                    let _ = self.exe.set(e);
                });
            }
        });
        made?;
        self.exe.get().ok_or_else(|| Error::internal("the host did not run the compilation".into()))
    }

    /// Mean time of `calls` bare launches on zeros, each with the state that the one before left: the plugin's own
    /// share of a call, which the benchmark takes off.
    pub fn time_launch(&self, calls: u32, host: &dyn Host) -> Result<std::time::Duration> {
        let exe = self.executable(host)?;
        let zeros = |&v: &Value| eager::upload(&vec![0; self.graph.ty(v).size_bytes()], self.graph.ty(v));
        let mut arrays = self.graph.params().iter().map(zeros).collect::<Result<Vec<_>>>()?;
        let goes_to = |i: usize| self.outputs.iter().position(|o| donate::is_next(&self.inputs[i], o));
        let next: Vec<_> = self.donated.iter().map(|&i| (i, goes_to(i))).collect();
        if next.iter().any(|(_, o)| o.is_none()) {
            return Err(Error::internal("a program that spends what it does not renew cannot run again".into()));
        }
        let began = std::time::Instant::now();
        for _ in 0..calls {
            let buffers = arrays.iter().map(|a| a.buffer()).collect::<Result<Vec<_>>>()?;
            let mut outs: Vec<_> = exe.run(buffers.into_iter(), &[])?.into_iter().map(Some).collect();
            for &(i, o) in &next {
                if let Some(new) = o.and_then(|o| outs[o].take()) {
                    arrays[i] = DeviceArray::single(new, 0);
                }
            }
        }
        arrays.iter().try_for_each(|a| a.buffer()?.await_ready())?;
        Ok(began.elapsed() / calls.max(1))
    }

    pub fn is_compiled(&self) -> bool {
        self.exe.get().is_some()
    }

    fn host_array(&self, i: usize, bytes: &[u8]) -> Result<Arc<DeviceArray>> {
        if let Some(a) = &self.hosts.lock()[i] {
            return Ok(a.clone());
        }
        let ty = self.graph.ty(self.graph.params()[i]);
        let made = eager::upload(bytes, ty)?;
        self.hosts.lock()[i] = Some(made.clone());
        Ok(made)
    }

    fn is_shared(&self, input: usize, call: &Call<'_>) -> bool {
        !call.shared.is_empty() && matches!(self.inputs[input], In::Cell(k) if call.shared.contains(&k))
    }

    /// Whether a result of this program takes over the memory of the tensor at `place`.
    pub fn renews(&self, place: u32) -> bool {
        self.renews.contains(&Some(place))
    }

    /// Runs the program: writes cells, and returns the values that are new.
    ///
    /// # Errors
    /// Of compiler and device, and of the checks that the program makes; no cell has changed then.
    pub fn run(&self, call: &Call<'_>, host: &dyn Host) -> Result<SmallVec<[Arc<DeviceArray>; 4]>> {
        let exe = self.executable(host)?;
        // Launches that wait in the queue hold what they read, which would then not be donated. Other threads run
        // meanwhile, so cells and the random state are read afterwards.
        queue::wait(host)?;
        let mut arrays: SmallVec<[Arc<DeviceArray>; 32]> = SmallVec::with_capacity(self.inputs.len());
        for (i, input) in self.inputs.iter().enumerate() {
            arrays.push(match input {
                In::Cell(k) => eager::array(call.cells[*k as usize])?,
                In::Slot(slot) => eager::array(*slot)?,
                In::Host(bytes) => self.host_array(i, bytes)?,
                In::Rng => rng::state()?,
                In::Number(n) => scalars::buffer(Number::Float(call.numbers[*n as usize]), DType::F64)?,
                In::Given(k) => call.given[*k as usize].clone(),
            });
        }
        let kept: SmallVec<[i64; 8]> = self
            .donated
            .iter()
            .filter(|&&i| Arc::strong_count(&arrays[i]) > 2 || self.is_shared(i, call))
            .map(|&i| i as i64)
            .collect();
        let buffers = arrays.iter().map(|a| a.buffer()).collect::<Result<SmallVec<[&Buffer; 32]>>>()?;
        let values = DeviceArray::pending_all(&self.sizes);
        // Before other threads may run: they must not read what is given away, nor draw from the random state.
        let fail = |e: &Error| values.iter().for_each(|value| value.fill(Err(e.clone())));
        let before = self.publish(call, &values).inspect_err(fail)?;
        let mut result = Ok(());
        host.unlocked(&mut || {
            let start = metrics::EXECUTE.begin();
            let outs = exe.run(buffers.iter().copied(), &kept);
            metrics::EXECUTE.end(start);
            match outs {
                Ok(outs) => values.iter().zip(outs).for_each(|(value, buffer)| value.fill(Ok(buffer))),
                Err(e) => {
                    fail(&e);
                    result = Err(e);
                }
            }
            queue::tell_waiters();
        });
        if let Err(e) = result {
            take_back(before, &values);
            return Err(e);
        }
        cache::count_execution();
        let handed: SmallVec<[Arc<DeviceArray>; 4]> = self.handed.iter().map(|&i| arrays[i].clone()).collect();
        let mut new = SmallVec::new();
        let mut failed = Ok(());
        for (out, value) in self.outputs.iter().zip(values) {
            match out {
                Out::Cell(_) | Out::Slot(_) | Out::Rng => {}
                Out::New => new.push(value),
                Out::Check(c) => {
                    let message = match &*c.location {
                        "" => c.check.message.clone(),
                        place => format!("{} (called at {place})", c.check.message),
                    };
                    let check = Check { kind: c.check.kind, message };
                    let r = checks::submit(value, &c.op, &check, eager::is_debug());
                    if failed.is_ok() {
                        failed = r;
                    }
                }
            }
        }
        new.extend(handed);
        failed.map(|()| new)
    }

    /// Puts the results, which are still to come, into the cells that the program writes. Returns what these held.
    fn publish(&self, call: &Call<'_>, values: &[Arc<DeviceArray>]) -> Result<SmallVec<[Replaced; 32]>> {
        let mut before = SmallVec::with_capacity(self.given_away.len() + values.len());
        for given in &self.given_away {
            let slot = call.cells[given.place as usize];
            before.push(Replaced { slot, by: None, old: slots::set(slot, Held::Donated(given.message.clone()))? });
        }
        for (o, (out, value)) in self.outputs.iter().zip(values).enumerate() {
            let slot = match out {
                Out::Cell(k) => call.cells[*k as usize],
                Out::Slot(slot) => *slot,
                Out::Rng => rng::slot()?,
                // Its old memory is gone, whatever a check says later.
                Out::New => match self.renews[o].filter(|place| !call.shared.contains(place)) {
                    Some(place) => call.cells[place as usize],
                    None => continue,
                },
                Out::Check(_) => continue,
            };
            before.push(Replaced { slot, by: Some(o), old: slots::set(slot, Held::Device(value.clone()))? });
        }
        Ok(before)
    }
}

/// What a cell held before a program put a result there, or gave its value away (`by` is none then).
struct Replaced {
    slot: u32,
    by: Option<usize>,
    old: Held,
}

/// Puts back what cells held, unless somebody has written to them since.
fn take_back(before: SmallVec<[Replaced; 32]>, values: &[Arc<DeviceArray>]) {
    for r in before.into_iter().rev() {
        let same = slots::with(r.slot, |s| match (&s.held, r.by) {
            (Held::Device(now), Some(o)) => Arc::ptr_eq(now, &values[o]),
            // A value given away cannot be written to; what replaces it is another value.
            (Held::Donated(_), None) => true,
            _ => false,
        });
        if same.unwrap_or(false) {
            // A cell whose tensor died meanwhile needs nothing back.
            let _ = slots::set(r.slot, r.old);
        }
    }
}
