//! Householder reflections: packed QR factors, and products of reflections.
//!
//! A factorization keeps the vector of each reflection `H = 1 - tau v v^H` below the diagonal of its column (the 1 on
//! the diagonal is not kept). The product `H_1 .. H_k` is `1 - V T V^H` for an upper triangular `T` with
//! `T^-1 = D^-1 + strictly upper(V^H V)`, `D` the diagonal of the `tau`: a triangular solve instead of a loop.

use super::linalg::{batch_dims, check_float, check_matrix, identity, iota_like, mh, real_part, triangle};
use super::lu::{along, line, matmul, unwrapped};
use super::take::span;
use crate::Result;
use crate::aten::{Cx, Row, exact, promote};
use primitives::{DType, Dims, Direction, Graph, Transpose, Value};

pub const ROWS: &[Row] =
    &[Row::new("geqrf", geqrf), Row::new("linalg_householder_product", householder_product), Row::new("ormqr", ormqr)];

/// `geqrf(self)` -> packed factors, `tau`.
fn geqrf(cx: &mut Cx<'_, '_>) -> Result<()> {
    let a = cx.t(0)?;
    check_matrix(cx, a, "torch.geqrf")?;
    check_float(cx, a, "torch.geqrf")?;
    let (packed, tau) = factor(cx.g, a)?;
    cx.out_columns(packed);
    cx.out(tau);
    Ok(())
}

/// Reflects column after column of `[.., m, n]` onto the axes: packed factors, and `tau` `[.., min(m, n)]`.
pub fn factor(g: &mut Graph, a: Value) -> Result<(Value, Value)> {
    let dims = g.dims(a);
    let rank = dims.len();
    let k = dims[rank - 2].min(dims[rank - 1]);
    let mut shape = batch_dims(&dims);
    shape.push(k);
    let tau = g.full(g.dtype(a), &shape, 0)?;
    if g.numel(a) == 0 {
        return Ok((a, tau));
    }
    let zero = g.scalar(DType::I64, 0)?;
    let r = g.while_loop(
        &[zero, a, tau],
        |g, s| {
            let end = g.scalar(DType::I64, k)?;
            Ok(vec![g.compare(s[0], end, Direction::Lt)?])
        },
        |g, s| reflection(g, s).map_err(unwrapped),
    )?;
    Ok((r[1], r[2]))
}

/// One reflection, `v` being 1 in row k: `beta = -sign(re x_k) |x|`, `tau = (beta - x_k) / beta`.
fn reflection(g: &mut Graph, s: &[Value]) -> Result<Vec<Value>> {
    let (k, a, taus) = (s[0], s[1], s[2]);
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
    let divisor = g.select(still, one, beta)?;
    let divisor = g.convert(divisor, dtype)?;
    let beta = g.convert(beta, dtype)?;
    let beta = g.select(still, alpha, beta)?;
    let d = g.subtract(beta, alpha)?;
    let tau = exact::divide(g, d, divisor)?;
    let scale = g.subtract(alpha, beta)?;
    let unit = g.ones_like(scale)?;
    let scale = g.select(still, unit, scale)?;
    let kept: Vec<usize> = (0..rank - 2).collect();
    let scale = g.broadcast_in_dim(scale, &vd, &kept)?;
    let tail = exact::divide(g, tail, scale)?;
    let ones = g.ones_like(tail)?;
    let v = g.select(on, ones, tail)?;
    // Columns to the right: a -= conj(tau) v (v^H a).
    let mut column = vd.clone();
    column.push(1);
    let v = g.reshape(v, &column)?;
    let row_v = mh(g, v)?;
    let conj_tau = if dtype.is_complex() { g.conj(tau)? } else { tau };
    let va = matmul(g, row_v, a)?;
    let by = g.broadcast_in_dim(conj_tau, &g.dims(va), &kept)?;
    let va = g.multiply(va, by)?;
    let change = matmul(g, v, va)?;
    let changed = g.subtract(a, change)?;
    let at = g.iota(DType::I64, &dims, rank - 1)?;
    let k_all = g.broadcast_to(k, &dims)?;
    let right = g.compare(at, k_all, Direction::Gt)?;
    let a = g.select(right, changed, a)?;
    // This column: beta on the diagonal, the vector below.
    let beta = g.broadcast_in_dim(beta, &vd, &kept)?;
    let new = g.select(on, beta, x)?;
    let new = g.select(below, tail, new)?;
    let new = along(g, new, &dims, rank - 2)?;
    let here = g.compare(at, k_all, Direction::Eq)?;
    let a = g.select(here, new, a)?;
    let td = g.dims(taus);
    let place = g.iota(DType::I64, &td, rank - 2)?;
    let k_tau = g.broadcast_to(k, &td)?;
    let here = g.compare(place, k_tau, Direction::Eq)?;
    let tau = g.broadcast_in_dim(tau, &td, &kept)?;
    let taus = g.select(here, tau, taus)?;
    let one = g.scalar(DType::I64, 1)?;
    Ok(vec![g.add(k, one)?, a, taus])
}

/// The vectors of the first `k` columns of packed factors, with their ones.
fn vectors(g: &mut Graph, packed: Value, k: i64) -> Result<Value> {
    let rank = g.rank(packed);
    let v = span(g, packed, rank - 1, 0, k)?;
    let (r, c) = (iota_like(g, v, rank - 2)?, iota_like(g, v, rank - 1)?);
    let (above, on) = (g.compare(r, c, Direction::Lt)?, g.compare(r, c, Direction::Eq)?);
    let (zero, one) = (g.zeros_like(v)?, g.ones_like(v)?);
    let v = g.select(above, zero, v)?;
    Ok(g.select(on, one, v)?)
}

/// `Q x`, or `Q^H x`, for the product `Q` of the reflections: `x - V T V^H x`.
fn apply(g: &mut Graph, packed: Value, tau: Value, x: Value, adjoint: bool) -> Result<Value> {
    let rank = g.rank(packed);
    let k = *g.dims(tau).last().unwrap_or(&0);
    if k == 0 || g.numel(x) == 0 {
        return Ok(x);
    }
    let v = vectors(g, packed, k)?;
    let vh = mh(g, v)?;
    // T = M^-1 D, with M = 1 + D strictly upper(V^H V).
    let products = matmul(g, vh, v)?;
    let upper = triangle(g, products, true)?;
    let by = along(g, tau, &g.dims(upper), rank - 2)?;
    let m = g.multiply(upper, by)?;
    let vx = matmul(g, vh, x)?;
    let shape = g.dims(vx);
    let y = if adjoint {
        let y = g.triangular_solve(m, vx, true, false, true, Transpose::Adjoint)?;
        let conj = if g.dtype(tau).is_complex() { g.conj(tau)? } else { tau };
        let by = along(g, conj, &shape, rank - 2)?;
        // T^H = D^H M^-H.
        g.multiply(y, by)?
    } else {
        let by = along(g, tau, &shape, rank - 2)?;
        let vx = g.multiply(vx, by)?;
        g.triangular_solve(m, vx, true, false, true, Transpose::No)?
    };
    let change = matmul(g, v, y)?;
    Ok(g.subtract(x, change)?)
}

/// The first `columns` columns of the product of the reflections.
pub fn product(g: &mut Graph, packed: Value, tau: Value, columns: i64) -> Result<Value> {
    let dims = g.dims(packed);
    let rank = dims.len();
    let shape: Dims = dims[..rank - 1].iter().copied().chain([columns]).collect();
    let blank = g.full(g.dtype(packed), &shape, 0)?;
    let unit = identity(g, blank)?;
    apply(g, packed, tau, unit, false)
}

/// What both products ask of the packed factors and `tau` (arguments 0 and 1).
fn check_reflections(cx: &mut Cx<'_, '_>, name: &str) -> Result<(Value, Value)> {
    let (a, tau) = (cx.t(0)?, cx.t(1)?);
    let (da, dt) = (cx.g.dims(a), cx.g.dims(tau));
    if da.len() < 2 {
        return Err(cx.error(format!("{name}: input must have at least 2 dimensions.")));
    }
    check_float(cx, a, name)?;
    if dt.len() + 1 != da.len() {
        return Err(cx.error(format!(
            "{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {} and input.ndim is \
             equal to {}",
            dt.len(),
            da.len()
        )));
    }
    if dt[..dt.len() - 1] != da[..da.len() - 2] {
        return Err(cx.error(format!(
            "{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {:?}",
            &dt[..dt.len() - 1]
        )));
    }
    if cx.g.dtype(a) != cx.g.dtype(tau) {
        return Err(cx.error(format!(
            "{name}: tau dtype {} does not match input dtype {}",
            promote::torch_name(cx.g.dtype(tau)),
            promote::torch_name(cx.g.dtype(a))
        )));
    }
    Ok((a, tau))
}

/// `linalg_householder_product(input, tau)`: as many columns of the product as `input` has.
fn householder_product(cx: &mut Cx<'_, '_>) -> Result<()> {
    let name = "torch.linalg.householder_product";
    let (a, tau) = check_reflections(cx, name)?;
    let dims = cx.g.dims(a);
    let (m, n) = (dims[dims.len() - 2], dims[dims.len() - 1]);
    let k = *cx.g.dims(tau).last().unwrap_or(&0);
    if m < n {
        return Err(cx.error(format!("{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")));
    }
    if n < k {
        return Err(cx.error(format!("{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")));
    }
    let y = if cx.g.numel(a) == 0 { a } else { product(cx.g, a, tau, n)? };
    cx.out_columns(y);
    Ok(())
}

/// `ormqr(self, tau, other, left, transpose)`: the product of the reflections (or its adjoint) times `other`.
fn ormqr(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (a, tau) = check_reflections(cx, "torch.ormqr")?;
    let other = cx.t(2)?;
    let (left, adjoint) = (cx.bool(3)?, cx.bool(4)?);
    let (da, db) = (cx.g.dims(a), cx.g.dims(other));
    if db.len() < 2 || db.len() != da.len() || db[..db.len() - 2] != da[..da.len() - 2] {
        return Err(cx.error(format!(
            "torch.ormqr: Expected other to have the batch dimensions of input, got other {:?} and input {:?}",
            &db[..],
            &da[..]
        )));
    }
    if cx.g.dtype(a) != cx.g.dtype(other) {
        return Err(cx.error(format!(
            "torch.ormqr: Expected input and other to have the same dtype, but input has dtype {} and other has dtype {}",
            promote::torch_name(cx.g.dtype(a)),
            promote::torch_name(cx.g.dtype(other))
        )));
    }
    let (m, k) = (da[da.len() - 2], *cx.g.dims(tau).last().unwrap_or(&0));
    let side = if left { db[db.len() - 2] } else { db[db.len() - 1] };
    let dim = if left { -2 } else { -1 };
    if side < k {
        return Err(cx.error(format!("torch.ormqr: other.shape[{dim}] must be greater than or equal to tau.shape[-1]")));
    }
    if side != m {
        return Err(cx.error(format!("torch.ormqr: other.shape[{dim}] must be equal to input.shape[-2]")));
    }
    let g = &mut *cx.g;
    let y = if left {
        apply(g, a, tau, other, adjoint)?
    } else {
        // X Q is (Q^H X^H)^H.
        let x = mh(g, other)?;
        let y = apply(g, a, tau, x, !adjoint)?;
        mh(g, y)?
    };
    cx.out_columns(y);
    Ok(())
}
