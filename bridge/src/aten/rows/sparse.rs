//! Sparse COO tensors, taken apart: indices `[k, n]` of `n` entries, and their values `[n, ...]`.
//!
//! A *padded* tensor has entries that are not there: a number of entries that depends on values cannot be the shape of a
//! traced value, so what is left over names a row past the end of dim 0. Padding is skipped where entries are added, and
//! picks some row where entries are taken.

use super::places::{Combine, checked, gather_at, narrow, scatter_at};
use super::unique::{numbered, run_starts, unsorted};
use crate::Result;
use crate::aten::promote::compute_type;
use crate::aten::{CheckKind, Cx, Row};
use primitives::{DType, Direction, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::pointwise("_sparse_add", add).dynamic(&["alpha"]),
    Row::new("_sparse_take", take),
    Row::new("_sparse_merge", merge),
];

/// The index of each sparse dim, in range unless the entries are padded.
fn columns(cx: &mut Cx<'_, '_>, indices: Value, sizes: &[i64], padded: bool) -> Result<Vec<Value>> {
    let dims = cx.g.dims(indices);
    let (k, n) = (dims[0], dims[1]);
    (0..k)
        .map(|d| {
            let column = cx.g.slice(indices, &[d, 0], &[d + 1, n], &[1, 1])?;
            let column = cx.g.reshape(column, &[n])?;
            let size = sizes[d as usize];
            let message =
                format!("size is inconsistent with indices: for dim {d}, size is {size} but found index {{}}");
            if padded { Ok(column) } else { checked(cx, column, size, false, CheckKind::Runtime, &message) }
        })
        .collect()
}

/// `_sparse_add(self, indices, values, alpha, padded)`: the dense `self` with `alpha` times each entry added to its
/// place.
fn add(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(0)?;
    let (x, indices, values) = (cx.t(0)?, cx.t(1)?, cx.t(2)?);
    let padded = cx.bool(4)?;
    let compute = compute_type(ty.dtype);
    let mut v = cx.g.convert(values, compute)?;
    if !cx.scalar_is_one(3) {
        let alpha = cx.number_as(3, compute)?;
        let alpha = cx.g.broadcast_to(alpha, &cx.g.dims(v))?;
        v = Combine::Mul.apply(cx.g, v, alpha)?;
    }
    let x = cx.g.convert(x, compute)?;
    let index = columns(cx, indices, &ty.dims, padded)?;
    let y = if index.is_empty() {
        let sum = cx.g.reduce_sum(v, &[0])?;
        Combine::Add.apply(cx.g, x, sum)?
    } else {
        let dims: Vec<usize> = (0..index.len()).collect();
        scatter_at(cx.g, x, &dims, &index, 0, v, Combine::Add)?
    };
    let y = cx.g.convert(y, ty.dtype)?;
    cx.out(y);
    Ok(())
}

/// `_sparse_take(self, indices, padded)`: what the dense `self` has at each entry's place.
fn take(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(0)?;
    let (x, indices) = (cx.t(0)?, cx.t(1)?);
    let padded = cx.bool(2)?;
    let n = cx.g.dims(indices)[1];
    let index = columns(cx, indices, &ty.dims, padded)?;
    let y = if index.is_empty() {
        let mut out = vec![n];
        out.extend_from_slice(&ty.dims);
        let mapping: Vec<usize> = (1..out.len()).collect();
        cx.g.broadcast_in_dim(x, &out, &mapping)?
    } else {
        let dims: Vec<usize> = (0..index.len()).collect();
        gather_at(cx.g, x, &dims, &index, 0)?
    };
    cx.out(y);
    Ok(())
}

/// `_sparse_merge(indices, values, size)` -> indices, values, count: entries in order of their place, those of one place
/// summed. `size` has the sizes of the sparse dims. There are `count` entries; the others are padding, with values of
/// zero or, where the argument was padded, of its padding.
fn merge(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (indices, values) = (cx.t(0)?, cx.t(1)?);
    let sizes = cx.ints(2)?;
    let dims = cx.g.dims(indices);
    let (k, n) = (dims[0], dims[1]);
    let total = sizes.iter().product::<i64>();
    let g = &mut *cx.g;
    let key = flat(g, indices, &sizes)?;
    let key = narrow(g, key, total)?;
    let place = g.iota(DType::I64, &[n], 0)?;
    let by_key = g.sort(&[key, place], 0, true, |g, a| Ok(vec![g.compare(a[0], a[1], Direction::Lt)?]))?;
    let starts = run_starts(g, by_key[0])?;
    let (number, _) = numbered(g, starts)?;
    let past = g.full_like(by_key[0], total)?;
    let there = g.compare(by_key[0], past, Direction::Lt)?;
    let counted = g.and(starts, there)?;
    let counted = g.convert(counted, DType::I64)?;
    let count = g.reduce_sum(counted, &[0])?;
    let merged = scatter_at(g, past, &[0], &[number], 0, by_key[0], Combine::Set)?;
    let merged = g.convert(merged, DType::I64)?;
    let inverse = unsorted(g, number, by_key[1])?;
    let dtype = g.dtype(values);
    let v = g.convert(values, compute_type(dtype))?;
    let zeros = g.zeros_like(v)?;
    let v = scatter_at(g, zeros, &[0], &[inverse], 0, v, Combine::Add)?;
    let v = g.convert(v, dtype)?;
    let out = unflat(g, merged, &sizes, [k, n])?;
    for v in [out, v, count] {
        cx.out(v);
    }
    Ok(())
}

/// The row-major number of each entry's place.
fn flat(g: &mut Graph, indices: Value, sizes: &[i64]) -> Result<Value> {
    let n = g.dims(indices)[1];
    let mut key = g.full(DType::I64, &[n], 0)?;
    for (d, &size) in sizes.iter().enumerate() {
        let d = d as i64;
        let column = g.slice(indices, &[d, 0], &[d + 1, n], &[1, 1])?;
        let column = g.reshape(column, &[n])?;
        let size = g.full_like(key, size)?;
        key = g.multiply(key, size)?;
        key = g.add(key, column)?;
    }
    Ok(key)
}

/// The reverse of [`flat`]. A number past the last place gives an index past the end of dim 0.
fn unflat(g: &mut Graph, key: Value, sizes: &[i64], shape: [i64; 2]) -> Result<Value> {
    if sizes.is_empty() {
        return Ok(g.full(DType::I64, &shape, 0)?);
    }
    let mut rest = key;
    let mut columns = Vec::new();
    for (d, &size) in sizes.iter().enumerate().rev() {
        let size = g.full_like(rest, size)?;
        let column = if d == 0 { rest } else { g.remainder(rest, size)? };
        rest = g.divide(rest, size)?;
        columns.push(g.reshape(column, &[1, shape[1]])?);
    }
    columns.reverse();
    Ok(if columns.len() == 1 { columns[0] } else { g.concatenate(&columns, 0)? })
}
