//! Negative log likelihood of class indices, plain and over images, and its backward pass.

use super::losses::{Reduction, reduction};
use super::search::take;
use super::util::check_real_float;
use crate::Result;
use crate::aten::cx::CheckKind;
use crate::aten::{Cx, Row, exact, promote};
use primitives::{DType, Dims, Direction, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::new("nll_loss_forward", |cx| forward(cx, false)),
    Row::new("nll_loss2d_forward", |cx| forward(cx, true)),
    Row::new("nll_loss_backward", backward),
    Row::new("nll_loss2d_backward", backward),
];

/// The class dimension of the input: 1, or 0 without a batch.
fn class_dim(rank: usize) -> usize {
    usize::from(rank > 1)
}

fn check(cx: &Cx<'_, '_>, x: &[i64], t: &[i64], target: DType, weight: Option<Value>, spatial: bool) -> Result<()> {
    let ranks: &[usize] = if spatial { &[4] } else { &[1, 2] };
    if !ranks.contains(&x.len()) {
        return Err(cx.error(if spatial {
            format!("only batches of spatial inputs supported (4D tensors), but got input of size: {x:?}")
        } else {
            "input tensor should be 1D or 2D".to_owned()
        }));
    }
    if !matches!(target, DType::I64 | DType::U8) {
        return Err(cx.error(format!("expected scalar type Long but found {}", promote::torch_name(target))));
    }
    let c = class_dim(x.len());
    let expected: Vec<i64> = x.iter().enumerate().filter(|&(i, _)| i != c).map(|(_, &n)| n).collect();
    if t != expected && !(x.len() == 1 && t == [1]) {
        if !spatial && t.len() > 1 {
            return Err(cx.error("0D or 1D target tensor expected, multi-target not supported"));
        }
        return Err(cx.error(format!("size mismatch (got input: {x:?}, target: {t:?})")));
    }
    if let Some(w) = weight {
        let w = cx.g.dims(w);
        if w[..] != [x[c]] {
            return Err(cx.error(format!(
                "weight tensor should be defined either for all {} classes or no classes but got weight tensor of shape: \
                 {:?}",
                x[c],
                &w[..]
            )));
        }
    }
    Ok(())
}

/// Targets clamped into the classes, and where they are not the ignored one. Others out of range are reported.
fn targets(cx: &mut Cx<'_, '_>, t: Value, classes: i64, ignore: i64) -> Result<(Value, Value)> {
    let t = cx.g.convert(t, DType::I64)?;
    let (zero, n, ig) = (cx.g.zeros_like(t)?, cx.g.full_like(t, classes)?, cx.g.full_like(t, ignore)?);
    let counts = cx.g.compare(t, ig, Direction::Ne)?;
    let under = cx.g.compare(t, zero, Direction::Lt)?;
    let over = cx.g.compare(t, n, Direction::Ge)?;
    let out = cx.g.or(under, over)?;
    let bad = cx.g.and(out, counts)?;
    cx.check(bad, t, CheckKind::Index, "Target {} is out of bounds.")?;
    let (lo, hi) = (cx.g.scalar(DType::I64, 0)?, cx.g.scalar(DType::I64, (classes - 1).max(0))?);
    Ok((cx.g.clamp(lo, t, hi)?, counts))
}

/// Weight of each target (1 without weights), 0 for ignored ones.
fn target_weights(g: &mut Graph, t: Value, counts: Value, weight: Option<Value>, dtype: DType) -> Result<Value> {
    let w = match weight {
        Some(w) => {
            let w = g.convert(w, dtype)?;
            take(g, w, t)?
        }
        None => g.full(dtype, &g.dims(t), 1)?,
    };
    let zero = g.zeros_like(w)?;
    Ok(g.select(counts, w, zero)?)
}

/// `nll_loss_forward(self, target, weight, reduction, ignore_index)`: `-weight[target] * self[target]`, and the sum of
/// the weights, by which the mean divides.
fn forward(cx: &mut Cx<'_, '_>, spatial: bool) -> Result<()> {
    let (x, t, weight) = (cx.t(0)?, cx.t(1)?, cx.opt_t(2)?);
    let (reduce, ignore) = (reduction(cx, 3)?, cx.int(4)?);
    let (xd, dtype) = (cx.g.dims(x), cx.g.dtype(x));
    check_real_float(cx, "nll_loss_out_frame", dtype)?;
    check(cx, &xd, &cx.g.dims(t), cx.g.dtype(t), weight, spatial)?;
    let c = class_dim(xd.len());
    let shape: Dims = xd.iter().enumerate().filter(|&(i, _)| i != c).map(|(_, &n)| n).collect();
    let t = cx.g.reshape(t, &shape)?;
    let compute = promote::compute_type(dtype);
    let (t, counts) = targets(cx, t, xd[c], ignore)?;
    let g = &mut *cx.g;
    let w = target_weights(g, t, counts, weight, compute)?;
    let picked = if g.numel(x) == 0 {
        g.full(compute, &shape, 0)?
    } else {
        let flat = flat_index(g, t, &xd, c)?;
        let x = g.reshape(x, &[xd.iter().product()])?;
        let v = take(g, x, flat)?;
        g.convert(v, compute)?
    };
    let loss = g.multiply(picked, w)?;
    let loss = g.neg(loss)?;
    let zero = g.zeros_like(loss)?;
    let loss = g.select(counts, loss, zero)?;
    let all: Vec<usize> = (0..shape.len()).collect();
    let total = g.reduce_sum(w, &all)?;
    let (loss, total) = match reduce {
        Reduction::None if xd.len() > 1 => {
            let zero = g.scalar(compute, 0)?;
            (loss, zero)
        }
        Reduction::Mean => {
            let sum = g.reduce_sum(loss, &all)?;
            (exact::divide(g, sum, total)?, total)
        }
        _ => (g.reduce_sum(loss, &all)?, total),
    };
    for v in [loss, total] {
        let v = cx.g.convert(v, dtype)?;
        cx.out(v);
    }
    Ok(())
}

/// Place of each target's element in the flattened input.
fn flat_index(g: &mut Graph, t: Value, xd: &[i64], c: usize) -> Result<Value> {
    let inner: i64 = xd[c + 1..].iter().product();
    let step = g.full_like(t, inner)?;
    let mut index = g.multiply(t, step)?;
    let shape = g.dims(t);
    let mut stride = 1;
    for d in (0..shape.len()).rev() {
        // Dimension d of the target is dimension d of the input, one further on behind the class.
        let here = if d >= c { stride } else { stride * xd[c] };
        let i = g.iota(DType::I64, &shape, d)?;
        let s = g.full_like(i, here)?;
        let i = g.multiply(i, s)?;
        index = g.add(index, i)?;
        stride *= shape[d];
    }
    Ok(index)
}

/// `nll_loss_backward(grad, self, target, weight, reduction, ignore_index, total_weight)`: `-weight[target] * grad` at
/// the targets, 0 elsewhere.
fn backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(1)?;
    let (grad, t, weight) = (cx.t(0)?, cx.t(2)?, cx.opt_t(3)?);
    let (reduce, ignore) = (reduction(cx, 4)?, cx.int(5)?);
    check(cx, &ty.dims, &cx.g.dims(t), cx.g.dtype(t), weight, ty.dims.len() == 4)?;
    let compute = promote::compute_type(ty.dtype);
    let c = class_dim(ty.dims.len());
    let shape: Dims = ty.dims.iter().enumerate().filter(|&(i, _)| i != c).map(|(_, &n)| n).collect();
    let t = cx.g.reshape(t, &shape)?;
    let (t, counts) = targets(cx, t, ty.dims[c], ignore)?;
    let total = if reduce == Reduction::Mean { Some(cx.t(6)?) } else { None };
    let g = &mut *cx.g;
    let w = target_weights(g, t, counts, weight, compute)?;
    let mut grad = g.convert(grad, compute)?;
    if let Some(total) = total {
        let total = g.convert(total, compute)?;
        grad = exact::divide(g, grad, total)?;
    }
    let grad = g.broadcast_to(grad, &shape)?;
    let v = g.multiply(grad, w)?;
    let v = g.neg(v)?;
    let kept: Vec<usize> = (0..ty.dims.len()).filter(|&d| d != c).collect();
    let v = g.broadcast_in_dim(v, &ty.dims, &kept)?;
    let t = g.broadcast_in_dim(t, &ty.dims, &kept)?;
    let counts = g.broadcast_in_dim(counts, &ty.dims, &kept)?;
    let class = g.iota(DType::I64, &ty.dims, c)?;
    let hit = g.compare(class, t, Direction::Eq)?;
    let hit = g.and(hit, counts)?;
    let zero = g.zeros_like(v)?;
    let y = g.select(hit, v, zero)?;
    let y = g.convert(y, ty.dtype)?;
    cx.out(y);
    Ok(())
}
