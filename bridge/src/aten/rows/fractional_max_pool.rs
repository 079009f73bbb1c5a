//! Max pooling over windows of one size whose places are drawn: each plane's windows start where its samples say.

use super::places::{flat_places, take_flat};
use super::pool_axes::offsets_in;
use super::util::check_real_float;
use super::{math, planes};
use crate::Result;
use crate::aten::expr::formulas;
use crate::aten::{Cx, Row, promote};
use primitives::{DType, Dims, Direction, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::new("fractional_max_pool2d", |cx| forward(cx, 2)),
    Row::new("fractional_max_pool3d", |cx| forward(cx, 3)),
    Row::new("fractional_max_pool2d_backward", |cx| backward(cx, 2)),
    Row::new("fractional_max_pool3d_backward", |cx| backward(cx, 3)),
];

fn name(n: usize) -> String {
    format!("fractional_max_pool{n}d")
}

/// Spatial sizes of windows and results, each given once or for every dim.
fn sizes(cx: &Cx<'_, '_>, i: usize, n: usize, what: &str) -> Result<Vec<i64>> {
    let v = cx.ints(i)?;
    match v.len() {
        1 => Ok(vec![v[0]; n]),
        m if m == n => Ok(v),
        _ => Err(cx.error(format!("{}: {what} must either be a single int or a tuple of {n} ints", name(n)))),
    }
}

/// Starts of the windows along one dim, `[planes, out]`: `floor((i + u) a) - floor(u a)` with `a` the mean step, and the
/// last one at the end. The arithmetic is that of the data's dtype, as in torch.
fn starts(g: &mut Graph, u: Value, size: i64, out: i64, window: i64, dtype: DType) -> Result<Value> {
    let shape = [g.dims(u)[0], out];
    let last = g.full(DType::I64, &shape, size - window)?;
    if out == 1 {
        return Ok(last);
    }
    let u = g.convert(u, promote::compute_type(dtype))?;
    let u = math::along(g, u, &shape, 0)?;
    let i = g.iota(g.dtype(u), &shape, 1)?;
    let [at, first] = formulas(g, [i, u], |[i, u]| {
        let alpha = (u.constant((size - window) as f64) / (out - 1) as f64).rounded_to(dtype);
        let place = (i + u).rounded_to(dtype) * alpha;
        [place.rounded_to(dtype), (u * alpha).rounded_to(dtype)]
    })?;
    let (at, first) = (g.convert(at, DType::I64)?, g.convert(first, DType::I64)?);
    let at = g.subtract(at, first)?;
    let place = g.iota(DType::I64, &shape, 1)?;
    let end = math::cmp_n(g, place, out - 1, Direction::Eq)?;
    Ok(g.select(end, last, at)?)
}

/// `fractional_max_pool(self, kernel_size, output_size, random_samples)` -> maxima, flat places in their planes.
fn forward(cx: &mut Cx<'_, '_>, n: usize) -> Result<()> {
    let x = cx.t(0)?;
    let (window, out) = (sizes(cx, 1, n, "kernel_size")?, sizes(cx, 2, n, "output_size")?);
    let samples = cx.t(3)?;
    let (dims, dtype) = (cx.g.dims(x), cx.g.dtype(x));
    let rank = dims.len();
    check_real_float(cx, &name(n), dtype)?;
    if (rank != n + 1 && rank != n + 2) || dims[rank - n - 1..].contains(&0) {
        return Err(cx.error(format!(
            "{}: Expected {}D or {}D tensor with non-empty planes, but got: {:?}",
            name(n),
            n + 1,
            n + 2,
            &dims[..]
        )));
    }
    let spatial = &dims[rank - n..];
    for d in 0..n {
        // torch's check in 3d leaves one place of room.
        let room = spatial[d] - i64::from(n == 3);
        if window[d] <= 0 || out[d] <= 0 || out[d] + window[d] - 1 > room {
            return Err(cx.error(format!(
                "{}: pool size {} too large relative to input size {} for output size {}",
                name(n),
                window[d],
                spatial[d],
                out[d]
            )));
        }
    }
    let planes: i64 = dims[..rank - n].iter().product();
    let sd = cx.g.dims(samples);
    // As in torch, samples of more batches than the input has are left over.
    let channels = dims[rank - n - 1];
    let batches = if rank > n + 1 { dims[0] } else { 1 };
    if sd.len() != 3 || sd[0] < batches || sd[1] != channels || sd[2] != n as i64 {
        return Err(cx.error(format!(
            "Expect _random_samples of {n} numbers for each of {channels} channels in each of {batches} batches, got {:?}",
            &sd[..]
        )));
    }
    let g = &mut *cx.g;
    let samples = g.slice(samples, &[0, 0, 0], &[batches, channels, n as i64], &[1, 1, 1])?;
    let samples = g.reshape(samples, &[planes, n as i64])?;
    let shape: Dims = [planes].into_iter().chain(out.iter().copied()).collect();
    let flat: Dims = [planes].into_iter().chain([spatial.iter().product()]).collect();
    let x = g.reshape(x, &flat)?;
    // Flat place of each window's first element.
    let mut base = g.full(DType::I64, &shape, 0)?;
    for d in 0..n {
        // In 2d torch takes the numbers of a sample from the innermost dim outwards.
        let at = if n == 2 { 1 - d as i64 } else { d as i64 };
        let u = g.slice(samples, &[0, at], &[planes, at + 1], &[1, 1])?;
        let u = g.reshape(u, &[planes])?;
        let s = starts(g, u, spatial[d], out[d], window[d], dtype)?;
        let step: i64 = spatial[d + 1..].iter().product();
        let s = math::mul_n(g, s, step)?;
        let s = g.broadcast_in_dim(s, &shape, &[0, d + 1])?;
        base = g.add(base, s)?;
    }
    let per: Dims = [planes].into_iter().chain([out.iter().product()]).collect();
    let base = g.reshape(base, &per)?;
    let mut best: Option<(Value, Value)> = None;
    for offset in offsets_in(window.iter().copied()) {
        let shift: i64 = (0..n).map(|d| offset[d] * spatial[d + 1..].iter().product::<i64>()).sum();
        let here = math::add_n(g, base, shift)?;
        let places = flat_places(g, here, &flat, 1)?;
        let v = take_flat(g, x, places)?;
        best = Some(match best {
            None => (v, here),
            Some((w, i)) => {
                let greater = g.compare(v, w, Direction::Gt)?;
                let nan = g.compare(v, v, Direction::Ne)?;
                let wins = g.or(greater, nan)?;
                (g.select(wins, v, w)?, g.select(wins, here, i)?)
            }
        });
    }
    let (y, i) = best.ok_or_else(|| crate::Error::internal("fractional_max_pool: a window without elements".into()))?;
    let result: Dims = dims[..rank - n].iter().copied().chain(out.iter().copied()).collect();
    let (y, i) = (cx.g.reshape(y, &result)?, cx.g.reshape(i, &result)?);
    cx.out(y);
    cx.out(i);
    Ok(())
}

/// `fractional_max_pool_backward(grad_output, self, kernel_size, output_size, indices)`.
fn backward(cx: &mut Cx<'_, '_>, n: usize) -> Result<()> {
    let (go, index) = (cx.t(0)?, cx.t(4)?);
    let dims = cx.sizes(1)?;
    let dtype = cx.g.dtype(go);
    if cx.g.dims(go) != cx.g.dims(index) {
        return Err(cx.error(format!(
            "{}: grad_output has sizes {:?}, expected those of the indices, {:?}",
            name(n),
            &cx.g.dims(go)[..],
            &cx.g.dims(index)[..]
        )));
    }
    let go = cx.g.convert(go, promote::compute_type(dtype))?;
    let y = planes::scatter_add(cx.g, go, index, &dims, n)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}
