//! Vector norms, log-sum-exp, renormalization.

use super::axes::Axes;
use crate::Result;
use crate::aten::{Cx, Row, exact, promote};
use primitives::{DType, Direction, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::new("linalg_vector_norm", vector_norm),
    Row::new("norm.Scalar", |cx| norm(cx, None, None)),
    Row::new("norm.ScalarOpt_dtype", |cx| norm(cx, None, Some(2))),
    Row::new("norm.ScalarOpt_dim", |cx| norm(cx, Some((2, 3)), None)),
    Row::new("norm.ScalarOpt_dim_dtype", |cx| norm(cx, Some((2, 3)), Some(4))),
    Row::new("logsumexp", logsumexp),
    Row::new("renorm", renorm).dynamic(&["maxnorm"]).guarded(|n| match n.get(3) {
        Some(max) if max < 0.0 => Err(n.error(format!("renorm: expected maxnorm to be >= 0 but got {max}"))),
        _ => Ok(()),
    }),
];

/// `|x|`, real.
pub fn magnitude(g: &mut Graph, x: Value) -> Result<Value> {
    Ok(g.abs(x)?)
}

/// The `p`-norm of real magnitudes over the axes, without keepdim.
pub fn p_norm(g: &mut Graph, a: Value, p: f64, dims: &[usize]) -> Result<Value> {
    if p == f64::INFINITY {
        // The magnitudes are at least 0, so that 0 is what the norm of nothing would be.
        return Ok(g.reduce_max(a, dims)?);
    }
    if p == f64::NEG_INFINITY {
        return Ok(g.reduce_min(a, dims)?);
    }
    if p == 0.0 {
        let zero = g.zeros_like(a)?;
        let n = g.compare(a, zero, Direction::Ne)?;
        let n = g.convert(n, g.dtype(a))?;
        return Ok(g.reduce_sum(n, dims)?);
    }
    if p == 1.0 {
        return Ok(g.reduce_sum(a, dims)?);
    }
    if p == 2.0 {
        let s = g.multiply(a, a)?;
        let s = g.reduce_sum(s, dims)?;
        return Ok(g.sqrt(s)?);
    }
    let e = g.full_like(a, p)?;
    let s = g.power(a, e)?;
    let s = g.reduce_sum(s, dims)?;
    let e = g.full_like(s, 1.0 / p)?;
    Ok(g.power(s, e)?)
}

fn norm_value(cx: &mut Cx<'_, '_>, x: Value, p: f64, ax: &Axes, dtype: DType) -> Result<Value> {
    let x = cx.g.convert(x, promote::compute_type(dtype))?;
    let a = magnitude(cx.g, x)?;
    let y = if ax.dims.is_empty() && p != 0.0 { a } else { p_norm(cx.g, a, p, &ax.dims)? };
    let y = cx.g.convert(y, dtype.real_of())?;
    ax.finish(cx.g, y)
}

/// Dtype that the norm is of: the argument's, or the tensor's own.
fn norm_dtype(cx: &Cx<'_, '_>, x: Value, arg: Option<usize>, name: &str) -> Result<DType> {
    let own = cx.g.dtype(x);
    let given = match arg {
        Some(i) => cx.dtype_arg(i)?,
        None => None,
    };
    if promote::category(own) < 2 {
        return Err(cx.error(format!(
            "{name}: Expected a floating point or complex tensor as input. Got {}",
            promote::torch_name(own)
        )));
    }
    if let Some(d) = given {
        if promote::category(d) < 2 || d.is_complex() != own.is_complex() {
            return Err(cx.error(format!(
                "{name}: dtype should be {} as the input is, but got {}",
                if own.is_complex() { "complex" } else { "floating point" },
                promote::torch_name(d)
            )));
        }
        if promote::promote_types(own, d) != d {
            return Err(cx.error(format!(
                "{name}: the dtype of the input ({}) should be convertible without narrowing to the specified dtype ({})",
                promote::torch_name(own),
                promote::torch_name(d)
            )));
        }
    }
    Ok(given.unwrap_or(own))
}

/// `linalg_vector_norm(self, ord, dim, keepdim, *, dtype)`.
fn vector_norm(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let p = cx.float(1)?;
    let dtype = norm_dtype(cx, x, Some(4), "linalg.vector_norm")?;
    let ax = Axes::of(cx, x, 2, 3)?;
    let given = cx.opt_ints(2)?.is_some_and(|d| !d.is_empty());
    let empty = if given { ax.count() == 0 } else { cx.g.numel(x) == 0 };
    if empty && (p < 0.0 || p == f64::INFINITY) {
        let what = if given { "on some empty dimension" } else { "on an empty tensor" };
        return Err(cx.error(format!(
            "linalg.vector_norm cannot compute the {p} norm {what} because the operation does not have an identity"
        )));
    }
    let y = norm_value(cx, x, p, &ax, dtype)?;
    cx.out(y);
    Ok(())
}

/// `norm(self, p, dim, keepdim, *, dtype)`; `p` is 2 when it is None.
fn norm(cx: &mut Cx<'_, '_>, dims: Option<(usize, usize)>, dtype: Option<usize>) -> Result<()> {
    let x = cx.t(0)?;
    let p = cx.opt_float(1)?.unwrap_or(2.0);
    let dtype = norm_dtype(cx, x, dtype, "linalg.vector_norm")?;
    let ax = super::reduce::axes(cx, x, dims)?;
    let y = norm_value(cx, x, p, &ax, dtype)?;
    cx.out(y);
    Ok(())
}

/// `logsumexp(self, dim, keepdim)`: `max + log(sum(exp(x - max)))`, integers in the default dtype.
fn logsumexp(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let dtype = promote::to_float(cx.g.dtype(x), cx.env.default_dtype);
    let ax = Axes::of(cx, x, 1, 2)?;
    let g = &mut *cx.g;
    let x = g.convert(x, promote::compute_type(dtype))?;
    let real = if dtype.is_complex() { g.real(x)? } else { x };
    let max = g.reduce_max(real, &ax.dims)?;
    // Infinite maxima are not subtracted: that would be NaN.
    let finite = g.is_finite(max)?;
    let zero = g.zeros_like(max)?;
    let max = g.select(finite, max, zero)?;
    let max = g.convert(max, g.dtype(x))?;
    let wide = ax.spread(g, max)?;
    let d = g.subtract(x, wide)?;
    let e = g.exp(d)?;
    let s = g.reduce_sum(e, &ax.dims)?;
    let l = g.log(s)?;
    let y = g.add(l, max)?;
    let y = g.convert(y, dtype)?;
    let y = ax.finish(g, y)?;
    cx.out(y);
    Ok(())
}

/// `renorm(self, p, dim, maxnorm)`: slices along `dim` whose norm is above `maxnorm` are scaled down to it.
fn renorm(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let p = cx.float(1)?;
    let dims = cx.g.dims(x);
    let dtype = cx.g.dtype(x);
    if p <= 0.0 {
        return Err(cx.error("renorm: non-positive-norm not supported"));
    }
    if dims.len() < 2 {
        return Err(cx.error(format!("renorm: input needs at least 2 dimensions, got {} dimensions", dims.len())));
    }
    if promote::category(dtype) < 2 {
        return Err(cx.error(format!(
            "renorm: expected a floating point or complex tensor, got {}",
            promote::torch_name(dtype)
        )));
    }
    let dim = super::axes::wrap(cx, cx.int(2)?, dims.len())? as i64;
    let others: Vec<i64> = (0..dims.len() as i64).filter(|&d| d != dim).collect();
    let ax = Axes::new(cx, &dims, Some(&others), false)?;
    let g = &mut *cx.g;
    let v = g.convert(x, promote::compute_type(dtype))?;
    let a = magnitude(g, v)?;
    let norm = p_norm(g, a, p, &ax.dims)?;
    let dtype_of_norm = g.dtype(norm);
    let limit = cx.number_as(3, dtype_of_norm)?;
    let g = &mut *cx.g;
    let limit = g.broadcast_to(limit, &g.dims(norm))?;
    let over = g.compare(norm, limit, Direction::Gt)?;
    let eps = g.full_like(norm, 1e-7)?;
    let safe = g.add(norm, eps)?;
    let scale = exact::divide(g, limit, safe)?;
    let one = g.ones_like(norm)?;
    let scale = g.select(over, scale, one)?;
    let scale = ax.spread(g, scale)?;
    let scale = g.convert(scale, g.dtype(v))?;
    let y = g.multiply(v, scale)?;
    let y = g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}
