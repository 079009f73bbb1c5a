//! Diagonals and triangles.

use super::places::wrap_dim;
use crate::aten::{Cx, Row};
use crate::{Error, Result};
use primitives::{DType, Dims, Direction, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::new("tril", |cx| triangle(cx, "tril", Direction::Le)),
    Row::new("triu", |cx| triangle(cx, "triu", Direction::Ge)),
    Row::new("diag_embed", diag_embed),
];

/// `j - i` for the places of two dims, against `offset`.
fn compared(
    g: &mut Graph,
    sizes: &[i64],
    dim1: usize,
    dim2: usize,
    offset: i64,
    direction: Direction,
) -> Result<Value> {
    let plane = [sizes[dim1], sizes[dim2]];
    let (i, j) = (g.iota(DType::I64, &plane, 0)?, g.iota(DType::I64, &plane, 1)?);
    let difference = g.subtract(j, i)?;
    let offset = g.full_like(difference, offset)?;
    let mask = g.compare(difference, offset, direction)?;
    let (mask, dims) = if dim1 < dim2 { (mask, [dim1, dim2]) } else { (g.transpose(mask, &[1, 0])?, [dim2, dim1]) };
    Ok(g.broadcast_in_dim(mask, sizes, &dims)?)
}

/// Where `j - i == offset`.
pub fn on_diagonal(g: &mut Graph, sizes: &[i64], dim1: usize, dim2: usize, offset: i64) -> Result<Value> {
    compared(g, sizes, dim1, dim2, offset, Direction::Eq)
}

/// Length of a diagonal.
pub fn len(rows: i64, columns: i64, offset: i64) -> i64 {
    if offset >= 0 { rows.min(columns - offset).max(0) } else { (rows + offset).min(columns).max(0) }
}

/// The diagonals, last dim of `v`, spread over a value of `sizes` so that each element stands where it belongs; what
/// stands off the diagonal is of no meaning.
pub fn placed(g: &mut Graph, v: Value, sizes: &[i64], dim1: usize, dim2: usize, offset: i64) -> Result<Value> {
    let rank = g.rank(v);
    let n = g.dims(v)[rank - 1];
    let first = (-offset).max(0);
    let mut low = vec![0; rank];
    let mut high = vec![0; rank];
    low[rank - 1] = first;
    high[rank - 1] = sizes[dim1] - first - n;
    let zero = g.scalar(g.dtype(v), 0)?;
    let rows = g.pad(v, zero, &low, &high, &vec![0; rank])?;
    let rest = (0..sizes.len()).filter(|d| *d != dim1 && *d != dim2);
    let mapping: Vec<usize> = rest.chain([dim1]).collect();
    // The mapping must rise for the broadcast: move the last dim to where `dim1` stands among the others.
    let mut order: Vec<usize> = (0..rank).collect();
    order.sort_by_key(|&k| mapping[k]);
    let rows = g.transpose(rows, &order)?;
    let mut rising = mapping;
    rising.sort_unstable();
    Ok(g.broadcast_in_dim(rows, sizes, &rising)?)
}

/// `tril` / `triu(self, diagonal)`.
fn triangle(cx: &mut Cx<'_, '_>, name: &str, direction: Direction) -> Result<()> {
    let x = cx.t(0)?;
    let sizes = cx.g.dims(x);
    if sizes.len() < 2 {
        return Err(cx.error(format!("{name}: input tensor must have at least 2 dimensions")));
    }
    let y = if sizes.contains(&0) {
        x
    } else {
        let mask = compared(cx.g, &sizes, sizes.len() - 2, sizes.len() - 1, cx.int(1)?, direction)?;
        let zero = cx.g.zeros_like(x)?;
        cx.g.select(mask, x, zero)?
    };
    cx.out(y);
    Ok(())
}

/// `diag_embed(self, offset, dim1, dim2)`: the last dim becomes the diagonal of two new ones.
fn diag_embed(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let dims = cx.g.dims(x);
    let offset = cx.int(1)?;
    let rank = dims.len() + 1;
    let (dim1, dim2) = (wrap_dim(cx, cx.int(2)?, rank)?, wrap_dim(cx, cx.int(3)?, rank)?);
    if dim1 == dim2 {
        return Err(cx.error(format!("diagonal dimensions cannot be identical {}, {}", cx.int(2)?, cx.int(3)?)));
    }
    let Some((&n, rest)) = dims.split_last() else {
        return Err(Error::index(cx.op(), "diag_embed: input tensor must have at least 1 dimension".into()));
    };
    let side = n + offset.abs();
    let mut rest = rest.iter().copied();
    let sizes: Dims = (0..rank).map(|d| if d == dim1 || d == dim2 { side } else { rest.next().unwrap_or(1) }).collect();
    let y = if sizes.contains(&0) {
        cx.g.full(cx.g.dtype(x), &sizes, 0)?
    } else {
        let v = placed(cx.g, x, &sizes, dim1, dim2, offset)?;
        let mask = on_diagonal(cx.g, &sizes, dim1, dim2, offset)?;
        let zero = cx.g.zeros_like(v)?;
        cx.g.select(mask, v, zero)?
    };
    cx.out(y);
    Ok(())
}
