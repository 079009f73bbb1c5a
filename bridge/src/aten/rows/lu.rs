//! LU factorization with partial pivoting, a column a step.

use super::linalg::{batch_dims, check_float, check_matrix, iota_like, report};
use crate::Result;
use crate::aten::cx::CheckKind;
use crate::aten::{Cx, Row, exact};
use primitives::{DType, Dims, Direction, DotDims, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::new("linalg_lu_factor_ex", lu_factor_ex),
    Row::new("linalg_lu", linalg_lu),
    Row::new("lu_unpack", lu_unpack),
];

/// A factorization of `[batch.., m, n]`: L below and U on and above the diagonal; pivots from 1 as LAPACK has them
/// (i32); the row that ends up in each place (i64); the number of the first zero pivot, or 0 (i32).
pub struct Lu {
    pub lu: Value,
    pub pivots: Value,
    pub rows: Value,
    pub info: Value,
}

/// One column a step, over the whole batch at once: find the pivot row, swap, scale, subtract the outer product.
pub fn factor(g: &mut Graph, a: Value, pivot: bool) -> Result<Lu> {
    let dims = g.dims(a);
    let rank = dims.len();
    let (m, n) = (dims[rank - 2], dims[rank - 1]);
    let k = m.min(n);
    let batch = batch_dims(&dims);
    let mut vector = batch.clone();
    vector.push(m);
    let mut pivots = batch.clone();
    pivots.push(k);
    let rows = g.iota(DType::I64, &vector, rank - 2)?;
    let none = g.full(DType::I32, &pivots, 0)?;
    if k == 0 || g.numel(a) == 0 {
        let info = g.full(DType::I32, &batch, 0)?;
        return Ok(Lu { lu: a, pivots: none, rows, info });
    }
    let zero = g.scalar(DType::I64, 0)?;
    let info = g.full(DType::I32, &batch, 0)?;
    let r = g.while_loop(
        &[zero, a, none, rows, info],
        |g, s| {
            let end = g.scalar(DType::I64, k)?;
            Ok(vec![g.compare(s[0], end, Direction::Lt)?])
        },
        |g, s| step(g, s, pivot).map_err(unwrapped),
    )?;
    Ok(Lu { lu: r[1], pivots: r[2], rows: r[3], info: r[4] })
}

/// The primitives' error behind one of ours; a step makes no other.
pub fn unwrapped(e: crate::Error) -> primitives::Error {
    match e {
        crate::Error::Primitive(e) => e,
        other => primitives::Error {
            op: "while_loop",
            argument: "body".into(),
            got: other.to_string(),
            expected: "a valid step".into(),
            hint: "",
        },
    }
}

fn step(g: &mut Graph, s: &[Value], pivot: bool) -> Result<Vec<Value>> {
    let (k, a, pivots, rows, info) = (s[0], s[1], s[2], s[3], s[4]);
    let dims = g.dims(a);
    let rank = dims.len();
    let (row_dim, col_dim) = (rank - 2, rank - 1);
    let vector = g.dims(rows);
    let batch = g.dims(info);
    let kk = g.broadcast_to(k, &vector)?;
    let place = g.iota(DType::I64, &vector, row_dim)?;
    let column = line(g, a, col_dim, k)?;
    // The largest magnitude at or below the diagonal.
    let at = if pivot {
        let size = magnitude(g, column)?;
        let below = g.compare(place, kk, Direction::Ge)?;
        let minus = g.full_like(size, -1.0)?;
        let size = g.select(below, size, minus)?;
        super::arg_reduce::extreme_and_index(g, size, row_dim, Direction::Gt)?.1
    } else {
        g.broadcast_to(k, &batch)?
    };
    let kept: Vec<usize> = (0..row_dim).collect();
    let at_rows = g.broadcast_in_dim(at, &vector, &kept)?;
    let is_k = g.compare(place, kk, Direction::Eq)?;
    let is_at = g.compare(place, at_rows, Direction::Eq)?;
    let mut a = a;
    let mut rows = rows;
    if pivot {
        let row_k = line(g, a, row_dim, k)?;
        let row_at = picked(g, a, is_at, row_dim)?;
        a = with_rows(g, a, is_at, row_k)?;
        a = with_rows(g, a, is_k, row_at)?;
        let (old_k, old_at) = (picked(g, rows, is_k, row_dim)?, picked(g, rows, is_at, row_dim)?);
        let (old_k, old_at) = (g.broadcast_in_dim(old_k, &vector, &kept)?, g.broadcast_in_dim(old_at, &vector, &kept)?);
        rows = g.select(is_at, old_k, rows)?;
        rows = g.select(is_k, old_at, rows)?;
    }
    let row = line(g, a, row_dim, k)?;
    let column = line(g, a, col_dim, k)?;
    let p = picked(g, column, is_k, row_dim)?;
    let zero = g.zeros_like(p)?;
    let singular = g.compare(p, zero, Direction::Eq)?;
    // A zero pivot leaves its column as it is.
    let one = g.ones_like(p)?;
    let safe = g.select(singular, one, p)?;
    let safe = g.broadcast_in_dim(safe, &vector, &kept)?;
    let below = g.compare(place, kk, Direction::Gt)?;
    let scaled = exact::divide(g, column, safe)?;
    let nothing = g.zeros_like(column)?;
    let factors = g.select(below, scaled, nothing)?;
    let column_new = g.select(below, scaled, column)?;
    // Only columns to the right of k change.
    let cols = g.iota(DType::I64, &g.dims(row), row_dim)?;
    let kc = g.broadcast_to(k, &g.dims(row))?;
    let right = g.compare(cols, kc, Direction::Gt)?;
    let no_row = g.zeros_like(row)?;
    let row = g.select(right, row, no_row)?;
    let wide_factors = along(g, factors, &dims, row_dim)?;
    let wide_row = along(g, row, &dims, col_dim)?;
    let outer = g.multiply(wide_factors, wide_row)?;
    a = g.subtract(a, outer)?;
    let column_new = along(g, column_new, &dims, row_dim)?;
    let all_cols = g.iota(DType::I64, &dims, col_dim)?;
    let k_all = g.broadcast_to(k, &dims)?;
    let here = g.compare(all_cols, k_all, Direction::Eq)?;
    a = g.select(here, column_new, a)?;
    // Pivot and info.
    let one = g.scalar(DType::I64, 1)?;
    let number = g.add(k, one)?;
    let number32 = g.convert(number, DType::I32)?;
    let number32 = g.broadcast_to(number32, &batch)?;
    let fresh = g.zeros_like(info)?;
    let fresh = g.compare(info, fresh, Direction::Eq)?;
    let set = g.and(fresh, singular)?;
    let info = g.select(set, number32, info)?;
    let pd = g.dims(pivots);
    let pplace = g.iota(DType::I64, &pd, row_dim)?;
    let pk = g.broadcast_to(k, &pd)?;
    let is_pk = g.compare(pplace, pk, Direction::Eq)?;
    let ones = g.ones_like(at)?;
    let at1 = g.add(at, ones)?;
    let at1 = g.convert(at1, DType::I32)?;
    let at1 = g.broadcast_in_dim(at1, &pd, &kept)?;
    let pivots = g.select(is_pk, at1, pivots)?;
    Ok(vec![number, a, pivots, rows, info])
}

/// What LAPACK compares pivots by: `|re| + |im|`.
fn magnitude(g: &mut Graph, x: Value) -> Result<Value> {
    if !g.dtype(x).is_complex() {
        return Ok(g.abs(x)?);
    }
    let (re, im) = (g.real(x)?, g.imag(x)?);
    let (re, im) = (g.abs(re)?, g.abs(im)?);
    Ok(g.add(re, im)?)
}

/// Line `at` (0-d) of `a` along `dim`, without that dimension.
pub fn line(g: &mut Graph, a: Value, dim: usize, at: Value) -> Result<Value> {
    let dims = g.dims(a);
    let zero = g.scalar(g.dtype(at), 0)?;
    let start: Vec<Value> = (0..dims.len()).map(|d| if d == dim { at } else { zero }).collect();
    let mut sizes = dims.clone();
    sizes[dim] = 1;
    let v = g.dynamic_slice(a, &start, &sizes)?;
    sizes.remove(dim);
    Ok(g.reshape(v, &sizes)?)
}

/// A vector per matrix laid along dimension `dim` of `dims` (its row or its column dimension).
pub fn along(g: &mut Graph, v: Value, dims: &Dims, dim: usize) -> Result<Value> {
    let rank = dims.len();
    let mapping: Vec<usize> = (0..rank - 2).chain([dim]).collect();
    Ok(g.broadcast_in_dim(v, dims, &mapping)?)
}

/// The one element or row of `x` where `mask` (a vector per matrix) holds along `dim`.
fn picked(g: &mut Graph, x: Value, mask: Value, dim: usize) -> Result<Value> {
    let dims = g.dims(x);
    let mask = if dims.len() == g.rank(mask) { mask } else { along(g, mask, &dims, dim)? };
    let zero = g.zeros_like(x)?;
    let v = g.select(mask, x, zero)?;
    Ok(g.reduce_sum(v, &[dim])?)
}

/// `a` with the rows where `mask` holds replaced by `row`.
fn with_rows(g: &mut Graph, a: Value, mask: Value, row: Value) -> Result<Value> {
    let dims = g.dims(a);
    let rank = dims.len();
    let (mask, row) = (along(g, mask, &dims, rank - 2)?, along(g, row, &dims, rank - 1)?);
    Ok(g.select(mask, row, a)?)
}

/// `P` as a matrix: row `i` of `P.T` has its one in column `rows[i]`; so `P @ L @ U` is the factored matrix.
pub fn permutation(g: &mut Graph, rows: Value, dtype: DType, transposed: bool) -> Result<Value> {
    let v = g.dims(rows);
    let mut dims = v.clone();
    dims.push(*v.last().unwrap_or(&0));
    let rank = dims.len();
    let wide = along(g, rows, &dims, if transposed { rank - 2 } else { rank - 1 })?;
    let place = g.iota(DType::I64, &dims, if transposed { rank - 1 } else { rank - 2 })?;
    let hit = g.compare(wide, place, Direction::Eq)?;
    Ok(g.convert(hit, dtype)?)
}

/// Rows of `b` in the order of `rows`: row `i` is row `rows[i]`.
pub fn reordered(g: &mut Graph, b: Value, rows: Value, inverse: bool) -> Result<Value> {
    let p = permutation(g, rows, g.dtype(b), !inverse)?;
    matmul(g, p, b)
}

/// Batched matrix product.
pub fn matmul(g: &mut Graph, a: Value, b: Value) -> Result<Value> {
    let rank = g.rank(a);
    let batch: Vec<usize> = (0..rank - 2).collect();
    let d = DotDims {
        lhs_batch: batch.clone(),
        rhs_batch: batch,
        lhs_contract: vec![rank - 1],
        rhs_contract: vec![rank - 2],
    };
    Ok(g.dot_general(a, b, &d, primitives::Precision::Highest, None)?)
}

/// The final row order that swaps by `pivots` (from 1) give.
pub fn rows_of_pivots(g: &mut Graph, pivots: Value, m: i64) -> Result<Value> {
    let pd = g.dims(pivots);
    let last = pd.len() - 1;
    let k = pd[last];
    let mut dims = pd.clone();
    dims[last] = m;
    let rows = g.iota(DType::I64, &dims, last)?;
    if k == 0 || g.numel(rows) == 0 {
        return Ok(rows);
    }
    let zero = g.scalar(DType::I64, 0)?;
    let pivots = g.convert(pivots, DType::I64)?;
    let r = g.while_loop(
        &[zero, rows],
        |g, s| {
            let end = g.scalar(DType::I64, k)?;
            Ok(vec![g.compare(s[0], end, Direction::Lt)?])
        },
        |g, s| {
            let body = |g: &mut Graph| -> Result<Vec<Value>> {
                let (k, rows) = (s[0], s[1]);
                let kept: Vec<usize> = (0..last).collect();
                let at = line(g, pivots, last, k)?;
                let one = g.ones_like(at)?;
                let at = g.subtract(at, one)?;
                let at = g.broadcast_in_dim(at, &dims, &kept)?;
                let kk = g.broadcast_to(k, &dims)?;
                let place = g.iota(DType::I64, &dims, last)?;
                let (is_k, is_at) = (g.compare(place, kk, Direction::Eq)?, g.compare(place, at, Direction::Eq)?);
                let (a, b) = (picked(g, rows, is_k, last)?, picked(g, rows, is_at, last)?);
                let (a, b) = (g.broadcast_in_dim(a, &dims, &kept)?, g.broadcast_in_dim(b, &dims, &kept)?);
                let rows = g.select(is_at, a, rows)?;
                let rows = g.select(is_k, b, rows)?;
                let one = g.scalar(DType::I64, 1)?;
                Ok(vec![g.add(k, one)?, rows])
            };
            body(g).map_err(unwrapped)
        },
    )?;
    Ok(r[1])
}

/// `linalg_lu_factor_ex(self, *, pivot, check_errors)` -> LU, pivots, info.
fn lu_factor_ex(cx: &mut Cx<'_, '_>) -> Result<()> {
    let a = cx.t(0)?;
    check_float(cx, a, "torch.linalg.lu_factor")?;
    check_matrix(cx, a, "torch.linalg.lu_factor")?;
    let f = factor(cx.g, a, cx.bool(1)?)?;
    let info = f.info;
    cx.out_columns(f.lu);
    cx.out(f.pivots);
    cx.out(info);
    report(
        cx,
        2,
        info,
        CheckKind::Runtime,
        "torch.linalg.lu_factor_ex: U[{},{}] is zero and using it on lu_solve would result in a division by zero. If \
         you still want to perform the factorization, consider calling linalg.lu(A, pivot) or \
         linalg.lu_factor_ex(A, pivot)",
    )
}

/// The parts of packed factors: `L [.., m, k]` with ones on the diagonal, `U [.., k, n]`.
fn unpacked(g: &mut Graph, lu: Value) -> Result<(Value, Value)> {
    let dims = g.dims(lu);
    let rank = dims.len();
    let (m, n) = (dims[rank - 2], dims[rank - 1]);
    let k = m.min(n);
    let (r, c) = (iota_like(g, lu, rank - 2)?, iota_like(g, lu, rank - 1)?);
    let below = g.compare(r, c, Direction::Gt)?;
    let on = g.compare(r, c, Direction::Eq)?;
    let (zero, one) = (g.zeros_like(lu)?, g.ones_like(lu)?);
    let u = g.select(below, zero, lu)?;
    let l = g.select(below, lu, zero)?;
    let l = g.select(on, one, l)?;
    let cut = |g: &mut Graph, v: Value, dim: usize| -> Result<Value> {
        let mut limit = dims.clone();
        limit[dim] = k;
        Ok(g.slice(v, &vec![0; rank], &limit, &vec![1; rank])?)
    };
    Ok((cut(g, l, rank - 1)?, cut(g, u, rank - 2)?))
}

/// `linalg_lu(A, *, pivot)` -> P, L, U with `A = P @ L @ U`.
fn linalg_lu(cx: &mut Cx<'_, '_>) -> Result<()> {
    let a = cx.t(0)?;
    check_float(cx, a, "torch.linalg.lu")?;
    check_matrix(cx, a, "linalg.lu")?;
    let pivot = cx.bool(1)?;
    let g = &mut *cx.g;
    let f = factor(g, a, pivot)?;
    let dtype = g.dtype(a);
    let p = if pivot { permutation(g, f.rows, dtype, false)? } else { g.full(dtype, &[0], 0)? };
    let (l, u) = unpacked(g, f.lu)?;
    for v in [p, l, u] {
        cx.out(v);
    }
    Ok(())
}

/// `lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots)` -> P, L, U; what is not asked for is empty.
fn lu_unpack(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (lu, pivots) = (cx.t(0)?, cx.t(1)?);
    let (data, piv) = (cx.bool(2)?, cx.bool(3)?);
    if piv && cx.g.dtype(pivots) != DType::I32 {
        return Err(cx.error(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype. Note: this function is \
             intended to be used with the output produced by torch.linalg.lu_factor",
        ));
    }
    let dtype = cx.g.dtype(lu);
    let g = &mut *cx.g;
    let none = g.full(dtype, &[0], 0)?;
    let dims = g.dims(lu);
    let m = dims[dims.len() - 2];
    let p = if piv {
        let rows = rows_of_pivots(g, pivots, m)?;
        permutation(g, rows, dtype, false)?
    } else {
        none
    };
    let (l, u) = if data { unpacked(g, lu)? } else { (none, none) };
    for v in [p, l, u] {
        cx.out(v);
    }
    Ok(())
}
