//! Traces: calls of one thread, lowered onto one graph instead of being run.
//!
//! While a trace runs, a cell that is written holds [`Held::Traced`]: a value of the trace's graph. A cell that is only
//! read keeps what it holds and becomes a parameter. So autograd, views, in-place ops and optimizers need to know
//! nothing of tracing, and putting the cells back as they were undoes everything.

mod condition;
mod donate;
mod finish;
mod inputs;
mod leaks;
mod numbers;
mod program;
pub mod region;

pub use condition::{Condition, Relation};
pub use donate::{Donations, Given};
pub use finish::{Finished, Wanted};
pub use inputs::Capture;
pub use leaks::leaked;
pub use numbers::{Expression, NumberOp};
pub use program::{Call, In, JitProgram, Out};

use super::cache::Entry;
use super::eager::Outcome;
use super::program::{Output, ResultSlot};
use super::slots::{self, Held, Storage};
use crate::aten::cx::{Check, Env};
use crate::aten::lower::lower;
use crate::aten::{Arg, Kernel};
use crate::{Error, Result};
use ahash::{AHashMap, AHashSet};
use inputs::Inputs;
use primitives::{DType, Graph, Number, TensorType, Value};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

thread_local! {
    static CURRENT: RefCell<Option<Box<Trace>>> = const { RefCell::new(None) };
}
/// Traces that run in this process: where it is 0 no thread needs to look at its own.
static RUNNING: AtomicU32 = AtomicU32::new(0);
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A check of the device, and the op and place that asked for it.
#[derive(Clone, Debug)]
pub struct TracedCheck {
    pub op: String,
    pub location: Arc<str>,
    pub check: Check,
}

/// A trace under way.
pub struct Trace {
    pub id: u64,
    pub graph: Graph,
    pub inputs: Inputs,
    /// What cells that the trace wrote to held before.
    pub saved: AHashMap<u32, Storage>,
    pub checks: Vec<(Value, TracedCheck)>,
    /// By cell, the last write that changes nothing where a check finds an offence.
    harmless: AHashMap<u32, Harmless>,
    location: Arc<str>,
    branches: Vec<Branch>,
    /// What cells held when they were first written after [`watch`](Self::watch).
    watched: Option<AHashMap<u32, Held>>,
}

/// A write that leaves `old` in place of `new` where a check of one of these subjects finds an offence.
struct Harmless {
    old: Value,
    new: Value,
    subjects: Vec<Value>,
}

/// A branch or loop body under way.
#[derive(Default)]
struct Branch {
    /// What cells from outside held when they were first written inside.
    held: AHashMap<u32, Held>,
    /// Cells made inside.
    made: AHashSet<u32>,
    checks: Vec<(Value, TracedCheck)>,
}

/// Whether this thread is tracing.
#[inline]
pub fn active() -> bool {
    RUNNING.load(Ordering::Relaxed) != 0 && CURRENT.with(|c| c.borrow().is_some())
}

/// Starts a trace on this thread.
///
/// # Errors
/// When one runs already.
pub fn begin(name: &str) -> Result<u64> {
    if active() {
        return Err(Error::internal("a trace was started inside another".into()));
    }
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let trace = Trace {
        id,
        graph: Graph::new(name),
        inputs: Inputs::new(id),
        saved: AHashMap::new(),
        checks: Vec::new(),
        harmless: AHashMap::new(),
        location: "".into(),
        branches: Vec::new(),
        watched: None,
    };
    CURRENT.with(|c| *c.borrow_mut() = Some(Box::new(trace)));
    RUNNING.fetch_add(1, Ordering::Relaxed);
    Ok(id)
}

/// Ends this thread's trace and hands it over.
pub fn end() -> Option<Box<Trace>> {
    let trace = CURRENT.with(|c| c.borrow_mut().take());
    if trace.is_some() {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
    trace
}

/// Does something with this thread's trace.
///
/// # Errors
/// When none runs, and those of `f`.
pub fn with<R>(f: impl FnOnce(&mut Trace) -> Result<R>) -> Result<R> {
    CURRENT.with(|c| match c.borrow_mut().as_mut() {
        Some(t) => f(t),
        None => Err(Error::internal("no trace is running on this thread".into())),
    })
}

/// Takes note of a new cell.
#[inline]
pub fn note_alloc(slot: u32) {
    if RUNNING.load(Ordering::Relaxed) != 0 {
        CURRENT.with(|c| {
            if let Ok(mut c) = c.try_borrow_mut()
                && let Some(t) = c.as_mut()
            {
                t.note_born(slot);
            }
        });
    }
}

/// Takes note of a cell that was emptied.
#[inline]
pub fn note_free(slot: u32) {
    if RUNNING.load(Ordering::Relaxed) != 0 {
        CURRENT.with(|c| {
            if let Ok(mut c) = c.try_borrow_mut()
                && let Some(t) = c.as_mut()
            {
                t.inputs.forget(slot);
                t.inputs.born.remove(&slot);
                t.saved.remove(&slot);
                t.harmless.remove(&slot);
                for b in &mut t.branches {
                    b.held.remove(&slot);
                }
            }
        });
    }
}

/// Keeps what a cell holds, before somebody writes to it past [`run`].
pub fn will_write(slot: u32) -> Result<()> {
    if active() { with(|t| t.save(slot)) } else { Ok(()) }
}

/// Lowers a call onto this thread's trace.
pub fn run(kernel: &Kernel, args: &[Arg<'_>], env: Env) -> Result<Outcome> {
    let (outputs, results, values) = with(|t| t.call(kernel, args, env))?;
    let mut cells = smallvec::SmallVec::new();
    for (output, value) in outputs.iter().zip(values) {
        cells.push(match output {
            Output::New(new) => {
                let (trace, value) = value;
                let held = Held::Traced { trace, value };
                slots::alloc(Storage { held, dtype: new.dtype, dims: new.natural.clone() })?
            }
            _ => 0,
        });
    }
    Ok(Outcome { entry: Arc::new(Entry::description(&kernel.schema.name, outputs, results)), slots: cells })
}

type Described = (Vec<Output>, Vec<ResultSlot>, Vec<(u64, Value)>);

impl Trace {
    /// Where in the user's code the next calls come from.
    pub fn set_location(&mut self, location: &Arc<str>) {
        if !Arc::ptr_eq(location, &self.location) {
            self.graph.set_location(location);
            self.location = location.clone();
        }
    }

    fn note_born(&mut self, slot: u32) {
        self.inputs.forget(slot);
        self.inputs.born.insert(slot, self.location.clone());
        if let Some(branch) = self.branches.last_mut() {
            branch.made.insert(slot);
        }
    }

    /// Whether a branch or loop is being traced.
    pub fn in_branch(&self) -> bool {
        !self.branches.is_empty()
    }

    pub fn location(&self) -> &Arc<str> {
        &self.location
    }

    fn call(&mut self, kernel: &Kernel, args: &[Arg<'_>], env: Env) -> Result<Described> {
        let settled = self.inputs.numbers.settle(kernel, args)?;
        let args = settled.as_deref().unwrap_or(args);
        if !self.inputs.numbers.any_in(args) {
            kernel.guard(args)?;
        }
        let low = lower(kernel, args, &mut self.graph, &mut self.inputs, env)?;
        for (_, slot, v) in low.mutated {
            if low.harmless && self.branches.is_empty() {
                self.note_harmless(slot, v, low.checks.iter().map(|(v, _)| self.subject(*v)).collect())?;
            }
            self.write(slot, v)?;
        }
        for (v, mut check) in low.checks {
            let mut op = kernel.schema.name.clone();
            // A check on behalf of another op, which its message names.
            if op == "_check"
                && let Some((name, message)) = check.message.split_once(": ")
            {
                (op, check.message) = (name.to_owned(), message.to_owned());
            }
            self.check(v, TracedCheck { op, location: self.location.clone(), check });
        }
        if let Some((_, v)) = low.rng {
            self.inputs.set_rng(v);
        }
        let (mut outputs, mut results, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for out in low.outs {
            results.push(match out {
                None => ResultSlot::Undefined,
                Some((_, new)) if new.sizes.contains(&0) => ResultSlot::Empty(new),
                Some((v, new)) => {
                    values.push((self.id, v));
                    outputs.push(Output::New(new));
                    ResultSlot::Output(outputs.len() - 1)
                }
            });
        }
        Ok((outputs, results, values))
    }

    /// What a check reduces to a number: the same for two checks of one index.
    fn subject(&self, check: Value) -> Value {
        match self.graph.source(check) {
            Some(("stablehlo.reduce", operands)) => operands[0],
            _ => check,
        }
    }

    /// Takes note of a write that is about to be made. It adds to an earlier one with the same checks.
    fn note_harmless(&mut self, slot: u32, new: Value, subjects: Vec<Value>) -> Result<()> {
        let before = self.read(slot)?;
        let old = match self.harmless.get(&slot) {
            Some(h) if h.new == before && h.subjects == subjects => h.old,
            _ => before,
        };
        self.harmless.insert(slot, Harmless { old, new, subjects });
        Ok(())
    }

    /// Takes note of a check. A value of a branch cannot leave it by itself: see [`region::Checked`].
    pub fn check(&mut self, value: Value, check: TracedCheck) {
        match self.branches.last_mut() {
            Some(branch) => branch.checks.push((value, check)),
            None => self.checks.push((value, check)),
        }
    }

    /// Puts a value of the trace into a cell, keeping what was there before.
    pub fn write(&mut self, slot: u32, value: Value) -> Result<()> {
        self.save(slot)?;
        slots::set(slot, Held::Traced { trace: self.id, value }).map(drop)
    }

    fn save(&mut self, slot: u32) -> Result<()> {
        if slot == 0 {
            return Ok(());
        }
        if let Some(branch) = self.branches.last_mut()
            && !branch.made.contains(&slot)
            && !branch.held.contains_key(&slot)
        {
            branch.held.insert(slot, slots::with(slot, |s| s.held.clone())?);
        }
        if let Some(watched) = &mut self.watched
            && !watched.contains_key(&slot)
        {
            watched.insert(slot, slots::with(slot, |s| s.held.clone())?);
        }
        if self.inputs.born.contains_key(&slot) || self.saved.contains_key(&slot) {
            return Ok(());
        }
        self.saved.insert(slot, slots::with(slot, Storage::clone)?);
        Ok(())
    }

    /// From here on it is remembered what cells hold before they are written, for [`choose`](Self::choose).
    pub fn watch(&mut self) {
        self.watched = Some(AHashMap::new());
    }

    /// Takes what was written since [`watch`](Self::watch) back where `undo`, a 0-d bool, holds.
    pub fn choose(&mut self, undo: Value) -> Result<()> {
        let mut written: Vec<(u32, Held)> = self.watched.take().unwrap_or_default().into_iter().collect();
        written.sort_unstable_by_key(|(slot, _)| *slot);
        for (slot, before) in written {
            // A cell whose tensor died meanwhile concerns nobody.
            let Ok(ty) = slots::with(slot, |s| s.ty()) else { continue };
            let old = match before {
                Held::Traced { value, .. } => value,
                Held::Uninit if self.inputs.born.contains_key(&slot) => continue,
                _ => self.inputs.of_slot(&mut self.graph, slot, ty),
            };
            let new = self.read(slot)?;
            let v = self.graph.select(undo, old, new)?;
            self.write(slot, v)?;
        }
        Ok(())
    }

    /// The value of a cell, which becomes a parameter if it is not of this trace.
    pub fn read(&mut self, slot: u32) -> Result<Value> {
        use crate::aten::ArgPos;
        use crate::aten::cx::Source;
        self.inputs.base(&mut self.graph, ArgPos::arg(0), slot)
    }

    /// A new cell with a value of the trace.
    pub fn cell(&mut self, value: Value) -> Result<u32> {
        let ty = self.graph.ty(value).clone();
        let held = Held::Traced { trace: self.id, value };
        let slot = slots::alloc_quietly(Storage { held, dtype: ty.dtype, dims: ty.dims })?;
        self.note_born(slot);
        Ok(slot)
    }

    /// A new cell over a parameter that the caller supplies at each run.
    pub fn parameter(&mut self, capture: Capture, ty: TensorType) -> Result<u32> {
        let v = self.inputs.add(&mut self.graph, capture, ty);
        self.cell(v)
    }

    /// A new cell with these bytes, which are part of the program.
    pub fn constant(&mut self, bytes: &[u8], ty: &TensorType) -> Result<u32> {
        if ty.dims.is_empty() && self.inputs.numbers.attached && is_nan(ty.dtype, bytes) {
            return Err(unattached());
        }
        // A number that was turned into a tensor stays the number that it was.
        if ty.dims.is_empty()
            && ty.dtype.is_float()
            && let Some(v) = self.inputs.numbers.lookup(&mut self.graph, Number::from_bytes(ty.dtype, bytes))?
        {
            let v = self.graph.convert(v, ty.dtype)?;
            return self.cell(v);
        }
        let v = if bytes.len() <= 1 << 12 {
            self.graph.constant(ty.dtype, &ty.dims, bytes)?
        } else {
            self.inputs.add(&mut self.graph, Capture::Host(bytes.into()), ty.clone())
        };
        self.cell(v)
    }

    /// Puts every cell that the trace wrote to back as it was.
    pub fn restore(&mut self) {
        for (slot, storage) in self.saved.drain() {
            // A cell whose tensor died meanwhile needs nothing back.
            let _ = slots::replace(slot, storage);
        }
    }
}

fn is_nan(dtype: DType, bytes: &[u8]) -> bool {
    dtype.is_float() && matches!(Number::from_bytes(dtype, bytes), Number::Float(f) if f.is_nan())
}

/// The error for a NaN that may stand for a number of the caller's. A trace that knows no such number is tried next.
pub fn unattached() -> Error {
    Error::runtime(
        "jit",
        "torch computed with a number of the caller's on the host, where it cannot be followed".into(),
    )
}

/// The dtype of numbers inside a trace.
pub const NUMBER: DType = DType::F64;
