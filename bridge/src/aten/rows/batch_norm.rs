//! Batch normalization over all dims but dim 1, and its gradient.

use super::math;
use super::util::check_real_float;
use crate::Result;
use crate::aten::{Cx, Row, exact, promote};
use primitives::{DType, Value};

pub const ROWS: &[Row] = &[
    Row::pointwise("native_batch_norm", |cx| row(cx, Some((3, 4)), 5, 6, 7))
        .dynamic(&["momentum", "eps"])
        .writes_several(),
    Row::pointwise("_native_batch_norm_legit", |cx| row(cx, Some((3, 4)), 5, 6, 7))
        .dynamic(&["momentum", "eps"])
        .writes_several(),
    Row::pointwise("_native_batch_norm_legit.no_stats", |cx| row(cx, None, 3, 4, 5)).dynamic(&["momentum", "eps"]),
    Row::pointwise("_batch_norm_with_update", with_update).dynamic(&["momentum", "eps"]).writes_several(),
    Row::pointwise("native_batch_norm_backward", backward).dynamic(&["eps"]),
    Row::pointwise("batch_norm_backward", backward).dynamic(&["eps"]),
];

/// Dims that statistics run over.
fn reduced(rank: usize) -> Vec<usize> {
    (0..rank).filter(|&d| d != 1).collect()
}

/// Dtype of saved statistics: that of the parameters, which may be wider than the input's.
fn stats_dtype(cx: &Cx<'_, '_>, params: &[usize]) -> Result<DType> {
    for &i in params {
        if !cx.is_none(i) {
            return Ok(cx.ty(i)?.dtype);
        }
    }
    Ok(cx.ty(0)?.dtype)
}

/// `(x - mean) * invstd * weight + bias`, the statistics per channel.
fn normalized(cx: &mut Cx<'_, '_>, x: Value, mean: Value, invstd: Value) -> Result<Value> {
    let dims = cx.g.dims(x);
    let compute = cx.g.dtype(x);
    let mut scale = invstd;
    if let Some(w) = cx.opt_t(1)? {
        let w = cx.g.convert(w, compute)?;
        scale = cx.g.multiply(scale, w)?;
    }
    let mean = math::along(cx.g, mean, &dims, 1)?;
    let scale = math::along(cx.g, scale, &dims, 1)?;
    let y = cx.g.subtract(x, mean)?;
    let mut y = cx.g.multiply(y, scale)?;
    if let Some(b) = cx.opt_t(2)? {
        let b = cx.g.convert(b, compute)?;
        let b = math::along(cx.g, b, &dims, 1)?;
        y = cx.g.add(y, b)?;
    }
    Ok(y)
}

fn inverse_std(cx: &mut Cx<'_, '_>, variance: Value, eps: usize) -> Result<Value> {
    check_real_float(cx, "batch_norm", cx.g.dtype(variance))?;
    let eps = cx.number_as(eps, cx.g.dtype(variance))?;
    let v = math::add(cx.g, variance, eps)?;
    let root = cx.g.sqrt(v)?;
    let one = cx.g.ones_like(root)?;
    Ok(exact::divide(cx.g, one, root)?)
}

/// `(output, save_mean, save_invstd)`. Training normalizes by the batch's statistics and moves the running ones towards
/// them; evaluation normalizes by the running ones and saves nothing.
fn row(
    cx: &mut Cx<'_, '_>,
    running: Option<(usize, usize)>,
    training: usize,
    momentum: usize,
    eps: usize,
) -> Result<()> {
    let training = cx.bool(training)?;
    batch_norm(cx, running, training, momentum, eps)
}

fn batch_norm(
    cx: &mut Cx<'_, '_>,
    running: Option<(usize, usize)>,
    training: bool,
    momentum: usize,
    eps: usize,
) -> Result<()> {
    let x = cx.t(0)?;
    let dtype = cx.g.dtype(x);
    let params: Vec<usize> = [1, 2].into_iter().chain(running.map(|r| r.0)).collect();
    let saved = stats_dtype(cx, &params)?;
    let compute = promote::compute_type(dtype);
    let x = cx.g.convert(x, compute)?;
    let rank = cx.g.rank(x);
    if rank < 2 {
        return Err(cx.error(format!("batch_norm: expected input of rank 2 or more, got rank {rank}")));
    }
    let channels = cx.g.dims(x)[1];
    let present = running.filter(|r| !cx.is_none(r.0) && !cx.is_none(r.1));
    if !training {
        let Some((m, v)) = present else {
            return Err(cx.error("Expected running_mean and running_var to be defined when training=False"));
        };
        let (mean, variance) = (cx.t(m)?, cx.t(v)?);
        let mean = cx.g.convert(mean, compute)?;
        let variance = cx.g.convert(variance, compute)?;
        let invstd = inverse_std(cx, variance, eps)?;
        let y = normalized(cx, x, mean, invstd)?;
        let y = cx.g.convert(y, dtype)?;
        let nothing = cx.g.full(saved, &[0], 0)?;
        cx.out(y);
        cx.out(nothing);
        cx.out(nothing);
        return Ok(());
    }
    let over = reduced(rank);
    let n: i64 = cx.g.numel(x) / channels.max(1);
    let mean = math::mean(cx.g, x, &over)?;
    let dims = cx.g.dims(x);
    let wide = math::along(cx.g, mean, &dims, 1)?;
    let centered = cx.g.subtract(x, wide)?;
    let squares = math::square(cx.g, centered)?;
    let variance = math::mean(cx.g, squares, &over)?;
    let invstd = inverse_std(cx, variance, eps)?;
    let y = normalized(cx, x, mean, invstd)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    let (save_mean, save_invstd) = (cx.g.convert(mean, saved)?, cx.g.convert(invstd, saved)?);
    cx.out(save_mean);
    cx.out(save_invstd);
    let unbiased = math::mul_n(cx.g, variance, n as f64 / (n - 1) as f64)?;
    for (i, new) in running.into_iter().flat_map(|(m, v)| [(m, mean), (v, unbiased)]) {
        if cx.is_none(i) {
            continue;
        }
        let old = cx.t(i)?;
        let old = cx.g.convert(old, compute)?;
        let momentum = cx.number_as(momentum, compute)?;
        let one = cx.g.ones_like(momentum)?;
        let rest = cx.g.subtract(one, momentum)?;
        let (a, b) = (math::mul(cx.g, old, rest)?, math::mul(cx.g, new, momentum)?);
        let moved = cx.g.add(a, b)?;
        cx.mutate(i, moved);
    }
    Ok(())
}

/// `_batch_norm_with_update`: training, with a fourth result that other backends keep scratch space in.
fn with_update(cx: &mut Cx<'_, '_>) -> Result<()> {
    batch_norm(cx, Some((3, 4)), true, 5, 6)?;
    let nothing = cx.g.full(DType::U8, &[0], 0)?;
    cx.out(nothing);
    Ok(())
}

/// `native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps,
/// output_mask)`; `batch_norm_backward` has one more argument, the scratch space of other backends.
///
/// With `d = sum(g * (x - mean))` per channel, training gives `(g - mean(g) - (x - mean) * d * invstd^2 / n) * invstd * w`,
/// evaluation `g * invstd * w`; the weight gets `d * invstd`, the bias `sum(g)`.
fn backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (go, x) = (cx.t(0)?, cx.t(1)?);
    let (dtype, train, mask) = (cx.g.dtype(x), cx.bool(7)?, cx.bools(9)?);
    let compute = promote::compute_type(dtype);
    let (go, x) = (cx.g.convert(go, compute)?, cx.g.convert(x, compute)?);
    let dims = cx.g.dims(x);
    let over = reduced(dims.len());
    let (mean, invstd) = if train {
        let (m, s) = (cx.t(5)?, cx.t(6)?);
        (cx.g.convert(m, compute)?, cx.g.convert(s, compute)?)
    } else {
        let (m, v) = (cx.t(3)?, cx.t(4)?);
        let (m, v) = (cx.g.convert(m, compute)?, cx.g.convert(v, compute)?);
        (m, inverse_std(cx, v, 8)?)
    };
    let weight = cx.opt_t(2)?;
    let params = match weight {
        Some(w) => cx.g.dtype(w),
        None => dtype,
    };
    let g = &mut *cx.g;
    let wide_mean = math::along(g, mean, &dims, 1)?;
    let centered = g.subtract(x, wide_mean)?;
    let product = g.multiply(go, centered)?;
    let dot = g.reduce_sum(product, &over)?;
    let sum = g.reduce_sum(go, &over)?;
    if mask[0] {
        let mut scale = invstd;
        if let Some(w) = weight {
            let w = g.convert(w, compute)?;
            scale = g.multiply(scale, w)?;
        }
        let scale = math::along(g, scale, &dims, 1)?;
        let mut y = go;
        if train {
            let n = (g.numel(x) / dims[1].max(1)) as f64;
            let grad_mean = math::div_n(g, sum, n)?;
            let slope = math::square(g, invstd)?;
            let slope = g.multiply(slope, dot)?;
            let slope = math::div_n(g, slope, n)?;
            let (grad_mean, slope) = (math::along(g, grad_mean, &dims, 1)?, math::along(g, slope, &dims, 1)?);
            let tilt = g.multiply(centered, slope)?;
            y = g.subtract(y, grad_mean)?;
            y = g.subtract(y, tilt)?;
        }
        let y = g.multiply(y, scale)?;
        let y = g.convert(y, dtype)?;
        cx.out(y);
    } else {
        cx.out_none();
    }
    if mask[1] {
        let w = cx.g.multiply(dot, invstd)?;
        let w = cx.g.convert(w, params)?;
        cx.out(w);
    } else {
        cx.out_none();
    }
    if mask[2] {
        let b = cx.g.convert(sum, params)?;
        cx.out(b);
    } else {
        cx.out_none();
    }
    Ok(())
}
