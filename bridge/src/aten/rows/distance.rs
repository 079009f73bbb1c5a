//! Pairwise distances between rows.

use super::norms::p_norm;
use crate::Result;
use crate::aten::{Cx, Row, broadcast, exact, promote};
use primitives::{DType, Dims, Direction, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::new("_cdist_forward", cdist),
    Row::new("_cdist_backward", cdist_backward),
    Row::new("_euclidean_dist", euclidean),
    Row::new("_pdist_forward", pdist),
    Row::new("_pdist_backward", pdist_backward),
];

/// `x1` as `[.., p, 1, m]` and `x2` as `[.., 1, r, m]`, both broadcast to `[.., p, r, m]`.
fn spread(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<(Value, Value)> {
    let (mut da, mut db) = (cx.g.dims(a), cx.g.dims(b));
    da.insert(da.len() - 1, 1);
    db.insert(db.len() - 2, 1);
    let (a, b) = (cx.g.reshape(a, &da)?, cx.g.reshape(b, &db)?);
    broadcast::pair(cx, a, b)
}

/// `|a - b|_p` over the last dimension.
fn distances(g: &mut Graph, a: Value, b: Value, p: f64) -> Result<Value> {
    let d = g.subtract(a, b)?;
    let d = g.abs(d)?;
    let last = g.rank(d) - 1;
    if g.dims(d)[last] == 0 {
        let dims = Dims::from_slice(&g.dims(d)[..last]);
        return Ok(g.full(g.dtype(d), &dims, 0)?);
    }
    p_norm(g, d, p, &[last])
}

/// `_cdist_forward(x1, x2, p, compute_mode)`: `[.., p, m], [.., r, m] -> [.., p, r]`.
fn cdist(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (a, b) = (cx.t(0)?, cx.t(1)?);
    let p = cx.float(2)?;
    cdist_of(cx, a, b, p)
}

fn cdist_of(cx: &mut Cx<'_, '_>, a: Value, b: Value, p: f64) -> Result<()> {
    let dtype = cx.g.dtype(a);
    let (da, db) = (cx.g.dims(a), cx.g.dims(b));
    if da.len() < 2 || db.len() < 2 || da.last() != db.last() {
        return Err(cx.error(format!(
            "X1 and X2 must have the same number of columns. X1: {:?} X2: {:?}",
            &da[..],
            &db[..]
        )));
    }
    if !dtype.is_float() {
        return Err(
            cx.error(format!("cdist only supports floating-point dtypes, X1 got: {}", promote::torch_name(dtype)))
        );
    }
    if p < 0.0 {
        return Err(cx.error("cdist only supports non-negative p values"));
    }
    let compute = promote::compute_type(dtype);
    let (a, b) = (cx.g.convert(a, compute)?, cx.g.convert(b, compute)?);
    let (a, b) = spread(cx, a, b)?;
    let y = distances(cx.g, a, b, p)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `_euclidean_dist(x1, x2)`.
fn euclidean(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (a, b) = (cx.t(0)?, cx.t(1)?);
    cdist_of(cx, a, b, 2.0)
}

/// Slope of `|d|_p` along each component of `d`, times `grad`; 0 where the distance is 0.
fn slope(g: &mut Graph, d: Value, grad: Value, dist: Value, p: f64) -> Result<Value> {
    let zero = g.zeros_like(d)?;
    if p == 0.0 {
        return Ok(zero);
    }
    let sign = g.sign(d)?;
    let a = g.abs(d)?;
    let y = if p == 1.0 {
        g.multiply(sign, grad)?
    } else if p == f64::INFINITY {
        let hit = g.compare(a, dist, Direction::Eq)?;
        let y = g.multiply(sign, grad)?;
        g.select(hit, y, zero)?
    } else if p == 2.0 {
        let y = exact::divide(g, d, dist)?;
        g.multiply(y, grad)?
    } else {
        // sign(d) |d|^(p-1) / dist^(p-1)
        let e = g.full_like(a, p - 1.0)?;
        let (up, down) = (g.power(a, e)?, g.power(dist, e)?);
        let y = exact::divide(g, up, down)?;
        let y = g.multiply(y, sign)?;
        g.multiply(y, grad)?
    };
    if p == 1.0 {
        return Ok(y);
    }
    let none = g.compare(dist, zero, Direction::Eq)?;
    let still = g.compare(d, zero, Direction::Eq)?;
    // A power below 0 of a zero component is infinite; torch leaves such components out.
    let none = if p < 2.0 { g.or(none, still)? } else { none };
    Ok(g.select(none, zero, y)?)
}

/// `_cdist_backward(grad, x1, x2, p, cdist)`: the gradient of `x1`.
fn cdist_backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (grad, a, b, dist) = (cx.t(0)?, cx.t(1)?, cx.t(2)?, cx.t(4)?);
    let p = cx.float(3)?;
    let dtype = cx.g.dtype(a);
    let own = cx.g.dims(a);
    let (wa, wb) = spread(cx, a, b)?;
    let g = &mut *cx.g;
    let shape = g.dims(wa);
    let rank = shape.len();
    let mut out: Dims = shape.clone();
    out.remove(rank - 2);
    if g.numel(wa) == 0 {
        let y = g.full(dtype, &out, 0)?;
        cx.out(y);
        return Ok(());
    }
    let mapping: Vec<usize> = (0..rank - 1).collect();
    let compute = promote::compute_type(dtype);
    let wide = |g: &mut Graph, v: Value| -> Result<Value> {
        let v = g.convert(v, compute)?;
        let v = g.broadcast_to(v, &shape[..rank - 1])?;
        Ok(g.broadcast_in_dim(v, &shape, &mapping)?)
    };
    let (grad, dist) = (wide(g, grad)?, wide(g, dist)?);
    let (wa, wb) = (g.convert(wa, compute)?, g.convert(wb, compute)?);
    let d = g.subtract(wa, wb)?;
    let y = slope(g, d, grad, dist, p)?;
    let y = g.reduce_sum(y, &[rank - 2])?;
    let y = g.convert(y, dtype)?;
    debug_assert_eq!(own.last(), out.last());
    cx.out(y);
    Ok(())
}

/// Rows `i < j` of an `n`-row matrix in order, as constants.
fn pairs(g: &mut Graph, n: i64) -> Result<(Value, Value)> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for i in 0..n {
        for j in i + 1..n {
            first.extend((i as i32).to_le_bytes());
            second.extend((j as i32).to_le_bytes());
        }
    }
    let k = n * (n - 1) / 2;
    Ok((g.constant(DType::I32, &[k], &first)?, g.constant(DType::I32, &[k], &second)?))
}

fn rows(g: &mut Graph, x: Value, index: Value) -> Result<Value> {
    let dims = primitives::GatherDims {
        offset_dims: vec![1],
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 1,
        ..Default::default()
    };
    let m = g.dims(x)[1];
    Ok(g.gather(x, index, &dims, &[1, m], false)?)
}

/// `_pdist_forward(self, p)`: distances of all pairs of rows, `[n, m] -> [n (n - 1) / 2]`.
fn pdist(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let (p, dtype) = (cx.float(1)?, cx.g.dtype(x));
    let d = cx.g.dims(x);
    let g = &mut *cx.g;
    let y = if d[0] < 2 {
        g.full(dtype, &[0], 0)?
    } else if d[1] == 0 {
        g.full(dtype, &[d[0] * (d[0] - 1) / 2], 0)?
    } else {
        let (i, j) = pairs(g, d[0])?;
        let (a, b) = (rows(g, x, i)?, rows(g, x, j)?);
        distances(g, a, b, p)?
    };
    cx.out(y);
    Ok(())
}

/// `_pdist_backward(grad, self, p, pdist)`: every pair's slope, in a full matrix of pairs, summed over one side.
fn pdist_backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (grad, x, dist) = (cx.t(0)?, cx.t(1)?, cx.t(3)?);
    let (p, d) = (cx.float(2)?, cx.g.dims(x));
    if d[0] < 2 || d[1] == 0 {
        let y = cx.g.zeros_like(x)?;
        cx.out(y);
        return Ok(());
    }
    let n = d[0];
    // Place of the pair (i, j) in the list, for every i and j; the diagonal reads anything.
    let mut place = Vec::new();
    for i in 0..n {
        for j in 0..n {
            let (a, b) = (i.min(j), i.max(j).max(1));
            let at = if i == j { 0 } else { a * (2 * n - a - 1) / 2 + b - a - 1 };
            place.extend((at as i32).to_le_bytes());
        }
    }
    let g = &mut *cx.g;
    let place = g.constant(DType::I32, &[n, n], &place)?;
    let how = primitives::GatherDims {
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 2,
        ..Default::default()
    };
    let shape = [n, n, d[1]];
    let a = g.broadcast_in_dim(x, &shape, &[0, 2])?;
    let b = g.broadcast_in_dim(x, &shape, &[1, 2])?;
    let diff = g.subtract(a, b)?;
    let grad = g.gather(grad, place, &how, &[1], false)?;
    let dist = g.gather(dist, place, &how, &[1], false)?;
    let grad = g.broadcast_in_dim(grad, &shape, &[0, 1])?;
    let dist = g.broadcast_in_dim(dist, &shape, &[0, 1])?;
    let y = slope(g, diff, grad, dist, p)?;
    let zero = g.zeros_like(diff)?;
    let (i, j) = (g.iota(DType::I32, &shape, 0)?, g.iota(DType::I32, &shape, 1)?);
    let self_pair = g.compare(i, j, Direction::Eq)?;
    let y = g.select(self_pair, zero, y)?;
    let y = g.reduce_sum(y, &[1])?;
    cx.out(y);
    Ok(())
}
