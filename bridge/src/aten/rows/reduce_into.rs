//! Reductions of scattered values into a tensor: `scatter_reduce`, `index_reduce`.

use super::places::Combine;
use super::util::Takes;
use crate::Result;
use crate::aten::promote::compute_type;
use crate::aten::{Cx, exact};
use primitives::{DType, Direction, Graph, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    Sum,
    Mean,
    Prod,
    Max,
    Min,
}

impl Reduce {
    /// By torch's name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "sum" => Reduce::Sum,
            "mean" => Reduce::Mean,
            "prod" => Reduce::Prod,
            "amax" => Reduce::Max,
            "amin" => Reduce::Min,
            _ => return None,
        })
    }

    /// Fails for complex numbers where an order is asked for.
    pub fn check(self, cx: &Cx<'_, '_>, dtype: DType) -> Result<()> {
        let takes = if matches!(self, Reduce::Max | Reduce::Min) { Takes::NO_COMPLEX } else { Takes::ALL };
        takes.check(cx, dtype)
    }

    /// How two elements become one; a mean is divided afterwards.
    pub fn combine(self) -> Combine {
        match self {
            Reduce::Sum | Reduce::Mean => Combine::Add,
            Reduce::Prod => Combine::Mul,
            Reduce::Max => Combine::Max,
            Reduce::Min => Combine::Min,
        }
    }
}

/// Reduces `updates` into `x` where `scatter(base, updates, combine)` puts them. Without `include_self` the places that
/// receive something forget their old element; the others keep it.
pub fn reduce_into(
    g: &mut Graph,
    x: Value,
    updates: Value,
    reduce: Reduce,
    include_self: bool,
    scatter: impl Fn(&mut Graph, Value, Value, Combine) -> Result<Value>,
) -> Result<Value> {
    let dtype = g.dtype(x);
    let compute = compute_type(dtype);
    let (x, updates) = (g.convert(x, compute)?, g.convert(updates, compute)?);
    let combine = reduce.combine();
    let touched = if include_self {
        None
    } else {
        let (none, some) = (g.full(DType::Bool, &g.dims(x), false)?, g.full(DType::Bool, &g.dims(updates), true)?);
        Some(scatter(g, none, some, Combine::Set)?)
    };
    let base = match touched {
        None => x,
        Some(t) => {
            let start = g.full_like(x, combine.identity(compute))?;
            g.select(t, start, x)?
        }
    };
    let mut y = scatter(g, base, updates, combine)?;
    if reduce == Reduce::Mean {
        let counted = if compute.is_float() || compute.is_complex() { DType::F32 } else { DType::I64 };
        let start = g.full(counted, &g.dims(x), i64::from(include_self))?;
        let ones = g.full(counted, &g.dims(updates), 1)?;
        let count = scatter(g, start, ones, Combine::Add)?;
        let one = g.full_like(count, 1)?;
        let count = g.maximum(count, one)?;
        let count = g.convert(count, compute)?;
        y = if compute.is_int() { floor_divide(g, y, count)? } else { exact::divide(g, y, count)? };
    }
    Ok(g.convert(y, dtype)?)
}

/// Integer quotient rounded down; the divisor is positive.
fn floor_divide(g: &mut Graph, a: Value, b: Value) -> Result<Value> {
    let q = exact::divide(g, a, b)?;
    let r = g.remainder(a, b)?;
    let zero = g.zeros_like(r)?;
    let below = g.compare(r, zero, Direction::Lt)?;
    let one = g.full_like(q, 1)?;
    let less = g.subtract(q, one)?;
    Ok(g.select(below, less, q)?)
}
