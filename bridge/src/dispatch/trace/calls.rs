//! Calls of a trace: lowered onto its graph, their writes put into cells, their checks kept.

use super::{Harmless, Trace, TracedCheck, with};
use crate::Result;
use crate::aten::cx::Env;
use crate::aten::lower::lower;
use crate::aten::{Arg, Kernel};
use crate::dispatch::cache::Entry;
use crate::dispatch::eager::Outcome;
use crate::dispatch::program::{Output, ResultSlot};
use crate::dispatch::slots::{self, Held, Storage};
use primitives::Value;
use std::sync::Arc;

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
    pub(super) fn subject(&self, check: Value) -> Value {
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

    /// Takes note of a check. A value of a branch cannot leave it by itself: see [`Checked`](super::region::Checked).
    pub fn check(&mut self, value: Value, check: TracedCheck) {
        match self.branches.last_mut() {
            Some(branch) => branch.checks.push((value, check)),
            None => self.checks.push((value, check)),
        }
    }
}
