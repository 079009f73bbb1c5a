//! The polar decomposition, by singular values, and the square root of positive matrices, by eigenvalues.

use super::linalg::{batch_dims, check_float, check_matrix, mh, square_error};
use super::lu::{along, matmul};
use super::svd::{decomposed, eigen, hermitian};
use crate::Result;
use crate::aten::{Cx, Row};
use primitives::{Dims, Graph, Value};

pub const ROWS: &[Row] = &[Row::new("linalg_polar", polar), Row::new("linalg_matrix_sqrth", matrix_sqrth)];

/// `linalg_polar(A)` -> U, H: of the decomposition `A = W S Vh`, `U = W Vh` and `H = V S Vh`.
fn polar(cx: &mut Cx<'_, '_>) -> Result<()> {
    let a = cx.t(0)?;
    check_matrix(cx, a, "linalg.polar")?;
    check_float(cx, a, "linalg.polar")?;
    let dims = cx.g.dims(a);
    let rank = dims.len();
    let (m, n) = (dims[rank - 2], dims[rank - 1]);
    if m < n {
        return Err(cx.error(format!(
            "linalg.polar: input must have at least as many rows as columns, but got {m} by {n} matrices"
        )));
    }
    let g = &mut *cx.g;
    if g.numel(a) == 0 {
        let square: Dims = batch_dims(&dims).into_iter().chain([n, n]).collect();
        let none = g.full(g.dtype(a), &square, 0)?;
        cx.out(a);
        cx.out(none);
        return Ok(());
    }
    let (w, s, vh) = decomposed(g, a, false)?;
    let u = matmul(g, w, vh)?;
    let v = mh(g, vh)?;
    let h = scaled_product(g, v, s, vh)?;
    cx.out(u);
    cx.out(h);
    Ok(())
}

/// `linalg_matrix_sqrth(A)`: of the lower triangle's `A = Q L Qh`, `Q sqrt(L) Qh`.
fn matrix_sqrth(cx: &mut Cx<'_, '_>) -> Result<()> {
    let a = cx.t(0)?;
    square_error(cx, a, "linalg.matrix_sqrth")?;
    check_float(cx, a, "linalg.matrix_sqrth")?;
    if cx.g.numel(a) == 0 {
        cx.out(a);
        return Ok(());
    }
    let g = &mut *cx.g;
    let whole = hermitian(g, a, false)?;
    let (l, q) = eigen(g, whole)?;
    let root = g.sqrt(l)?;
    let qh = mh(g, q)?;
    let y = scaled_product(g, q, root, qh)?;
    cx.out(y);
    Ok(())
}

/// `q diag(d) qh`, `d` real.
fn scaled_product(g: &mut Graph, q: Value, d: Value, qh: Value) -> Result<Value> {
    let (dims, dtype) = (g.dims(q), g.dtype(q));
    let d = g.convert(d, dtype)?;
    let d = along(g, d, &dims, dims.len() - 1)?;
    let scaled = g.multiply(q, d)?;
    matmul(g, scaled, qh)
}
