//! QR by Householder reflections.

use super::linalg::{batch_dims, check_float, check_matrix, identity, mh, real_part, triangle};
use super::lu::{line, matmul, unwrapped};
use crate::Result;
use crate::aten::{Cx, Row};
use primitives::{DType, Direction, Graph, Value};

pub const ROWS: &[Row] = &[Row::new("linalg_qr", qr)];

/// `linalg_qr(A, mode)` -> Q, R by Householder reflections, with LAPACK's signs.
fn qr(cx: &mut Cx<'_, '_>) -> Result<()> {
    let a = cx.t(0)?;
    let mode = cx.str(1)?;
    check_matrix(cx, a, "linalg.qr")?;
    check_float(cx, a, "linalg.qr")?;
    let (with_q, complete) = match mode {
        "reduced" => (true, false),
        "complete" => (true, true),
        "r" => (false, false),
        other => {
            return Err(cx.error(format!(
                "qr received unrecognized mode '{other}' but expected one of 'reduced' (default), 'r', or 'complete'"
            )));
        }
    };
    let dims = cx.g.dims(a);
    let rank = dims.len();
    let (m, n) = (dims[rank - 2], dims[rank - 1]);
    let k = m.min(n);
    let g = &mut *cx.g;
    let (q, r) = reflect_all(g, a, if g.numel(a) == 0 { 0 } else { k })?;
    let r = triangle(g, r, true)?;
    let cut = |g: &mut Graph, v: Value, dim: usize, n: i64| -> Result<Value> {
        let mut limit = g.dims(v);
        limit[dim] = n;
        Ok(g.slice(v, &vec![0; rank], &limit, &vec![1; rank])?)
    };
    let (q, r) = if complete { (q, r) } else { (cut(g, q, rank - 1, k)?, cut(g, r, rank - 2, k)?) };
    let q = if with_q { q } else { g.full(g.dtype(a), &[0], 0)? };
    cx.out(q);
    cx.out(r);
    Ok(())
}

/// Reflects column after column onto the axes: `H_k .. H_1 A = R`, `Q = H_1 .. H_k`.
fn reflect(g: &mut Graph, a: Value, q: Value, k: i64) -> Result<(Value, Value)> {
    if k == 0 {
        return Ok((q, a));
    }
    let zero = g.scalar(DType::I64, 0)?;
    let r = g.while_loop(
        &[zero, a, q],
        |g, s| {
            let end = g.scalar(DType::I64, k)?;
            Ok(vec![g.compare(s[0], end, Direction::Lt)?])
        },
        |g, s| reflection(g, s).map_err(unwrapped),
    )?;
    Ok((r[2], r[1]))
}

/// `Q` (square) and `R` of matrices with `k` columns to reflect.
pub fn reflect_all(g: &mut Graph, a: Value, k: i64) -> Result<(Value, Value)> {
    let dims = g.dims(a);
    let m = dims[dims.len() - 2];
    let mut square = batch_dims(&dims);
    square.extend([m, m]);
    let blank = g.full(g.dtype(a), &square, 0)?;
    let q = identity(g, blank)?;
    reflect(g, a, q, k)
}

/// One reflection `H = 1 - tau v v^H`, with `v` 1 in row k: `beta = -sign(re x_k) |x|`, `tau = (beta - x_k) / beta`.
fn reflection(g: &mut Graph, s: &[Value]) -> Result<Vec<Value>> {
    let (k, a, q) = (s[0], s[1], s[2]);
    let dims = g.dims(a);
    let rank = dims.len();
    let dtype = g.dtype(a);
    let x = line(g, a, rank - 1, k)?;
    let vd = g.dims(x);
    let row = g.iota(DType::I64, &vd, rank - 2)?;
    let kk = g.broadcast_to(k, &vd)?;
    let (on, below) = (g.compare(row, kk, Direction::Eq)?, g.compare(row, kk, Direction::Gt)?);
    let none = g.zeros_like(x)?;
    let tail = g.select(below, x, none)?;
    let head = g.select(on, x, none)?;
    let alpha = g.reduce_sum(head, &[rank - 2])?;
    let size = g.abs(tail)?;
    let size = g.multiply(size, size)?;
    let tail_norm = g.reduce_sum(size, &[rank - 2])?;
    let a_size = g.abs(alpha)?;
    let a_size = g.multiply(a_size, a_size)?;
    let norm = g.add(tail_norm, a_size)?;
    let norm = g.sqrt(norm)?;
    let re = real_part(g, alpha)?;
    let zero = g.zeros_like(re)?;
    let positive = g.compare(re, zero, Direction::Ge)?;
    let minus = g.neg(norm)?;
    let beta = g.select(positive, minus, norm)?;
    // Nothing below and a real head: no reflection.
    let mut still = g.compare(tail_norm, zero, Direction::Eq)?;
    if dtype.is_complex() {
        let im = g.imag(alpha)?;
        let real = g.compare(im, zero, Direction::Eq)?;
        still = g.and(still, real)?;
    }
    let one = g.ones_like(beta)?;
    let beta = g.select(still, one, beta)?;
    let beta = g.convert(beta, dtype)?;
    let d = g.subtract(beta, alpha)?;
    let tau = g.divide(d, beta)?;
    let no = g.zeros_like(tau)?;
    let tau = g.select(still, no, tau)?;
    let scale = g.subtract(alpha, beta)?;
    let unit = g.ones_like(scale)?;
    let scale = g.select(still, unit, scale)?;
    let kept: Vec<usize> = (0..rank - 2).collect();
    let scale = g.broadcast_in_dim(scale, &vd, &kept)?;
    let v = g.divide(tail, scale)?;
    let ones = g.ones_like(v)?;
    let v = g.select(on, ones, v)?;
    let column = column_of(g, v)?;
    let row_v = mh(g, column)?;
    // a -= conj(tau) v (v^H a); q -= tau (q v) v^H
    let conj_tau = if dtype.is_complex() { g.conj(tau)? } else { tau };
    let va = matmul(g, row_v, a)?;
    let va = scaled(g, va, conj_tau)?;
    let change = matmul(g, column, va)?;
    let a = g.subtract(a, change)?;
    let qv = matmul(g, q, column)?;
    let qv = scaled(g, qv, tau)?;
    let change = matmul(g, qv, row_v)?;
    let q = g.subtract(q, change)?;
    let one = g.scalar(DType::I64, 1)?;
    Ok(vec![g.add(k, one)?, a, q])
}

fn column_of(g: &mut Graph, v: Value) -> Result<Value> {
    let mut d = g.dims(v);
    d.push(1);
    Ok(g.reshape(v, &d)?)
}

/// Every matrix of `a` times its number in `by`.
fn scaled(g: &mut Graph, a: Value, by: Value) -> Result<Value> {
    let dims = g.dims(a);
    let kept: Vec<usize> = (0..dims.len() - 2).collect();
    let by = g.broadcast_in_dim(by, &dims, &kept)?;
    Ok(g.multiply(a, by)?)
}
