//! Max pooling with the places of the maxima, its gradient, and its inverse.
//!
//! Small windows are unrolled: offset `j` of every window is one strided slice of the padded input, so the maximum is a
//! chain of elementwise ops, and the gradient of each offset is the padding that undoes its slice. Nothing is scattered.

use super::join::suggested;
use super::memory_format;
use super::pool_axes::{Axis, axes, offsets, out_dims, window_len};
use super::{math, planes};
use crate::Result;
use crate::aten::{CheckKind, Cx, Row, promote};
use primitives::{DType, Dims, Direction, Graph, Number, Value, Window};

pub const ROWS: &[Row] = &[
    Row::new("max_pool2d_with_indices", |cx| forward(cx, 2)),
    Row::new("max_pool3d_with_indices", |cx| forward(cx, 3)),
    Row::new("max_pool2d_with_indices_backward", |cx| backward(cx, 2)),
    Row::new("max_pool3d_with_indices_backward", |cx| backward(cx, 3)),
    Row::new("max_unpool2d", |cx| unpool(cx, 2)),
    Row::new("max_unpool3d", |cx| unpool(cx, 3)),
];

/// Largest window that is unrolled.
pub const UNROLLED: i64 = 64;

fn forward(cx: &mut Cx<'_, '_>, n: usize) -> Result<()> {
    let axes = axes(cx, 0, n, 1, Some(4), cx.bool(5)?)?;
    memory_format::like(cx, &[0]);
    let x = cx.t(0)?;
    if cx.g.dtype(x).is_bool() || cx.g.dtype(x).is_complex() {
        return Err(cx.error(format!("\"max_pool{n}d\" not implemented for '{}'", promote::torch_name(cx.g.dtype(x)))));
    }
    let (y, i) = max_with_index(cx.g, x, &axes)?;
    cx.out(y);
    cx.out(i);
    Ok(())
}

/// The smallest value of a dtype, below which nothing counts.
pub fn lowest(dtype: DType) -> Number {
    match dtype {
        d if d.is_float() => Number::Float(f64::NEG_INFINITY),
        d if !d.is_signed() => Number::Int(0),
        d => Number::Int(i64::MIN >> (64 - 8 * d.size_of())),
    }
}

/// Maxima and their flat indices (i64) within the spatial dims. The first of equal maxima wins; a NaN wins over all, the last of them.
pub fn max_with_index(g: &mut Graph, x: Value, axes: &[Axis]) -> Result<(Value, Value)> {
    if window_len(axes) > UNROLLED {
        return by_reduce_window(g, x, axes);
    }
    let dims = out_dims(&g.dims(x), axes);
    let lowest = g.scalar(g.dtype(x), lowest(g.dtype(x)))?;
    let padded = pad_edges(g, x, axes, lowest)?;
    let base = index_base(g, &dims, axes)?;
    let mut best = g.broadcast_to(lowest, &dims)?;
    let mut index = first_index(g, &dims, axes)?;
    for offset in offsets(axes) {
        let v = window_slice(g, padded, axes, &offset)?;
        let here = math::add_n(g, base, shift(axes, &offset))?;
        let mut wins = g.compare(v, best, Direction::Gt)?;
        if g.dtype(v).is_float() {
            let nan = g.compare(v, v, Direction::Ne)?;
            wins = g.or(wins, nan)?;
        }
        best = g.select(wins, v, best)?;
        index = g.select(wins, here, index)?;
    }
    Ok((best, g.convert(index, DType::I64)?))
}

/// The padding that lets every offset of a window be a slice.
fn pad_edges(g: &mut Graph, x: Value, axes: &[Axis], value: Value) -> Result<Value> {
    let rank = g.rank(x);
    let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
    for a in axes {
        (low[a.dim], high[a.dim]) = (a.padding, a.high());
    }
    Ok(g.pad(x, value, &low, &high, &vec![0; rank])?)
}

fn window_slice(g: &mut Graph, padded: Value, axes: &[Axis], offset: &[i64]) -> Result<Value> {
    let dims = g.dims(padded);
    let (mut start, mut limit, mut strides) = (vec![0; dims.len()], dims.to_vec(), vec![1; dims.len()]);
    for (a, &j) in axes.iter().zip(offset) {
        start[a.dim] = j * a.dilation;
        limit[a.dim] = j * a.dilation + (a.out - 1) * a.stride + 1;
        strides[a.dim] = a.stride;
    }
    Ok(g.slice(padded, &start, &limit, &strides)?)
}

fn index_dtype(axes: &[Axis]) -> DType {
    if axes.iter().map(|a| a.size + 2 * a.padding + a.kernel * a.dilation).product::<i64>() < 1 << 31 {
        DType::I32
    } else {
        DType::I64
    }
}

/// Flat index step of each axis.
fn steps(axes: &[Axis]) -> Vec<i64> {
    (0..axes.len()).map(|i| axes[i + 1..].iter().map(|a| a.size).product()).collect()
}

/// Flat index of the start of each window, which may lie in the padding.
fn index_base(g: &mut Graph, dims: &[i64], axes: &[Axis]) -> Result<Value> {
    index_sum(g, dims, axes, |a, o| a.start(o))
}

/// Flat index of the first element of each window that is not padding: what a window of lowest values reports.
fn first_index(g: &mut Graph, dims: &[i64], axes: &[Axis]) -> Result<Value> {
    index_sum(g, dims, axes, |a, o| {
        let start = a.start(o);
        if start < 0 { start + (-start + a.dilation - 1) / a.dilation * a.dilation } else { start }
    })
}

fn index_sum(g: &mut Graph, dims: &[i64], axes: &[Axis], at: impl Fn(&Axis, i64) -> i64) -> Result<Value> {
    let dtype = index_dtype(axes);
    let mut sum = g.full(dtype, dims, 0)?;
    for (a, step) in axes.iter().zip(steps(axes)) {
        let values: Vec<i64> = (0..a.out).map(|o| at(a, o) * step).collect();
        let v = math::ints(g, dtype, &values)?;
        let v = math::along(g, v, dims, a.dim)?;
        sum = g.add(sum, v)?;
    }
    Ok(sum)
}

/// Flat index of an offset relative to its window's start.
fn shift(axes: &[Axis], offset: &[i64]) -> i64 {
    axes.iter().zip(offset).zip(steps(axes)).map(|((a, &j), step)| j * a.dilation * step).sum()
}

/// One `reduce_window` over values and indices, for windows too large to unroll.
fn by_reduce_window(g: &mut Graph, x: Value, axes: &[Axis]) -> Result<(Value, Value)> {
    let dims = g.dims(x);
    let rank = dims.len();
    let mut index = g.full(DType::I64, &dims, 0)?;
    for (a, step) in axes.iter().zip(steps(axes)) {
        let i = g.iota(DType::I64, &dims, a.dim)?;
        let i = math::mul_n(g, i, step)?;
        index = g.add(index, i)?;
    }
    let mut w = Window::new(&vec![1; rank]);
    (w.strides, w.window_dilations, w.padding) = (vec![1; rank], vec![1; rank], vec![(0, 0); rank]);
    for a in axes {
        (w.dims[a.dim], w.strides[a.dim], w.window_dilations[a.dim]) = (a.kernel, a.stride, a.dilation);
        let spare = a.size + a.padding + a.high() - ((a.kernel - 1) * a.dilation + 1);
        // Keep the number of places at `out`: elements beyond the last window are cut.
        let high = a.high() - (spare - (a.out - 1) * a.stride).max(0);
        w.padding[a.dim] = (a.padding, high);
    }
    let low = lowest(g.dtype(x));
    let inits = [g.scalar(g.dtype(x), low)?, g.scalar(DType::I64, i64::MAX)?];
    let float = g.dtype(x).is_float();
    let out = g.reduce_window(&[x, index], &inits, &w, |g, a| {
        let (v, i, w, k) = (a[0], a[1], a[2], a[3]);
        let greater = g.compare(w, v, Direction::Gt)?;
        let equal = g.compare(w, v, Direction::Eq)?;
        let earlier = g.compare(k, i, Direction::Lt)?;
        let tie = g.and(equal, earlier)?;
        let mut wins = g.or(greater, tie)?;
        if float {
            let (vn, wn) = (g.compare(v, v, Direction::Ne)?, g.compare(w, w, Direction::Ne)?);
            let later = g.compare(k, i, Direction::Gt)?;
            let number = g.not(vn)?;
            let first = g.or(number, later)?;
            let nan = g.and(wn, first)?;
            wins = g.or(wins, nan)?;
        }
        Ok(vec![g.select(wins, w, v)?, g.select(wins, k, i)?])
    })?;
    Ok((out[0], out[1]))
}

/// Each gradient goes to the element its window reported.
fn backward(cx: &mut Cx<'_, '_>, n: usize) -> Result<()> {
    let axes = axes(cx, 1, n, 2, Some(5), cx.bool(6)?)?;
    memory_format::like(cx, &[1]);
    let dims = cx.sizes(1)?;
    let (go, index) = (cx.t(0)?, cx.t(7)?);
    let y = grad(cx.g, go, index, &dims, &axes)?;
    cx.out(y);
    Ok(())
}

/// Gradient of [`max_with_index`]'s input.
pub fn grad(g: &mut Graph, go: Value, index: Value, dims: &Dims, axes: &[Axis]) -> Result<Value> {
    let dtype = g.dtype(go);
    let go = g.convert(go, promote::compute_type(dtype))?;
    let y = if window_len(axes) > UNROLLED {
        planes::scatter_add(g, go, index, dims, axes.len())?
    } else {
        let out = g.dims(go);
        let base = index_base(g, &out, axes)?;
        let index = g.convert(index, g.dtype(base))?;
        let zeros = g.zeros_like(go)?;
        let zero = g.scalar(g.dtype(go), 0)?;
        let mut sum: Option<Value> = None;
        for offset in offsets(axes) {
            let here = math::add_n(g, base, shift(axes, &offset))?;
            let chosen = g.compare(index, here, Direction::Eq)?;
            let part = g.select(chosen, go, zeros)?;
            let part = spread(g, part, zero, axes, &offset)?;
            sum = Some(match sum {
                Some(s) => g.add(s, part)?,
                None => part,
            });
        }
        match sum {
            Some(s) => s,
            None => g.full(g.dtype(go), dims, 0)?,
        }
    };
    Ok(g.convert(y, dtype)?)
}

/// Undoes the slice of one offset: each place's value at its element of the input, zeros elsewhere.
pub fn spread(g: &mut Graph, part: Value, zero: Value, axes: &[Axis], offset: &[i64]) -> Result<Value> {
    let rank = g.rank(part);
    let (mut low, mut high, mut inner) = (vec![0; rank], vec![0; rank], vec![0; rank]);
    for (a, &j) in axes.iter().zip(offset) {
        low[a.dim] = j * a.dilation - a.padding;
        high[a.dim] = a.size - (low[a.dim] + (a.out - 1) * a.stride + 1);
        inner[a.dim] = a.stride - 1;
    }
    Ok(g.pad(part, zero, &low, &high, &inner)?)
}

/// `max_unpool(self, indices, output_size)`: zeros but for each value at the index that pooling reported.
fn unpool(cx: &mut Cx<'_, '_>, n: usize) -> Result<()> {
    let (x, index) = (cx.t(0)?, cx.t(1)?);
    let size = cx.ints(2)?;
    let dims = cx.g.dims(x);
    if cx.g.dtype(index) != DType::I64 {
        let got = promote::torch_name(cx.g.dtype(index));
        return Err(cx.error(format!("elements in indices should be type int64 but got: {got}")));
    }
    if size.len() != n {
        return Err(
            cx.error(format!("There should be exactly {n} elements in output_size, but got {} elements.", size.len()))
        );
    }
    let stride = if n == 3 { cx.ints(3)? } else { Vec::new() };
    if stride.iter().any(|&s| s <= 0) {
        return Err(cx.error(format!("strides should be greater than zero, but got stride: {stride:?}")));
    }
    if dims.len() != n + 1 && dims.len() != n + 2 {
        return Err(cx.error(format!(
            "Input to max_unpooling{n}d should be a {}d or {}d Tensor, but got a tensor with {} dimensions.",
            n + 1,
            n + 2,
            dims.len()
        )));
    }
    if cx.g.dims(index) != dims {
        return Err(cx.error(format!("Expected shape of indices to be same as that of the input tensor ({:?}) but got indices tensor with shape: {:?}", &dims[..], &cx.g.dims(index)[..])));
    }
    let mut out = dims.clone();
    let at = out.len() - n;
    out[at..].copy_from_slice(&size);
    let volume: i64 = size.iter().product();
    let index = cx.check_index(
        index,
        volume,
        CheckKind::Runtime,
        format!("Found an invalid max index: {{}} (output volumes are of size {size:?})"),
    )?;
    let y = planes::scatter_set(cx.g, x, index, &out, n)?;
    cx.order = if n == 2 { suggested(cx.arg(0), dims.len()) } else { None };
    cx.out(y);
    Ok(())
}
