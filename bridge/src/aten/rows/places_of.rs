//! Where a mask is set: results whose size depends on data, for a size that is known when the program is built.
//!
//! The place of the k-th set element is found by a binary search in the running count: `log2(n)` gathers of as many
//! elements as are asked for, and no scatter.

use super::places::{at_least_1d, gather_at, narrow, take_flat};
use super::scan::running_sum;
use crate::aten::promote::torch_name;
use crate::aten::{CheckKind, Cx, Row, broadcast};
use crate::{Error, Result};
use primitives::{DType, Dims, Direction, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::new("nonzero_static", nonzero_static),
    Row::new("_masked_select", masked_select),
    Row::new("_index_mask", index_mask),
    Row::pointwise("_masked_put", masked_put),
    Row::pointwise("masked_scatter", masked_scatter),
    Row::new("masked_scatter_backward", masked_scatter_backward),
    Row::new("_repeat_index", repeat_index),
    Row::new("_equal", equal),
];

/// `x != 0`.
pub fn truth(g: &mut Graph, x: Value) -> Result<Value> {
    if g.dtype(x).is_bool() {
        return Ok(x);
    }
    let zero = g.zeros_like(x)?;
    Ok(g.compare(x, zero, Direction::Ne)?)
}

/// Running count of the set elements of a mask (a vector), the element itself included.
pub fn running_count(g: &mut Graph, mask: Value) -> Result<Value> {
    let n = g.numel(mask);
    let ones = narrow(g, mask, n)?;
    running_sum(g, ones, 0)
}

/// Number of entries of `rising`, a vector that never falls, that are below (or at, when `through`) each of `targets`.
pub fn count_below(g: &mut Graph, rising: Value, targets: Value, through: bool) -> Result<Value> {
    let n = g.numel(rising);
    let dtype = g.dtype(targets);
    let mut found = g.zeros_like(targets)?;
    let mut step = 1i64;
    while step * 2 <= n {
        step *= 2;
    }
    let last = g.full_like(targets, n)?;
    let one = g.full_like(targets, 1)?;
    let top = g.full_like(targets, (n - 1).max(0))?;
    while step > 0 && n > 0 {
        let by = g.full_like(targets, step)?;
        let reach = g.add(found, by)?;
        let inside = g.compare(reach, last, Direction::Le)?;
        let at = g.subtract(reach, one)?;
        let at = g.minimum(at, top)?;
        let value = take_flat(g, rising, at)?;
        let value = g.convert(value, dtype)?;
        let below = g.compare(value, targets, if through { Direction::Le } else { Direction::Lt })?;
        let go = g.and(inside, below)?;
        found = g.select(go, reach, found)?;
        step /= 2;
    }
    Ok(found)
}

/// Places of the first `size` set elements of a mask (a vector), and which of these exist; the others are past the end.
pub fn set_places(g: &mut Graph, mask: Value, size: i64) -> Result<(Value, Value)> {
    let n = g.numel(mask);
    let dtype = if n < i32::MAX as i64 { DType::I32 } else { DType::I64 };
    if n == 0 || size == 0 {
        return Ok((g.full(dtype, &[size], n)?, g.full(DType::Bool, &[size], false)?));
    }
    let counts = running_count(g, mask)?;
    let rank = g.iota(dtype, &[size], 0)?;
    let one = g.full_like(rank, 1)?;
    let rank = g.add(rank, one)?;
    let at = count_below(g, counts, rank, false)?;
    let end = g.full_like(at, n)?;
    let exists = g.compare(at, end, Direction::Lt)?;
    Ok((at, exists))
}

/// Places past the end brought back to the last element.
fn clipped(g: &mut Graph, at: Value, n: i64) -> Result<Value> {
    let last = g.full_like(at, (n - 1).max(0))?;
    Ok(g.minimum(at, last)?)
}

/// `nonzero_static(self, *, size, fill_value)`: coordinates of the nonzero elements, one row each.
fn nonzero_static(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let (size, fill) = (cx.int(1)?, cx.int(2)?);
    if size < 0 {
        return Err(cx.error("nonzero_static: 'size' must be an non-negative integer"));
    }
    let sizes = cx.g.dims(x);
    if sizes.is_empty() || size == 0 {
        let y = cx.g.full(DType::I64, &[size, sizes.len() as i64], 0)?;
        cx.out(y);
        return Ok(());
    }
    let n = cx.g.numel(x);
    let flat = cx.g.reshape(x, &[n])?;
    let mask = truth(cx.g, flat)?;
    let (at, exists) = set_places(cx.g, mask, size)?;
    let strides = crate::aten::args::contiguous_strides(&sizes);
    let mut columns = Vec::new();
    let missing = cx.g.full(DType::I64, &[size], fill)?;
    for d in 0..sizes.len() {
        let (s, m) = (cx.g.full_like(at, strides[d].max(1))?, cx.g.full_like(at, sizes[d].max(1))?);
        let q = cx.g.divide(at, s)?;
        let i = cx.g.remainder(q, m)?;
        let i = cx.g.convert(i, DType::I64)?;
        let i = cx.g.select(exists, i, missing)?;
        columns.push(cx.g.reshape(i, &[size, 1])?);
    }
    let y = if columns.len() == 1 { columns[0] } else { cx.g.concatenate(&columns, 1)? };
    cx.out(y);
    Ok(())
}

/// `_masked_select(self, mask, size)`: the first `size` elements whose mask is set, after broadcasting both.
fn masked_select(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (x, mask) = (cx.t(0)?, cx.t(1)?);
    let (x, mask) = broadcast::pair(cx, x, mask)?;
    let n = cx.g.numel(x);
    let (x, mask) = (cx.g.reshape(x, &[n])?, cx.g.reshape(mask, &[n])?);
    let mask = truth(cx.g, mask)?;
    let (at, _) = set_places(cx.g, mask, cx.int(2)?)?;
    let at = clipped(cx.g, at, n)?;
    let y = take_flat(cx.g, x, at)?;
    cx.out(y);
    Ok(())
}

/// `x` with the dims that a mask covers, from `dim` on, made one.
fn merged(g: &mut Graph, x: Value, dim: usize, n: i64, rank: usize) -> Result<(Value, Dims, Dims)> {
    let sizes = g.dims(x);
    let (before, after) = (Dims::from_slice(&sizes[..dim]), Dims::from_slice(&sizes[dim + rank..]));
    let all: Dims = before.iter().copied().chain([n]).chain(after.iter().copied()).collect();
    Ok((g.reshape(x, &all)?, before, after))
}

/// `_index_mask(self, mask, dim, size)`: `self[..., mask, ...]` with the mask on the dims from `dim` on.
fn index_mask(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (x, mask) = (cx.t(0)?, cx.t(1)?);
    let (dim, size) = (cx.int(2)? as usize, cx.int(3)?);
    let n = cx.g.numel(mask);
    let (x, ..) = merged(cx.g, x, dim, n, cx.g.rank(mask))?;
    let flat = cx.g.reshape(mask, &[n])?;
    let flat = truth(cx.g, flat)?;
    let (at, _) = set_places(cx.g, flat, size)?;
    let at = clipped(cx.g, at, n)?;
    let y = gather_at(cx.g, x, &[dim], &[at], dim)?;
    cx.out(y);
    Ok(())
}

/// Which of the set elements each is, from 0 on; of no meaning where the mask is not set. And how many there are.
fn ranks(g: &mut Graph, mask: Value) -> Result<(Value, Value)> {
    let counts = running_count(g, mask)?;
    let one = g.full_like(counts, 1)?;
    let rank = g.subtract(counts, one)?;
    let n = g.numel(mask);
    let total = g.slice(counts, &[n - 1], &[n], &[1])?;
    Ok((rank, total))
}

/// `_masked_put(self, mask, values, accumulate)`: `self[mask] = values` with a value for each set place, in order. The
/// mask covers the first dims of `self`.
fn masked_put(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (x, mask, values) = (cx.t(0)?, cx.t(1)?, cx.t(2)?);
    let sizes = cx.g.dims(x);
    let n = cx.g.numel(mask);
    if n == 0 || cx.g.numel(x) == 0 {
        cx.out(x);
        return Ok(());
    }
    let (flat, _, after) = merged(cx.g, x, 0, n, cx.g.rank(mask))?;
    let given = cx.g.dims(values);
    let mask = cx.g.reshape(mask, &[n])?;
    let mask = truth(cx.g, mask)?;
    let (rank, total) = ranks(cx.g, mask)?;
    let expected = cx.g.full_like(total, given[0])?;
    let bad = cx.g.compare(total, expected, Direction::Ne)?;
    let tail: String = after.iter().map(|n| format!(", {n}")).collect();
    let message = format!(
        "shape mismatch: value tensor of shape {:?} cannot be broadcast to indexing result of shape [{{}}{tail}]",
        &given[..]
    );
    cx.check(bad, total, CheckKind::Runtime, message)?;
    let full: Dims = [given[0]].into_iter().chain(after.iter().copied()).collect();
    let values = cx.g.broadcast_to(values, &full)?;
    let y = if given[0] == 0 {
        flat
    } else {
        let zero = cx.g.zeros_like(rank)?;
        let last = cx.g.full_like(rank, given[0] - 1)?;
        let rank = cx.g.maximum(rank, zero)?;
        let rank = cx.g.minimum(rank, last)?;
        let mine = gather_at(cx.g, values, &[0], &[rank], 0)?;
        let wide = cx.g.broadcast_in_dim(mask, &cx.g.dims(flat), &[0])?;
        let mine = if cx.bool(3)? { super::places::Combine::Add.apply(cx.g, flat, mine)? } else { mine };
        cx.g.select(wide, mine, flat)?
    };
    let y = cx.g.reshape(y, &sizes)?;
    cx.out(y);
    Ok(())
}

/// `masked_scatter(self, mask, source)`: elements of `source`, in order, where the mask is set.
fn masked_scatter(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (x, mask, source) = (cx.t(0)?, cx.t(1)?, cx.t(2)?);
    if cx.g.dtype(x) != cx.g.dtype(source) {
        return Err(cx.error(format!(
            "masked_scatter: expected self and source to have same dtypes but got{} and {}",
            torch_name(cx.g.dtype(x)),
            torch_name(cx.g.dtype(source))
        )));
    }
    if !cx.g.dtype(mask).is_bool() {
        return Err(cx.error(format!(
            "masked_scatter_ only supports boolean masks, but got mask with dtype {}",
            torch_name(cx.g.dtype(mask))
        )));
    }
    let (x, mask) = broadcast::pair(cx, x, mask)?;
    let sizes = cx.g.dims(x);
    let (n, m) = (cx.g.numel(x), cx.g.numel(source));
    if n == 0 {
        cx.out(x);
        return Ok(());
    }
    let (flat, mask) = (cx.g.reshape(x, &[n])?, cx.g.reshape(mask, &[n])?);
    let (rank, total) = ranks(cx.g, mask)?;
    let most = cx.g.full_like(total, m)?;
    let bad = cx.g.compare(total, most, Direction::Gt)?;
    cx.check(bad, total, CheckKind::Runtime, "Number of elements of source < number of ones in mask")?;
    let y = if m == 0 {
        flat
    } else {
        let zero = cx.g.zeros_like(rank)?;
        let last = cx.g.full_like(rank, m - 1)?;
        let rank = cx.g.maximum(rank, zero)?;
        let rank = cx.g.minimum(rank, last)?;
        let mine = take_flat(cx.g, source, rank)?;
        cx.g.select(mask, mine, flat)?
    };
    let y = cx.g.reshape(y, &sizes)?;
    cx.out(y);
    Ok(())
}

/// `masked_scatter_backward(grad_output, mask, sizes)`: the gradients at the set places, in order, then zeros.
fn masked_scatter_backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (grad, mask) = (cx.t(0)?, cx.t(1)?);
    let sizes = cx.ints(2)?;
    let m: i64 = sizes.iter().product();
    let (grad, mask) = broadcast::pair(cx, grad, mask)?;
    let n = cx.g.numel(grad);
    let dtype = cx.g.dtype(grad);
    let y = if n == 0 || m == 0 {
        cx.g.full(dtype, &sizes, 0)?
    } else {
        let mask = cx.g.reshape(mask, &[n])?;
        let (at, exists) = set_places(cx.g, mask, m)?;
        let at = clipped(cx.g, at, n)?;
        let picked = take_flat(cx.g, grad, at)?;
        let zero = cx.g.zeros_like(picked)?;
        let y = cx.g.select(exists, picked, zero)?;
        cx.g.reshape(y, &sizes)?
    };
    cx.out(y);
    Ok(())
}

/// `_repeat_index(repeats, size)`: index `i`, `repeats[i]` times, for each `i`; `size` of them.
fn repeat_index(cx: &mut Cx<'_, '_>) -> Result<()> {
    let repeats = cx.t(0)?;
    let dtype = cx.g.dtype(repeats);
    let size = cx.int(1)?;
    let repeats = at_least_1d(cx.g, repeats)?;
    let repeats = cx.g.convert(repeats, DType::I64)?;
    let zero = cx.g.zeros_like(repeats)?;
    let bad = cx.g.compare(repeats, zero, Direction::Lt)?;
    cx.check(bad, repeats, CheckKind::Runtime, "repeats can not be negative")?;
    let ends = running_sum(cx.g, repeats, 0)?;
    let k = cx.g.iota(DType::I64, &[size], 0)?;
    let y = count_below(cx.g, ends, k, true)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `_equal(self, other)`: whether all elements are equal, as a 0-d bool.
fn equal(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (a, b) = (cx.operand(0)?, cx.operand(1)?);
    let dtype = cx.promote(&[a, b]);
    let (a, b) = (cx.value_as(&a, dtype)?, cx.value_as(&b, dtype)?);
    if cx.g.dims(a) != cx.g.dims(b) {
        return Err(Error::internal("_equal: shapes differ".into()));
    }
    let same = cx.g.compare(a, b, Direction::Eq)?;
    let dims: Vec<usize> = (0..cx.g.rank(same)).collect();
    let y = cx.g.reduce_and(same, &dims)?;
    cx.out(y);
    Ok(())
}
