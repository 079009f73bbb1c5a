//! Average pooling. Windows are boxes, so sums run along one dim after the other.

use super::max_pool::spread;
use super::memory_format;
use super::pool_axes::{Axis, axes};
use super::util::Takes;
use super::{math, take};
use crate::Result;
use crate::aten::{Cx, Row, exact, promote};
use primitives::{DType, Graph, Value, Window};

pub const ROWS: &[Row] = &[
    Row::new("avg_pool2d", |cx| forward(cx, 2)),
    Row::new("avg_pool3d", |cx| forward(cx, 3)),
    Row::new("avg_pool2d_backward", |cx| backward(cx, 2)),
    Row::new("avg_pool3d_backward", |cx| backward(cx, 3)),
    Row::new("_adaptive_avg_pool2d", |cx| adaptive(cx, 2)),
    Row::new("_adaptive_avg_pool3d", |cx| adaptive(cx, 3)),
    Row::new("_adaptive_avg_pool2d_backward", |cx| adaptive_backward(cx, 2)),
    Row::new("_adaptive_avg_pool3d_backward", |cx| adaptive_backward(cx, 3)),
];

/// Longest window along one dim that is unrolled into slices.
const UNROLLED: i64 = 32;

/// `avg_pool(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)`.
fn forward(cx: &mut Cx<'_, '_>, n: usize) -> Result<()> {
    let axes = axes(cx, 0, n, 1, None, cx.bool(4)?)?;
    let (padded, divisor) = (cx.bool(5)?, divisor(cx, 6)?);
    memory_format::like(cx, &[0]);
    let x = cx.t(0)?;
    let dtype = cx.g.dtype(x);
    let g = &mut *cx.g;
    let mut y = g.convert(x, promote::compute_type(dtype))?;
    for a in &axes {
        y = sums(g, y, a)?;
    }
    let y = divide(g, y, &axes, padded, divisor)?;
    let y = g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

fn divisor(cx: &Cx<'_, '_>, i: usize) -> Result<Option<i64>> {
    match cx.opt_int(i)? {
        Some(0) => Err(cx.error("divisor must be not zero")),
        d => Ok(d),
    }
}

/// Sums of the windows along one dim; padding counts as zeros.
fn sums(g: &mut Graph, x: Value, a: &Axis) -> Result<Value> {
    let rank = g.rank(x);
    let zero = g.scalar(g.dtype(x), 0)?;
    if a.kernel > UNROLLED {
        let mut w = Window::new(&vec![1; rank]);
        (w.strides, w.padding) = (vec![1; rank], vec![(0, 0); rank]);
        let reach = a.start(a.out - 1) + a.kernel;
        (w.dims[a.dim], w.strides[a.dim], w.padding[a.dim]) = (a.kernel, a.stride, (a.padding, reach - a.size));
        return Ok(g.reduce_window(&[x], &[zero], &w, |g, v| Ok(vec![g.add(v[0], v[1])?]))?[0]);
    }
    let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
    (low[a.dim], high[a.dim]) = (a.padding, a.high());
    let padded = g.pad(x, zero, &low, &high, &vec![0; rank])?;
    let dims = g.dims(padded);
    let mut sum: Option<Value> = None;
    for j in 0..a.kernel {
        let (mut start, mut limit, mut strides) = (vec![0; rank], dims.to_vec(), vec![1; rank]);
        (start[a.dim], limit[a.dim], strides[a.dim]) = (j, j + (a.out - 1) * a.stride + 1, a.stride);
        let v = g.slice(padded, &start, &limit, &strides)?;
        sum = Some(match sum {
            Some(s) => g.add(s, v)?,
            None => v,
        });
    }
    Ok(sum.unwrap_or(padded))
}

/// Divides each place by its number of elements, which is a product over dims of what this returns for each.
fn divide(g: &mut Graph, x: Value, axes: &[Axis], padded: bool, over: Option<i64>) -> Result<Value> {
    if let Some(n) = over {
        return math::div_n(g, x, n);
    }
    let count = |a: &Axis, o: i64| {
        let end = (a.start(o) + a.kernel).min(a.size + a.padding);
        if padded { end - a.start(o) } else { end.min(a.size) - a.start(o).max(0) }
    };
    divide_by_counts(g, x, axes, &count)
}

fn divide_by_counts(g: &mut Graph, x: Value, axes: &[Axis], count: &dyn Fn(&Axis, i64) -> i64) -> Result<Value> {
    let dims = g.dims(x);
    let mut uniform = 1;
    let mut varying: Option<Value> = None;
    for a in axes {
        let counts: Vec<i64> = (0..a.out).map(|o| count(a, o)).collect();
        if counts.windows(2).all(|w| w[0] == w[1]) {
            uniform *= counts[0];
            continue;
        }
        let v = math::ints(g, DType::I64, &counts)?;
        let v = math::along(g, v, &dims, a.dim)?;
        varying = Some(match varying {
            Some(u) => g.multiply(u, v)?,
            None => v,
        });
    }
    match varying {
        None if uniform == 1 => Ok(x),
        None => math::div_n(g, x, uniform),
        Some(v) => {
            let v = math::mul_n(g, v, uniform)?;
            let v = g.convert(v, g.dtype(x))?;
            Ok(exact::divide(g, x, v)?)
        }
    }
}

/// `avg_pool_backward(grad_output, self, ..)`: each gradient, divided, to all elements of its window.
fn backward(cx: &mut Cx<'_, '_>, n: usize) -> Result<()> {
    let axes = axes(cx, 1, n, 2, None, cx.bool(5)?)?;
    let (padded, divisor) = (cx.bool(6)?, divisor(cx, 7)?);
    memory_format::like(cx, &[1]);
    let go = cx.t(0)?;
    let dtype = cx.g.dtype(go);
    let g = &mut *cx.g;
    let y = g.convert(go, promote::compute_type(dtype))?;
    let mut y = divide(g, y, &axes, padded, divisor)?;
    for a in &axes {
        y = spread_sums(g, y, a)?;
    }
    let y = g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// The transpose of [`sums`].
fn spread_sums(g: &mut Graph, x: Value, a: &Axis) -> Result<Value> {
    let zero = g.scalar(g.dtype(x), 0)?;
    if a.kernel > UNROLLED {
        let rank = g.rank(x);
        let mut w = Window::new(&vec![1; rank]);
        (w.base_dilations, w.padding) = (vec![1; rank], vec![(0, 0); rank]);
        let low = a.kernel - 1 - a.padding;
        let high = a.size + a.kernel - 1 - low - ((a.out - 1) * a.stride + 1);
        let low_pad = low;
        (w.dims[a.dim], w.base_dilations[a.dim], w.padding[a.dim]) = (a.kernel, a.stride, (low_pad, high));
        return Ok(g.reduce_window(&[x], &[zero], &w, |g, v| Ok(vec![g.add(v[0], v[1])?]))?[0]);
    }
    let mut sum: Option<Value> = None;
    for j in 0..a.kernel {
        let v = spread(g, x, zero, std::slice::from_ref(a), &[j])?;
        sum = Some(match sum {
            Some(s) => g.add(s, v)?,
            None => v,
        });
    }
    Ok(sum.unwrap_or(x))
}

/// Window `o` of an adaptive pool of `size` elements into `out`: from `floor(o * size / out)` to `ceil((o + 1) * size / out)`.
pub fn adaptive_window(o: i64, size: i64, out: i64) -> (i64, i64) {
    (o * size / out, ((o + 1) * size + out - 1) / out)
}

/// Axes of an adaptive pool: `kernel` is the longest window; only `dim`, `size` and `out` hold when sizes do not divide.
pub fn adaptive_axes(cx: &Cx<'_, '_>, input: usize, n: usize, out: &[i64]) -> Result<Vec<Axis>> {
    let dims = cx.sizes(input)?;
    let rank = dims.len();
    if rank != n + 1 && rank != n + 2 {
        return Err(cx.error(format!("Expected {}D or {}D tensor, but got {:?}", n + 1, n + 2, &dims[..])));
    }
    if out.len() != n {
        return Err(cx.error(format!("output_size must be {n}, got {} values", out.len())));
    }
    if let Some(d) = (rank - n..rank).find(|&d| dims[d] == 0) {
        return Err(cx.error(format!("Expected input to have non-zero size for non-batch dimensions, but input has sizes {:?} with dimension {d} being empty", &dims[..])));
    }
    if out.iter().any(|&o| o < 0) {
        return Err(
            cx.error(format!("elements of output_size must be greater than or equal to 0 but received {out:?}"))
        );
    }
    Ok((0..n)
        .map(|i| {
            let (dim, size, out) = (rank - n + i, dims[rank - n + i], out[i]);
            let longest = (0..out).map(|o| adaptive_window(o, size, out)).map(|w| w.1 - w.0).max().unwrap_or(0);
            Axis { dim, size, kernel: longest, stride: longest.max(1), padding: 0, dilation: 1, out }
        })
        .collect())
}

fn windows(a: &Axis) -> Vec<(i64, i64)> {
    (0..a.out).map(|o| adaptive_window(o, a.size, a.out)).collect()
}

fn adaptive(cx: &mut Cx<'_, '_>, n: usize) -> Result<()> {
    let axes = adaptive_axes(cx, 0, n, &cx.ints(1)?)?;
    memory_format::like(cx, &[0]);
    let x = cx.t(0)?;
    let dtype = cx.g.dtype(x);
    Takes::FLOATS.check(cx, dtype)?;
    let g = &mut *cx.g;
    let mut y = g.convert(x, promote::compute_type(dtype))?;
    for a in &axes {
        y = adaptive_sums(g, y, a)?;
    }
    if axes.iter().all(|a| a.out > 0) {
        y = divide_by_counts(g, y, &axes, &|a, o| {
            let w = adaptive_window(o, a.size, a.out);
            w.1 - w.0
        })?;
    }
    let y = g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

fn adaptive_sums(g: &mut Graph, x: Value, a: &Axis) -> Result<Value> {
    if a.out > 0 && a.size % a.out == 0 {
        // Equal windows side by side: their elements become a dim of their own.
        let mut split = g.dims(x);
        split[a.dim] = a.out;
        split.insert(a.dim + 1, a.size / a.out);
        let x = g.reshape(x, &split)?;
        return Ok(g.reduce_sum(x, &[a.dim + 1])?);
    }
    if a.kernel <= UNROLLED {
        return take::window_sums(g, x, a.dim, &windows(a));
    }
    let parts = windows(a)
        .into_iter()
        .map(|(from, to)| {
            let dims = g.dims(x);
            let (mut start, mut limit) = (vec![0; dims.len()], dims.to_vec());
            (start[a.dim], limit[a.dim]) = (from, to);
            let v = g.slice(x, &start, &limit, &vec![1; dims.len()])?;
            let v = g.reduce_sum(v, &[a.dim])?;
            let mut one = dims;
            one[a.dim] = 1;
            Ok(g.reshape(v, &one)?)
        })
        .collect::<Result<Vec<Value>>>()?;
    Ok(g.concatenate(&parts, a.dim)?)
}

/// `_adaptive_avg_pool_backward(grad_output, self)`: an element collects from the few windows that hold it, which follow
/// each other.
fn adaptive_backward(cx: &mut Cx<'_, '_>, n: usize) -> Result<()> {
    let (go_dims, dims) = (cx.sizes(0)?, cx.sizes(1)?);
    if go_dims.len() != dims.len() {
        return Err(cx.error(format!(
            "Expected dimensions {} for `gradOutput` but got dimensions {}",
            dims.len(),
            go_dims.len()
        )));
    }
    let axes = adaptive_axes(cx, 1, n, &go_dims[go_dims.len() - n..])?;
    memory_format::like(cx, &[1]);
    let go = cx.t(0)?;
    let dtype = cx.g.dtype(go);
    let g = &mut *cx.g;
    if axes.iter().any(|a| a.out == 0) {
        let zeros = g.full(dtype, &dims, 0)?;
        cx.out(zeros);
        return Ok(());
    }
    let mut y = g.convert(go, promote::compute_type(dtype))?;
    y = divide_by_counts(g, y, &axes, &|a, o| {
        let w = adaptive_window(o, a.size, a.out);
        w.1 - w.0
    })?;
    for a in &axes {
        let holders: Vec<(i64, i64)> = (0..a.size).map(|h| adaptive_window(h, a.out, a.size)).collect();
        y = take::window_sums(g, y, a.dim, &holders)?;
    }
    let y = g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}
