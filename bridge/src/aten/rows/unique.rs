//! Distinct elements and slices: the sorting and marking; how many there are is read before they are picked.

use super::places::{Combine, gather_at, put_flat};
use super::places_of::{running_count, set_places};
use super::sorting::sorted;
use crate::Result;
use crate::aten::{Cx, Row};
use primitives::{DType, Dims, Direction, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::new("_unique_sort", unique_sort),
    Row::new("_unique_slices", unique_slices),
    Row::new("_runs", runs),
    Row::new("_pick_runs", pick_runs),
];

/// True at the first element of each run of equal slices along dim 0.
pub fn run_starts(g: &mut Graph, x: Value) -> Result<Value> {
    let dims = g.dims(x);
    let n = dims[0];
    let first = g.full(DType::Bool, &[1], true)?;
    if n == 1 {
        return Ok(first);
    }
    let (rank, ones) = (dims.len(), vec![1; dims.len()]);
    let (mut lo, mut hi) = (vec![0; rank], dims.to_vec());
    lo[0] = 1;
    hi[0] = n - 1;
    let later = g.slice(x, &lo, &dims, &ones)?;
    let earlier = g.slice(x, &vec![0; rank], &hi, &ones)?;
    let differs = g.compare(later, earlier, Direction::Ne)?;
    let rest: Vec<usize> = (1..rank).collect();
    let differs = if rest.is_empty() { differs } else { g.reduce_or(differs, &rest)? };
    Ok(g.concatenate(&[first, differs], 0)?)
}

/// Run number of each element, and the number of runs.
pub fn numbered(g: &mut Graph, starts: Value) -> Result<(Value, Value)> {
    let counts = running_count(g, starts)?;
    let n = g.numel(counts);
    let counts = g.convert(counts, DType::I64)?;
    let one = g.full_like(counts, 1)?;
    let number = g.subtract(counts, one)?;
    let total = g.slice(counts, &[n - 1], &[n], &[1])?;
    Ok((number, g.reshape(total, &[])?))
}

/// Sends run numbers of sorted elements back to where the elements stood.
pub fn unsorted(g: &mut Graph, number: Value, order: Value) -> Result<Value> {
    let zeros = g.zeros_like(number)?;
    put_flat(g, zeros, order, number, Combine::Set)
}

/// `_unique_sort(self)`: the elements sorted, the starts of runs, each element's run, the number of runs.
fn unique_sort(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let (n, shape) = (cx.g.numel(x), cx.g.dims(x));
    let flat = cx.g.reshape(x, &[n])?;
    let (values, order) = sorted(cx.g, flat, 0, false)?;
    let starts = run_starts(cx.g, values)?;
    let (number, total) = numbered(cx.g, starts)?;
    let inverse = unsorted(cx.g, number, order)?;
    let inverse = cx.g.reshape(inverse, &shape)?;
    for v in [values, starts, inverse, total] {
        cx.out(v);
    }
    Ok(())
}

/// `x` with `dim` in front.
fn in_front(g: &mut Graph, x: Value, dim: usize) -> Result<Value> {
    let order: Vec<usize> = [dim].into_iter().chain((0..g.rank(x)).filter(|&d| d != dim)).collect();
    Ok(g.transpose(x, &order)?)
}

/// `_unique_slices(self, dim)`: like [`unique_sort`] for whole slices, in lexicographic order; the slices come with `dim`
/// in front. Stable sorts by each element of a slice, from the last to the first.
fn unique_slices(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let front = in_front(cx.g, x, cx.int(1)? as usize)?;
    let dims = cx.g.dims(front);
    let n = dims[0];
    let width = dims[1..].iter().product::<i64>();
    let rows = cx.g.reshape(front, &[n, width])?;
    let dtype = cx.g.dtype(rows);
    let keys = if dtype.is_bool() { cx.g.convert(rows, DType::U8)? } else { rows };
    let start = cx.g.iota(DType::I64, &[n], 0)?;
    let last = cx.g.scalar(DType::I64, width - 1)?;
    let done = cx.g.while_loop(
        &[last, start],
        |g, a| {
            let zero = g.scalar(DType::I64, 0)?;
            Ok(vec![g.compare(a[0], zero, Direction::Ge)?])
        },
        |g, a| {
            let zero = g.scalar(DType::I64, 0)?;
            let column = g.dynamic_slice(keys, &[zero, a[0]], &[n, 1])?;
            let column = g.reshape(column, &[n])?;
            let mine = gather_at(g, column, &[0], &[a[1]], 0).map_err(primitive)?;
            let r = g.sort(&[mine, a[1]], 0, true, |g, k| Ok(vec![g.compare(k[0], k[1], Direction::Lt)?]))?;
            let one = g.scalar(DType::I64, 1)?;
            Ok(vec![g.subtract(a[0], one)?, r[1]])
        },
    )?;
    let order = done[1];
    let values = gather_at(cx.g, rows, &[0], &[order], 0)?;
    let starts = run_starts(cx.g, values)?;
    let (number, total) = numbered(cx.g, starts)?;
    let inverse = unsorted(cx.g, number, order)?;
    let values = cx.g.reshape(values, &dims)?;
    for v in [values, starts, inverse, total] {
        cx.out(v);
    }
    Ok(())
}

/// The builder's error inside a region.
fn primitive(e: crate::Error) -> primitives::Error {
    match e {
        crate::Error::Primitive(p) => p,
        other => primitives::Error {
            op: "unique_dim",
            argument: "self".into(),
            got: other.to_string(),
            expected: "rows to sort".into(),
            hint: "report this",
        },
    }
}

/// `_runs(self, dim?)`: runs of equal neighbours; without `dim` of the flattened elements. Results as of [`unique_sort`].
fn runs(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let shape: Dims = cx.g.dims(x);
    let (values, inverse_shape) = match cx.opt_int(1)? {
        None => {
            let n = cx.g.numel(x);
            (cx.g.reshape(x, &[n])?, shape)
        }
        Some(d) => (in_front(cx.g, x, d as usize)?, Dims::from_slice(&[shape[d as usize]])),
    };
    let starts = run_starts(cx.g, values)?;
    let (number, total) = numbered(cx.g, starts)?;
    let inverse = cx.g.reshape(number, &inverse_shape)?;
    for v in [values, starts, inverse, total] {
        cx.out(v);
    }
    Ok(())
}

/// `_pick_runs(values, starts, size)`: the first slice and the length of each of the first `size` runs.
fn pick_runs(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (values, starts) = (cx.t(0)?, cx.t(1)?);
    let size = cx.int(2)?;
    let n = cx.g.numel(starts);
    let (at, _) = set_places(cx.g, starts, size)?;
    let last = cx.g.full_like(at, n - 1)?;
    let inside = cx.g.minimum(at, last)?;
    let picked = gather_at(cx.g, values, &[0], &[inside], 0)?;
    let at = cx.g.convert(at, DType::I64)?;
    let end = cx.g.full(DType::I64, &[1], n)?;
    let next = cx.g.slice(at, &[1], &[size], &[1])?;
    let next = cx.g.concatenate(&[next, end], 0)?;
    let counts = cx.g.subtract(next, at)?;
    cx.out(picked);
    cx.out(counts);
    Ok(())
}
