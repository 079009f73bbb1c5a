//! Branches and loops: code of the user's that is traced into a region of the program.

use super::{Branch, CURRENT, Trace, TracedCheck};
use crate::aten::cx::{NO_OFFENCE, Source};
use crate::dispatch::slots;
use crate::{Error, Result};
use primitives::{DType, Direction, Graph, Value};

/// Checks that are made inside regions. A region hands over two numbers for all of its checks: what the first offence
/// was, and which check found it.
#[derive(Default)]
pub struct Checked {
    all: Vec<TracedCheck>,
}

impl Checked {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The two numbers for no offence.
    pub fn none(g: &mut Graph) -> primitives::Result<[Value; 2]> {
        Ok([g.scalar(DType::I64, NO_OFFENCE)?, g.scalar(DType::I64, -1)?])
    }

    /// The two numbers for these checks of a region.
    pub fn summary(&mut self, g: &mut Graph, checks: Vec<(Value, TracedCheck)>) -> primitives::Result<[Value; 2]> {
        let [none, mut which] = Self::none(g)?;
        let mut value = none;
        let first = self.all.len();
        for (k, (v, check)) in checks.into_iter().enumerate().rev() {
            let bad = g.compare(v, none, Direction::Ne)?;
            let number = g.scalar(DType::I64, (first + k) as i64)?;
            value = g.select(bad, v, value)?;
            which = g.select(bad, number, which)?;
            self.all.push(check);
        }
        self.all[first..].reverse();
        Ok([value, which])
    }

    /// Of two summaries the first, unless it has no offence.
    pub fn earlier(g: &mut Graph, a: [Value; 2], b: [Value; 2]) -> primitives::Result<[Value; 2]> {
        let none = g.scalar(DType::I64, NO_OFFENCE)?;
        let fine = g.compare(a[0], none, Direction::Eq)?;
        Ok([g.select(fine, b[0], a[0])?, g.select(fine, b[1], a[1])?])
    }

    /// Whether a summary has no offence.
    pub fn fine(g: &mut Graph, summary: [Value; 2]) -> primitives::Result<Value> {
        let none = g.scalar(DType::I64, NO_OFFENCE)?;
        g.compare(summary[0], none, Direction::Eq)
    }

    /// Makes the checks outside of the regions, of what these handed over.
    pub fn report(self, summary: [Value; 2]) -> Result<()> {
        super::with(|t| {
            for (k, check) in self.all.into_iter().enumerate() {
                let none = t.graph.scalar(DType::I64, NO_OFFENCE)?;
                let number = t.graph.scalar(DType::I64, k as i64)?;
                let this = t.graph.compare(summary[1], number, Direction::Eq)?;
                let v = t.graph.select(this, summary[0], none)?;
                t.check(v, check);
            }
            Ok(())
        })
    }
}

/// Cells whose values a region is given and hands back, so that code inside may write to them; cell 0 stands for the
/// random state.
#[derive(Default)]
pub struct Cells(pub Vec<u32>);

impl Cells {
    /// What they hold at this point of the trace.
    pub fn read(&self) -> Result<Vec<Value>> {
        super::with(|t| {
            let mut values = Vec::with_capacity(self.0.len());
            for &slot in &self.0 {
                values.push(if slot == 0 { t.inputs.rng(&mut t.graph, None)? } else { t.read(slot)? });
            }
            Ok(values)
        })
    }

    /// Puts values into them.
    pub fn write(&self, values: &[Value]) -> Result<()> {
        super::with(|t| {
            for (&slot, &v) in self.0.iter().zip(values) {
                if slot == 0 { t.inputs.set_rng(v) } else { t.write(slot, v)? }
            }
            Ok(())
        })
    }

    /// Whether nothing else is among what a region wrote to.
    pub fn cover(&self, written: &[u32]) -> bool {
        written.iter().all(|slot| self.0.contains(slot))
    }
}

/// What a region leaves besides its result: cells from outside that it wrote, and its checks.
#[derive(Default)]
pub struct Left {
    pub written: Vec<u32>,
    pub checks: Vec<(Value, TracedCheck)>,
}

/// Makes `graph` the one that this thread's trace appends to while `f` runs, then swaps back. Cells that `f` writes to
/// are put back as they were.
pub fn inside<R>(graph: &mut Graph, f: impl FnOnce() -> Result<R>) -> Result<(R, Left)> {
    let mut rng = None;
    swap(graph, |t| {
        t.branches.push(Branch::default());
        rng = t.inputs.rng_state();
    })?;
    let result = f();
    let mut left = Left::default();
    swap(graph, |t| {
        if t.inputs.restore_rng(rng) {
            // Stands for the random state, which has no cell here.
            left.written.push(0);
        }
        let branch = t.branches.pop().unwrap_or_default();
        left.checks = branch.checks;
        for (slot, held) in branch.held {
            left.written.push(slot);
            let _ = slots::set(slot, held);
        }
    })?;
    result.map(|r| (r, left))
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
