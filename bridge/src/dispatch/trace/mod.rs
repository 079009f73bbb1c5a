//! Traces: calls of one thread, lowered onto one graph instead of being run.
//!
//! While a trace runs, a cell that is written holds [`Held::Traced`]: a value of the trace's graph. A cell that is only
//! read keeps what it holds and becomes a parameter. So autograd, views, in-place ops and optimizers need to know
//! nothing of tracing, and putting the cells back as they were undoes everything.

mod calls;
mod cells;
mod condition;
mod donate;
mod finish;
mod inputs;
mod leaks;
mod numbers;
mod program;
pub mod region;

pub use calls::run;
pub use condition::{Condition, Relation};
pub use donate::{Donations, Given};
pub use finish::{Finished, Wanted};
pub use inputs::Capture;
pub use leaks::leaked;
pub use numbers::{Expression, NumberOp, unattached};
pub use program::{Call, In, JitProgram, Out};

use super::slots::{Held, Storage};
use crate::aten::cx::Check;
use crate::{Error, Result};
use ahash::{AHashMap, AHashSet};
use inputs::Inputs;
use primitives::{Graph, Value};
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

impl Trace {
    /// Where in the user's code the next calls come from.
    pub fn set_location(&mut self, location: &Arc<str>) {
        if !Arc::ptr_eq(location, &self.location) {
            self.graph.set_location(location);
            self.location = location.clone();
        }
    }

    /// Whether a branch or loop is being traced.
    pub fn in_branch(&self) -> bool {
        !self.branches.is_empty()
    }

    /// Where in the user's code the calls come from now.
    pub fn location(&self) -> &Arc<str> {
        &self.location
    }
}
