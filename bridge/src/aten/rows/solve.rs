//! Solves and inverses from LU factors.

use super::linalg::{batch_dims, check_float, mh, report, square_error};
use super::lu::{factor, permutation, reordered, rows_of_pivots};
use crate::Result;
use crate::aten::cx::CheckKind;
use crate::aten::{Cx, Row};
use primitives::{DType, Dims, Graph, Transpose, Value};

pub const ROWS: &[Row] = &[
    Row::new("linalg_lu_solve", lu_solve_row),
    Row::new("_linalg_solve_ex", solve_ex),
    Row::new("linalg_inv_ex", inv_ex),
];

/// Solves `A X = B`, or `A^H X = B`, from the factors.
fn solve(g: &mut Graph, lu: Value, rows: Value, b: Value, adjoint: bool) -> Result<Value> {
    if adjoint {
        let y = g.triangular_solve(lu, b, true, false, false, Transpose::Adjoint)?;
        let y = g.triangular_solve(lu, y, true, true, true, Transpose::Adjoint)?;
        reordered(g, y, rows, true)
    } else {
        let y = reordered(g, b, rows, false)?;
        let y = g.triangular_solve(lu, y, true, true, true, Transpose::No)?;
        Ok(g.triangular_solve(lu, y, true, false, false, Transpose::No)?)
    }
}

/// `a` and `b` with their common batch dimensions.
pub fn common_batch(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<(Value, Value)> {
    let (da, db) = (cx.g.dims(a), cx.g.dims(b));
    let op = cx.op().to_owned();
    let batch = crate::aten::broadcast::shape(&op, &batch_dims(&da), &batch_dims(&db))?;
    let full = |d: &Dims| -> Dims { batch.iter().chain(&d[d.len() - 2..]).copied().collect() };
    Ok((cx.g.broadcast_to(a, &full(&da))?, cx.g.broadcast_to(b, &full(&db))?))
}

/// `linalg_lu_solve(LU, pivots, B, *, left, adjoint)`.
fn lu_solve_row(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (lu, pivots, b) = (cx.t(0)?, cx.t(1)?, cx.t(2)?);
    let (left, adjoint) = (cx.bool(3)?, cx.bool(4)?);
    check_float(cx, lu, "torch.linalg.lu_solve")?;
    square_error(cx, lu, "torch.linalg.lu_solve")?;
    if cx.g.dtype(lu) != cx.g.dtype(b) {
        return Err(cx.error(format!(
            "linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type {} and B of type {} instead",
            crate::aten::promote::torch_name(cx.g.dtype(lu)),
            crate::aten::promote::torch_name(cx.g.dtype(b))
        )));
    }
    if cx.g.dtype(pivots) != DType::I32 {
        return Err(cx.error("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32"));
    }
    check_solvable(cx, lu, b, left, "linalg.lu_solve")?;
    let m = *cx.g.dims(lu).last().unwrap_or(&0);
    let rows = rows_of_pivots(cx.g, pivots, m)?;
    let (lu, wide_b) = common_batch(cx, lu, b)?;
    let mut vector = batch_dims(&cx.g.dims(lu));
    vector.push(m);
    let rows = cx.g.broadcast_to(rows, &vector)?;
    let y = solve_side(cx.g, lu, rows, wide_b, left, adjoint)?;
    push(cx, y, left);
    Ok(())
}

/// `X A = B` is `A^H X^H = B^H`.
fn solve_side(g: &mut Graph, lu: Value, rows: Value, b: Value, left: bool, adjoint: bool) -> Result<Value> {
    if g.numel(b) == 0 {
        return Ok(b);
    }
    if left {
        return solve(g, lu, rows, b, adjoint);
    }
    let b = mh(g, b)?;
    let y = solve(g, lu, rows, b, !adjoint)?;
    mh(g, y)
}

/// The solution as a result; from the right it is that of the transposed, and lies in memory so.
fn push(cx: &mut Cx<'_, '_>, y: Value, left: bool) {
    if left { cx.out_columns(y) } else { cx.out(y) }
}

fn check_solvable(cx: &Cx<'_, '_>, a: Value, b: Value, left: bool, name: &str) -> Result<()> {
    let (da, db) = (cx.g.dims(a), cx.g.dims(b));
    if db.len() < 2 {
        return Err(cx.error(format!("{name}: The input tensor B must have at least 2 dimensions.")));
    }
    let n = da[da.len() - 1];
    let side = if left { db[db.len() - 2] } else { db[db.len() - 1] };
    if n != side {
        return Err(cx.error(format!(
            "{name}: Incompatible shapes of A and B for the equation {} ({}x{n} and {}x{})",
            if left { "AX = B" } else { "XA = B" },
            da[da.len() - 2],
            db[db.len() - 2],
            db[db.len() - 1]
        )));
    }
    Ok(())
}

/// `_linalg_solve_ex(A, B, *, left, check_errors)` -> result, LU, pivots, info. `B` may be a batch of vectors.
fn solve_ex(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (a, b) = (cx.t(0)?, cx.t(1)?);
    let left = cx.bool(2)?;
    check_float(cx, a, "linalg.solve")?;
    if cx.g.dtype(a) != cx.g.dtype(b) {
        return Err(cx.error(format!(
            "linalg.solve: Expected A and B to have the same dtype, but found A of type {} and B of type {} instead",
            crate::aten::promote::torch_name(cx.g.dtype(a)),
            crate::aten::promote::torch_name(cx.g.dtype(b))
        )));
    }
    square_error(cx, a, "linalg.solve")?;
    let (da, db) = (cx.g.dims(a), cx.g.dims(b));
    let vectors = db.len() == 1 || (da.len() - 1 == db.len() && db[..] == da[..da.len() - 1]);
    if vectors && !left {
        return Err(cx.error(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case \
             linalg.solve is equivalent to B / A.squeeze(-1)",
        ));
    }
    let b2 = if vectors {
        let mut d = db.clone();
        d.push(1);
        cx.g.reshape(b, &d)?
    } else {
        b
    };
    check_solvable(cx, a, b2, left, "linalg.solve")?;
    let f = factor(cx.g, a, true)?;
    let (lu, b2) = common_batch(cx, f.lu, b2)?;
    let mut vector = batch_dims(&cx.g.dims(lu));
    vector.push(da[da.len() - 1]);
    let g = &mut *cx.g;
    let rows = g.broadcast_to(f.rows, &vector)?;
    let y = solve_side(g, lu, rows, b2, left, false)?;
    let y = if vectors {
        let mut d = g.dims(y);
        d.pop();
        g.reshape(y, &d)?
    } else {
        y
    };
    push(cx, y, left);
    cx.out_columns(f.lu);
    cx.out(f.pivots);
    cx.out(f.info);
    report(
        cx,
        3,
        f.info,
        CheckKind::LinAlg,
        "torch.linalg.solve_ex: The solver failed because the input matrix is singular.",
    )
}

/// `linalg_inv_ex(A, *, check_errors)` -> inverse, info.
fn inv_ex(cx: &mut Cx<'_, '_>) -> Result<()> {
    let a = cx.t(0)?;
    square_error(cx, a, "linalg.inv")?;
    check_float(cx, a, "linalg.inv")?;
    let g = &mut *cx.g;
    let f = factor(g, a, true)?;
    let y = if g.numel(a) == 0 {
        a
    } else {
        // The identity, its rows already in the pivots' order.
        let b = permutation(g, f.rows, g.dtype(a), true)?;
        let y = g.triangular_solve(f.lu, b, true, true, true, Transpose::No)?;
        g.triangular_solve(f.lu, y, true, false, false, Transpose::No)?
    };
    cx.out_columns(y);
    cx.out(f.info);
    report(
        cx,
        1,
        f.info,
        CheckKind::LinAlg,
        "linalg.inv_ex: The diagonal element {} is zero, the inversion could not be completed because the input matrix \
         is singular.",
    )
}
