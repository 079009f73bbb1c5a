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

impl Wanted<'_> {
    fn place(&self, slot: u32) -> Option<u32> {
        self.places.get(&slot).copied()
    }
}

/// Values that a program gives, and what becomes of each.
#[derive(Default)]
struct Results {
    values: Vec<Value>,
    outputs: Vec<Out>,
}

impl Results {
    fn push(&mut self, value: Value, output: Out) {
        self.values.push(value);
        self.outputs.push(output);
    }
}

/// Where a trace is cut in two: what each part gives, of which the first `news` are the caller's.
struct Cut {
    mark: usize,
    news: usize,
    front: Results,
    behind: Results,
}

/// Where the parameters come from.
struct Origins(AHashMap<Value, Capture>);

impl Origins {
    fn input(&self, v: &Value, wanted: &Wanted<'_>) -> Result<In> {
        Ok(match self.0.get(v).ok_or_else(|| Error::internal("a parameter without an origin".into()))? {
            Capture::Slot(slot) => wanted.place(*slot).map_or(In::Slot(*slot), In::Cell),
            Capture::Host(bytes) => In::Host(bytes.clone()),
            Capture::Rng => In::Rng,
            Capture::Number(n) => In::Number(*n),
            Capture::Given(k) => In::Given(*k),
        })
    }
}

fn donations(wanted: &Wanted<'_>, renewed: &[Renewed]) -> Donations {
    let mut given: Vec<Given> = wanted
        .donated
        .iter()
        .filter_map(|(slot, message)| Some(Given { place: wanted.place(*slot)?, message: message.clone() }))
        .collect();
    given.sort_unstable_by_key(|g| g.place);
    Donations { given, renewed: renewed.iter().filter_map(|r| Some((wanted.place(r.slot)?, r.k))).collect() }
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
        let checks_behind = if wanted.gradients.is_some() { self.take_checks_behind() } else { Vec::new() };
        let renewed = self.renewable(wanted)?;
        let mut front = self.new_results(wanted, &renewed)?;
        let behind = self.gradients(wanted, checks_behind)?;
        let news = front.values.len();
        self.add_state(&mut front, wanted)?;
        let origins = self.origins(wanted);
        let donations = donations(wanted, &renewed);
        match wanted.gradients {
            None => {
                let params = self.alive(&front.values, &renewed, |_| true);
                let forward = self.program(wanted, &params, &origins, front, Vec::new(), donations)?;
                Ok(Finished { forward, backward: None })
            }
            Some((mark, _)) => {
                let cut = Cut { mark, news, front, behind };
                self.in_two(cut, wanted, &renewed, &origins, donations)
            }
        }
    }

    /// What is handed to the caller.
    fn new_results(&mut self, wanted: &Wanted<'_>, renewed: &[Renewed]) -> Result<Results> {
        let mut made = Results::default();
        for (k, &slot) in wanted.new.iter().enumerate() {
            let v = match self.final_value(slot) {
                Some(v) => v,
                None => self.read(slot)?,
            };
            let v = match renewed.iter().find(|r| r.k == k) {
                Some(r) => self.good_or(v, r.old)?,
                None => v,
            };
            made.push(v, Out::New);
        }
        Ok(made)
    }

    /// What the backward part gives: gradients, and the checks that only it can make.
    fn gradients(&mut self, wanted: &Wanted<'_>, checks: Vec<(Value, TracedCheck)>) -> Result<Results> {
        let mut made = Results::default();
        for &slot in wanted.gradients.map_or(&[][..], |(_, cells)| cells) {
            made.push(self.read(slot)?, Out::New);
        }
        for (v, check) in checks {
            made.push(v, Out::Check(check));
        }
        Ok(made)
    }

    /// Adds what the program leaves behind: cells that it writes, the random state, checks.
    fn add_state(&mut self, front: &mut Results, wanted: &Wanted<'_>) -> Result<()> {
        let mut written: Vec<u32> = self.saved.keys().copied().filter(|s| !wanted.donated.contains_key(s)).collect();
        // Cell numbers depend on what ran before in the process; the text must not.
        written.sort_unstable_by_key(|&slot| (wanted.place(slot).unwrap_or(u32::MAX), slot));
        for slot in written {
            let Some(v) = self.final_value(slot) else { continue };
            front.push(self.unless_bad(slot, v)?, wanted.place(slot).map_or(Out::Slot(slot), Out::Cell));
        }
        if let Some(v) = self.inputs.rng_out() {
            front.push(v, Out::Rng);
        }
        for (v, check) in &self.checks {
            front.push(*v, Out::Check(check.clone()));
        }
        Ok(())
    }

    /// Where each parameter comes from. They get the names that a reader knows them by.
    fn origins(&mut self, wanted: &Wanted<'_>) -> Origins {
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
        Origins(captures)
    }

    /// Parameters that `values` need and that are `kept`. An old value that is not read is one for its memory's sake.
    fn alive(&self, values: &[Value], renewed: &[Renewed], kept: impl Fn(&Value) -> bool) -> Vec<Value> {
        let used = self.graph.params_of(values);
        let all = self.graph.params().iter().copied();
        all.filter(|v| kept(v) && (used.contains(v) || renewed.iter().any(|r| r.old == *v))).collect()
    }

    /// The program of the front part over these parameters.
    fn program(
        &self,
        wanted: &Wanted<'_>,
        params: &[Value],
        origins: &Origins,
        front: Results,
        handed: Vec<usize>,
        donations: Donations,
    ) -> Result<JitProgram> {
        let graph = self.graph.extract(wanted.name, params, &front.values)?;
        let inputs = params.iter().map(|v| origins.input(v, wanted)).collect::<Result<Vec<_>>>()?;
        JitProgram::new(graph, inputs, front.outputs, handed, donations, wanted.options.clone())
    }

    /// Forward and backward part as two programs; the second gets what it needs of the first, and then the gradients
    /// from outside.
    fn in_two(
        &self,
        cut: Cut,
        wanted: &Wanted<'_>,
        renewed: &[Renewed],
        origins: &Origins,
        donations: Donations,
    ) -> Result<Finished> {
        let Cut { mark, news, mut front, behind } = cut;
        let outside = |v: &Value| matches!(origins.0.get(v), Some(Capture::Given(_)));
        let crossing = self.graph.crossing(mark, &behind.values).into_iter().filter(|v| !outside(v));
        let (from_params, computed): (Vec<Value>, Vec<Value>) = crossing.partition(|v| origins.0.contains_key(v));
        front.values.splice(news..news, computed.iter().copied());
        front.outputs.splice(news..news, computed.iter().map(|_| Out::New));
        let needed: Vec<Value> = front.values.iter().chain(&from_params).copied().collect();
        let params = self.alive(&needed, renewed, |v| !outside(v));
        let handed = from_params.iter().filter_map(|v| params.iter().position(|p| p == v)).collect();
        let forward = self.program(wanted, &params, origins, front, handed, donations)?;
        let given = self.graph.params().iter().copied().filter(outside);
        let back: Vec<Value> = computed.iter().chain(&from_params).copied().chain(given).collect();
        let graph = self.graph.extract(&format!("{}_backward", wanted.name), &back, &behind.values)?;
        let inputs = (0..back.len() as u32).map(In::Given).collect();
        let options = wanted.options.clone();
        let backward = JitProgram::new(graph, inputs, behind.outputs, Vec::new(), Donations::default(), options)?;
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
