//! Where the extremes are: `max.dim`, `min.dim`, `argmax`, `argmin`.

use super::axes::{Axes, wrap};
use super::reduce::check_ordered;
use crate::aten::{Cx, Row};
use crate::{Error, Result};
use primitives::{DType, Direction, Graph, Number, Value};

pub const ROWS: &[Row] = &[
    Row::new("max.dim", |cx| with_index(cx, "max", Direction::Gt)),
    Row::new("min.dim", |cx| with_index(cx, "min", Direction::Lt)),
    Row::new("argmax", |cx| index_only(cx, "argmax", Direction::Gt)),
    Row::new("argmin", |cx| index_only(cx, "argmin", Direction::Lt)),
];

/// `max.dim(self, dim, keepdim)`: values and the first index of each, i64.
fn with_index(cx: &mut Cx<'_, '_>, name: &str, better: Direction) -> Result<()> {
    let x = cx.t(0)?;
    check_ordered(cx, x, name)?;
    let ax = Axes::new(cx, &cx.g.dims(x), Some(&[cx.int(1)?]), cx.bool(2)?)?;
    ax.check_not_empty(cx, name, true)?;
    if cx.g.rank(x) == 0 {
        cx.out(x);
        let zero = cx.g.scalar(DType::I64, 0)?;
        cx.out(zero);
        return Ok(());
    }
    let (v, i) = extreme_and_index(cx.g, x, ax.dims[0], better)?;
    for y in [v, i] {
        let y = ax.finish(cx.g, y)?;
        cx.out(y);
    }
    Ok(())
}

/// `argmax(self, dim, keepdim)`; without `dim`, the index into the flattened tensor.
fn index_only(cx: &mut Cx<'_, '_>, name: &str, better: Direction) -> Result<()> {
    let x = cx.t(0)?;
    check_ordered(cx, x, name)?;
    let (dims, keepdim) = (cx.g.dims(x), cx.bool(2)?);
    let dim = cx.opt_int(1)?;
    if dim.is_none() && dims.contains(&0) {
        return Err(Error::index(
            cx.op(),
            format!(
                "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim \
                 with the 'dim' argument."
            ),
        ));
    }
    let Some(d) = dim.filter(|_| !dims.is_empty()) else {
        if let Some(d) = dim {
            wrap(cx, d, 0)?;
        }
        let flat = cx.g.reshape(x, &[dims.iter().product()])?;
        let (_, i) = extreme_and_index(cx.g, flat, 0, better)?;
        let shape = vec![1; if keepdim { dims.len() } else { 0 }];
        let i = cx.g.reshape(i, &shape)?;
        cx.out(i);
        return Ok(());
    };
    let ax = Axes::new(cx, &dims, Some(&[d]), keepdim)?;
    ax.check_not_empty(cx, name, true)?;
    let (_, i) = extreme_and_index(cx.g, x, ax.dims[0], better)?;
    let i = ax.finish(cx.g, i)?;
    cx.out(i);
    Ok(())
}

/// The extreme along a dimension and its first index (i64). NaN is better than any number, as torch has it.
///
/// The extreme first, then the least index of what equals it: two plain reductions, which compilers vectorize, unlike
/// one over pairs.
pub fn extreme_and_index(g: &mut Graph, x: Value, dim: usize, better: Direction) -> Result<(Value, Value)> {
    let dtype = g.dtype(x);
    let x = if dtype == DType::Bool { g.convert(x, DType::U8)? } else { x };
    let dims = g.dims(x);
    let index_dtype = if dims[dim] <= i32::MAX as i64 { DType::I32 } else { DType::I64 };
    let best = if better == Direction::Gt { g.reduce_max(x, &[dim])? } else { g.reduce_min(x, &[dim])? };
    let kept: Vec<usize> = (0..dims.len()).filter(|&d| d != dim).collect();
    let wide = g.broadcast_in_dim(best, &dims, &kept)?;
    let mut hit = g.compare(x, wide, Direction::Eq)?;
    if dtype.is_float() {
        let nan = g.compare(x, x, Direction::Ne)?;
        hit = g.or(hit, nan)?;
    }
    let index = g.iota(index_dtype, &dims, dim)?;
    let past = g.full_like(index, dims[dim])?;
    let at = g.select(hit, index, past)?;
    let at = g.reduce_min(at, &[dim])?;
    Ok((g.convert(best, dtype)?, g.convert(at, DType::I64)?))
}

/// The number that nothing is worse than.
pub fn worst(dtype: DType, better: Direction) -> Number {
    let greatest = better == Direction::Lt;
    if dtype.is_float() {
        return Number::Float(if greatest { f64::INFINITY } else { f64::NEG_INFINITY });
    }
    if dtype == DType::Bool {
        return Number::Bool(greatest);
    }
    let bits = 8 * dtype.size_of() as u32;
    match (dtype.is_signed(), greatest) {
        (true, true) => Number::Int((i64::MAX) >> (64 - bits)),
        (true, false) => Number::Int(i64::MIN >> (64 - bits)),
        (false, true) => Number::UInt(u64::MAX >> (64 - bits)),
        (false, false) => Number::UInt(0),
    }
}
