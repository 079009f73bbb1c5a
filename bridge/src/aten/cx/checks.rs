//! Checks of values that only the device knows.

use super::Cx;
use crate::Result;
use primitives::{DType, Direction, Graph, Value};

/// A check of values that only the device knows, reported when the result is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Exception type that torch raises for this mistake.
    pub kind: CheckKind,
    /// Message; `{}` stands for the offending value.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckKind {
    Index,
    Runtime,
    Value,
    LinAlg,
}

/// Value of a check's output when nothing was wrong.
pub const NO_OFFENCE: i64 = i64::MIN;

/// Whether all of these values of checks tell of no offence; `None` where there is no check.
pub fn all_content(g: &mut Graph, checks: impl Iterator<Item = Value>) -> Result<Option<Value>> {
    let none = g.scalar(DType::I64, NO_OFFENCE)?;
    let mut good: Option<Value> = None;
    for v in checks {
        let fine = g.compare(v, none, Direction::Eq)?;
        good = Some(match good {
            None => fine,
            Some(so_far) => g.and(so_far, fine)?,
        });
    }
    Ok(good)
}

impl Cx<'_, '_> {
    /// Reports `bad` values of integer type: `offending` is any-shape, checked where `bad` (i1, same shape) holds.
    /// In `message`, `{}` is replaced by the largest offending value.
    pub fn check(&mut self, bad: Value, offending: Value, kind: CheckKind, message: impl Into<String>) -> Result<()> {
        let v = self.g.convert(offending, DType::I64)?;
        let none = self.g.full_like(v, NO_OFFENCE)?;
        let picked = self.g.select(bad, v, none)?;
        let dims: Vec<usize> = (0..self.g.rank(picked)).collect();
        let worst = self.g.reduce_max(picked, &dims)?;
        self.checks.push((worst, Check { kind, message: message.into() }));
        Ok(())
    }

    /// Indices of a scatter into argument 0: `index`, or -1 throughout, which scatters skip, where a check of this call
    /// found an offence. The row promises that its result is argument 0 then: an in-place form needs no copy of it.
    pub fn guarded(&mut self, index: Value) -> Result<Value> {
        self.guards = Some(self.checks.len());
        let Some(good) = all_content(self.g, self.checks.iter().map(|(v, _)| *v))? else { return Ok(index) };
        let nowhere = self.g.full_like(index, -1)?;
        let good = self.g.broadcast_to(good, &self.g.dims(index))?;
        Ok(self.g.select(good, index, nowhere)?)
    }

    /// Checks `-size <= index < size` elementwise and returns the indices wrapped into `0..size` (clamped where bad).
    pub fn wrap_index(
        &mut self,
        index: Value,
        size: i64,
        kind: CheckKind,
        message: impl Into<String>,
    ) -> Result<Value> {
        self.index_in(index, -size, size, kind, message)
    }

    /// Checks `0 <= index < size` elementwise; returns the indices clamped into range.
    pub fn check_index(
        &mut self,
        index: Value,
        size: i64,
        kind: CheckKind,
        message: impl Into<String>,
    ) -> Result<Value> {
        self.index_in(index, 0, size, kind, message)
    }

    fn index_in(
        &mut self,
        index: Value,
        low: i64,
        size: i64,
        kind: CheckKind,
        message: impl Into<String>,
    ) -> Result<Value> {
        use primitives::Direction::{Ge, Lt};
        let index = self.g.convert(index, DType::I64)?;
        let (lo, hi) = (self.g.full_like(index, low)?, self.g.full_like(index, size)?);
        let under = self.g.compare(index, lo, Lt)?;
        let over = self.g.compare(index, hi, Ge)?;
        let bad = self.g.or(under, over)?;
        self.check(bad, index, kind, message)?;
        let mut wrapped = index;
        if low < 0 {
            let zero = self.g.zeros_like(index)?;
            let negative = self.g.compare(index, zero, Lt)?;
            let shifted = self.g.add(index, hi)?;
            wrapped = self.g.select(negative, shifted, index)?;
        }
        let (first, last) = (self.g.scalar(DType::I64, 0)?, self.g.scalar(DType::I64, (size - 1).max(0))?);
        Ok(self.g.clamp(first, wrapped, last)?)
    }
}
