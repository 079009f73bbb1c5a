//! Search in sorted sequences, and histograms.

use super::sorting::sorted;
use crate::Result;
use crate::aten::cx::CheckKind;
use crate::aten::row::Numbers;
use crate::aten::{Cx, Row, exact, promote};
use primitives::{DType, Dims, Direction, GatherDims, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::new("searchsorted.Tensor", |cx| searchsorted(cx, false)),
    Row::new("searchsorted.Scalar", |cx| searchsorted(cx, true)).dynamic(&["self"]),
    Row::new("bucketize.Tensor", |cx| bucketize(cx, false)),
    Row::new("bucketize.Scalar", |cx| bucketize(cx, true)).dynamic(&["self"]),
    Row::new("histc", histc).dynamic(&["min", "max"]).guarded(histc_range),
    Row::new("isin.Tensor_Tensor", isin),
    Row::new("isin.Tensor_Scalar", |cx| isin_scalar(cx, 0, 1)).dynamic(&["test_element"]),
    Row::new("isin.Scalar_Tensor", isin).dynamic(&["element"]),
];

/// `searchsorted(sorted_sequence, self, *, out_int32, right, side, sorter)`: where each value would be inserted.
fn searchsorted(cx: &mut Cx<'_, '_>, scalar: bool) -> Result<()> {
    let seq = cx.t(0)?;
    let (int32, right) = (cx.bool(2)?, cx.bool(3)?);
    let right = match cx.opt_str(4)? {
        None => right,
        Some("left") if right => {
            return Err(cx.error(
                "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True",
            ));
        }
        Some("left") => false,
        Some("right") => true,
        Some(other) => {
            return Err(cx.error(format!("torch.searchsorted(): side can only be 'left' or 'right' but got {other}")));
        }
    };
    let sd = cx.g.dims(seq);
    if sd.is_empty() {
        return Err(cx.error("torch.searchsorted(): input sorted_sequence should have at least 1 dimension"));
    }
    let values = values(cx, 1, seq, scalar)?;
    let vd = cx.g.dims(values);
    let flat = sd.len() == 1;
    if !flat && (vd.len() != sd.len() || vd[..vd.len() - 1] != sd[..sd.len() - 1]) {
        return Err(cx.error(format!(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor \
             and input value tensor must match, but we got boundaries tensor {:?} and input value tensor {:?}",
            &sd[..],
            &vd[..]
        )));
    }
    let sorter = match cx.opt_t(5)? {
        None => None,
        Some(s) => {
            let d = cx.g.dims(s);
            if d != sd {
                return Err(cx.error(format!(
                    "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor {:?}and got \
                     sorter tensor {:?}",
                    &sd[..],
                    &d[..]
                )));
            }
            if cx.g.dtype(s) != DType::I64 {
                return Err(cx.error(format!(
                    "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {}",
                    promote::torch_name(cx.g.dtype(s))
                )));
            }
            Some(cx.check_index(
                s,
                *sd.last().unwrap_or(&1),
                CheckKind::Runtime,
                "torch.searchsorted(): sorter index out of range",
            )?)
        }
    };
    insertion(cx, seq, values, sorter, right, int32)
}

/// `bucketize(self, boundaries, *, out_int32, right)`.
fn bucketize(cx: &mut Cx<'_, '_>, scalar: bool) -> Result<()> {
    let seq = cx.t(1)?;
    if cx.g.rank(seq) != 1 {
        return Err(cx.error(format!("boundaries tensor must be 1 dimension, but got dim({})", cx.g.rank(seq))));
    }
    let (int32, right) = (cx.bool(2)?, cx.bool(3)?);
    let values = values(cx, 0, seq, scalar)?;
    insertion(cx, seq, values, None, right, int32)
}

/// The values searched for; numbers promote with the sequence.
fn values(cx: &mut Cx<'_, '_>, i: usize, seq: Value, scalar: bool) -> Result<Value> {
    if !scalar {
        return cx.t(i);
    }
    let dtype = cx.promote(&[cx.operand_of(seq), cx.operand(i)?]);
    cx.number_as(i, dtype)
}

fn insertion(
    cx: &mut Cx<'_, '_>,
    seq: Value,
    values: Value,
    sorter: Option<Value>,
    right: bool,
    int32: bool,
) -> Result<()> {
    let dtype = promote::promote_types(cx.g.dtype(seq), cx.g.dtype(values));
    if dtype.is_complex() {
        return Err(cx.error("torch.searchsorted(): complex numbers have no order"));
    }
    let g = &mut *cx.g;
    let (seq, values) = (g.convert(seq, dtype)?, g.convert(values, dtype)?);
    let y = binary_search(g, seq, values, sorter, right)?;
    let y = g.convert(y, if int32 { DType::I32 } else { DType::I64 })?;
    cx.out(y);
    Ok(())
}

/// Elements of a flat array.
pub fn take(g: &mut Graph, x: Value, index: Value) -> Result<Value> {
    let dims = GatherDims {
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: g.rank(index),
        ..GatherDims::default()
    };
    Ok(g.gather(x, index, &dims, &[1], false)?)
}

/// Halves each value's interval `log2(n) + 1` times, with a gather in each step.
pub fn binary_search(g: &mut Graph, seq: Value, values: Value, sorter: Option<Value>, right: bool) -> Result<Value> {
    let sd = g.dims(seq);
    let n = *sd.last().unwrap_or(&0);
    let shape = g.dims(values);
    let mut low = g.full(DType::I64, &shape, 0)?;
    if n == 0 || g.numel(values) == 0 {
        return Ok(low);
    }
    let mut high = g.full(DType::I64, &shape, n)?;
    let total: i64 = sd.iter().product();
    let flat = g.reshape(seq, &[total])?;
    let sorter = match sorter {
        Some(s) => Some(g.reshape(s, &[total])?),
        None => None,
    };
    let base = if sd.len() == 1 { g.full(DType::I64, &shape, 0)? } else { line_starts(g, &shape, n)? };
    let last = g.full_like(low, n - 1)?;
    let steps = 64 - (n as u64).leading_zeros();
    for _ in 0..steps {
        let open = g.compare(low, high, Direction::Lt)?;
        let sum = g.add(low, high)?;
        let one = g.ones_like(sum)?;
        let mid = g.shift_right_logical(sum, one)?;
        let at = g.minimum(mid, last)?;
        let mut at = g.add(at, base)?;
        if let Some(s) = sorter {
            let i = take(g, s, at)?;
            at = g.add(i, base)?;
        }
        let v = take(g, flat, at)?;
        // Where the comparison fails (NaN too), the place lies further right.
        let stop = g.compare(v, values, if right { Direction::Gt } else { Direction::Ge })?;
        let go = g.not(stop)?;
        let go = g.and(open, go)?;
        let halt = g.and(open, stop)?;
        let next = g.add(mid, one)?;
        low = g.select(go, next, low)?;
        high = g.select(halt, mid, high)?;
    }
    Ok(low)
}

/// For values of `shape`, where each one's line of `n` begins in the flattened sequence.
fn line_starts(g: &mut Graph, shape: &Dims, n: i64) -> Result<Value> {
    let mut base = g.full(DType::I64, shape, 0)?;
    let mut stride = n;
    for d in (0..shape.len() - 1).rev() {
        let i = g.iota(DType::I64, shape, d)?;
        let s = g.full_like(i, stride)?;
        let i = g.multiply(i, s)?;
        base = g.add(base, i)?;
        stride *= shape[d];
    }
    Ok(base)
}

fn histc_range(n: &Numbers<'_>) -> Result<()> {
    let (min, max) = (n.get(2).unwrap_or(0.0), n.get(3).unwrap_or(0.0));
    if !min.is_finite() || !max.is_finite() {
        return Err(n.error(format!("torch.histc: range of [{min}, {max}] is not finite")));
    }
    if min > max {
        return Err(n.error("torch.histc: max must be larger than min".into()));
    }
    Ok(())
}

/// `histc(self, bins, min, max)`: counts in `bins` equal intervals; the data's own range when `min == max`.
fn histc(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let dtype = cx.g.dtype(x);
    let bins = cx.int(1)?;
    if dtype.is_complex() || dtype.is_bool() {
        return Err(crate::Error::not_implemented(
            cx.op(),
            format!("\"histogram_cpu\" not implemented for '{}'", promote::torch_name(dtype)),
        ));
    }
    if bins <= 0 {
        return Err(cx.error(format!("torch.histc(): bins must be > 0, but got {bins}")));
    }
    let n = cx.g.numel(x);
    let float = if dtype == DType::F64 || dtype.is_int() { DType::F64 } else { DType::F32 };
    let (min, max) = (cx.number_as(2, float)?, cx.number_as(3, float)?);
    let g = &mut *cx.g;
    if n == 0 {
        let y = g.full(dtype, &[bins], 0)?;
        cx.out(y);
        return Ok(());
    }
    let x = g.reshape(x, &[n])?;
    let x = g.convert(x, float)?;
    let (least, most) = (g.reduce_min(x, &[0])?, g.reduce_max(x, &[0])?);
    let open = g.compare(min, max, Direction::Eq)?;
    let (below, above) = (g.is_finite(least)?, g.is_finite(most)?);
    let fine = g.and(below, above)?;
    let wild = g.not(fine)?;
    let wild = g.and(wild, open)?;
    cx.check(wild, most, CheckKind::Runtime, "torch.histc: range of the data is not finite")?;
    let g = &mut *cx.g;
    let (lo, hi) = (g.select(open, least, min)?, g.select(open, most, max)?);
    let same = g.compare(lo, hi, Direction::Eq)?;
    let one = g.ones_like(lo)?;
    let (down, up) = (g.subtract(lo, one)?, g.add(hi, one)?);
    let (lo, hi) = (g.select(same, down, lo)?, g.select(same, up, hi)?);
    let width = g.subtract(hi, lo)?;
    let (lo, hi, width) = (g.broadcast_to(lo, &[n])?, g.broadcast_to(hi, &[n])?, g.broadcast_to(width, &[n])?);
    let count = g.full_like(x, bins)?;
    let d = g.subtract(x, lo)?;
    let d = exact::divide(g, d, width)?;
    let d = g.multiply(d, count)?;
    let d = g.floor(d)?;
    let above = g.compare(x, lo, Direction::Ge)?;
    let below = g.compare(x, hi, Direction::Le)?;
    let inside = g.and(above, below)?;
    let bin = g.convert(d, DType::I64)?;
    let last = g.full_like(bin, bins - 1)?;
    let bin = g.minimum(bin, last)?;
    // Elements outside fall into one more bin, which is cut off.
    let outside = g.full_like(bin, bins)?;
    let bin = g.select(inside, bin, outside)?;
    let y = counts(g, bin, bins)?;
    let y = g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// How many of `bins` (any order) are each of `0..n`: the sorted sequence's steps.
fn counts(g: &mut Graph, bins: Value, n: i64) -> Result<Value> {
    let (order, _) = sorted(g, bins, 0, false)?;
    let edges = g.iota(DType::I64, &[n + 1], 0)?;
    let at = binary_search(g, order, edges, None, false)?;
    let (from, to) = (g.slice(at, &[0], &[n], &[1])?, g.slice(at, &[1], &[n + 1], &[1])?);
    Ok(g.subtract(to, from)?)
}

/// `isin(elements, test_elements, *, assume_unique, invert)`: membership, by search in the sorted test elements.
fn isin(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (a, b) = (cx.operand(0)?, cx.operand(1)?);
    let dtype = cx.promote(&[a, b]);
    let invert = cx.bool(3)?;
    let (a, b) = (cx.value_as(&a, dtype)?, cx.value_as(&b, dtype)?);
    let g = &mut *cx.g;
    let n = g.numel(b);
    let (a, b) = if dtype.is_bool() { (g.convert(a, DType::U8)?, g.convert(b, DType::U8)?) } else { (a, b) };
    let mut y = if n == 0 {
        g.full(DType::Bool, &g.dims(a), false)?
    } else {
        let b = g.reshape(b, &[n])?;
        let (b, _) = sorted(g, b, 0, false)?;
        let at = binary_search(g, b, a, None, false)?;
        let last = g.full_like(at, n - 1)?;
        let at = g.minimum(at, last)?;
        let v = take(g, b, at)?;
        g.compare(v, a, Direction::Eq)?
    };
    if invert {
        y = g.not(y)?;
    }
    cx.out(y);
    Ok(())
}

/// `isin(elements, test_element)`: equality.
fn isin_scalar(cx: &mut Cx<'_, '_>, a: usize, b: usize) -> Result<()> {
    let (a, b) = (cx.operand(a)?, cx.operand(b)?);
    let dtype = cx.promote(&[a, b]);
    let invert = cx.bool(3)?;
    let (a, b) = (cx.value_as(&a, dtype)?, cx.value_as(&b, dtype)?);
    let b = cx.g.broadcast_to(b, &cx.g.dims(a))?;
    let y = cx.g.compare(a, b, if invert { Direction::Ne } else { Direction::Eq })?;
    cx.out(y);
    Ok(())
}
