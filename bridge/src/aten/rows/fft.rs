//! Fourier transforms over chosen dimensions.

use super::axes::wrap;
use crate::Result;
use crate::aten::{Arg, Cx, Row, promote};
use primitives::{DType, FftKind, Graph, Value};

pub const ROWS: &[Row] = &[Row::new("_fft_c2c", c2c), Row::new("_fft_r2c", r2c), Row::new("_fft_c2r", c2r)];

fn dims(cx: &Cx<'_, '_>, x: Value, i: usize) -> Result<Vec<usize>> {
    let rank = cx.g.rank(x);
    cx.ints(i)?.into_iter().map(|d| wrap(cx, d, rank)).collect()
}

/// `x` times what torch's normalization asks for: 0 nothing, 1 `1/sqrt(n)`, 2 `1/n`.
fn normalized(g: &mut Graph, x: Value, n: i64, mode: i64) -> Result<Value> {
    let factor = match mode {
        0 => return Ok(x),
        1 => 1.0 / (n as f64).sqrt(),
        _ => 1.0 / n as f64,
    };
    let f = g.full_like(x, factor)?;
    Ok(g.multiply(x, f)?)
}

/// Lays the result out as torch does: the other dims first, by their strides, then those of the transform, by their
/// strides too but for the `last` of them, which stay as they are named.
fn lay_out(cx: &mut Cx<'_, '_>, dims: &[usize], last: usize) {
    let Arg::Tensor(t) = cx.arg(0) else { return };
    let strides = t.strides;
    let outermost_first = |dims: &mut [usize]| dims.sort_by_key(|&d| std::cmp::Reverse(strides[d]));
    let mut order: Vec<usize> = (0..strides.len()).filter(|d| !dims.contains(d)).collect();
    outermost_first(&mut order);
    let mut transformed = dims.to_vec();
    let sorted = dims.len().saturating_sub(last);
    outermost_first(&mut transformed[..sorted]);
    order.extend(transformed);
    cx.order = (order.len() == strides.len()).then_some(order);
}

/// Complex transform along one dimension, without normalization in either direction.
fn along(g: &mut Graph, x: Value, dim: usize, forward: bool) -> Result<Value> {
    let n = g.dims(x)[dim];
    moved(g, x, dim, |g, x| {
        let y = g.fft(x, if forward { FftKind::Fft } else { FftKind::Ifft }, &[n])?;
        if forward {
            return Ok(y);
        }
        let n = g.full_like(y, n)?;
        Ok(g.multiply(y, n)?)
    })
}

/// `f` with `dim` as the last dimension.
fn moved(g: &mut Graph, x: Value, dim: usize, f: impl FnOnce(&mut Graph, Value) -> Result<Value>) -> Result<Value> {
    let last = g.rank(x) - 1;
    let mut order: Vec<usize> = (0..=last).collect();
    order.swap(dim, last);
    let x = g.transpose(x, &order)?;
    let y = f(g, x)?;
    Ok(g.transpose(y, &order)?)
}

fn all(g: &mut Graph, mut x: Value, dims: &[usize], forward: bool) -> Result<Value> {
    if g.numel(x) == 0 {
        return Ok(x);
    }
    for &d in dims {
        x = along(g, x, d, forward)?;
    }
    Ok(x)
}

fn sizes(g: &Graph, x: Value, dims: &[usize]) -> i64 {
    let shape = g.dims(x);
    dims.iter().map(|&d| shape[d]).product()
}

/// `_fft_c2c(self, dim, normalization, forward)`.
fn c2c(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let (dims, mode, forward) = (dims(cx, x, 1)?, cx.int(2)?, cx.bool(3)?);
    if !cx.g.dtype(x).is_complex() {
        return Err(cx.error("expected a complex tensor"));
    }
    let n = sizes(cx.g, x, &dims);
    let y = all(cx.g, x, &dims, forward)?;
    let y = normalized(cx.g, y, n, mode)?;
    lay_out(cx, &dims, 0);
    cx.out(y);
    Ok(())
}

/// `_fft_r2c(self, dim, normalization, onesided)`: the last of `dim` is halved when one-sided.
fn r2c(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let dims = dims(cx, x, 1)?;
    let (mode, onesided) = (cx.int(2)?, cx.bool(3)?);
    let dtype = cx.g.dtype(x);
    if !matches!(dtype, DType::F32 | DType::F64) {
        return Err(cx.error(format!("Unsupported dtype {}", promote::torch_name(dtype))));
    }
    let n = sizes(cx.g, x, &dims);
    let Some((&last, rest)) = dims.split_last() else {
        let y = cx.g.convert(x, dtype.complex_of())?;
        cx.out(y);
        return Ok(());
    };
    let y = if onesided {
        let length = cx.g.dims(x)[last];
        let half = moved(cx.g, x, last, |g, x| Ok(g.fft(x, FftKind::Rfft, &[length])?))?;
        all(cx.g, half, rest, true)?
    } else {
        let z = cx.g.convert(x, dtype.complex_of())?;
        all(cx.g, z, &dims, true)?
    };
    let y = normalized(cx.g, y, n, mode)?;
    lay_out(cx, &dims, 1);
    cx.out(y);
    Ok(())
}

/// `_fft_c2r(self, dim, normalization, last_dim_size)`: the inverse of the one-sided transform.
fn c2r(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let dims = dims(cx, x, 1)?;
    let (mode, length) = (cx.int(2)?, cx.int(3)?);
    let Some((&last, rest)) = dims.split_last() else {
        let y = cx.g.real(x)?;
        cx.out(y);
        return Ok(());
    };
    let n = sizes(cx.g, x, rest) * length;
    let y = all(cx.g, x, rest, false)?;
    let y = moved(cx.g, y, last, |g, y| {
        let y = g.fft(y, FftKind::Irfft, &[length])?;
        let n = g.full_like(y, length)?;
        Ok(g.multiply(y, n)?)
    })?;
    let y = normalized(cx.g, y, n, mode)?;
    lay_out(cx, &dims, 1);
    cx.out(y);
    Ok(())
}
