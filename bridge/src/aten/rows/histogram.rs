//! Histograms over one or more dims: edges of the bins, and what falls between them.

use super::math;
use super::places::{Combine, put_flat};
use super::search::binary_search;
use super::util::check_real_float;
use crate::Result;
use crate::aten::{CheckKind, Cx, Row, exact, promote};
use primitives::{DType, Dims, Direction};

pub const ROWS: &[Row] = &[Row::new("_bin_edges", bin_edges), Row::new("_bin_sums", bin_sums)];

/// `_bin_edges(self, bins, range)`: `bins + 1` edges at equal distances over the range, or from the smallest to the
/// largest of the elements (0 to 1 without any; half a unit around a single value).
fn bin_edges(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let bins = cx.int(1)?;
    let dtype = cx.g.dtype(x);
    check_real_float(cx, "histogram_cpu", dtype)?;
    let (own, dtype) = (dtype, promote::compute_type(dtype));
    let x = cx.g.convert(x, dtype)?;
    let n = cx.g.numel(x);
    let (low, high) = match cx.opt_floats(2)? {
        Some(r) => (cx.g.scalar(dtype, r[0])?, cx.g.scalar(dtype, r[1])?),
        None if n == 0 => (cx.g.scalar(dtype, 0.0)?, cx.g.scalar(dtype, 1.0)?),
        None => {
            let all: Vec<usize> = (0..cx.g.rank(x)).collect();
            (cx.g.reduce_min(x, &all)?, cx.g.reduce_max(x, &all)?)
        }
    };
    let span = cx.g.subtract(high, low)?;
    let finite = cx.g.is_finite(span)?;
    let bad = cx.g.not(finite)?;
    cx.check(bad, bad, CheckKind::Runtime, "torch.histogramdd: the range of the input is not finite")?;
    let g = &mut *cx.g;
    let single = g.compare(low, high, Direction::Eq)?;
    let (down, up) = (math::add_n(g, low, -0.5)?, math::add_n(g, high, 0.5)?);
    let (low, high) = (g.select(single, down, low)?, g.select(single, up, high)?);
    // As torch's linspace: counted from the nearer end.
    let width = g.subtract(high, low)?;
    let step = math::div_n(g, width, bins as f64)?;
    let i = g.iota(dtype, &[bins + 1], 0)?;
    let last = g.full_like(i, bins as f64)?;
    let back = g.subtract(last, i)?;
    let (up, down) = (math::mul(g, i, step)?, math::mul(g, back, step)?);
    let (up, down) = (math::add(g, up, low)?, math::sub(g, high, down)?);
    let near = math::cmp_n(g, i, ((bins + 1) / 2) as f64, Direction::Lt)?;
    let y = g.select(near, up, down)?;
    let y = g.convert(y, own)?;
    cx.out(y);
    Ok(())
}

/// `_bin_sums(self, edges, weight, density)`: `self` is `[M, N]`, one vector of edges for each of its `N` columns. The
/// number (or the sum of the weights) of the rows in each cell; with `density` over the total and the cell's volume. The
/// last bin has both its edges; rows outside count nowhere.
fn bin_sums(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let edges = cx.ts(1)?;
    let weight = cx.opt_t(2)?;
    let density = cx.bool(3)?;
    let (dims, dtype) = (cx.g.dims(x), cx.g.dtype(x));
    check_real_float(cx, "histogram_cpu", dtype)?;
    let (own, dtype) = (dtype, promote::compute_type(dtype));
    let rows = dims[0];
    let g = &mut *cx.g;
    let x = g.convert(x, dtype)?;
    let mut edges = edges;
    for edge in &mut edges {
        *edge = g.convert(*edge, dtype)?;
    }
    let shape: Dims = edges.iter().map(|&e| g.dims(e)[0] - 1).collect();
    let cells: i64 = shape.iter().product();
    let mut place = g.full(DType::I64, &[rows], 0)?;
    let mut inside = g.full(DType::Bool, &[rows], true)?;
    for (d, &edge) in edges.iter().enumerate() {
        let column = g.slice(x, &[0, d as i64], &[rows, d as i64 + 1], &[1, 1])?;
        let column = g.reshape(column, &[rows])?;
        let after = binary_search(g, edge, column, None, true)?;
        let bin = math::add_n(g, after, -1)?;
        let n = shape[d];
        let last = g.slice(edge, &[n], &[n + 1], &[1])?;
        let last = g.reshape(last, &[])?;
        let last = g.broadcast_to(last, &[rows])?;
        let at_end = g.compare(column, last, Direction::Eq)?;
        let end = g.full_like(bin, n - 1)?;
        let bin = g.select(at_end, end, bin)?;
        let (low, high) = (math::cmp_n(g, bin, 0, Direction::Ge)?, math::cmp_n(g, bin, n, Direction::Lt)?);
        inside = g.and(inside, low)?;
        inside = g.and(inside, high)?;
        let scaled = math::mul_n(g, place, n)?;
        place = g.add(scaled, bin)?;
    }
    // Places out of range are skipped.
    let nowhere = g.full_like(place, cells)?;
    let place = g.select(inside, place, nowhere)?;
    let values = match weight {
        Some(w) => {
            let w = g.convert(w, dtype)?;
            g.reshape(w, &[rows])?
        }
        None => g.full(dtype, &[rows], 1.0)?,
    };
    let empty = g.full(dtype, &[cells], 0.0)?;
    let sums = if rows == 0 { empty } else { put_flat(g, empty, place, values, Combine::Add)? };
    let mut y = g.reshape(sums, &shape)?;
    if density {
        let all: Vec<usize> = (0..shape.len()).collect();
        let total = g.reduce_sum(y, &all)?;
        y = math::div(g, y, total)?;
        for (d, &edge) in edges.iter().enumerate() {
            let n = shape[d];
            let (from, to) = (g.slice(edge, &[0], &[n], &[1])?, g.slice(edge, &[1], &[n + 1], &[1])?);
            let width = g.subtract(to, from)?;
            let width = math::along(g, width, &shape, d)?;
            y = exact::divide(g, y, width)?;
        }
    }
    let y = g.convert(y, own)?;
    cx.out(y);
    Ok(())
}
