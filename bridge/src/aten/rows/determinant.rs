//! Determinants from LU factors.

use super::linalg::{check_float, iota_like, mt, square_error};
use super::lu::{Lu, factor};
use crate::Result;
use crate::aten::args::Arg;
use crate::aten::{Cx, Row};
use primitives::{DType, Direction, Graph, Value};

pub const ROWS: &[Row] = &[Row::new("_linalg_det", det), Row::new("_linalg_slogdet", slogdet)];

/// Whether torch's determinants factor the transpose of argument `i`: they do for real row-major matrices, and their
/// backward passes count on it.
fn factors_transpose(cx: &Cx<'_, '_>, i: usize) -> bool {
    matches!(cx.arg(i), Arg::Tensor(t) if t.is_contiguous() && !t.dtype.is_complex())
}

/// The diagonal of square matrices.
fn diagonal(g: &mut Graph, a: Value) -> Result<Value> {
    let rank = g.rank(a);
    let (r, c) = (iota_like(g, a, rank - 2)?, iota_like(g, a, rank - 1)?);
    let on = g.compare(r, c, Direction::Eq)?;
    let zero = g.zeros_like(a)?;
    let v = g.select(on, a, zero)?;
    Ok(g.reduce_sum(v, &[rank - 1])?)
}

/// -1 for an odd number of row swaps, else 1, in `dtype`.
fn parity(g: &mut Graph, pivots: Value, dtype: DType) -> Result<Value> {
    let last = g.rank(pivots) - 1;
    let place = g.iota(DType::I32, &g.dims(pivots), last)?;
    let one = g.ones_like(place)?;
    let place = g.add(place, one)?;
    let moved = g.compare(pivots, place, Direction::Ne)?;
    let moved = g.convert(moved, DType::I32)?;
    let n = g.reduce_sum(moved, &[last])?;
    let one = g.ones_like(n)?;
    let odd = g.and(n, one)?;
    let two = g.full_like(odd, 2)?;
    let twice = g.multiply(odd, two)?;
    let sign = g.subtract(one, twice)?;
    Ok(g.convert(sign, dtype)?)
}

fn factored_for_det(cx: &mut Cx<'_, '_>, name: &str) -> Result<(Value, Lu)> {
    let a = cx.t(0)?;
    square_error(cx, a, name)?;
    check_float(cx, a, name)?;
    let source = if factors_transpose(cx, 0) { mt(cx.g, a)? } else { a };
    Ok((a, factor(cx.g, source, true)?))
}

/// `_linalg_det(A)` -> result, LU, pivots: the product of U's diagonal, signed by the row swaps.
fn det(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (a, f) = factored_for_det(cx, "linalg.det")?;
    let g = &mut *cx.g;
    let d = diagonal(g, f.lu)?;
    let last = g.rank(d) - 1;
    let p = g.reduce_prod(d, &[last])?;
    let sign = parity(g, f.pivots, g.dtype(a))?;
    let y = g.multiply(p, sign)?;
    cx.out(y);
    cx.out_columns(f.lu);
    cx.out(f.pivots);
    Ok(())
}

/// `_linalg_slogdet(A)` -> sign, log|det|, LU, pivots.
fn slogdet(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (a, f) = factored_for_det(cx, "linalg.slogdet")?;
    let g = &mut *cx.g;
    let d = diagonal(g, f.lu)?;
    let last = g.rank(d) - 1;
    let sign = g.sign(d)?;
    let sign = g.reduce_prod(sign, &[last])?;
    let flips = parity(g, f.pivots, g.dtype(a))?;
    let sign = g.multiply(sign, flips)?;
    let size = g.abs(d)?;
    let size = g.log(size)?;
    let size = g.reduce_sum(size, &[last])?;
    cx.out(sign);
    cx.out(size);
    cx.out_columns(f.lu);
    cx.out(f.pivots);
    Ok(())
}
