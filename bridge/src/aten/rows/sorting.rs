//! Sorting and selection by rank.

use super::axes::{Axes, wrap};
use super::reduce::check_ordered;
use super::scan::scan;
use super::take::span;
use crate::aten::{Cx, Row, exact};
use crate::{Error, Result};
use primitives::{DType, Dims, Direction, GatherDims, Graph, Number, Value};

pub const ROWS: &[Row] = &[
    Row::pointwise("sort", |cx| sort(cx, 1, 2)),
    Row::pointwise("sort.stable", |cx| sort(cx, 2, 3)),
    Row::new("topk", topk),
    Row::new("kthvalue", kthvalue),
    Row::new("median", |cx| median_of_all(cx, false)),
    Row::new("nanmedian", |cx| median_of_all(cx, true)),
    Row::new("median.dim", |cx| median(cx, false)),
    Row::new("nanmedian.dim", |cx| median(cx, true)),
    Row::new("mode", mode),
];

/// Stable sort along `dim` with the original places (i64). NaN counts as greater than any number.
pub fn sorted(g: &mut Graph, x: Value, dim: usize, descending: bool) -> Result<(Value, Value)> {
    let dtype = g.dtype(x);
    let dims = g.dims(x);
    let v = if dtype.is_bool() { g.convert(x, DType::U8)? } else { x };
    let small = dims[dim] <= i32::MAX as i64;
    let index = g.iota(if small { DType::I32 } else { DType::I64 }, &dims, dim)?;
    let float = dtype.is_float();
    let r = g.sort(&[v, index], dim, true, |g, a| {
        let (first, second) = if descending { (a[1], a[0]) } else { (a[0], a[1]) };
        let less = g.compare(first, second, Direction::Lt)?;
        if !float {
            return Ok(vec![less]);
        }
        let (na, nb) = (g.compare(first, first, Direction::Eq)?, g.compare(second, second, Direction::Ne)?);
        let before_nan = g.and(na, nb)?;
        Ok(vec![g.or(less, before_nan)?])
    })?;
    Ok((g.convert(r[0], dtype)?, g.convert(r[1], DType::I64)?))
}

fn scalar_pair(cx: &mut Cx<'_, '_>, x: Value) -> Result<()> {
    cx.out(x);
    let zero = cx.g.scalar(DType::I64, 0)?;
    cx.out(zero);
    Ok(())
}

/// `sort(self, dim, descending)` and `sort.stable(self, *, stable, dim, descending)`.
fn sort(cx: &mut Cx<'_, '_>, dim: usize, descending: usize) -> Result<()> {
    let x = cx.t(0)?;
    if cx.g.dtype(x).is_complex() {
        return Err(cx.error("Sort does not support complex dtypes on CPU"));
    }
    let d = wrap(cx, cx.int(dim)?, cx.g.rank(x))?;
    if cx.g.rank(x) == 0 {
        return scalar_pair(cx, x);
    }
    let (v, i) = sorted(cx.g, x, d, cx.bool(descending)?)?;
    cx.out(v);
    cx.out(i);
    Ok(())
}

/// `topk(self, k, dim, largest, sorted)`: the `k` largest or smallest, in order.
fn topk(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    check_ordered(cx, x, "topk")?;
    let k = cx.int(1)?;
    let rank = cx.g.rank(x);
    let dim = wrap(cx, cx.int(2)?, rank)?;
    let size = if rank == 0 { 1 } else { cx.g.dims(x)[dim] };
    if k < 0 || k > size {
        return Err(cx.error("selected index k out of range"));
    }
    if rank == 0 {
        return scalar_pair(cx, x);
    }
    let largest = cx.bool(3)?;
    let g = &mut *cx.g;
    let (v, i) = if largest && !g.dtype(x).is_bool() && size <= i32::MAX as i64 {
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(dim, rank - 1);
        let mut moved = g.transpose(x, &order)?;
        if g.dtype(x).is_float() {
            // The primitive ranks a NaN with its sign bit set below all numbers.
            let nan = g.compare(moved, moved, Direction::Ne)?;
            let positive = g.full_like(moved, f64::NAN)?;
            moved = g.select(nan, positive, moved)?;
        }
        let (v, i) = g.top_k(moved, k)?;
        let i = g.convert(i, DType::I64)?;
        (g.transpose(v, &order)?, g.transpose(i, &order)?)
    } else {
        let (v, i) = sorted(g, x, dim, largest)?;
        (span(g, v, dim, 0, k)?, span(g, i, dim, 0, k)?)
    };
    cx.out(v);
    cx.out(i);
    Ok(())
}

/// `kthvalue(self, k, dim, keepdim)`: the k-th smallest, counted from 1.
fn kthvalue(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    check_ordered(cx, x, "kthvalue")?;
    let (k, d) = (cx.int(1)?, cx.int(2)?);
    let dims = cx.g.dims(x);
    let dim = wrap(cx, d, dims.len())?;
    let size = if dims.is_empty() { 1 } else { dims[dim] };
    if size == 0 {
        return Err(Error::index(cx.op(), format!("kthvalue(): Expected reduction dim {dim} to have non-zero size.")));
    }
    if k < 1 || k > size {
        return Err(cx.error("kthvalue(): selected number k out of range for dimension"));
    }
    if dims.is_empty() {
        return scalar_pair(cx, x);
    }
    let ax = Axes::new(cx, &dims, Some(&[d]), cx.bool(3)?)?;
    let (v, i) = sorted(cx.g, x, dim, false)?;
    for y in [v, i] {
        let y = span(cx.g, y, dim, k - 1, k)?;
        let y = squeezed(cx.g, y, dim)?;
        let y = ax.finish(cx.g, y)?;
        cx.out(y);
    }
    Ok(())
}

fn squeezed(g: &mut Graph, x: Value, dim: usize) -> Result<Value> {
    let mut dims = g.dims(x);
    dims.remove(dim);
    Ok(g.reshape(x, &dims)?)
}

/// One element along `dim` for each place of `index`, whose shape is that of `x` without `dim`.
pub fn pick(g: &mut Graph, x: Value, dim: usize, index: Value) -> Result<Value> {
    let dims = g.dims(x);
    let rank = dims.len();
    // Lines of `x` end to end, and the place of each line's element in them.
    let order: Vec<usize> = (0..rank).filter(|&d| d != dim).chain([dim]).collect();
    let n = dims[dim];
    let x = g.transpose(x, &order)?;
    let shape = g.dims(index);
    let lines: i64 = shape.iter().product();
    let x = g.reshape(x, &[lines * n])?;
    let index = g.reshape(index, &[lines])?;
    let line = g.iota(DType::I64, &[lines], 0)?;
    let step = g.full_like(line, n)?;
    let line = g.multiply(line, step)?;
    let at = g.add(line, index)?;
    let how = GatherDims {
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 1,
        ..GatherDims::default()
    };
    let y = if lines == 0 { g.full(g.dtype(x), &[0], 0)? } else { g.gather(x, at, &how, &[1], false)? };
    Ok(g.reshape(y, &shape)?)
}

/// Lower median along `dim` and its place, without keepdim. NaN, if there is one, or ignoring NaN.
fn median_along(g: &mut Graph, x: Value, dim: usize, ignore_nan: bool) -> Result<(Value, Value)> {
    let n = g.dims(x)[dim];
    let (v, i) = sorted(g, x, dim, false)?;
    let mut kept: Dims = g.dims(x);
    kept.remove(dim);
    let mut at = g.full(DType::I64, &kept, (n - 1) / 2)?;
    if g.dtype(x).is_float() {
        // NaN come last: there are `n - valid` of them.
        let valid = g.compare(v, v, Direction::Eq)?;
        let valid = g.convert(valid, DType::I64)?;
        let valid = g.reduce_sum(valid, &[dim])?;
        let all = g.full_like(valid, n)?;
        at = if ignore_nan {
            let (one, two, zero) = (g.full_like(valid, 1)?, g.full_like(valid, 2)?, g.zeros_like(valid)?);
            let m = g.subtract(valid, one)?;
            let m = g.maximum(m, zero)?;
            exact::divide(g, m, two)?
        } else {
            let whole = g.compare(valid, all, Direction::Eq)?;
            g.select(whole, at, valid)?
        };
    }
    Ok((pick(g, v, dim, at)?, pick(g, i, dim, at)?))
}

/// `median(self)`: the lower median of all; NaN of nothing.
fn median_of_all(cx: &mut Cx<'_, '_>, ignore_nan: bool) -> Result<()> {
    let x = cx.t(0)?;
    check_ordered(cx, x, "median")?;
    let n = cx.g.numel(x);
    if n == 0 {
        let dtype = cx.g.dtype(x);
        let y = if dtype.is_float() { Number::Float(f64::NAN) } else { worst_of(dtype) };
        let y = cx.g.scalar(dtype, y)?;
        cx.out(y);
        return Ok(());
    }
    let flat = cx.g.reshape(x, &[n])?;
    let (v, _) = median_along(cx.g, flat, 0, ignore_nan)?;
    cx.out(v);
    Ok(())
}

/// What torch's cast of NaN to an integer gives: the smallest number.
fn worst_of(dtype: DType) -> Number {
    super::arg_reduce::worst(dtype, Direction::Gt)
}

/// `median.dim(self, dim, keepdim)`.
fn median(cx: &mut Cx<'_, '_>, ignore_nan: bool) -> Result<()> {
    let x = cx.t(0)?;
    check_ordered(cx, x, "median")?;
    let d = cx.int(1)?;
    let ax = Axes::new(cx, &cx.g.dims(x), Some(&[d]), cx.bool(2)?)?;
    ax.check_not_empty(cx, "median", true)?;
    if cx.g.rank(x) == 0 {
        return scalar_pair(cx, x);
    }
    let (v, i) = median_along(cx.g, x, ax.dims[0], ignore_nan)?;
    for y in [v, i] {
        let y = ax.finish(cx.g, y)?;
        cx.out(y);
    }
    Ok(())
}

/// `mode(self, dim, keepdim)`: the most frequent element, the smallest of several, and its last place.
fn mode(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    check_ordered(cx, x, "mode")?;
    let d = cx.int(1)?;
    let dims = cx.g.dims(x);
    let ax = Axes::new(cx, &dims, Some(&[d]), cx.bool(2)?)?;
    ax.check_not_empty(cx, "mode", true)?;
    if dims.is_empty() {
        return scalar_pair(cx, x);
    }
    let dim = ax.dims[0];
    let n = dims[dim];
    let g = &mut *cx.g;
    let (v, i) = sorted(g, x, dim, false)?;
    let place = g.iota(DType::I64, &dims, dim)?;
    let first = if n > 1 {
        let (a, b) = (span(g, v, dim, 0, n - 1)?, span(g, v, dim, 1, n)?);
        let new = g.compare(a, b, Direction::Ne)?;
        let no = g.scalar(DType::Bool, true)?;
        let mut low = vec![0; dims.len()];
        low[dim] = 1;
        let none = vec![0; dims.len()];
        let new = g.pad(new, no, &low, &none, &none)?;
        let zero = g.zeros_like(place)?;
        let starts = g.select(new, place, zero)?;
        scan(g, &[starts], &[Number::Int(0)], dim, &|g, a, b| Ok(vec![g.maximum(a[0], b[0])?]))?[0]
    } else {
        place
    };
    let length = g.subtract(place, first)?;
    let (_, at) = super::arg_reduce::extreme_and_index(g, length, dim, Direction::Gt)?;
    let (v, i) = (pick(g, v, dim, at)?, pick(g, i, dim, at)?);
    for y in [v, i] {
        let y = ax.finish(cx.g, y)?;
        cx.out(y);
    }
    Ok(())
}
