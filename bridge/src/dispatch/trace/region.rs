//! Branches and loops: code of the user's that is traced into a region of the program.

use super::{Branch, CURRENT, Trace};
use crate::dispatch::slots;
use crate::{Error, Result};
use primitives::{Graph, Value};

/// Makes `graph` the one that this thread's trace appends to while `f` runs, then swaps back. Cells that `f` writes to
/// are put back as they were; the ones that outlive the region are returned.
pub fn inside<R>(graph: &mut Graph, f: impl FnOnce() -> Result<R>) -> Result<(R, Vec<u32>)> {
    let mut rng = None;
    swap(graph, |t| {
        t.branches.push(Branch::default());
        rng = t.inputs.rng_state();
    })?;
    let result = f();
    let mut written = Vec::new();
    swap(graph, |t| {
        if t.inputs.restore_rng(rng) {
            // Stands for the random state, which has no cell here.
            written.push(0);
        }
        for (slot, held) in t.branches.pop().unwrap_or_default().held {
            written.push(slot);
            let _ = slots::set(slot, held);
        }
    })?;
    result.map(|r| (r, written))
}

fn swap(graph: &mut Graph, f: impl FnOnce(&mut Trace)) -> Result<()> {
    super::with(|t| {
        std::mem::swap(&mut t.graph, graph);
        f(t);
        Ok(())
    })
}

/// Appends an operation with regions to this thread's trace: `build` gets the graph, and may call [`inside`].
pub fn append(build: impl FnOnce(&mut Graph) -> Result<Vec<Value>>) -> Result<Vec<Value>> {
    let mut graph = Graph::new("taken");
    super::with(|t| {
        std::mem::swap(&mut t.graph, &mut graph);
        Ok(())
    })?;
    let result = build(&mut graph);
    let back = super::with(|t| {
        std::mem::swap(&mut t.graph, &mut graph);
        Ok(())
    });
    match CURRENT.with(|c| c.borrow().is_some()) {
        true => back.and(result),
        false => Err(Error::internal("the trace ended inside a branch".into())),
    }
}
