//! Sampling an image at the places of a grid, and the gradients for both.
//!
//! Along each dim a place is made of taps: an element, its weight and how the weight grows with the coordinate. A sample
//! is the sum over all combinations of taps; its gradients follow from the weights and their slopes.

use super::math;
use crate::Result;
use crate::aten::{Cx, Row, exact, promote};
use primitives::{DType, Dims, Direction, GatherDims, Graph, ScatterDims, Value};

pub const ROWS: &[Row] = &[
    Row::new("grid_sampler_2d", |cx| forward(cx, 2)),
    Row::new("grid_sampler_3d", |cx| forward(cx, 3)),
    Row::new("grid_sampler_2d_backward", |cx| backward(cx, 2)),
    Row::new("grid_sampler_3d_backward", |cx| backward(cx, 3)),
];

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Linear,
    Nearest,
    Cubic,
}

#[derive(Clone, Copy, PartialEq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// One element along a dim; values are `[N, P]` for `P` places.
struct Tap {
    index: Value,
    inside: Value,
    weight: Value,
    slope: Value,
}

/// The taps along one dim, and the coordinate's growth with the grid's value.
struct Line {
    taps: Vec<Tap>,
    growth: Value,
}

struct Problem {
    /// `[N, C, S]`
    image: Value,
    lines: Vec<Line>,
    sizes: Vec<i64>,
    dims: Dims,
    places: Dims,
    dtype: DType,
}

fn read(cx: &mut Cx<'_, '_>, at: usize, n: usize) -> Result<Problem> {
    let (mode, padding, align) = (cx.int(at + 2)?, cx.int(at + 3)?, cx.bool(at + 4)?);
    let mode = [Mode::Linear, Mode::Nearest, Mode::Cubic][mode.clamp(0, 2) as usize];
    let padding = [Padding::Zeros, Padding::Border, Padding::Reflection][padding.clamp(0, 2) as usize];
    let (image, grid) = (cx.t(at)?, cx.t(at + 1)?);
    let (dims, places) = (cx.g.dims(image), cx.g.dims(grid));
    if dims.len() != n + 2 || places.len() != n + 2 || places[0] != dims[0] || places[n + 1] != n as i64 {
        return Err(cx.error(format!(
            "expected grid to have size {n} in last dimension and the batch size of the input, but got input {:?} and grid {:?}",
            &dims[..],
            &places[..]
        )));
    }
    let dtype = cx.g.dtype(image);
    let compute = promote::compute_type(dtype);
    let g = &mut *cx.g;
    let sizes: Vec<i64> = dims[2..].to_vec();
    let image = g.convert(image, compute)?;
    let image = g.reshape(image, &[dims[0], dims[1], sizes.iter().product()])?;
    let grid = g.convert(grid, compute)?;
    let count: i64 = places[1..=n].iter().product();
    let grid = g.reshape(grid, &[places[0], count, n as i64])?;
    let mut lines = Vec::with_capacity(n);
    for (d, &size) in sizes.iter().enumerate() {
        // The grid names the last dim first.
        let k = (n - 1 - d) as i64;
        let u = g.slice(grid, &[0, 0, k], &[places[0], count, k + 1], &[1, 1, 1])?;
        let u = g.reshape(u, &[places[0], count])?;
        lines.push(line(g, u, size, mode, padding, align)?);
    }
    Ok(Problem { image, lines, sizes, dims, places, dtype })
}

fn line(g: &mut Graph, u: Value, size: i64, mode: Mode, padding: Padding, align: bool) -> Result<Line> {
    let scale = if align { (size - 1) as f64 / 2.0 } else { size as f64 / 2.0 };
    let x = math::add_n(g, u, 1.0)?;
    let x = math::mul_n(g, x, scale)?;
    let x = if align { x } else { math::add_n(g, x, -0.5)? };
    let mut growth = g.full_like(x, scale)?;
    let mut taps = Vec::new();
    if mode == Mode::Cubic {
        let base = g.floor(x)?;
        let t = g.subtract(x, base)?;
        for k in -1..3i64 {
            let at = math::add_n(g, base, k as f64)?;
            let (at, _) = settle(g, at, size, padding, align)?;
            let (weight, slope) = cubic(g, t, k)?;
            taps.push(tap(g, at, size, weight, slope)?);
        }
        return Ok(Line { taps, growth });
    }
    let (x, settled) = settle(g, x, size, padding, align)?;
    growth = g.multiply(growth, settled)?;
    if mode == Mode::Nearest {
        let at = g.round_nearest_even(x)?;
        let (one, zero) = (g.ones_like(x)?, g.zeros_like(x)?);
        taps.push(tap(g, at, size, one, zero)?);
        return Ok(Line { taps, growth });
    }
    let base = g.floor(x)?;
    let t = g.subtract(x, base)?;
    let one = g.ones_like(t)?;
    let rest = g.subtract(one, t)?;
    let minus = g.neg(one)?;
    taps.push(tap(g, base, size, rest, minus)?);
    let next = g.add(base, one)?;
    taps.push(tap(g, next, size, t, one)?);
    Ok(Line { taps, growth })
}

/// Weight and slope of Keys' cubic (a = -0.75) for the element `k` after the one before the place, at fraction `t`.
fn cubic(g: &mut Graph, t: Value, k: i64) -> Result<(Value, Value)> {
    const A: f64 = -0.75;
    let d = math::add_n(g, t, -k as f64)?;
    // Distance and the sign with which it grows.
    let (x, sign) = if k >= 1 { (g.neg(d)?, -1.0) } else { (d, 1.0) };
    let near = k == 0 || k == 1;
    let poly = if near { [A + 2.0, -(A + 3.0), 0.0, 1.0] } else { [A, -5.0 * A, 8.0 * A, -4.0 * A] };
    let mut weight = g.full_like(x, poly[0])?;
    for c in &poly[1..] {
        weight = g.multiply(weight, x)?;
        weight = math::add_n(g, weight, *c)?;
    }
    let mut slope = g.full_like(x, 3.0 * poly[0])?;
    for c in [2.0 * poly[1], poly[2]] {
        slope = g.multiply(slope, x)?;
        slope = math::add_n(g, slope, c)?;
    }
    Ok((weight, math::mul_n(g, slope, sign)?))
}

/// A coordinate moved into the image as the padding says, and how it still grows.
fn settle(g: &mut Graph, x: Value, size: i64, padding: Padding, align: bool) -> Result<(Value, Value)> {
    let one = g.ones_like(x)?;
    match padding {
        Padding::Zeros => Ok((x, one)),
        Padding::Border => clip(g, x, size, one),
        Padding::Reflection => {
            let (low, span) = if align { (0.0, (size - 1) as f64) } else { (-0.5, size as f64) };
            if span == 0.0 {
                let zero = g.zeros_like(x)?;
                return Ok((zero, zero));
            }
            let from = math::add_n(g, x, -low)?;
            let negative = math::cmp_n(g, from, 0.0, Direction::Lt)?;
            let minus = g.neg(one)?;
            let sign = g.select(negative, minus, one)?;
            let from = g.abs(from)?;
            let period = g.full_like(from, span)?;
            let extra = g.remainder(from, period)?;
            let flips = exact::divide(g, from, period)?;
            let flips = g.floor(flips)?;
            let two = g.full_like(flips, 2.0)?;
            let odd = g.remainder(flips, two)?;
            let odd = math::cmp_n(g, odd, 0.0, Direction::Ne)?;
            let back = g.subtract(period, extra)?;
            let y = g.select(odd, back, extra)?;
            let y = math::add_n(g, y, low)?;
            let turned = g.neg(sign)?;
            let sign = g.select(odd, turned, sign)?;
            clip(g, y, size, sign)
        }
    }
}

fn clip(g: &mut Graph, x: Value, size: i64, growth: Value) -> Result<(Value, Value)> {
    let last = (size - 1) as f64;
    let above = math::cmp_n(g, x, 0.0, Direction::Gt)?;
    let below = math::cmp_n(g, x, last, Direction::Lt)?;
    let inside = g.and(above, below)?;
    let zero = g.zeros_like(x)?;
    let growth = g.select(inside, growth, zero)?;
    let end = g.full_like(x, last)?;
    let y = g.select(below, x, end)?;
    Ok((g.select(above, y, zero)?, growth))
}

fn tap(g: &mut Graph, at: Value, size: i64, weight: Value, slope: Value) -> Result<Tap> {
    let low = math::cmp_n(g, at, 0.0, Direction::Ge)?;
    let high = math::cmp_n(g, at, (size - 1) as f64, Direction::Le)?;
    let inside = g.and(low, high)?;
    let zero = g.zeros_like(at)?;
    let index = g.select(inside, at, zero)?;
    Ok(Tap { index: g.convert(index, DType::I64)?, inside, weight, slope })
}

/// One tap along each dim.
fn combinations(lines: &[Line]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for l in lines {
        all = all.iter().flat_map(|c: &Vec<usize>| (0..l.taps.len()).map(move |k| [&c[..], &[k]].concat())).collect();
    }
    all
}

impl Problem {
    /// Flat index `[N, P, 1]` and whether the element exists, as 1 or 0.
    fn place(&self, g: &mut Graph, taps: &[usize]) -> Result<(Value, Value)> {
        let mut flat: Option<Value> = None;
        let mut inside: Option<Value> = None;
        for ((line, &k), &size) in self.lines.iter().zip(taps).zip(&self.sizes) {
            let t = &line.taps[k];
            flat = Some(match flat {
                None => t.index,
                Some(f) => {
                    let f = math::mul_n(g, f, size)?;
                    g.add(f, t.index)?
                }
            });
            inside = Some(match inside {
                None => t.inside,
                Some(i) => g.and(i, t.inside)?,
            });
        }
        let (Some(flat), Some(inside)) = (flat, inside) else {
            return Err(crate::Error::internal("grid_sampler: no dims".into()));
        };
        let dims = g.dims(flat);
        let flat = g.reshape(flat, &[dims[0], dims[1], 1])?;
        Ok((flat, g.convert(inside, g.dtype(self.image))?))
    }

    /// Product of the weights; along dim `but`, the slope instead.
    fn weight(&self, g: &mut Graph, taps: &[usize], inside: Value, but: Option<usize>) -> Result<Value> {
        let mut w = inside;
        for (d, (line, &k)) in self.lines.iter().zip(taps).enumerate() {
            let t = &line.taps[k];
            w = g.multiply(w, if but == Some(d) { t.slope } else { t.weight })?;
        }
        Ok(w)
    }

    /// Elements `[N, C, P]` at flat indices.
    fn gather(&self, g: &mut Graph, flat: Value) -> Result<Value> {
        let dims = GatherDims {
            offset_dims: vec![1],
            collapsed_slice_dims: vec![2],
            operand_batching_dims: vec![0],
            start_indices_batching_dims: vec![0],
            start_index_map: vec![2],
            index_vector_dim: 2,
        };
        Ok(g.gather(self.image, flat, &dims, &[1, self.dims[1], 1], false)?)
    }
}

/// `[N, P]` over `[N, C, P]`.
fn over_channels(g: &mut Graph, v: Value, like: Value) -> Result<Value> {
    let dims = g.dims(like);
    Ok(g.broadcast_in_dim(v, &dims, &[0, 2])?)
}

fn forward(cx: &mut Cx<'_, '_>, n: usize) -> Result<()> {
    let p = read(cx, 0, n)?;
    let g = &mut *cx.g;
    let out: Dims = [p.dims[0], p.dims[1]].into_iter().chain(p.places[1..=n].iter().copied()).collect();
    let count: i64 = out[2..].iter().product();
    let mut sum = g.full(g.dtype(p.image), &[out[0], out[1], count], 0)?;
    for taps in combinations(&p.lines) {
        let (flat, inside) = p.place(g, &taps)?;
        let w = p.weight(g, &taps, inside, None)?;
        let v = p.gather(g, flat)?;
        let w = over_channels(g, w, v)?;
        let v = g.multiply(v, w)?;
        sum = g.add(sum, v)?;
    }
    let y = g.reshape(sum, &out)?;
    let y = g.convert(y, p.dtype)?;
    cx.out(y);
    Ok(())
}

/// `grid_sampler_backward(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask)`.
fn backward(cx: &mut Cx<'_, '_>, n: usize) -> Result<()> {
    let p = read(cx, 1, n)?;
    let mask = cx.bools(6)?;
    let go = cx.t(0)?;
    let g = &mut *cx.g;
    let compute = g.dtype(p.image);
    let count: i64 = p.places[1..=n].iter().product();
    let go = g.convert(go, compute)?;
    let go = g.reshape(go, &[p.dims[0], p.dims[1], count])?;
    let volume: i64 = p.sizes.iter().product();
    let mut image = g.full(compute, &[p.dims[0], p.dims[1], volume], 0)?;
    let mut slopes = vec![g.full(compute, &[p.dims[0], count], 0)?; n];
    for taps in combinations(&p.lines) {
        let (flat, inside) = p.place(g, &taps)?;
        if mask[0] {
            let w = p.weight(g, &taps, inside, None)?;
            let w = over_channels(g, w, go)?;
            let v = g.multiply(go, w)?;
            image = add_at(g, image, flat, v)?;
        }
        if mask[1] {
            let v = p.gather(g, flat)?;
            let v = g.multiply(v, go)?;
            let v = g.reduce_sum(v, &[1])?;
            for (d, slope) in slopes.iter_mut().enumerate() {
                let w = p.weight(g, &taps, inside, Some(d))?;
                let w = g.multiply(w, v)?;
                *slope = g.add(*slope, w)?;
            }
        }
    }
    if mask[0] {
        let image = g.reshape(image, &p.dims)?;
        let image = g.convert(image, p.dtype)?;
        cx.out(image);
    } else {
        cx.out_none();
    }
    if mask[1] {
        let g = &mut *cx.g;
        let mut parts = Vec::with_capacity(n);
        // The grid names the last dim first.
        for (line, slope) in p.lines.iter().zip(slopes).rev() {
            let v = g.multiply(slope, line.growth)?;
            let dims = g.dims(v);
            parts.push(g.reshape(v, &[dims[0], dims[1], 1])?);
        }
        let grid = g.concatenate(&parts, 2)?;
        let grid = g.reshape(grid, &p.places)?;
        let grid = g.convert(grid, p.dtype)?;
        cx.out(grid);
    } else {
        cx.out_none();
    }
    Ok(())
}

fn add_at(g: &mut Graph, image: Value, flat: Value, values: Value) -> Result<Value> {
    let dims = ScatterDims {
        update_window_dims: vec![1],
        inserted_window_dims: vec![2],
        input_batching_dims: vec![0],
        scatter_indices_batching_dims: vec![0],
        scatter_dims_to_operand_dims: vec![2],
        index_vector_dim: 2,
    };
    let out = g.scatter(&[image], flat, &[values], &dims, false, false, |g, a| Ok(vec![g.add(a[0], a[1])?]))?;
    Ok(out[0])
}
