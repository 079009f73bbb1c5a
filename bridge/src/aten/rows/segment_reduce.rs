//! Reductions of consecutive segments along one dim, given by their lengths or by where they begin.

use super::math;
use super::places::{Combine, gather_at, scatter_at};
use super::places_of::count_below;
use super::reduce_into::Reduce;
use super::scan::running_sum;
use super::util::check_real_float;
use crate::Result;
use crate::aten::promote::compute_type;
use crate::aten::{CheckKind, Cx, Row, exact};
use primitives::{DType, Direction, Graph, Number, Value};

pub const ROWS: &[Row] =
    &[Row::new("segment_reduce", segment_reduce), Row::new("_segment_reduce_backward", segment_reduce_backward)];

/// The reduction of argument `i`, by the name that this op has for it.
fn reduce_of(cx: &Cx<'_, '_>, i: usize) -> Result<Reduce> {
    Ok(match cx.str(i)? {
        "sum" => Reduce::Sum,
        "mean" => Reduce::Mean,
        "max" => Reduce::Max,
        "min" => Reduce::Min,
        "prod" => Reduce::Prod,
        other => return Err(cx.error(format!("unsupported reduction given! {other}"))),
    })
}

/// The data as `[lines, n, inner]`, and which of its `count` segments each of the `n` places belongs to (`count` for
/// none).
struct Segments {
    lines: i64,
    n: i64,
    inner: i64,
    count: i64,
    /// Segment of each place, `[lines, n]`.
    of: Value,
    /// Number of places of each segment, `[lines, count]`.
    lengths: Value,
}

/// Segments of dim `axis` of a tensor of `dims`, from the lengths or the offsets at these positions.
fn segments(
    cx: &mut Cx<'_, '_>,
    dims: &[i64],
    lengths: usize,
    offsets: usize,
    axis: i64,
    check: bool,
) -> Result<Segments> {
    let given = if cx.is_none(lengths) { offsets } else { lengths };
    if cx.is_none(given) {
        return Err(cx.error("segment_reduce(): Either lengths or offsets must be defined."));
    }
    let list = cx.t(given)?;
    let ld = cx.g.dims(list);
    let rank = dims.len() as i64;
    let axis = if axis < 0 { axis + rank } else { axis };
    if axis + 1 != ld.len() as i64 || axis >= rank || ld[..ld.len() - 1] != dims[..ld.len() - 1] {
        return Err(cx.error(format!(
            "segment_reduce(): Expected lengths or offsets of shape data.shape[:axis] + [segments], got {:?} for data {dims:?} \
             and axis {axis}",
            &ld[..]
        )));
    }
    let axis = axis as usize;
    let lines: i64 = dims[..axis].iter().product();
    let (n, inner): (i64, i64) = (dims[axis], dims[axis + 1..].iter().product());
    let last = ld[axis];
    let list = cx.g.convert(list, DType::I64)?;
    let list = cx.g.reshape(list, &[lines, last])?;
    let g = &mut *cx.g;
    let (start, end, count) = if given == lengths {
        let end = running_sum(g, list, 1)?;
        (g.subtract(end, list)?, end, last)
    } else {
        let start = g.slice(list, &[0, 0], &[lines, last - 1], &[1, 1])?;
        let end = g.slice(list, &[0, 1], &[lines, last], &[1, 1])?;
        (start, end, last - 1)
    };
    let lengths_of = g.subtract(end, start)?;
    if check && given == lengths {
        let negative = math::cmp_n(cx.g, lengths_of, 0, Direction::Lt)?;
        cx.check(negative, lengths_of, CheckKind::Runtime, "lengths contains negative value!")?;
        let total = cx.g.reduce_sum(lengths_of, &[1])?;
        let other = math::cmp_n(cx.g, total, n, Direction::Ne)?;
        let message =
            format!("segment_reduce(): Expected all rows of lengths along axis to sum to data.size({axis}) = {n}");
        cx.check(other, total, CheckKind::Runtime, message)?;
    }
    let g = &mut *cx.g;
    if lines == 1 && count > 0 {
        let of = in_one_line(g, start, end, n, count)?;
        return Ok(Segments { lines, n, inner, count, of, lengths: lengths_of });
    }
    let all = [lines, n, count];
    let place = g.iota(DType::I64, &all, 1)?;
    let (from, to) = (g.broadcast_in_dim(start, &all, &[0, 2])?, g.broadcast_in_dim(end, &all, &[0, 2])?);
    let (after, before) = (g.compare(place, from, Direction::Ge)?, g.compare(place, to, Direction::Lt)?);
    let within = g.and(after, before)?;
    let number = g.iota(DType::I64, &all, 2)?;
    let none = g.full_like(number, count)?;
    let number = g.select(within, number, none)?;
    let of = if count == 0 { g.full(DType::I64, &[lines, n], 0)? } else { g.reduce_min(number, &[2])? };
    Ok(Segments { lines, n, inner, count, of, lengths: lengths_of })
}

/// Segment of each place of a single line: how many ends come before it.
fn in_one_line(g: &mut Graph, start: Value, end: Value, n: i64, count: i64) -> Result<Value> {
    let place = g.iota(DType::I64, &[1, n], 1)?;
    let ends = g.reshape(end, &[count])?;
    let of = count_below(g, ends, place, true)?;
    let first = g.slice(start, &[0, 0], &[1, 1], &[1, 1])?;
    let first = g.broadcast_to(first, &[1, n])?;
    let before = g.compare(place, first, Direction::Lt)?;
    let none = g.full_like(of, count)?;
    Ok(g.select(before, none, of)?)
}

/// Indices `[lines, n]` of segments for gathers and scatters.
fn at(g: &mut Graph, s: &Segments) -> Result<[Value; 2]> {
    let line = g.iota(DType::I64, &[s.lines, s.n], 0)?;
    Ok([line, s.of])
}

/// `[lines, n, inner]` combined into `[lines, count, inner]` of `start`.
fn gathered_up(g: &mut Graph, s: &Segments, x: Value, start: Value, combine: Combine) -> Result<Value> {
    let index = at(g, s)?;
    scatter_at(g, start, &[0, 1], &index, 0, x, combine)
}

/// `[lines, count, inner]` handed out to `[lines, n, inner]`; places without a segment get the last one's.
fn handed_out(g: &mut Graph, s: &Segments, x: Value) -> Result<Value> {
    let [line, of] = at(g, s)?;
    let last = g.full_like(of, (s.count - 1).max(0))?;
    let of = g.minimum(of, last)?;
    gather_at(g, x, &[0, 1], &[line, of], 0)
}

/// `segment_reduce(data, reduce, *, lengths, indices, offsets, axis, unsafe, initial)`.
fn segment_reduce(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let reduce = reduce_of(cx, 1)?;
    let (dims, dtype) = (cx.g.dims(x), cx.g.dtype(x));
    check_real_float(cx, "_segment_reduce_cpu", dtype)?;
    if !cx.is_none(3) {
        return Err(cx.error("segment_reduce(): indices based reduction is not supported yet."));
    }
    let axis = cx.int(5)?;
    let initial = cx.opt_float(7)?;
    let s = segments(cx, &dims, 2, 4, axis, !cx.bool(6)?)?;
    let compute = compute_type(dtype);
    let g = &mut *cx.g;
    let x = g.convert(x, compute)?;
    let x = g.reshape(x, &[s.lines, s.n, s.inner])?;
    let shape = [s.lines, s.count, s.inner];
    let start = initial.map_or(reduce.combine().identity(compute), Number::Float);
    let start = g.full(compute, &shape, start)?;
    let mut y = gathered_up(g, &s, x, start, reduce.combine())?;
    if reduce == Reduce::Mean {
        let lengths = g.convert(s.lengths, compute)?;
        let lengths = g.broadcast_in_dim(lengths, &shape, &[0, 1])?;
        let none = math::cmp_n(g, lengths, 0.0, Direction::Eq)?;
        let mean = exact::divide(g, y, lengths)?;
        let empty = if initial.is_some() { y } else { g.full_like(y, f64::NAN)? };
        y = g.select(none, empty, mean)?;
    }
    let y = g.convert(y, dtype)?;
    let axis = axis.rem_euclid(dims.len() as i64) as usize;
    let mut out = dims;
    out[axis] = s.count;
    let y = g.reshape(y, &out)?;
    cx.out(y);
    Ok(())
}

/// `_segment_reduce_backward(grad, output, data, reduce, *, lengths, offsets, axis, initial)`.
///
/// The elements that are a segment's extreme share its gradient; each factor of a product gets the product of the
/// others.
fn segment_reduce_backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (grad, out, x) = (cx.t(0)?, cx.t(1)?, cx.t(2)?);
    let reduce = reduce_of(cx, 3)?;
    let (dims, dtype) = (cx.g.dims(x), cx.g.dtype(x));
    check_real_float(cx, "_segment_reduce_cpu", dtype)?;
    let axis = cx.int(6)?;
    let initial = cx.opt_float(7)?;
    let s = segments(cx, &dims, 4, 5, axis, false)?;
    let compute = compute_type(dtype);
    let g = &mut *cx.g;
    let (few, many) = ([s.lines, s.count, s.inner], [s.lines, s.n, s.inner]);
    let mut parts = Vec::new();
    for (v, shape) in [(grad, few), (out, few), (x, many)] {
        let v = g.convert(v, compute)?;
        parts.push(g.reshape(v, &shape)?);
    }
    let (grad, out, x) = (parts[0], parts[1], parts[2]);
    let y = match reduce {
        Reduce::Sum => handed_out(g, &s, grad)?,
        Reduce::Mean => {
            let lengths = g.convert(s.lengths, compute)?;
            let lengths = g.broadcast_in_dim(lengths, &few, &[0, 1])?;
            let share = exact::divide(g, grad, lengths)?;
            handed_out(g, &s, share)?
        }
        Reduce::Max | Reduce::Min => {
            let best = handed_out(g, &s, out)?;
            let equal = g.compare(x, best, Direction::Eq)?;
            let nan = g.compare(x, x, Direction::Ne)?;
            let hit = g.or(equal, nan)?;
            let hit = g.convert(hit, compute)?;
            let none = g.full(compute, &few, 0.0)?;
            let count = gathered_up(g, &s, hit, none, Combine::Add)?;
            let one = g.ones_like(count)?;
            let count = g.maximum(count, one)?;
            let share = exact::divide(g, grad, count)?;
            let share = handed_out(g, &s, share)?;
            g.multiply(share, hit)?
        }
        Reduce::Prod => {
            let others = product_of_others(g, &s, x, initial.unwrap_or(1.0))?;
            let grad = handed_out(g, &s, grad)?;
            g.multiply(grad, others)?
        }
    };
    // Places without a segment have no gradient.
    let inside = math::cmp_n(g, s.of, s.count, Direction::Lt)?;
    let inside = g.broadcast_in_dim(inside, &many, &[0, 1])?;
    let zeros = g.zeros_like(y)?;
    let y = g.select(inside, y, zeros)?;
    let y = g.convert(y, dtype)?;
    let y = g.reshape(y, &dims)?;
    cx.out(y);
    Ok(())
}

/// For each element, `initial` times the other elements of its segment, zeros among them or not.
fn product_of_others(g: &mut Graph, s: &Segments, x: Value, initial: f64) -> Result<Value> {
    let few = [s.lines, s.count, s.inner];
    let zero = math::cmp_n(g, x, 0.0, Direction::Eq)?;
    let one = g.ones_like(x)?;
    let nonzero = g.select(zero, one, x)?;
    let start = g.full(g.dtype(x), &few, initial)?;
    let product = gathered_up(g, s, nonzero, start, Combine::Mul)?;
    let none = g.full(g.dtype(x), &few, 0.0)?;
    let is_zero = g.convert(zero, g.dtype(x))?;
    let zeros = gathered_up(g, s, is_zero, none, Combine::Add)?;
    let (product, zeros) = (handed_out(g, s, product)?, handed_out(g, s, zeros)?);
    let other_zeros = g.subtract(zeros, is_zero)?;
    let clean = math::cmp_n(g, other_zeros, 0.0, Direction::Eq)?;
    let rest = exact::divide(g, product, nonzero)?;
    let nothing = g.zeros_like(rest)?;
    Ok(g.select(clean, rest, nothing)?)
}
