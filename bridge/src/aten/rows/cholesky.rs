//! How far a Cholesky factorization gets that fails. The compiler's makes the whole factor NaN.

use super::linalg::{real_part, triangle};
use super::lu::{along, line, unwrapped};
use crate::Result;
use crate::aten::exact;
use primitives::{DType, Direction, Graph, Value};

/// The factor and `info` of `source`, whose factor by the compiler is `l`; `failed` (a truth value per matrix) says
/// where there is none. The columns are gone through again only if there is such a matrix.
///
/// There, `info` is the order of the first leading minor that is not positive-definite, and the factor is LAPACK's for
/// one block: columns before that minor's last are done, its last diagonal element is what had no root, and what lies
/// under and after it is as given.
pub fn settled(g: &mut Graph, source: Value, l: Value, failed: Value) -> Result<(Value, Value)> {
    let batch = g.dims(failed);
    let all: Vec<usize> = (0..batch.len()).collect();
    let any = g.reduce_or(failed, &all)?;
    let r = g.if_else(
        any,
        |g, _| partial(g, source, l, failed).map_err(unwrapped),
        |g, _| Ok(vec![l, g.full(DType::I32, &batch, 0)?]),
    )?;
    Ok((r[0], r[1]))
}

/// Column by column, over the batch at once, until every matrix is done or has failed.
fn partial(g: &mut Graph, source: Value, l: Value, failed: Value) -> Result<Vec<Value>> {
    let dims = g.dims(source);
    let n = dims[dims.len() - 1];
    let given = triangle(g, source, false)?;
    let info = g.full(DType::I32, &g.dims(failed), 0)?;
    let start = g.scalar(DType::I64, 0)?;
    let r = g.while_loop(
        &[start, given, info, failed],
        |g, s| {
            let end = g.scalar(DType::I64, n)?;
            let inside = g.compare(s[0], end, Direction::Lt)?;
            let all: Vec<usize> = (0..g.rank(s[3])).collect();
            let going = g.reduce_or(s[3], &all)?;
            Ok(vec![g.and(inside, going)?])
        },
        |g, s| step(g, s).map_err(unwrapped),
    )?;
    let wide: Vec<usize> = (0..g.rank(failed)).collect();
    let redone = g.broadcast_in_dim(failed, &dims, &wide)?;
    Ok(vec![g.select(redone, r[1], l)?, r[2]])
}

/// `a[j, j] = sqrt(a[j, j] - sum |a[j, :j]|^2)`, and the column under it likewise, divided by that root.
fn step(g: &mut Graph, s: &[Value]) -> Result<Vec<Value>> {
    let (j, a, info, going) = (s[0], s[1], s[2], s[3]);
    let dims = g.dims(a);
    let (row_dim, col_dim) = (dims.len() - 2, dims.len() - 1);
    let kept: Vec<usize> = (0..row_dim).collect();
    // Only columns before j: what comes after may hold anything.
    let cols = g.iota(DType::I64, &dims, col_dim)?;
    let at = g.broadcast_to(j, &dims)?;
    let before = g.compare(cols, at, Direction::Lt)?;
    let zero = g.zeros_like(a)?;
    let done = g.select(before, a, zero)?;
    let row = line(g, done, row_dim, j)?;
    let row = if g.dtype(row).is_complex() { g.conj(row)? } else { row };
    let row = along(g, row, &dims, col_dim)?;
    let products = g.multiply(done, row)?;
    let products = g.reduce_sum(products, &[col_dim])?;
    let column = line(g, a, col_dim, j)?;
    let left = g.subtract(column, products)?;
    // A diagonal is real, as far as LAPACK looks.
    let real = real_part(g, left)?;
    let pivot = line(g, real, row_dim, j)?;
    let nothing = g.zeros_like(pivot)?;
    let positive = g.compare(pivot, nothing, Direction::Gt)?;
    let works = g.and(going, positive)?;
    let root = g.sqrt(pivot)?;
    let kept_pivot = g.select(positive, root, pivot)?;
    let vector = g.dims(column);
    let spread = |g: &mut Graph, v: Value| g.broadcast_in_dim(v, &vector, &kept);
    let root = spread(g, root)?;
    let root = g.convert(root, g.dtype(column))?;
    let under = exact::divide(g, left, root)?;
    let on = spread(g, kept_pivot)?;
    let on = g.convert(on, g.dtype(column))?;
    let rows = g.iota(DType::I64, &vector, row_dim)?;
    let at = g.broadcast_to(j, &vector)?;
    let (works_wide, going_wide) = (spread(g, works)?, spread(g, going)?);
    let is_under = g.compare(rows, at, Direction::Gt)?;
    let is_under = g.and(is_under, works_wide)?;
    let is_on = g.compare(rows, at, Direction::Eq)?;
    let is_on = g.and(is_on, going_wide)?;
    let column = g.select(is_under, under, column)?;
    let column = g.select(is_on, on, column)?;
    let column = along(g, column, &dims, row_dim)?;
    let at = g.broadcast_to(j, &dims)?;
    let here = g.compare(cols, at, Direction::Eq)?;
    let a = g.select(here, column, a)?;
    let one = g.scalar(DType::I64, 1)?;
    let number = g.add(j, one)?;
    let order = g.convert(number, DType::I32)?;
    let order = g.broadcast_to(order, &g.dims(info))?;
    let stops = g.not(positive)?;
    let stops = g.and(going, stops)?;
    let info = g.select(stops, order, info)?;
    Ok(vec![number, a, info, works])
}
