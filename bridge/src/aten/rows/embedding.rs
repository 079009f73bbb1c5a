//! Embedding tables: rows looked up, and the gradient of the table.

use super::places::{Combine, checked, gather_at, narrow, scatter_at};
use crate::Result;
use crate::aten::promote::{compute_type, torch_name};
use crate::aten::{CheckKind, Cx, Row, exact};
use primitives::{DType, Direction, Value};

pub const ROWS: &[Row] = &[
    Row::new("embedding", embedding),
    Row::new("embedding_dense_backward", backward),
    Row::new("embedding_renorm", renorm).dynamic(&["max_norm"]),
];

const OUT_OF_RANGE: &str = "index out of range in self";

/// Indices (argument `i`) of an embedding: int or long.
pub fn indices(cx: &mut Cx<'_, '_>, i: usize) -> Result<Value> {
    let index = cx.t(i)?;
    if !matches!(cx.g.dtype(index), DType::I64 | DType::I32) {
        return Err(cx.error(format!(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got \
             torch.{}Tensor instead (while checking arguments for embedding)",
            torch_name(cx.g.dtype(index))
        )));
    }
    Ok(index)
}

/// `embedding(weight, indices, ...)`: a row of `weight` for each index. The other arguments matter to its gradient.
fn embedding(cx: &mut Cx<'_, '_>) -> Result<()> {
    let weight = cx.t(0)?;
    let sizes = cx.g.dims(weight);
    if sizes.len() != 2 {
        return Err(cx.error("'weight' must be 2-D"));
    }
    let index = indices(cx, 1)?;
    let at = checked(cx, index, sizes[0], false, CheckKind::Index, OUT_OF_RANGE)?;
    let y = gather_at(cx.g, weight, &[0], &[at], 0)?;
    cx.out(y);
    Ok(())
}

/// `embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)`: the gradient rows
/// summed by index; those of the padding row are left out.
fn backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let grad = cx.t(0)?;
    let (dtype, dims) = (cx.g.dtype(grad), cx.g.dims(grad));
    let index = indices(cx, 1)?;
    let (rows, padding, scale) = (cx.int(2)?, cx.int(3)?, cx.bool(4)?);
    let (n, width) = (cx.g.numel(index), dims.last().copied().unwrap_or(1));
    let index = cx.g.reshape(index, &[n])?;
    let index = narrow(cx.g, index, rows)?;
    let compute = compute_type(dtype);
    let grad = cx.g.reshape(grad, &[n, width])?;
    let mut grad = cx.g.convert(grad, compute)?;
    if scale {
        let (zeros, ones) = (cx.g.full(compute, &[rows], 0)?, cx.g.full(compute, &[n], 1)?);
        let counts = scatter_at(cx.g, zeros, &[0], &[index], 0, ones, Combine::Add)?;
        let mine = gather_at(cx.g, counts, &[0], &[index], 0)?;
        let mine = cx.g.broadcast_in_dim(mine, &[n, width], &[0])?;
        grad = exact::divide(cx.g, grad, mine)?;
    }
    let index = if padding >= 0 {
        // A place past the end is skipped by the scatter.
        let (pad, past) = (cx.g.full_like(index, padding)?, cx.g.full_like(index, rows)?);
        let is_padding = cx.g.compare(index, pad, Direction::Eq)?;
        cx.g.select(is_padding, past, index)?
    } else {
        index
    };
    let zeros = cx.g.full(compute, &[rows, width], 0)?;
    let y = scatter_at(cx.g, zeros, &[0], &[index], 0, grad, Combine::Add)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `embedding_renorm(self, indices, max_norm, norm_type)`: the rows that are looked up, scaled down to `max_norm`.
fn renorm(cx: &mut Cx<'_, '_>) -> Result<()> {
    let weight = cx.t(0)?;
    let (dtype, dims) = (cx.g.dtype(weight), cx.g.dims(weight));
    let index = indices(cx, 1)?;
    let n = cx.g.numel(index);
    let index = cx.g.reshape(index, &[n])?;
    let index = checked(cx, index, dims[0], false, CheckKind::Index, OUT_OF_RANGE)?;
    let p = cx.float(3)?;
    let none = cx.g.full(DType::Bool, &[dims[0]], false)?;
    let some = cx.g.full(DType::Bool, &[n], true)?;
    let used = scatter_at(cx.g, none, &[0], &[index], 0, some, Combine::Set)?;
    let x = cx.g.convert(weight, compute_type(dtype))?;
    let norm = row_norm(cx, x, p)?;
    let limit = cx.number_as(2, cx.g.dtype(norm))?;
    let limit = cx.g.broadcast_to(limit, &cx.g.dims(norm))?;
    let over = cx.g.compare(norm, limit, Direction::Gt)?;
    let applies = cx.g.and(over, used)?;
    let tiny = cx.g.full_like(norm, 1e-7)?;
    let below = cx.g.add(norm, tiny)?;
    let scale = exact::divide(cx.g, limit, below)?;
    let one = cx.g.full_like(scale, 1)?;
    let scale = cx.g.select(applies, scale, one)?;
    let scale = cx.g.broadcast_in_dim(scale, &dims, &[0])?;
    let y = cx.g.multiply(x, scale)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// The p-norm of each row.
fn row_norm(cx: &mut Cx<'_, '_>, x: Value, p: f64) -> Result<Value> {
    let g = &mut *cx.g;
    let a = g.abs(x)?;
    let rest: Vec<usize> = (1..g.rank(x)).collect();
    if p.is_infinite() {
        return Ok(if p > 0.0 { g.reduce_max(a, &rest)? } else { g.reduce_min(a, &rest)? });
    }
    if p == 2.0 {
        let square = g.multiply(a, a)?;
        let sum = g.reduce_sum(square, &rest)?;
        return Ok(g.sqrt(sum)?);
    }
    let power = g.full_like(a, p)?;
    let raised = g.power(a, power)?;
    let sum = g.reduce_sum(raised, &rest)?;
    let root = g.full_like(sum, 1.0 / p)?;
    Ok(g.power(sum, root)?)
}
