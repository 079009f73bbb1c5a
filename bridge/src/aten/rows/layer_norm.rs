//! Layer normalization and RMS normalization over the last dims, and their gradients.

use super::math;
use super::util::check_real_float;
use crate::Result;
use crate::aten::{Cx, Row, exact, promote};
use primitives::{DType, Dims, Graph, Number, Value};

pub const ROWS: &[Row] = &[
    Row::new("native_layer_norm", layer_norm).dynamic(&["eps"]),
    Row::new("native_layer_norm_backward", layer_norm_backward),
    Row::new("_fused_rms_norm", rms_norm).dynamic(&["eps"]),
    Row::new("_fused_rms_norm_backward", rms_norm_backward),
];

/// The normalized dims of an input, and its dims with these as 1.
fn inner(cx: &Cx<'_, '_>, input: usize, shape: usize) -> Result<(Vec<usize>, Dims)> {
    let (dims, shape) = (cx.sizes(input)?, cx.ints(shape)?);
    if shape.is_empty() {
        return Err(cx.error("Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []"));
    }
    let split = dims.len().checked_sub(shape.len()).filter(|&s| dims[s..] == shape[..]);
    let Some(split) = split else {
        let list = shape.iter().map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        return Err(cx.error(format!(
            "Given normalized_shape=[{list}], expected input with shape [*, {list}], but got input of size{:?}",
            &dims[..]
        )));
    };
    let mut kept = dims.clone();
    kept[split..].fill(1);
    Ok(((split..dims.len()).collect(), kept))
}

fn check_param(cx: &Cx<'_, '_>, i: usize, name: &str, shape: usize) -> Result<()> {
    if cx.is_none(i) || cx.sizes(i)?[..] == cx.ints(shape)?[..] {
        return Ok(());
    }
    Err(cx.error(format!(
        "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {:?} and normalized_shape = {:?}",
        &cx.sizes(i)?[..],
        cx.ints(shape)?
    )))
}

/// Mean over dims that stay as size 1.
fn mean_kept(g: &mut Graph, x: Value, over: &[usize], kept: &Dims) -> Result<Value> {
    let m = math::mean(g, x, over)?;
    Ok(g.reshape(m, kept)?)
}

/// `1 / sqrt(v + eps)`.
fn inverse_root(g: &mut Graph, v: Value, eps: Value) -> Result<Value> {
    let v = math::add(g, v, eps)?;
    let root = g.sqrt(v)?;
    let one = g.ones_like(root)?;
    Ok(exact::divide(g, one, root)?)
}

/// `(output, mean, rstd)`.
fn layer_norm(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (over, kept) = inner(cx, 0, 1)?;
    check_param(cx, 2, "weight", 1)?;
    check_param(cx, 3, "bias", 1)?;
    let x = cx.t(0)?;
    let dtype = cx.g.dtype(x);
    check_real_float(cx, "LayerNormKernelImpl", dtype)?;
    let compute = promote::compute_type(dtype);
    let x = cx.g.convert(x, compute)?;
    let g = &mut *cx.g;
    let mean = mean_kept(g, x, &over, &kept)?;
    let centered = math::sub(g, x, mean)?;
    let squares = math::square(g, centered)?;
    let variance = mean_kept(g, squares, &over, &kept)?;
    let eps = cx.number_as(4, compute)?;
    let rstd = inverse_root(cx.g, variance, eps)?;
    let mut y = math::mul(cx.g, centered, rstd)?;
    let mut saved = None;
    if let Some(w) = cx.opt_t(2)? {
        saved = Some(cx.g.dtype(w));
        let w = cx.g.convert(w, compute)?;
        y = math::mul(cx.g, y, w)?;
    }
    if let Some(b) = cx.opt_t(3)? {
        saved = saved.or(Some(cx.g.dtype(b)));
        let b = cx.g.convert(b, compute)?;
        y = math::add(cx.g, y, b)?;
    }
    let saved = saved.unwrap_or(dtype);
    for (v, dtype) in [(y, dtype), (mean, saved), (rstd, saved)] {
        let v = cx.g.convert(v, dtype)?;
        cx.out(v);
    }
    Ok(())
}

/// `native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)`.
///
/// With `h = (x - mean) * rstd` and `u = g * w`: input `rstd * (u - mean(u) - h * mean(u * h))`, weight `sum(g * h)`,
/// bias `sum(g)` over the outer dims.
fn layer_norm_backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (over, kept) = inner(cx, 1, 2)?;
    let mask = cx.bools(7)?;
    let (go, x, mean, rstd) = (cx.t(0)?, cx.t(1)?, cx.t(3)?, cx.t(4)?);
    let weight = cx.opt_t(5)?;
    let dtype = cx.g.dtype(x);
    let compute = promote::compute_type(dtype);
    let g = &mut *cx.g;
    let [go, x, mean, rstd] =
        [g.convert(go, compute)?, g.convert(x, compute)?, g.convert(mean, compute)?, g.convert(rstd, compute)?];
    let h = math::sub(g, x, mean)?;
    let h = math::mul(g, h, rstd)?;
    let params = weight.map_or(dtype, |w| g.dtype(w));
    let u = weighted(g, go, weight, compute)?;
    if mask[0] {
        let average = mean_kept(g, u, &over, &kept)?;
        let along = g.multiply(u, h)?;
        let along = mean_kept(g, along, &over, &kept)?;
        let tilt = math::mul(g, h, along)?;
        let v = math::sub(g, u, average)?;
        let v = g.subtract(v, tilt)?;
        let v = math::mul(g, v, rstd)?;
        let v = g.convert(v, dtype)?;
        cx.out(v);
    } else {
        cx.out_none();
    }
    let product = cx.g.multiply(go, h)?;
    for (wanted, v, i) in [(mask[1], product, 5), (mask[2], go, 6)] {
        outer_sum(cx, wanted && !cx.is_none(i), v, over[0], params)?;
    }
    Ok(())
}

/// `x`, which is of type `compute`, times the weight if there is one.
fn weighted(g: &mut Graph, x: Value, weight: Option<Value>, compute: DType) -> Result<Value> {
    let Some(w) = weight else { return Ok(x) };
    let w = g.convert(w, compute)?;
    math::mul(g, x, w)
}

/// The sum over the dims before `split` as a parameter's gradient.
fn outer_sum(cx: &mut Cx<'_, '_>, wanted: bool, v: Value, split: usize, dtype: DType) -> Result<()> {
    if !wanted {
        cx.out_none();
        return Ok(());
    }
    let outer: Vec<usize> = (0..split).collect();
    let v = cx.g.reduce_sum(v, &outer)?;
    let v = cx.g.convert(v, dtype)?;
    cx.out(v);
    Ok(())
}

/// `_fused_rms_norm(input, normalized_shape, weight, eps)`: `(output, rstd)`; `eps` is by default that of the dtype.
fn rms_norm(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (over, kept) = inner(cx, 0, 1)?;
    check_param(cx, 2, "weight", 1)?;
    let x = cx.t(0)?;
    let dtype = cx.g.dtype(x);
    let compute = promote::compute_type(dtype);
    let x = cx.g.convert(x, compute)?;
    let squares = math::square(cx.g, x)?;
    let mean = mean_kept(cx.g, squares, &over, &kept)?;
    let eps = if cx.is_none(3) {
        let digits = if compute == DType::F64 { -52f64 } else { -23f64 };
        cx.g.scalar(compute, Number::Float(digits.exp2()))?
    } else {
        cx.number_as(3, compute)?
    };
    let rstd = inverse_root(cx.g, mean, eps)?;
    let y = math::mul(cx.g, x, rstd)?;
    let weight = cx.opt_t(2)?;
    let y = weighted(cx.g, y, weight, compute)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    cx.out(rstd);
    Ok(())
}

/// `_fused_rms_norm_backward(grad_out, input, normalized_shape, rstd, weight, output_mask)`.
fn rms_norm_backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (over, kept) = inner(cx, 1, 2)?;
    let mask = cx.bools(5)?;
    let (go, x, rstd) = (cx.t(0)?, cx.t(1)?, cx.t(3)?);
    let weight = cx.opt_t(4)?;
    let dtype = cx.g.dtype(x);
    let compute = promote::compute_type(dtype);
    let g = &mut *cx.g;
    let [go, x, rstd] = [g.convert(go, compute)?, g.convert(x, compute)?, g.convert(rstd, compute)?];
    let h = math::mul(g, x, rstd)?;
    let params = weight.map_or(dtype, |w| g.dtype(w));
    let u = weighted(g, go, weight, compute)?;
    if mask[0] {
        let along = g.multiply(u, h)?;
        let along = mean_kept(g, along, &over, &kept)?;
        let tilt = math::mul(g, h, along)?;
        let v = g.subtract(u, tilt)?;
        let v = math::mul(g, v, rstd)?;
        let v = g.convert(v, dtype)?;
        cx.out(v);
    } else {
        cx.out_none();
    }
    let product = cx.g.multiply(go, h)?;
    outer_sum(cx, mask[1] && weight.is_some(), product, over[0], params)
}
