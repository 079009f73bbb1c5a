//! Gradients of views, and views written functionally: a small value put into its place in a larger one.

use super::diagonal::{on_diagonal, placed};
use super::places::{Combine, scatter_at, wrap_dim};
use crate::Result;
use crate::aten::{Cx, Row};
use primitives::{DType, Dims, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::new("select_backward", select_backward),
    Row::new("slice_backward", slice_backward),
    Row::new("diagonal_backward", diagonal_backward),
    Row::new("unfold_backward", unfold_backward),
    Row::pointwise("select_scatter", select_scatter),
    Row::pointwise("slice_scatter", slice_scatter),
    Row::pointwise("diagonal_scatter", diagonal_scatter),
];

fn zero_pad(g: &mut Graph, v: Value, dim: usize, low: i64, high: i64, interior: i64) -> Result<Value> {
    let rank = g.rank(v);
    let at = |n: i64| {
        let mut p = vec![0; rank];
        p[dim] = n;
        p
    };
    let zero = g.scalar(g.dtype(v), 0)?;
    Ok(g.pad(v, zero, &at(low), &at(high), &at(interior))?)
}

/// An index along a dim of size `n`, wrapped; torch's IndexError when out of range.
fn wrap_at(cx: &Cx<'_, '_>, index: i64, n: i64, dim: usize) -> Result<i64> {
    if (-n..n).contains(&index) {
        return Ok(if index < 0 { index + n } else { index });
    }
    Err(crate::Error::index(cx.op(), format!("index {index} is out of bounds for dimension {dim} with size {n}")))
}

/// First element and number of elements of a Python slice over `n` elements.
fn slice_range(start: Option<i64>, end: Option<i64>, step: i64, n: i64) -> (i64, i64) {
    let wrap = |i: i64| if i < 0 { (i + n).max(0) } else { i.min(n) };
    let start = wrap(start.unwrap_or(0));
    let end = wrap(end.unwrap_or(i64::MAX)).max(start);
    (start, (end - start + step - 1) / step)
}

/// `select_backward(grad, input_sizes, dim, index)`: `grad` at `index`, zeros elsewhere.
fn select_backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let grad = cx.t(0)?;
    let sizes = cx.ints(1)?;
    let dim = wrap_dim(cx, cx.int(2)?, sizes.len())?;
    let n = sizes[dim];
    let index = wrap_at(cx, cx.int(3)?, n, dim)?;
    let mut one = Dims::from_slice(&sizes);
    one[dim] = 1;
    let v = cx.g.reshape(grad, &one)?;
    let y = zero_pad(cx.g, v, dim, index, n - 1 - index, 0)?;
    cx.out(y);
    Ok(())
}

/// `slice_backward(grad, input_sizes, dim, start, end, step)`.
fn slice_backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let grad = cx.t(0)?;
    let sizes = cx.ints(1)?;
    let dim = wrap_dim(cx, cx.int(2)?, sizes.len())?;
    let (n, step) = (sizes[dim], cx.int(5)?);
    let (start, len) = slice_range(Some(cx.int(3)?), Some(cx.int(4)?), step, n);
    let y = if len == 0 || sizes.contains(&0) {
        cx.g.full(cx.g.dtype(grad), &sizes, 0)?
    } else {
        zero_pad(cx.g, grad, dim, start, n - start - ((len - 1) * step + 1), step - 1)?
    };
    cx.out(y);
    Ok(())
}

/// `diagonal_backward(grad, input_sizes, offset, dim1, dim2)`.
fn diagonal_backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let grad = cx.t(0)?;
    let sizes = cx.ints(1)?;
    let (dim1, dim2) = (wrap_dim(cx, cx.int(3)?, sizes.len())?, wrap_dim(cx, cx.int(4)?, sizes.len())?);
    let offset = cx.int(2)?;
    let y = if sizes.contains(&0) || cx.g.numel(grad) == 0 {
        cx.g.full(cx.g.dtype(grad), &sizes, 0)?
    } else {
        let v = placed(cx.g, grad, &sizes, dim1, dim2, offset)?;
        let mask = on_diagonal(cx.g, &sizes, dim1, dim2, offset)?;
        let zero = cx.g.zeros_like(v)?;
        cx.g.select(mask, v, zero)?
    };
    cx.out(y);
    Ok(())
}

/// Windows of at most this many elements are summed one element at a time; larger ones are scattered.
const UNROLLED: i64 = 16;

/// `unfold_backward(grad, input_sizes, dim, size, step)`: the windows, the last dim of `grad`, summed where they lay.
fn unfold_backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let grad = cx.t(0)?;
    let sizes = Dims::from_vec(cx.ints(1)?);
    let (size, step) = (cx.int(3)?, cx.int(4)?);
    let dtype = cx.g.dtype(grad);
    if sizes.is_empty() {
        let y = cx.g.reshape(grad, &[])?;
        cx.out(y);
        return Ok(());
    }
    let dim = wrap_dim(cx, cx.int(2)?, sizes.len())?;
    if cx.g.numel(grad) == 0 {
        let y = cx.g.full(dtype, &sizes, 0)?;
        cx.out(y);
        return Ok(());
    }
    let g = &mut *cx.g;
    let (rank, n, count) = (sizes.len(), sizes[dim], g.dims(grad)[dim]);
    let span = (count - 1) * step + 1;
    // The windows' dim right behind the dim that they run along.
    let order: Vec<usize> = (0..=dim).chain([rank]).chain(dim + 1..rank).collect();
    let windows = g.transpose(grad, &order)?;
    let y = if size <= step {
        let wide = zero_pad(g, windows, dim + 1, 0, step - size, 0)?;
        let mut flat = sizes.clone();
        flat[dim] = count * step;
        let flat = g.reshape(wide, &flat)?;
        zero_pad(g, flat, dim, 0, n - count * step, 0)?
    } else if size <= UNROLLED {
        let mut sum = None;
        for k in 0..size {
            let mut dims = g.dims(windows);
            let mut start = vec![0; rank + 1];
            start[dim + 1] = k;
            dims[dim + 1] = k + 1;
            let one = g.slice(windows, &start, &dims, &vec![1; rank + 1])?;
            let mut flat = sizes.clone();
            flat[dim] = count;
            let one = g.reshape(one, &flat)?;
            let term = zero_pad(g, one, dim, k, n - k - span, step - 1)?;
            sum = Some(match sum {
                None => term,
                Some(s) => g.add(s, term)?,
            });
        }
        sum.ok_or_else(|| cx.error("unfold_backward: windows of no elements"))?
    } else {
        let (c, k) = (g.iota(DType::I64, &[count, size], 0)?, g.iota(DType::I64, &[count, size], 1)?);
        let step = g.full_like(c, step)?;
        let c = g.multiply(c, step)?;
        let place = g.add(c, k)?;
        let zeros = g.full(dtype, &sizes, 0)?;
        scatter_at(g, zeros, &[dim], &[place], dim, windows, Combine::Add)?
    };
    cx.out(y);
    Ok(())
}

/// `src` where `mask` holds, `self` elsewhere; `src` broadcasts and takes the dtype of `self`.
fn blend(cx: &mut Cx<'_, '_>, x: Value, mask: Value, src: Value) -> Result<()> {
    let y = cx.g.select(mask, src, x)?;
    cx.out(y);
    Ok(())
}

/// `select_scatter(self, src, dim, index)`.
fn select_scatter(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let sizes = cx.g.dims(x);
    let src = cx.t(1)?;
    let dim = wrap_dim(cx, cx.int(2)?, sizes.len())?;
    let index = wrap_at(cx, cx.int(3)?, sizes[dim], dim)?;
    let mut dims = sizes.clone();
    dims.remove(dim);
    let src = fit(cx, src, &dims, x)?;
    dims.insert(dim, 1);
    let src = cx.g.reshape(src, &dims)?;
    let y = update(cx, x, src, dim, index)?;
    cx.out(y);
    Ok(())
}

/// The source of a functional view write: of the view's sizes, converted.
fn fit(cx: &mut Cx<'_, '_>, src: Value, dims: &[i64], x: Value) -> Result<Value> {
    if cx.g.dims(src)[..] != *dims {
        return Err(cx.error(format!(
            "expected src to have a size equal to the slice of self. src size = {:?}, slice size = {dims:?}",
            &cx.g.dims(src)[..]
        )));
    }
    Ok(cx.g.convert(src, cx.g.dtype(x))?)
}

fn update(cx: &mut Cx<'_, '_>, x: Value, src: Value, dim: usize, start: i64) -> Result<Value> {
    if cx.g.numel(src) == 0 {
        return Ok(x);
    }
    let mut at = Vec::new();
    for d in 0..cx.g.rank(x) {
        at.push(cx.g.scalar(DType::I32, if d == dim { start } else { 0 })?);
    }
    Ok(cx.g.dynamic_update_slice(x, src, &at)?)
}

/// `slice_scatter(self, src, dim, start, end, step)`.
fn slice_scatter(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let src = cx.t(1)?;
    let sizes = cx.g.dims(x);
    let dim = wrap_dim(cx, cx.int(2)?, sizes.len())?;
    let (n, step) = (sizes[dim], cx.int(5)?);
    if step <= 0 {
        return Err(cx.error("slice step must be positive"));
    }
    let (start, len) = slice_range(cx.opt_int(3)?, cx.opt_int(4)?, step, n);
    let mut dims = sizes.clone();
    dims[dim] = len;
    let src = fit(cx, src, &dims, x)?;
    if step == 1 || len <= 1 {
        let y = update(cx, x, src, dim, start)?;
        cx.out(y);
        return Ok(());
    }
    if cx.g.numel(src) == 0 {
        cx.out(x);
        return Ok(());
    }
    let on = cx.g.full(DType::Bool, &[len], true)?;
    let high = n - start - ((len - 1) * step + 1);
    let off = cx.g.scalar(DType::Bool, false)?;
    let line = cx.g.pad(on, off, &[start], &[high], &[step - 1])?;
    let mask = cx.g.broadcast_in_dim(line, &sizes, &[dim])?;
    let wide = zero_pad(cx.g, src, dim, start, high, step - 1)?;
    blend(cx, x, mask, wide)
}

/// `diagonal_scatter(self, src, offset, dim1, dim2)`.
fn diagonal_scatter(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let src = cx.t(1)?;
    let sizes = cx.g.dims(x);
    let offset = cx.int(2)?;
    let (dim1, dim2) = (wrap_dim(cx, cx.int(3)?, sizes.len())?, wrap_dim(cx, cx.int(4)?, sizes.len())?);
    let len = super::diagonal::len(sizes[dim1], sizes[dim2], offset);
    let dims: Dims = (0..sizes.len()).filter(|d| *d != dim1 && *d != dim2).map(|d| sizes[d]).chain([len]).collect();
    let src = fit(cx, src, &dims, x)?;
    if cx.g.numel(src) == 0 {
        cx.out(x);
        return Ok(());
    }
    let v = placed(cx.g, src, &sizes, dim1, dim2, offset)?;
    let mask = on_diagonal(cx.g, &sizes, dim1, dim2, offset)?;
    blend(cx, x, mask, v)
}
