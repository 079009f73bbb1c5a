//! What a trace reads: each thing becomes one parameter of the program.

use super::numbers::Numbers;
use crate::aten::ArgPos;
use crate::aten::cx::Source;
use crate::dispatch::slots::{self, Held};
use crate::{Error, Result};
use ahash::AHashMap;
use primitives::{DType, Graph, Number, TensorType, Value};
use std::sync::Arc;

/// Where a parameter of the program comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Capture {
    /// The cell of a tensor that existed before the trace.
    Slot(u32),
    /// Bytes of a host tensor that was uploaded inside.
    Host(Arc<[u8]>),
    /// The process's random state.
    Rng,
    /// A number that may change from call to call.
    Number(u32),
    /// A value that the caller hands over: a gradient from outside.
    Given(u32),
}

/// Parameters so far, and how to find the one of a cell.
pub struct Inputs {
    id: u64,
    pub captures: Vec<(Capture, Value)>,
    by_slot: AHashMap<u32, Value>,
    rng: Option<(Value, Value)>,
    rng_kept: Vec<Value>,
    pub numbers: Numbers,
    /// Cells that became parameters since the last [`take_new`](Self::take_new).
    new: Vec<u32>,
    /// Cells made inside, with the place in the user's code.
    pub born: AHashMap<u32, Arc<str>>,
}

impl Inputs {
    pub fn new(id: u64) -> Self {
        Self {
            id,
            captures: Vec::new(),
            by_slot: AHashMap::new(),
            rng: None,
            rng_kept: Vec::new(),
            numbers: Numbers::default(),
            new: Vec::new(),
            born: AHashMap::new(),
        }
    }

    pub fn add(&mut self, g: &mut Graph, capture: Capture, ty: TensorType) -> Value {
        let v = g.parameter(ty);
        self.captures.push((capture, v));
        v
    }

    /// The parameter of a cell that existed before the trace.
    pub fn of_slot(&mut self, g: &mut Graph, slot: u32, ty: TensorType) -> Value {
        if let Some(&v) = self.by_slot.get(&slot) {
            return v;
        }
        let v = self.add(g, Capture::Slot(slot), ty);
        self.by_slot.insert(slot, v);
        self.new.push(slot);
        v
    }

    /// A cell's number may be used again once its tensor died.
    pub fn forget(&mut self, slot: u32) {
        self.by_slot.remove(&slot);
    }

    /// Cells that became parameters since the last time.
    pub fn take_new(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.new)
    }

    pub fn has_new(&self) -> bool {
        !self.new.is_empty()
    }

    pub(super) fn set_rng(&mut self, v: Value) {
        if let Some((_, now)) = &mut self.rng {
            *now = v;
        }
    }

    /// Keeps the random state of this point; returns its number.
    pub fn save_rng(&mut self, g: &mut Graph) -> Result<usize> {
        let v = self.rng(g, None)?;
        self.rng_kept.push(v);
        Ok(self.rng_kept.len() - 1)
    }

    /// Goes back to a state that was kept.
    pub fn load_rng(&mut self, kept: usize) -> Result<()> {
        let v = *self.rng_kept.get(kept).ok_or_else(|| Error::internal("no such random state".into()))?;
        self.set_rng(v);
        Ok(())
    }

    pub(super) fn rng_state(&self) -> Option<(Value, Value)> {
        self.rng
    }

    /// Puts the random state back to what it was before a region; true if the region drew from it.
    pub(super) fn restore_rng(&mut self, before: Option<(Value, Value)>) -> bool {
        let Some((first, now)) = self.rng else { return false };
        let was = before.map_or(first, |(_, now)| now);
        self.rng = Some((first, was));
        now != was
    }

    /// The random state at the end, if it was drawn from.
    pub fn rng_out(&self) -> Option<Value> {
        self.rng.filter(|(first, now)| first != now).map(|(_, now)| now)
    }
}

impl Source for Inputs {
    fn storage_type(&self, slot: u32) -> Result<TensorType> {
        slots::with(slot, |s| s.ty())
    }

    fn base(&mut self, g: &mut Graph, _: ArgPos, slot: u32) -> Result<Value> {
        let (held, ty) = slots::with(slot, |s| (s.held.clone(), s.ty()))?;
        match held {
            Held::Traced { trace, value } if trace == self.id => return Ok(value),
            Held::Traced { trace, .. } => return Err(super::leaked(trace, slot)),
            Held::Donated(message) => return Err(crate::dispatch::eager::donated(&message)),
            // Memory made inside that nobody wrote.
            Held::Uninit if self.born.contains_key(&slot) => return Ok(g.full(ty.dtype, &ty.dims, 0)?),
            _ => {}
        }
        Ok(self.of_slot(g, slot, ty))
    }

    fn number(&mut self, g: &mut Graph, _: ArgPos, value: Number, dtype: DType) -> Result<Value> {
        match self.numbers.lookup(g, value)? {
            Some(v) => Ok(g.convert(v, dtype)?),
            None => Ok(g.scalar(dtype, value)?),
        }
    }

    fn rng(&mut self, g: &mut Graph, pos: Option<ArgPos>) -> Result<Value> {
        if pos.is_some() {
            return Err(Error::refused(
                "a torch.Generator cannot be drawn from inside jit: its numbers would be the same at every call. Way \
                 out: leave out `generator=` to use the device's own random state, which torch.manual_seed seeds.",
            ));
        }
        if let Some((_, now)) = self.rng {
            return Ok(now);
        }
        let v = self.add(g, Capture::Rng, TensorType::new(DType::U32, &[4]));
        self.rng = Some((v, v));
        Ok(v)
    }
}
