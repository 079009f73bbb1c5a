//! QR by Householder reflections.

use super::householder::{factor, product};
use super::linalg::{check_float, check_matrix, triangle};
use super::take::span;
use crate::Result;
use crate::aten::{Cx, Row};
use primitives::{Graph, Value};

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
    let g = &mut *cx.g;
    let (q, r) = factors(g, a, complete)?;
    let q = if with_q { q } else { g.full(g.dtype(a), &[0], 0)? };
    cx.out_columns(q);
    cx.out_columns(r);
    Ok(())
}

/// `Q [.., m, k]` and `R [.., k, n]` with `k = min(m, n)`, or `m` when `complete`.
pub fn factors(g: &mut Graph, a: Value, complete: bool) -> Result<(Value, Value)> {
    let dims = g.dims(a);
    let rank = dims.len();
    let (m, n) = (dims[rank - 2], dims[rank - 1]);
    let k = if complete { m } else { m.min(n) };
    let (packed, tau) = factor(g, a)?;
    let q = product(g, packed, tau, k)?;
    let r = triangle(g, packed, true)?;
    Ok((q, span(g, r, rank - 2, 0, k)?))
}
