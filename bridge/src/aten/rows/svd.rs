//! Singular values and eigenvalues of Hermitian matrices by one-sided Jacobi rotations (Hestenes), with every pair of
//! columns of a round-robin tournament rotated at once.

use super::linalg::{batch_dims, check_float, check_matrix, identity, iota_like, mh, real_part, square_error};
use super::lu::{along, matmul, unwrapped};
use super::qr::factors;
use super::sorting::sorted;
use super::take::span;
use crate::Result;
use crate::aten::{Cx, Row, exact};
use primitives::{DType, Dims, Direction, Graph, Value};

pub const ROWS: &[Row] = &[Row::new("_linalg_svd", svd), Row::new("_linalg_eigh", eigh)];

/// Sweeps over all pairs after which the loop ends in any case; 6 to 10 are usual.
const SWEEPS: i64 = 24;

/// `x` over its largest magnitude per matrix (1 for a zero one), and that magnitude.
fn balanced(g: &mut Graph, a: Value) -> Result<(Value, Value)> {
    let rank = g.rank(a);
    let size = g.abs(a)?;
    let top = g.reduce_max(size, &[rank - 2, rank - 1])?;
    let zero = g.zeros_like(top)?;
    let none = g.compare(top, zero, Direction::Eq)?;
    let one = g.ones_like(top)?;
    let top = g.select(none, one, top)?;
    let by = g.convert(top, g.dtype(a))?;
    let kept: Vec<usize> = (0..rank - 2).collect();
    let by = g.broadcast_in_dim(by, &g.dims(a), &kept)?;
    Ok((exact::divide(g, a, by)?, top))
}

/// Rotates the columns of `a` (`[.., m, n]`) until they are orthogonal: `a V`, and `V` (`[.., n, n]`).
fn orthogonalized(g: &mut Graph, a: Value) -> Result<(Value, Value)> {
    let dims = g.dims(a);
    let (rank, dtype) = (dims.len(), g.dtype(a));
    let (m, n) = (dims[rank - 2], dims[rank - 1]);
    let even = n + n % 2;
    let half = even / 2;
    // V below A: both take the same rotations. An odd column count gets a column of zeros, which never turns.
    let zero = g.scalar(dtype, 0)?;
    let (none, mut high) = (vec![0; rank], vec![0; rank]);
    high[rank - 1] = even - n;
    let padded = g.pad(a, zero, &none, &high, &none)?;
    let mut square = batch_dims(&dims);
    square.extend([even, even]);
    let blank = g.full(dtype, &square, 0)?;
    let v = identity(g, blank)?;
    let w = g.concatenate(&[padded, v], rank - 2)?;
    let cols = |g: &mut Graph, x: Value, from: i64, to: i64| span(g, x, rank - 1, from, to);
    let (top, bottom) = (cols(g, w, 0, half)?, cols(g, w, half, even)?);
    let real = dtype.real_of();
    let tolerance = if real == DType::F64 { 1e-15 } else { 2e-7 };
    let counter = g.scalar(DType::I32, 0)?;
    let off = g.scalar(real, f64::INFINITY)?;
    let r = g.while_loop(
        &[counter, off, top, bottom],
        |g, s| {
            let (end, tol) = (g.scalar(DType::I32, SWEEPS)?, g.scalar(real, tolerance)?);
            let more = g.compare(s[0], end, Direction::Lt)?;
            let needed = g.compare(s[1], tol, Direction::Gt)?;
            Ok(vec![g.and(more, needed)?])
        },
        |g, s| {
            let start = g.scalar(DType::I32, 0)?;
            let clean = g.scalar(real, 0)?;
            let inner = g.while_loop(
                &[start, clean, s[2], s[3]],
                |g, s| {
                    let end = g.scalar(DType::I32, (even - 1).max(1))?;
                    Ok(vec![g.compare(s[0], end, Direction::Lt)?])
                },
                |g, s| round(g, s, m).map_err(unwrapped),
            )?;
            let one = g.scalar(DType::I32, 1)?;
            Ok(vec![g.add(s[0], one)?, inner[1], inner[2], inner[3]])
        },
    )?;
    let w = g.concatenate(&[r[2], r[3]], rank - 1)?;
    let w = cols(g, w, 0, n)?;
    let (u, v) = (span(g, w, rank - 2, 0, m)?, span(g, w, rank - 2, m, m + n)?);
    Ok((u, v))
}

/// One round: each column of `top` is made orthogonal to its opposite in `bottom`, then the columns move on.
fn round(g: &mut Graph, s: &[Value], m: i64) -> Result<Vec<Value>> {
    let (count, off, top, bottom) = (s[0], s[1], s[2], s[3]);
    let rank = g.rank(top);
    let dtype = g.dtype(top);
    let (a, b) = (span(g, top, rank - 2, 0, m)?, span(g, bottom, rank - 2, 0, m)?);
    let alpha = squares(g, a)?;
    let beta = squares(g, b)?;
    let ca = if dtype.is_complex() { g.conj(a)? } else { a };
    let ab = g.multiply(ca, b)?;
    let gamma = g.reduce_sum(ab, &[rank - 2])?;
    let size = g.abs(gamma)?;
    let zero = g.zeros_like(size)?;
    let one = g.ones_like(size)?;
    let still = g.compare(size, zero, Direction::Eq)?;
    // How far from orthogonal, as a cosine.
    let (ra, rb) = (g.sqrt(alpha)?, g.sqrt(beta)?);
    let lengths = g.multiply(ra, rb)?;
    let flat = g.compare(lengths, zero, Direction::Eq)?;
    let safe = g.select(flat, one, lengths)?;
    let cosine = exact::divide(g, size, safe)?;
    let cosine = g.select(flat, zero, cosine)?;
    let all: Vec<usize> = (0..rank - 1).collect();
    let worst = g.reduce_max(cosine, &all)?;
    let off = g.maximum(off, worst)?;
    // t = tan of the angle that zeroes the product, the smaller of the two.
    let safe = g.select(still, one, size)?;
    let difference = g.subtract(beta, alpha)?;
    let twice = g.add(safe, safe)?;
    let zeta = exact::divide(g, difference, twice)?;
    let square = g.multiply(zeta, zeta)?;
    let root = g.add(square, one)?;
    let root = g.sqrt(root)?;
    let magnitude = g.abs(zeta)?;
    let below = g.add(magnitude, root)?;
    let t = exact::divide(g, one, below)?;
    let minus = g.neg(t)?;
    let positive = g.compare(zeta, zero, Direction::Ge)?;
    let t = g.select(positive, t, minus)?;
    let t = g.select(still, zero, t)?;
    let tt = g.multiply(t, t)?;
    let tt = g.add(tt, one)?;
    let cos = g.rsqrt(tt)?;
    let sin = g.multiply(cos, t)?;
    let dims = g.dims(top);
    let (cos, sin) = (g.convert(cos, dtype)?, g.convert(sin, dtype)?);
    let (cos, sin) = (along(g, cos, &dims, rank - 1)?, along(g, sin, &dims, rank - 1)?);
    // Turn the phase (or sign) of the product away first.
    let by = g.convert(safe, dtype)?;
    let phase = exact::divide(g, gamma, by)?;
    let phase = if dtype.is_complex() { g.conj(phase)? } else { phase };
    let unit = g.ones_like(phase)?;
    let phase = g.select(still, unit, phase)?;
    let phase = along(g, phase, &dims, rank - 1)?;
    let bottom = g.multiply(bottom, phase)?;
    let (ct, sb) = (g.multiply(cos, top)?, g.multiply(sin, bottom)?);
    let (st, cb) = (g.multiply(sin, top)?, g.multiply(cos, bottom)?);
    let (top, bottom) = (g.subtract(ct, sb)?, g.add(st, cb)?);
    let (top, bottom) = moved_on(g, top, bottom)?;
    let one = g.scalar(DType::I32, 1)?;
    Ok(vec![g.add(count, one)?, off, top, bottom])
}

/// Sums of squared magnitudes of columns.
fn squares(g: &mut Graph, x: Value) -> Result<Value> {
    let rank = g.rank(x);
    let size = g.abs(x)?;
    let size = g.multiply(size, size)?;
    Ok(g.reduce_sum(size, &[rank - 2])?)
}

/// The next round of the tournament: the first column stays, the others go round.
fn moved_on(g: &mut Graph, top: Value, bottom: Value) -> Result<(Value, Value)> {
    let dim = g.rank(top) - 1;
    let h = g.dims(top)[dim];
    if h == 1 {
        return Ok((top, bottom));
    }
    let (first, middle, last) = (span(g, top, dim, 0, 1)?, span(g, top, dim, 1, h - 1)?, span(g, top, dim, h - 1, h)?);
    let (lead, rest) = (span(g, bottom, dim, 0, 1)?, span(g, bottom, dim, 1, h)?);
    Ok((g.concatenate(&[first, lead, middle], dim)?, g.concatenate(&[rest, last], dim)?))
}

/// Columns of `x` in the order of `index` (`[.., n]`).
fn columns(g: &mut Graph, x: Value, index: Value) -> Result<Value> {
    let mut dims = g.dims(index);
    let n = *dims.last().unwrap_or(&0);
    dims.push(n);
    let rank = dims.len();
    let wide = along(g, index, &dims, rank - 1)?;
    let place = g.iota(DType::I64, &dims, rank - 2)?;
    let hit = g.compare(place, wide, Direction::Eq)?;
    let p = g.convert(hit, g.dtype(x))?;
    matmul(g, x, p)
}

/// `(U, S, V)` of matrices with at least as many rows as columns; `U` is square when `full`.
fn tall(g: &mut Graph, a: Value, full: bool) -> Result<(Value, Value, Value)> {
    let dims = g.dims(a);
    let rank = dims.len();
    let n = dims[rank - 1];
    let (a, scale) = balanced(g, a)?;
    let (u, v) = orthogonalized(g, a)?;
    let s = squares(g, u)?;
    let s = g.sqrt(s)?;
    let (s, order) = sorted(g, s, rank - 2, true)?;
    let (u, v) = (columns(g, u, order)?, columns(g, v, order)?);
    // Orthonormal columns, also where a singular value is 0: those of Q, with the phase that R's diagonal has.
    let (q, r) = factors(g, u, full)?;
    let (i, j) = (iota_like(g, r, rank - 2)?, iota_like(g, r, rank - 1)?);
    let on = g.compare(i, j, Direction::Eq)?;
    let zero = g.zeros_like(r)?;
    let d = g.select(on, r, zero)?;
    let d = g.reduce_sum(d, &[rank - 2])?;
    let size = g.abs(d)?;
    let none = g.zeros_like(size)?;
    let flat = g.compare(size, none, Direction::Eq)?;
    let phase = g.sign(d)?;
    let one = g.ones_like(phase)?;
    let phase = g.select(flat, one, phase)?;
    let m = dims[rank - 2];
    let kept = span(g, q, rank - 1, 0, n)?;
    let phase = along(g, phase, &g.dims(kept), rank - 1)?;
    let kept = g.multiply(kept, phase)?;
    let u = if full && m > n {
        let rest = span(g, q, rank - 1, n, m)?;
        g.concatenate(&[kept, rest], rank - 1)?
    } else {
        kept
    };
    let batch: Vec<usize> = (0..rank - 2).collect();
    let scale = g.broadcast_in_dim(scale, &g.dims(s), &batch)?;
    Ok((u, g.multiply(s, scale)?, v))
}

/// `(U, S, Vh)` of matrices with elements.
pub fn decomposed(g: &mut Graph, a: Value, full: bool) -> Result<(Value, Value, Value)> {
    let dims = g.dims(a);
    let rank = dims.len();
    if dims[rank - 2] >= dims[rank - 1] {
        let (u, s, v) = tall(g, a, full)?;
        return Ok((u, s, mh(g, v)?));
    }
    let flipped = mh(g, a)?;
    let (u, s, v) = tall(g, flipped, full)?;
    Ok((v, s, mh(g, u)?))
}

/// `_linalg_svd(A, full_matrices, compute_uv, *, driver)` -> U, S, Vh.
fn svd(cx: &mut Cx<'_, '_>) -> Result<()> {
    let a = cx.t(0)?;
    check_matrix(cx, a, "linalg.svd")?;
    check_float(cx, a, "linalg.svd")?;
    let (full, vectors) = (cx.bool(1)?, cx.bool(2)?);
    let dims = cx.g.dims(a);
    let rank = dims.len();
    let (m, n) = (dims[rank - 2], dims[rank - 1]);
    let dtype = cx.g.dtype(a);
    let k = m.min(n);
    let batch = batch_dims(&dims);
    let g = &mut *cx.g;
    let (u, s, vh) = if g.numel(a) == 0 {
        let part = |g: &mut Graph, r: i64, c: i64| -> Result<Value> {
            let d: Dims = batch.iter().copied().chain([r, c]).collect();
            let blank = g.full(dtype, &d, 0)?;
            identity(g, blank)
        };
        let mut sd = batch.clone();
        sd.push(k);
        let s = g.full(dtype.real_of(), &sd, 0)?;
        (part(g, m, if full { m } else { k })?, s, part(g, if full { n } else { k }, n)?)
    } else {
        decomposed(g, a, full)?
    };
    let none = g.full(dtype, &[0], 0)?;
    cx.out_columns(if vectors { u } else { none });
    cx.out(s);
    cx.out_columns(if vectors { vh } else { none });
    Ok(())
}

/// `_linalg_eigh(A, UPLO, compute_v)` -> eigenvalues in ascending order, eigenvectors.
fn eigh(cx: &mut Cx<'_, '_>) -> Result<()> {
    let a = cx.t(0)?;
    square_error(cx, a, "linalg.eigh")?;
    check_float(cx, a, "linalg.eigh")?;
    let upper = match cx.str(1)? {
        "L" | "l" => false,
        "U" | "u" => true,
        other => {
            return Err(cx.error(format!("Expected UPLO argument to be 'L' or 'U', but got {other}")));
        }
    };
    let vectors = cx.bool(2)?;
    let dtype = cx.g.dtype(a);
    let g = &mut *cx.g;
    let dims = g.dims(a);
    let rank = dims.len();
    let mut vector = batch_dims(&dims);
    vector.push(dims[rank - 1]);
    if g.numel(a) == 0 {
        let s = g.full(dtype.real_of(), &vector, 0)?;
        cx.out(s);
        cx.out_columns(a);
        return Ok(());
    }
    let a = hermitian(g, a, upper)?;
    let (s, v) = eigen(g, a)?;
    let v = if vectors { v } else { g.full(dtype, &[0], 0)? };
    cx.out(s);
    cx.out_columns(v);
    Ok(())
}

/// Eigenvalues in ascending order and eigenvectors of Hermitian matrices with elements.
///
/// A matrix plus its norm has no negative eigenvalues, so its right singular vectors are the eigenvectors; the
/// eigenvalues are the Rayleigh quotients of these.
pub fn eigen(g: &mut Graph, a: Value) -> Result<(Value, Value)> {
    let (dtype, dims) = (g.dtype(a), g.dims(a));
    let rank = dims.len();
    let mut vector = batch_dims(&dims);
    vector.push(dims[rank - 1]);
    let (a, scale) = balanced(g, a)?;
    let size = g.abs(a)?;
    let norm = g.reduce_sum(size, &[rank - 1])?;
    let norm = g.reduce_max(norm, &[rank - 2])?;
    let norm = g.convert(norm, dtype)?;
    let batch: Vec<usize> = (0..rank - 2).collect();
    let shift = g.broadcast_in_dim(norm, &dims, &batch)?;
    let (r, c) = (iota_like(g, a, rank - 2)?, iota_like(g, a, rank - 1)?);
    let on = g.compare(r, c, Direction::Eq)?;
    let zero = g.zeros_like(a)?;
    let shift = g.select(on, shift, zero)?;
    let shifted = g.add(a, shift)?;
    let (_, v) = orthogonalized(g, shifted)?;
    let av = matmul(g, a, v)?;
    let cv = if dtype.is_complex() { g.conj(v)? } else { v };
    let quotient = g.multiply(cv, av)?;
    let quotient = g.reduce_sum(quotient, &[rank - 2])?;
    let quotient = real_part(g, quotient)?;
    let (s, order) = sorted(g, quotient, rank - 2, false)?;
    let scale = g.broadcast_in_dim(scale, &vector, &batch)?;
    let s = g.multiply(s, scale)?;
    let v = columns(g, v, order)?;
    Ok((s, v))
}

/// The Hermitian matrix that one triangle of `a` gives.
pub fn hermitian(g: &mut Graph, a: Value, upper: bool) -> Result<Value> {
    let rank = g.rank(a);
    let other = mh(g, a)?;
    let (r, c) = (iota_like(g, a, rank - 2)?, iota_like(g, a, rank - 1)?);
    let keep = g.compare(r, c, if upper { Direction::Lt } else { Direction::Gt })?;
    let on = g.compare(r, c, Direction::Eq)?;
    let diagonal = if g.dtype(a).is_complex() {
        let re = g.real(a)?;
        g.convert(re, g.dtype(a))?
    } else {
        a
    };
    let y = g.select(keep, a, other)?;
    Ok(g.select(on, diagonal, y)?)
}
