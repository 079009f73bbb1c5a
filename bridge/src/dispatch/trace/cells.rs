//! Cells under a trace: how it reads and writes them, makes new ones, and puts everything back.

use super::inputs::Capture;
use super::{Trace, unattached};
use crate::Result;
use crate::aten::ArgPos;
use crate::aten::cx::Source;
use crate::dispatch::slots::{self, Held, Storage};
use ahash::AHashMap;
use primitives::{DType, Number, TensorType, Value};

impl Trace {
    pub(super) fn note_born(&mut self, slot: u32) {
        self.inputs.forget(slot);
        self.inputs.born.insert(slot, self.location.clone());
        if let Some(branch) = self.branches.last_mut() {
            branch.made.insert(slot);
        }
    }

    /// Puts a value of the trace into a cell, keeping what was there before.
    pub fn write(&mut self, slot: u32, value: Value) -> Result<()> {
        self.save(slot)?;
        slots::set(slot, Held::Traced { trace: self.id, value }).map(drop)
    }

    pub(super) fn save(&mut self, slot: u32) -> Result<()> {
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
