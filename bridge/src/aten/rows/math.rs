//! Arithmetic that broadcasts, for lowerings that are formulas rather than one primitive.

use crate::Result;
use crate::aten::exact;
use primitives::{DType, Dims, Direction, Graph, Number, Value};

type Op2 = fn(&mut Graph, Value, Value) -> primitives::Result<Value>;

/// Both values in their common shape, aligned at the last dim. Callers have checked that there is one.
pub fn both(g: &mut Graph, a: Value, b: Value) -> Result<(Value, Value)> {
    let (x, y) = (g.dims(a), g.dims(b));
    if x == y {
        return Ok((a, b));
    }
    let rank = x.len().max(y.len());
    let at = |d: &Dims, i: usize| if i + d.len() >= rank { d[i + d.len() - rank] } else { 1 };
    let dims: Dims = (0..rank).map(|i| if at(&x, i) == 1 { at(&y, i) } else { at(&x, i) }).collect();
    Ok((g.broadcast_to(a, &dims)?, g.broadcast_to(b, &dims)?))
}

fn op2(g: &mut Graph, a: Value, b: Value, f: Op2) -> Result<Value> {
    let (a, b) = both(g, a, b)?;
    Ok(f(g, a, b)?)
}

pub fn add(g: &mut Graph, a: Value, b: Value) -> Result<Value> {
    op2(g, a, b, Graph::add)
}

pub fn sub(g: &mut Graph, a: Value, b: Value) -> Result<Value> {
    op2(g, a, b, Graph::subtract)
}

pub fn mul(g: &mut Graph, a: Value, b: Value) -> Result<Value> {
    op2(g, a, b, Graph::multiply)
}

pub fn div(g: &mut Graph, a: Value, b: Value) -> Result<Value> {
    op2(g, a, b, exact::divide)
}

pub fn max(g: &mut Graph, a: Value, b: Value) -> Result<Value> {
    op2(g, a, b, Graph::maximum)
}

pub fn min(g: &mut Graph, a: Value, b: Value) -> Result<Value> {
    op2(g, a, b, Graph::minimum)
}

pub fn cmp(g: &mut Graph, a: Value, b: Value, direction: Direction) -> Result<Value> {
    let (a, b) = both(g, a, b)?;
    Ok(g.compare(a, b, direction)?)
}

/// `pred ? a : b`, all broadcast.
pub fn select(g: &mut Graph, pred: Value, a: Value, b: Value) -> Result<Value> {
    let (a, b) = both(g, a, b)?;
    let (p, a) = both(g, pred, a)?;
    let b = g.broadcast_to(b, &g.dims(a))?;
    Ok(g.select(p, a, b)?)
}

/// `x + n`, `x * n` and so on with a constant of the dtype of `x`.
pub fn add_n(g: &mut Graph, x: Value, n: impl Into<Number>) -> Result<Value> {
    let n = g.full_like(x, n)?;
    Ok(g.add(x, n)?)
}

pub fn mul_n(g: &mut Graph, x: Value, n: impl Into<Number>) -> Result<Value> {
    let n = g.full_like(x, n)?;
    Ok(g.multiply(x, n)?)
}

pub fn div_n(g: &mut Graph, x: Value, n: impl Into<Number>) -> Result<Value> {
    let n = g.full_like(x, n)?;
    Ok(exact::divide(g, x, n)?)
}

pub fn cmp_n(g: &mut Graph, x: Value, n: impl Into<Number>, direction: Direction) -> Result<Value> {
    let n = g.full_like(x, n)?;
    Ok(g.compare(x, n, direction)?)
}

/// A vector along dim `axis` of `dims`, repeated over the others.
pub fn along(g: &mut Graph, v: Value, dims: &[i64], axis: usize) -> Result<Value> {
    Ok(g.broadcast_in_dim(v, dims, &[axis])?)
}

/// A value whose dims are those of `dims` without `reduced`, repeated over these.
pub fn back_over(g: &mut Graph, v: Value, dims: &[i64], reduced: &[usize]) -> Result<Value> {
    let kept: Vec<usize> = (0..dims.len()).filter(|d| !reduced.contains(d)).collect();
    Ok(g.broadcast_in_dim(v, dims, &kept)?)
}

/// Mean over `dims`; NaN over no elements.
pub fn mean(g: &mut Graph, x: Value, dims: &[usize]) -> Result<Value> {
    let n: i64 = dims.iter().map(|&d| g.dims(x)[d]).product();
    let s = g.reduce_sum(x, dims)?;
    div_n(g, s, n as f64)
}

pub fn square(g: &mut Graph, x: Value) -> Result<Value> {
    Ok(g.multiply(x, x)?)
}

/// A constant vector of integers, as `dtype` (i32 or i64).
pub fn ints(g: &mut Graph, dtype: DType, values: &[i64]) -> Result<Value> {
    let bytes: Vec<u8> = match dtype {
        DType::I32 => values.iter().flat_map(|&v| (v as i32).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
    };
    Ok(g.constant(dtype, &[values.len() as i64], &bytes)?)
}

/// A constant of floats of shape `dims`, converted to `dtype`.
pub fn floats(g: &mut Graph, dtype: DType, dims: &[i64], values: &[f64]) -> Result<Value> {
    let bytes: Vec<u8> =
        values.iter().flat_map(|&v| Number::Float(v).to_bytes(dtype)[..dtype.size_of()].to_vec()).collect();
    Ok(g.constant(dtype, dims, &bytes)?)
}
