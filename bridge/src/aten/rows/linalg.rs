//! Factorizations and solves that StableHLO has, and what rows of matrices share.

use super::solve::common_batch;
use crate::Result;
use crate::aten::cx::CheckKind;
use crate::aten::{Cx, Row, promote};
use primitives::{DType, Dims, Direction, Graph, Transpose, Value};

pub const ROWS: &[Row] = &[
    Row::new("_check", check),
    Row::new("linalg_cholesky_ex", cholesky_ex),
    Row::new("cholesky_solve", cholesky_solve),
    Row::new("cholesky_inverse", cholesky_inverse),
    Row::new("linalg_solve_triangular", solve_triangular),
    Row::new("triangular_solve", old_triangular_solve),
];

/// All but the last two sizes.
pub fn batch_dims(dims: &[i64]) -> Dims {
    Dims::from_slice(&dims[..dims.len().saturating_sub(2)])
}

/// Transposes the last two dimensions.
pub fn mt(g: &mut Graph, a: Value) -> Result<Value> {
    let rank = g.rank(a);
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(rank - 1, rank - 2);
    Ok(g.transpose(a, &order)?)
}

/// Conjugate transpose of the last two dimensions.
pub fn mh(g: &mut Graph, a: Value) -> Result<Value> {
    let a = if g.dtype(a).is_complex() { g.conj(a)? } else { a };
    mt(g, a)
}

/// Index along `dim` in the shape of `a`, i32.
pub fn iota_like(g: &mut Graph, a: Value, dim: usize) -> Result<Value> {
    Ok(g.iota(DType::I32, &g.dims(a), dim)?)
}

/// The real part.
pub fn real_part(g: &mut Graph, x: Value) -> Result<Value> {
    if g.dtype(x).is_complex() { Ok(g.real(x)?) } else { Ok(x) }
}

/// An error where `a` is neither a matrix nor a batch of them.
pub fn check_matrix(cx: &Cx<'_, '_>, a: Value, name: &str) -> Result<()> {
    if cx.g.rank(a) < 2 {
        return Err(cx.error(format!("{name}: The input tensor A must have at least 2 dimensions.")));
    }
    Ok(())
}

/// Batches of square matrices.
pub fn square_error(cx: &Cx<'_, '_>, a: Value, name: &str) -> Result<()> {
    check_matrix(cx, a, name)?;
    let d = cx.g.dims(a);
    let (m, n) = (d[d.len() - 2], d[d.len() - 1]);
    if m != n {
        return Err(cx.error(format!("{name}: A must be batches of square matrices, but they are {m} by {n} matrices")));
    }
    Ok(())
}

/// Linear algebra is of f32, f64 and their complex kin, as in torch.
pub fn check_float(cx: &Cx<'_, '_>, a: Value, name: &str) -> Result<()> {
    let d = cx.g.dtype(a);
    if promote::category(d) < 2 {
        return Err(cx.error(format!(
            "{name}: Expected a floating point or complex tensor as input. Got {}",
            promote::torch_name(d)
        )));
    }
    if d.is_float() && d.size_of() < 4 {
        return Err(cx.error(format!("{name}: Low precision dtypes not supported. Got {}", promote::torch_name(d))));
    }
    Ok(())
}

/// With `check_errors`, a nonzero `info` (a factorization that failed) is an error, whose message has it for `{}`.
pub fn report(cx: &mut Cx<'_, '_>, check_errors: usize, info: Value, kind: CheckKind, message: &str) -> Result<()> {
    if !cx.bool(check_errors)? {
        return Ok(());
    }
    let zero = cx.g.zeros_like(info)?;
    let bad = cx.g.compare(info, zero, Direction::Ne)?;
    cx.check(bad, info, kind, message)
}

/// `_check(bad, value, kind, message)` -> bad: reports an error of this kind where `bad` holds, `{}` being the value.
pub fn check(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (bad, value) = (cx.t(0)?, cx.t(1)?);
    let kind = match cx.str(2)? {
        "index" => CheckKind::Index,
        "value" => CheckKind::Value,
        "linalg" => CheckKind::LinAlg,
        _ => CheckKind::Runtime,
    };
    cx.out(bad);
    cx.check(bad, value, kind, cx.str(3)?)
}

/// Keeps the lower or upper triangle.
pub fn triangle(g: &mut Graph, a: Value, upper: bool) -> Result<Value> {
    let rank = g.rank(a);
    let (r, c) = (iota_like(g, a, rank - 2)?, iota_like(g, a, rank - 1)?);
    let keep = g.compare(r, c, if upper { Direction::Le } else { Direction::Ge })?;
    let zero = g.zeros_like(a)?;
    Ok(g.select(keep, a, zero)?)
}

/// `linalg_cholesky_ex(self, *, upper, check_errors)` -> L, info: the order of the first minor that is not positive, or 0.
fn cholesky_ex(cx: &mut Cx<'_, '_>) -> Result<()> {
    let a = cx.t(0)?;
    square_error(cx, a, "linalg.cholesky")?;
    check_float(cx, a, "linalg.cholesky")?;
    let upper = cx.bool(1)?;
    let dims = cx.g.dims(a);
    let batch = batch_dims(&dims);
    if cx.g.numel(a) == 0 {
        let info = cx.g.full(DType::I32, &batch, 0)?;
        cx.out_columns(a);
        cx.out(info);
        return Ok(());
    }
    let g = &mut *cx.g;
    let rank = dims.len();
    // The lower factor of the conjugate transpose, so that only one triangle is read in either case.
    let source = if upper { mh(g, a)? } else { a };
    let l = g.cholesky(source, true)?;
    let l = triangle(g, l, false)?;
    let (r, c) = (iota_like(g, l, rank - 2)?, iota_like(g, l, rank - 1)?);
    let on = g.compare(r, c, Direction::Eq)?;
    let real = real_part(g, l)?;
    let nan = g.compare(real, real, Direction::Ne)?;
    let failed = g.and(on, nan)?;
    let failed = g.reduce_or(failed, &[rank - 2, rank - 1])?;
    let (l, info) = super::cholesky::settled(g, source, l, failed)?;
    let l = if upper { mh(g, l)? } else { l };
    cx.out_columns(l);
    cx.out(info);
    report(
        cx,
        2,
        info,
        CheckKind::LinAlg,
        "linalg.cholesky_ex: The factorization could not be completed because the input is not positive-definite (the \
         leading minor of order {} is not positive-definite).",
    )
}

/// `L L^H x = b`, or `U^H U x = b`.
fn solve_factored(g: &mut Graph, l: Value, b: Value, upper: bool) -> Result<Value> {
    let (first, second) = if upper { (Transpose::Adjoint, Transpose::No) } else { (Transpose::No, Transpose::Adjoint) };
    let y = g.triangular_solve(l, b, true, !upper, false, first)?;
    Ok(g.triangular_solve(l, y, true, !upper, false, second)?)
}

/// `cholesky_solve(self, input2, upper)`.
fn cholesky_solve(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (b, l) = (cx.t(0)?, cx.t(1)?);
    let upper = cx.bool(2)?;
    for (v, what) in [(b, "b"), (l, "u")] {
        if cx.g.rank(v) < 2 {
            return Err(cx.error(format!(
                "{what} should have at least 2 dimensions, but has {} dimensions instead",
                cx.g.rank(v)
            )));
        }
    }
    square_error(cx, l, "cholesky_solve")?;
    check_float(cx, l, "cholesky_solve")?;
    if cx.g.dtype(b) != cx.g.dtype(l) {
        return Err(cx.error("cholesky_solve: Expected b and A to have the same dtype"));
    }
    let (dl, db) = (cx.g.dims(l), cx.g.dims(b));
    if dl[dl.len() - 1] != db[db.len() - 2] {
        return Err(cx.error(format!(
            "Incompatible matrix sizes for cholesky_solve: each A matrix is {0} by {0} but each b matrix is {1} by {2}",
            dl[dl.len() - 1],
            db[db.len() - 2],
            db[db.len() - 1]
        )));
    }
    let (l, b) = common_batch(cx, l, b)?;
    let y = if cx.g.numel(b) == 0 { b } else { solve_factored(cx.g, l, b, upper)? };
    cx.out_columns(y);
    Ok(())
}

/// `cholesky_inverse(self, upper)`.
fn cholesky_inverse(cx: &mut Cx<'_, '_>) -> Result<()> {
    let l = cx.t(0)?;
    square_error(cx, l, "cholesky_inverse")?;
    check_float(cx, l, "cholesky_inverse")?;
    let upper = cx.bool(1)?;
    let y = if cx.g.numel(l) == 0 {
        l
    } else {
        let b = identity(cx.g, l)?;
        solve_factored(cx.g, l, b, upper)?
    };
    cx.out_columns(y);
    Ok(())
}

/// Identity matrices in the shape and dtype of `a`.
pub fn identity(g: &mut Graph, a: Value) -> Result<Value> {
    let rank = g.rank(a);
    let (r, c) = (iota_like(g, a, rank - 2)?, iota_like(g, a, rank - 1)?);
    let on = g.compare(r, c, Direction::Eq)?;
    Ok(g.convert(on, g.dtype(a))?)
}

/// `linalg_solve_triangular(self, B, *, upper, left, unitriangular)`.
fn solve_triangular(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (a, b) = (cx.t(0)?, cx.t(1)?);
    let (upper, left, unit) = (cx.bool(2)?, cx.bool(3)?, cx.bool(4)?);
    if cx.g.dtype(a) != cx.g.dtype(b) {
        return Err(cx.error("linalg.solve_triangular: Expected A and B to have the same dtype"));
    }
    square_error(cx, a, "linalg.solve_triangular")?;
    check_matrix(cx, b, "linalg.solve_triangular")?;
    check_float(cx, a, "linalg.solve_triangular")?;
    let (da, db) = (cx.g.dims(a), cx.g.dims(b));
    let side = db[db.len() - if left { 2 } else { 1 }];
    if da[da.len() - 1] != side {
        return Err(cx.error(format!(
            "linalg.solve_triangular: Incompatible shapes of A and B for the equation {} ({}x{} and {}x{})",
            if left { "AX = B" } else { "XA = B" },
            da[da.len() - 2],
            da[da.len() - 1],
            db[db.len() - 2],
            db[db.len() - 1]
        )));
    }
    let (a, b) = common_batch(cx, a, b)?;
    let y = if cx.g.numel(b) == 0 { b } else { cx.g.triangular_solve(a, b, left, !upper, unit, Transpose::No)? };
    cx.out_columns(y);
    Ok(())
}

/// `triangular_solve(self, A, upper, transpose, unitriangular)` -> solution, a copy of A.
fn old_triangular_solve(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (b, a) = (cx.t(0)?, cx.t(1)?);
    let (upper, transpose, unit) = (cx.bool(2)?, cx.bool(3)?, cx.bool(4)?);
    square_error(cx, a, "triangular_solve")?;
    check_matrix(cx, b, "triangular_solve")?;
    check_float(cx, a, "triangular_solve")?;
    let (a, b) = common_batch(cx, a, b)?;
    let how = if transpose { Transpose::Transpose } else { Transpose::No };
    let y = if cx.g.numel(b) == 0 { b } else { cx.g.triangular_solve(a, b, true, !upper, unit, how)? };
    cx.out_columns(y);
    cx.out_columns(a);
    Ok(())
}
