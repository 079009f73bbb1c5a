//! Checks of values that only the device knows.

use super::Cx;
use crate::Result;
use primitives::{DType, Value};

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
