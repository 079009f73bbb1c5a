//! The end of a trace: its graph with parameters and results becomes a program, or two where it is differentiated from
//! outside.

use super::{Capture, Donations, Given, In, JitProgram, Out, Trace, TracedCheck};
use crate::dispatch::checks;
use crate::dispatch::slots::{self, Held};
use crate::pjrt::CompileOptions;
use crate::{Error, Result};
use ahash::AHashMap;
use primitives::Value;
use std::sync::Arc;

/// A traced function: what it computes, and its gradient when somebody outside may ask for it.
pub struct Finished {
    pub forward: JitProgram,
    pub backward: Option<JitProgram>,
}

/// What to make of the trace.
pub struct Wanted<'a> {
    pub name: &'a str,
    /// Cells that existed before and that a caller names by their place: cell to place.
    pub places: &'a AHashMap<u32, u32>,
    /// How a reader calls the cells and the numbers.
    pub names: &'a AHashMap<u32, String>,
    pub number_names: &'a [String],
    /// New cells that are handed to the caller.
    pub new: &'a [u32],
    /// Where the forward part ends, and the cells of the gradients.
    pub gradients: Option<(usize, &'a [u32])>,
    /// Cells that the caller gives away, and what a later use of them is told.
    pub donated: &'a AHashMap<u32, Arc<str>>,
    /// Cells of tensors whose place the tensor takes that result `k` of `new` fills.
    pub renewed: &'a [(u32, usize)],
    pub options: CompileOptions,
}

/// A cell whose tensor result `k` replaces, and the parameter for its old value.
struct Renewed {
    slot: u32,
    k: usize,
    old: Value,
}

impl Trace {
    /// The value that a cell ends with; `None` when it is not of this trace.
    fn final_value(&self, slot: u32) -> Option<Value> {
        slots::with(slot, |s| match s.held {
            Held::Traced { trace, value } if trace == self.id => Some(value),
            _ => None,
        })
        .ok()
        .flatten()
    }

    /// Makes the program. The cells stay as the trace left them; see [`restore`](Self::restore).
    pub fn finish(&mut self, wanted: &Wanted<'_>) -> Result<Finished> {
        let place = |slot: u32| wanted.places.get(&slot).copied();
        let checks_behind = if wanted.gradients.is_some() { self.take_checks_behind() } else { Vec::new() };
        let mut values = Vec::new();
        let mut outputs = Vec::new();
        let renewed = self.renewable(wanted)?;
        for (k, &slot) in wanted.new.iter().enumerate() {
            let v = match self.final_value(slot) {
                Some(v) => v,
                None => self.read(slot)?,
            };
            let old = renewed.iter().find(|r| r.k == k).map(|r| r.old);
            values.push(match old {
                Some(old) => self.good_or(v, old)?,
                None => v,
            });
            outputs.push(Out::New);
        }
        let news = values.len();
        let mut gradients: Vec<Value> = match wanted.gradients {
            Some((_, cells)) => cells.iter().map(|&s| self.read(s)).collect::<Result<_>>()?,
            None => Vec::new(),
        };
        let mut outputs_behind: Vec<Out> = gradients.iter().map(|_| Out::New).collect();
        for (v, check) in checks_behind {
            gradients.push(v);
            outputs_behind.push(Out::Check(check));
        }
        let mut written: Vec<u32> = self.saved.keys().copied().filter(|s| !wanted.donated.contains_key(s)).collect();
        // Cell numbers depend on what ran before in the process; the text must not.
        written.sort_unstable_by_key(|&slot| (place(slot).unwrap_or(u32::MAX), slot));
        for slot in written {
            let Some(v) = self.final_value(slot) else { continue };
            values.push(self.unless_bad(slot, v)?);
            outputs.push(match place(slot) {
                Some(k) => Out::Cell(k),
                None => Out::Slot(slot),
            });
        }
        if let Some(v) = self.inputs.rng_out() {
            values.push(v);
            outputs.push(Out::Rng);
        }
        for (v, check) in &self.checks {
            values.push(*v);
            outputs.push(Out::Check(check.clone()));
        }
        let mut captures: AHashMap<Value, Capture> =
            self.inputs.captures.iter().map(|(c, v)| (*v, c.clone())).collect();
        captures.extend(self.inputs.numbers.take_parameters().into_iter().map(|(c, v)| (v, c)));
        for (v, capture) in &captures {
            let name = match capture {
                Capture::Slot(slot) => wanted.names.get(slot).map(String::as_str),
                Capture::Number(n) => wanted.number_names.get(*n as usize).map(String::as_str),
                Capture::Rng => Some("random state"),
                Capture::Host(_) | Capture::Given(_) => None,
            };
            if let Some(name) = name {
                self.graph.name_parameter(*v, name);
            }
        }
        let input = |v: Value| -> Result<In> {
            Ok(match captures.get(&v).ok_or_else(|| Error::internal("a parameter without an origin".into()))? {
                Capture::Slot(slot) => place(*slot).map_or(In::Slot(*slot), In::Cell),
                Capture::Host(bytes) => In::Host(bytes.clone()),
                Capture::Rng => In::Rng,
                Capture::Number(n) => In::Number(*n),
                Capture::Given(k) => In::Given(*k),
            })
        };
        let params = self.graph.params().to_vec();
        let mut given: Vec<Given> = wanted
            .donated
            .iter()
            .filter_map(|(slot, message)| Some(Given { place: place(*slot)?, message: message.clone() }))
            .collect();
        given.sort_unstable_by_key(|g| g.place);
        let donations =
            Donations { given, renewed: renewed.iter().filter_map(|r| Some((place(r.slot)?, r.k))).collect() };
        // An old value that is not read is a parameter for its memory's sake.
        let alive = |used: Vec<Value>| -> Vec<Value> {
            params.iter().copied().filter(|v| used.contains(v) || renewed.iter().any(|r| r.old == *v)).collect()
        };
        let Some((mark, _)) = wanted.gradients else {
            let params = alive(self.graph.params_of(&values));
            let graph = self.graph.extract(wanted.name, &params, &values)?;
            let inputs: Vec<In> = params.iter().map(|&v| input(v)).collect::<Result<_>>()?;
            let forward = JitProgram::new(graph, inputs, outputs, Vec::new(), donations, wanted.options.clone())?;
            return Ok(Finished { forward, backward: None });
        };
        let outside = |v: &Value| matches!(captures.get(v), Some(Capture::Given(_)));
        let crossing: Vec<Value> = self.graph.crossing(mark, &gradients).into_iter().filter(|v| !outside(v)).collect();
        let (from_params, computed): (Vec<Value>, Vec<Value>) =
            crossing.into_iter().partition(|v| captures.contains_key(v));
        values.splice(news..news, computed.iter().copied());
        outputs.splice(news..news, computed.iter().map(|_| Out::New));
        let used = alive(self.graph.params_of(&values));
        let front: Vec<Value> =
            params.iter().copied().filter(|v| !outside(v) && (used.contains(v) || from_params.contains(v))).collect();
        let handed = from_params.iter().filter_map(|v| front.iter().position(|p| p == v)).collect();
        let graph = self.graph.extract(wanted.name, &front, &values)?;
        let inputs = front.iter().map(|&v| input(v)).collect::<Result<Vec<_>>>()?;
        let forward = JitProgram::new(graph, inputs, outputs, handed, donations, wanted.options.clone())?;
        let back: Vec<Value> =
            computed.iter().chain(&from_params).copied().chain(params.iter().copied().filter(outside)).collect();
        let graph = self.graph.extract(&format!("{}_backward", wanted.name), &back, &gradients)?;
        let inputs = (0..back.len() as u32).map(In::Given).collect();
        let backward =
            JitProgram::new(graph, inputs, outputs_behind, Vec::new(), Donations::default(), wanted.options.clone())?;
        Ok(Finished { forward, backward: Some(backward) })
    }

    /// Takes out the checks that depend on gradients given from outside: only the backward part can make them.
    fn take_checks_behind(&mut self) -> Vec<(Value, TracedCheck)> {
        let given: Vec<Value> = self
            .inputs
            .captures
            .iter()
            .filter(|(capture, _)| matches!(capture, Capture::Given(_)))
            .map(|(_, v)| *v)
            .collect();
        let depends = |v: Value| self.graph.params_of(&[v]).iter().any(|p| given.contains(p));
        let (behind, ahead) = std::mem::take(&mut self.checks).into_iter().partition(|(v, _)| depends(*v));
        self.checks = ahead;
        behind
    }

    /// The new value of a cell, or its old one when a check of the program finds an offence: an error must leave the
    /// cell as it was, though its memory was given away.
    fn unless_bad(&mut self, slot: u32, new: Value) -> Result<Value> {
        if self.checks.is_empty() {
            return Ok(new);
        }
        let old = self.saved.get(&slot).map(|s| matches!(s.held, Held::Uninit));
        if old != Some(false) {
            return Ok(new);
        }
        let old = self.original(slot)?;
        let harmless = self.harmless.get(&slot).is_some_and(|h| {
            h.new == new && h.old == old && self.checks.iter().all(|(v, _)| h.subjects.contains(&self.subject(*v)))
        });
        if harmless { Ok(new) } else { self.good_or(new, old) }
    }

    /// `new` where every check of the program is content, else `old`.
    fn good_or(&mut self, new: Value, old: Value) -> Result<Value> {
        checks::good_or(&mut self.graph, self.checks.iter().map(|(v, _)| *v), new, old)
    }

    /// Which of the tensors that are replaced can give their memory to what replaces them: those of the same type that the
    /// program does not write as well.
    fn renewable(&mut self, wanted: &Wanted<'_>) -> Result<Vec<Renewed>> {
        let mut found: Vec<Renewed> = Vec::new();
        for &(slot, k) in wanted.renewed {
            let ty = slots::with(slot, |s| (s.ty(), matches!(s.held, Held::Device(_))))?;
            let new = slots::with(wanted.new[k], |s| s.ty())?;
            let once = found.iter().all(|r| r.slot != slot && r.k != k);
            let known = wanted.places.contains_key(&slot) && !wanted.donated.contains_key(&slot);
            if ty.1 && known && once && !self.saved.contains_key(&slot) && ty.0.same_shape_and_dtype(&new) {
                found.push(Renewed { slot, k, old: self.original(slot)? });
            }
        }
        Ok(found)
    }

    /// The parameter that stands for what a written cell held before.
    fn original(&mut self, slot: u32) -> Result<Value> {
        let ty = slots::with(slot, |s| s.ty())?;
        Ok(self.inputs.of_slot(&mut self.graph, slot, ty))
    }
}
