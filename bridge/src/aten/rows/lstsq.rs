//! Least squares: through QR for matrices of full rank, else through the singular values that count.

use super::linalg::mh;
use super::lu::{along, matmul};
use super::solve::common_batch;
use super::{math, qr, svd};
use crate::Result;
use crate::aten::{Cx, Row, exact};
use primitives::{DType, Direction, Graph, Transpose, Value};

pub const ROWS: &[Row] = &[Row::new("_lstsq", lstsq).dynamic(&["rcond"])];

/// `_lstsq(A, B, rcond, driver)` -> the smallest `X` with the smallest `|A X - B|`, the sums of the squares left over in
/// each column, the rank, the singular values. The driver `gels` takes the rank for full.
fn lstsq(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (a, b) = (cx.t(0)?, cx.t(1)?);
    let (a, b) = common_batch(cx, a, b)?;
    let full_rank = cx.str(3)? == "gels";
    let real = cx.g.dtype(a).real_of();
    let rcond = cx.number_as(2, real)?;
    let g = &mut *cx.g;
    let rank = g.rank(a);
    let (x, count, singular) = if full_rank {
        let none = g.full(DType::I64, &[0], 0)?;
        (by_qr(g, a, b)?, none, g.full(real, &[0], 0)?)
    } else {
        by_singular_values(g, a, b, rcond)?
    };
    let ax = matmul(g, a, x)?;
    let rest = g.subtract(b, ax)?;
    let size = g.abs(rest)?;
    let size = g.multiply(size, size)?;
    let left = g.reduce_sum(size, &[rank - 2])?;
    cx.out_columns(x);
    for v in [left, count, singular] {
        cx.out(v);
    }
    Ok(())
}

/// `A = Q R`: `R^-1 Q^H b`; of a wide matrix `A^H = Q R`: `Q R^-H b`.
fn by_qr(g: &mut Graph, a: Value, b: Value) -> Result<Value> {
    let dims = g.dims(a);
    let rank = dims.len();
    if dims[rank - 2] >= dims[rank - 1] {
        let (q, r) = qr::factors(g, a, false)?;
        let qh = mh(g, q)?;
        let y = matmul(g, qh, b)?;
        return Ok(g.triangular_solve(r, y, true, false, false, Transpose::No)?);
    }
    let ah = mh(g, a)?;
    let (q, r) = qr::factors(g, ah, false)?;
    let y = g.triangular_solve(r, b, true, false, false, Transpose::Adjoint)?;
    matmul(g, q, y)
}

/// `V S^-1 U^H b` over the singular values above `rcond` times the largest; their number, and all of them.
fn by_singular_values(g: &mut Graph, a: Value, b: Value, rcond: Value) -> Result<(Value, Value, Value)> {
    let dtype = g.dtype(a);
    let (u, s, vh) = svd::decomposed(g, a, false)?;
    let sd = g.dims(s);
    let last = sd.len() - 1;
    let top = g.reduce_max(s, &[last])?;
    let bound = math::mul(g, top, rcond)?;
    let bound = math::back_over(g, bound, &sd, &[last])?;
    let counts = g.compare(s, bound, Direction::Gt)?;
    let number = g.convert(counts, DType::I64)?;
    let number = g.reduce_sum(number, &[last])?;
    let (one, zero) = (g.ones_like(s)?, g.zeros_like(s)?);
    let safe = g.select(counts, s, one)?;
    let inverse = exact::divide(g, one, safe)?;
    let inverse = g.select(counts, inverse, zero)?;
    let inverse = g.convert(inverse, dtype)?;
    let uh = mh(g, u)?;
    let y = matmul(g, uh, b)?;
    let shape = g.dims(y);
    let inverse = along(g, inverse, &shape, shape.len() - 2)?;
    let y = g.multiply(y, inverse)?;
    let v = mh(g, vh)?;
    Ok((matmul(g, v, y)?, number, s))
}
