//! `interpolate`: nearest, linear, cubic and antialiased resampling, one dim after the other, and the gradients.

use super::resample_weights::{Kind, Span, Taps, taps, transposed};
use super::{math, memory_format, resample_bytes, take};
use crate::Result;
use crate::aten::{Cx, Row, promote};
use primitives::{DType, Dims, DotDims, Graph, Precision, Value};

pub const ROWS: &[Row] = &[
    Row::new("upsample_nearest1d", |cx| forward(cx, Kind::Nearest, 1)),
    Row::new("upsample_nearest2d", |cx| forward(cx, Kind::Nearest, 2)),
    Row::new("upsample_nearest3d", |cx| forward(cx, Kind::Nearest, 3)),
    Row::new("_upsample_nearest_exact1d", |cx| forward(cx, Kind::NearestExact, 1)),
    Row::new("_upsample_nearest_exact2d", |cx| forward(cx, Kind::NearestExact, 2)),
    Row::new("_upsample_nearest_exact3d", |cx| forward(cx, Kind::NearestExact, 3)),
    Row::new("upsample_linear1d", |cx| forward(cx, Kind::Linear, 1)),
    Row::new("upsample_bilinear2d", |cx| forward(cx, Kind::Linear, 2)),
    Row::new("upsample_trilinear3d", |cx| forward(cx, Kind::Linear, 3)),
    Row::new("upsample_bicubic2d", |cx| forward(cx, Kind::Cubic, 2)),
    Row::new("_upsample_bilinear2d_aa", |cx| forward(cx, Kind::LinearSmooth, 2)),
    Row::new("_upsample_bicubic2d_aa", |cx| forward(cx, Kind::CubicSmooth, 2)),
    Row::new("_upsample_lanczos2d_aa", |cx| forward(cx, Kind::LanczosSmooth, 2)),
    Row::new("upsample_nearest1d_backward", |cx| backward(cx, Kind::Nearest, 1)),
    Row::new("upsample_nearest2d_backward", |cx| backward(cx, Kind::Nearest, 2)),
    Row::new("upsample_nearest3d_backward", |cx| backward(cx, Kind::Nearest, 3)),
    Row::new("_upsample_nearest_exact1d_backward", |cx| backward(cx, Kind::NearestExact, 1)),
    Row::new("_upsample_nearest_exact2d_backward", |cx| backward(cx, Kind::NearestExact, 2)),
    Row::new("_upsample_nearest_exact3d_backward", |cx| backward(cx, Kind::NearestExact, 3)),
    Row::new("upsample_linear1d_backward", |cx| backward(cx, Kind::Linear, 1)),
    Row::new("upsample_bilinear2d_backward", |cx| backward(cx, Kind::Linear, 2)),
    Row::new("upsample_trilinear3d_backward", |cx| backward(cx, Kind::Linear, 3)),
    Row::new("upsample_bicubic2d_backward", |cx| backward(cx, Kind::Cubic, 2)),
    Row::new("_upsample_bilinear2d_aa_backward", |cx| backward(cx, Kind::LinearSmooth, 2)),
    Row::new("_upsample_bicubic2d_aa_backward", |cx| backward(cx, Kind::CubicSmooth, 2)),
    Row::new("_upsample_lanczos2d_aa_backward", |cx| backward(cx, Kind::LanczosSmooth, 2)),
];

/// More taps than this are a matrix product.
pub const UNROLLED: usize = 8;

fn is_nearest(kind: Kind) -> bool {
    matches!(kind, Kind::Nearest | Kind::NearestExact)
}

/// One span for each spatial dim of an input of shape `dims`; the arguments after the sizes start at `at`.
fn spans(cx: &Cx<'_, '_>, kind: Kind, n: usize, dims: &[i64], out: &[i64], at: usize) -> Result<Vec<Span>> {
    if out.len() != n {
        return Err(cx.error(format!("It is expected output_size equals to {n}, but got size {}", out.len())));
    }
    if dims.len() != n + 2 || dims[1..].contains(&0) {
        return Err(cx.error(format!("Non-empty {}D data tensor expected but got a tensor with sizes {dims:?}", n + 2)));
    }
    if out.iter().any(|&o| o <= 0) {
        return Err(cx.error(format!(
            "Input and output sizes should be greater than 0, but got input {:?} and output {out:?}",
            &dims[2..]
        )));
    }
    let (align_corners, at) = if is_nearest(kind) { (false, at) } else { (cx.bool(at)?, at + 1) };
    (0..n).map(|i| Ok(Span { size: dims[i + 2], out: out[i], align_corners, scale: cx.opt_float(at + i)? })).collect()
}

/// `upsample(self, output_size, [align_corners], scales..)`.
fn forward(cx: &mut Cx<'_, '_>, kind: Kind, n: usize) -> Result<()> {
    let dims = cx.sizes(0)?;
    let spans = spans(cx, kind, n, &dims, &cx.ints(1)?, 2)?;
    memory_format::like(cx, &[0]);
    let x = cx.t(0)?;
    let dtype = cx.g.dtype(x);
    if is_nearest(kind) {
        let mut y = x;
        for (d, span) in spans.iter().enumerate() {
            let picks: Vec<i64> = taps(kind, span, dtype).iter().map(|t| t[0].0).collect();
            y = take::take(cx.g, y, d + 2, &picks)?;
        }
        cx.out(y);
        return Ok(());
    }
    if dtype == DType::U8 {
        let mut y = cx.g.convert(x, DType::I32)?;
        for (d, span) in spans.iter().enumerate().rev() {
            y = resample_bytes::combine(cx.g, y, d + 2, &taps(kind, span, DType::F64))?;
        }
        let y = cx.g.convert(y, dtype)?;
        cx.out(y);
        return Ok(());
    }
    let compute = promote::compute_type(dtype);
    if !compute.is_float() {
        return Err(cx.error(format!("not implemented for '{}'", promote::torch_name(dtype))));
    }
    let mut y = cx.g.convert(x, compute)?;
    // The innermost dim first, as torch does: fewer numbers to come when an image shrinks. torch keeps the weights of
    // half precision images in half precision.
    for (d, span) in spans.iter().enumerate().rev() {
        y = combine(cx.g, y, d + 2, &taps(kind, span, compute), dtype)?;
    }
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `upsample_backward(grad_output, output_size, input_size, [align_corners], scales..)`.
fn backward(cx: &mut Cx<'_, '_>, kind: Kind, n: usize) -> Result<()> {
    let dims = Dims::from_slice(&cx.ints(2)?);
    let spans = spans(cx, kind, n, &dims, &cx.ints(1)?, 3)?;
    let expected: Vec<i64> = dims[..2].iter().copied().chain(spans.iter().map(|s| s.out)).collect();
    if cx.sizes(0)?[..] != expected[..] {
        return Err(cx.error(format!("Expected grad_output of shape {expected:?}, but got {:?}", &cx.sizes(0)?[..])));
    }
    memory_format::like(cx, &[0]);
    let go = cx.t(0)?;
    let dtype = cx.g.dtype(go);
    let compute = promote::compute_type(dtype);
    let mut y = cx.g.convert(go, compute)?;
    for (d, span) in spans.iter().enumerate() {
        let taps = taps(kind, span, compute);
        y = if is_nearest(kind) {
            take::window_sums(cx.g, y, d + 2, &ranges(&taps, span.size))?
        } else {
            combine(cx.g, y, d + 2, &transposed(&taps, span.size), compute)?
        };
    }
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// The result elements that show each input element: they follow each other.
fn ranges(taps: &Taps, size: i64) -> Vec<(i64, i64)> {
    let mut out = vec![(0, 0); size as usize];
    for (o, list) in taps.iter().enumerate() {
        let r = &mut out[list[0].0 as usize];
        *r = if r.0 == r.1 { (o as i64, o as i64 + 1) } else { (r.0, o as i64 + 1) };
    }
    out
}

/// Weighted sums along one dim, the weights rounded to `precision`.
fn combine(g: &mut Graph, x: Value, dim: usize, taps: &Taps, precision: DType) -> Result<Value> {
    let longest = taps.iter().map(Vec::len).max().unwrap_or(0);
    if longest > UNROLLED {
        return by_matrix(g, x, dim, taps);
    }
    let mut dims = g.dims(x);
    dims[dim] = taps.len() as i64;
    let mut sum: Option<Value> = None;
    for j in 0..longest.max(1) {
        // Elements with fewer taps repeat their first one with weight 0.
        let picks: Vec<i64> = taps.iter().map(|t| t.get(j).or(t.first()).map_or(0, |t| t.0)).collect();
        let weights: Vec<f64> = taps.iter().map(|t| t.get(j).map_or(0.0, |t| t.1)).collect();
        let mut term = take::take(g, x, dim, &picks)?;
        if weights.iter().any(|&w| w != 1.0) {
            let w = math::floats(g, precision, &[weights.len() as i64], &weights)?;
            let w = g.convert(w, g.dtype(x))?;
            let w = math::along(g, w, &dims, dim)?;
            term = g.multiply(term, w)?;
        }
        sum = Some(match sum {
            Some(s) => g.add(s, term)?,
            None => term,
        });
    }
    Ok(sum.unwrap_or(x))
}

/// Weighted sums along one dim as a product with a matrix.
pub fn by_matrix(g: &mut Graph, x: Value, dim: usize, taps: &Taps) -> Result<Value> {
    let dims = g.dims(x);
    let size = dims[dim];
    let mut matrix = vec![0.0; taps.len() * size as usize];
    for (o, list) in taps.iter().enumerate() {
        for &(i, w) in list {
            matrix[o * size as usize + i as usize] += w;
        }
    }
    let m = math::floats(g, g.dtype(x), &[taps.len() as i64, size], &matrix)?;
    let dot = DotDims { lhs_batch: vec![], rhs_batch: vec![], lhs_contract: vec![dim], rhs_contract: vec![1] };
    let y = g.dot_general(x, m, &dot, Precision::Highest, None)?;
    // The new dim comes last: move it back.
    let last = dims.len() - 1;
    let order: Vec<usize> = (0..dims.len())
        .map(|d| match d {
            d if d == dim => last,
            d if d > dim => d - 1,
            d => d,
        })
        .collect();
    Ok(g.transpose(y, &order)?)
}
