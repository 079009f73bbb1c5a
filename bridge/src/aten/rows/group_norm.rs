//! Group normalization, and its gradient.

use super::math;
use super::util::check_real_float;
use crate::Result;
use crate::aten::{Cx, Row, exact, promote};
use primitives::{Graph, Value};

pub const ROWS: &[Row] = &[
    Row::pointwise("native_group_norm", forward).dynamic(&["eps"]),
    Row::pointwise("native_group_norm_backward", backward),
];

/// Sizes `N, C, HxW, groups` at argument `at`; values are seen as `[N, groups, C / groups, HxW]`.
fn sizes(cx: &Cx<'_, '_>, at: usize) -> Result<[i64; 4]> {
    let (n, c, hw, groups) = (cx.int(at)?, cx.int(at + 1)?, cx.int(at + 2)?, cx.int(at + 3)?);
    if groups <= 0 || c % groups != 0 {
        return Err(cx.error(format!(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape {:?} and num_groups={groups}",
            &cx.sizes(0)?[..]
        )));
    }
    Ok([n, groups, c / groups, hw])
}

/// A `[C]` parameter over `[N, groups, C / groups, HxW]`.
fn per_channel(g: &mut Graph, v: Value, dims: &[i64; 4]) -> Result<Value> {
    let v = g.reshape(v, &[dims[1], dims[2]])?;
    Ok(g.broadcast_in_dim(v, dims, &[1, 2])?)
}

fn per_group(g: &mut Graph, v: Value, dims: &[i64; 4]) -> Result<Value> {
    Ok(g.broadcast_in_dim(v, dims, &[0, 1])?)
}

/// `native_group_norm(input, weight, bias, N, C, HxW, group, eps)`: `(output, mean, rstd)`.
fn forward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let dims = sizes(cx, 3)?;
    let x = cx.t(0)?;
    let (shape, dtype) = (cx.g.dims(x), cx.g.dtype(x));
    check_real_float(cx, "GroupNormKernelImpl", dtype)?;
    let compute = promote::compute_type(dtype);
    let x = cx.g.convert(x, compute)?;
    let x = cx.g.reshape(x, &dims)?;
    let g = &mut *cx.g;
    let mean = math::mean(g, x, &[2, 3])?;
    let wide = per_group(g, mean, &dims)?;
    let centered = g.subtract(x, wide)?;
    let squares = math::square(g, centered)?;
    let variance = math::mean(g, squares, &[2, 3])?;
    let eps = cx.number_as(7, compute)?;
    let g = &mut *cx.g;
    let variance = math::add(g, variance, eps)?;
    let root = g.sqrt(variance)?;
    let one = g.ones_like(root)?;
    let rstd = exact::divide(g, one, root)?;
    let wide = per_group(g, rstd, &dims)?;
    let mut y = g.multiply(centered, wide)?;
    let mut saved = None;
    if let Some(w) = cx.opt_t(1)? {
        saved = Some(cx.g.dtype(w));
        let w = cx.g.convert(w, compute)?;
        let w = per_channel(cx.g, w, &dims)?;
        y = cx.g.multiply(y, w)?;
    }
    if let Some(b) = cx.opt_t(2)? {
        saved = saved.or(Some(cx.g.dtype(b)));
        let b = cx.g.convert(b, compute)?;
        let b = per_channel(cx.g, b, &dims)?;
        y = cx.g.add(y, b)?;
    }
    let saved = saved.unwrap_or(dtype);
    let y = cx.g.reshape(y, &shape)?;
    for (v, dtype) in [(y, dtype), (mean, saved), (rstd, saved)] {
        let v = cx.g.convert(v, dtype)?;
        cx.out(v);
    }
    Ok(())
}

/// `native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)`: the formula of layer
/// normalization within each group.
fn backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let dims = sizes(cx, 5)?;
    let mask = cx.bools(9)?;
    let (go, x, mean, rstd) = (cx.t(0)?, cx.t(1)?, cx.t(2)?, cx.t(3)?);
    let weight = cx.opt_t(4)?;
    let (shape, dtype) = (cx.g.dims(x), cx.g.dtype(x));
    let compute = promote::compute_type(dtype);
    let g = &mut *cx.g;
    let [go, x, mean, rstd] =
        [g.convert(go, compute)?, g.convert(x, compute)?, g.convert(mean, compute)?, g.convert(rstd, compute)?];
    let (go, x) = (g.reshape(go, &dims)?, g.reshape(x, &dims)?);
    let (mean, rstd) = (per_group(g, mean, &dims)?, per_group(g, rstd, &dims)?);
    let h = g.subtract(x, mean)?;
    let h = g.multiply(h, rstd)?;
    let mut params = dtype;
    let mut u = go;
    if let Some(w) = weight {
        params = g.dtype(w);
        let w = g.convert(w, compute)?;
        let w = per_channel(g, w, &dims)?;
        u = g.multiply(u, w)?;
    }
    if mask[0] {
        let average = math::mean(g, u, &[2, 3])?;
        let average = per_group(g, average, &dims)?;
        let along = g.multiply(u, h)?;
        let along = math::mean(g, along, &[2, 3])?;
        let along = per_group(g, along, &dims)?;
        let tilt = g.multiply(h, along)?;
        let v = g.subtract(u, average)?;
        let v = g.subtract(v, tilt)?;
        let v = g.multiply(v, rstd)?;
        let v = g.reshape(v, &shape)?;
        let v = g.convert(v, dtype)?;
        cx.out(v);
    } else {
        cx.out_none();
    }
    let product = cx.g.multiply(go, h)?;
    for (wanted, v) in [(mask[1], product), (mask[2], go)] {
        if !wanted {
            cx.out_none();
            continue;
        }
        let v = cx.g.reduce_sum(v, &[0, 3])?;
        let v = cx.g.reshape(v, &[dims[1] * dims[2]])?;
        let v = cx.g.convert(v, params)?;
        cx.out(v);
    }
    Ok(())
}
