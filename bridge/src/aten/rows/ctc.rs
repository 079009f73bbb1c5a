//! Connectionist temporal classification: the probability of all alignments of a label sequence with a longer input.
//!
//! A path walks through the labels with a blank before, between and after them (`2S + 1` states). Each step stays, goes
//! one state on, or skips a blank between two different labels. The lengths are tensors, so that one program serves
//! every batch.

use super::math;
use super::places::gather_at;
use super::scan::running_sum;
use super::util::not_for;
use crate::Result;
use crate::aten::{Cx, Row};
use primitives::{DType, Direction, DotDims, Graph, Value};

pub const ROWS: &[Row] = &[Row::new("_ctc_loss.Tensor", loss), Row::new("_ctc_loss_backward.Tensor", backward)];

const NEVER: f64 = f64::NEG_INFINITY;

/// The trellis of a batch.
struct Paths {
    /// Log probability of each state's label at each time, `[T, N, K]`.
    emit: Value,
    /// Label of each state, `[N, K]`.
    labels: Value,
    /// States that can be reached from two states before, `[N, K]`.
    skip: Value,
    /// States that exist for the item's number of labels, `[N, K]`.
    real: Value,
    /// States in which a path may end, `[N, K]`.
    last: Value,
    /// Number of times, `[N]`.
    times: Value,
    /// Number of labels, `[N]`.
    targets: Value,
}

/// Arguments `log_probs [T, N, C]`, `targets [N, S]` or concatenated, and the two lengths `[N]`, from position `at`.
fn paths(cx: &mut Cx<'_, '_>, at: usize, blank: usize) -> Result<Paths> {
    let (x, targets) = (cx.t(at)?, cx.t(at + 1)?);
    let (times, counts) = (cx.t(at + 2)?, cx.t(at + 3)?);
    let (dims, dtype) = (cx.g.dims(x), cx.g.dtype(x));
    if !matches!(dtype, DType::F32 | DType::F64) {
        return Err(not_for(cx, "ctc_loss_cpu", dtype));
    }
    if !cx.g.dtype(targets).is_int() {
        return Err(cx.error("targets must be a tensor of integers"));
    }
    if dims.len() != 3 {
        return Err(cx.error(format!("ctc_loss: expected log_probs of rank 3, got rank {}", dims.len())));
    }
    let (n, classes) = (dims[1], dims[2]);
    let blank = cx.int(blank)?;
    if !(0..classes).contains(&blank) {
        return Err(cx.error("blank must be in label range"));
    }
    for (v, name) in [(times, "input_lengths"), (counts, "target_lengths")] {
        if cx.g.dims(v)[..] != [n] {
            return Err(cx.error(format!("{name} must be of size batch_size")));
        }
    }
    let g = &mut *cx.g;
    let (times, counts) = (g.convert(times, DType::I64)?, g.convert(counts, DType::I64)?);
    let targets = g.convert(targets, DType::I64)?;
    let targets = if g.rank(targets) == 1 { rows_of(g, targets, counts, n)? } else { targets };
    let labels = with_blanks(g, targets, blank)?;
    // States past an item's labels may hold anything; they are never used.
    let (low, high) = (g.scalar(DType::I64, 0)?, g.scalar(DType::I64, classes - 1)?);
    let labels = g.clamp(low, labels, high)?;
    let shape = g.dims(labels);
    let item = g.iota(DType::I64, &shape, 0)?;
    let emit = gather_at(g, x, &[1, 2], &[item, labels], 1)?;
    let before = moved(g, labels, 2, -1)?;
    let skip = g.compare(labels, before, Direction::Ne)?;
    let state = g.iota(DType::I64, &shape, 1)?;
    let end = g.add(counts, counts)?;
    let end = math::along(g, end, &shape, 0)?;
    let real = g.compare(state, end, Direction::Le)?;
    let one_more = math::add_n(g, state, 1)?;
    let (on_blank, on_label) = (g.compare(state, end, Direction::Eq)?, g.compare(one_more, end, Direction::Eq)?);
    let last = g.or(on_blank, on_label)?;
    Ok(Paths { emit, labels, skip, real, last, times, targets: counts })
}

/// Concatenated targets as rows, each as long as all of them together.
fn rows_of(g: &mut Graph, targets: Value, counts: Value, n: i64) -> Result<Value> {
    let total = g.numel(targets);
    let through = running_sum(g, counts, 0)?;
    let start = g.subtract(through, counts)?;
    let start = math::along(g, start, &[n, total], 0)?;
    let place = g.iota(DType::I64, &[n, total], 1)?;
    let place = g.add(start, place)?;
    let (low, high) = (g.scalar(DType::I64, 0)?, g.scalar(DType::I64, (total - 1).max(0))?);
    let place = g.clamp(low, place, high)?;
    gather_at(g, targets, &[0], &[place], 0)
}

/// `b, t0, b, t1, .. b`.
fn with_blanks(g: &mut Graph, targets: Value, blank: i64) -> Result<Value> {
    let dims = g.dims(targets);
    if dims[1] == 0 {
        return Ok(g.full(DType::I64, &[dims[0], 1], blank)?);
    }
    let fill = g.scalar(DType::I64, blank)?;
    Ok(g.pad(targets, fill, &[0, 1], &[0, 1], &[0, 1])?)
}

/// States moved `by` places on (back when negative), with `fill` where nothing comes from.
fn moved(g: &mut Graph, x: Value, by: i64, fill: impl Into<primitives::Number>) -> Result<Value> {
    let fill = g.scalar(g.dtype(x), fill)?;
    Ok(g.pad(x, fill, &[0, by], &[0, -by], &[0, 0])?)
}

/// `log(exp(a) + exp(b) + exp(c))`, where any may be minus infinity.
fn log_sum(g: &mut Graph, a: Value, b: Value, c: Value) -> Result<Value> {
    let top = g.maximum(a, b)?;
    let top = g.maximum(top, c)?;
    let never = g.full_like(top, NEVER)?;
    let nowhere = g.compare(top, never, Direction::Eq)?;
    let zero = g.zeros_like(top)?;
    let top = g.select(nowhere, zero, top)?;
    let mut sum = zero;
    for v in [a, b, c] {
        let d = g.subtract(v, top)?;
        let e = g.exp(d)?;
        sum = g.add(sum, e)?;
    }
    let l = g.log(sum)?;
    Ok(g.add(l, top)?)
}

/// What a step adds up: the state itself, its neighbour, and the one after that where a path may skip. `by` is 1 for
/// states reached from the left, -1 from the right.
fn step(g: &mut Graph, p: &Paths, x: Value, by: i64) -> Result<Value> {
    let never = g.full_like(x, NEVER)?;
    let near = moved(g, x, by, NEVER)?;
    let far = if by > 0 {
        let far = moved(g, x, 2, NEVER)?;
        g.select(p.skip, far, never)?
    } else {
        let open = g.select(p.skip, x, never)?;
        moved(g, open, -2, NEVER)?
    };
    log_sum(g, x, near, far)
}

/// Line `t` of `[T, N, K]`.
fn at_time(g: &mut Graph, x: Value, t: Value) -> Result<Value> {
    super::lu::line(g, x, 0, t)
}

fn put_time(g: &mut Graph, x: Value, t: Value, line: Value) -> Result<Value> {
    let dims = g.dims(x);
    let line = g.reshape(line, &[1, dims[1], dims[2]])?;
    let zero = g.scalar(DType::I64, 0)?;
    Ok(g.dynamic_update_slice(x, line, &[t, zero, zero])?)
}

/// Compares time `t` with each item's number of times less `back`, in the shape of the states.
fn time_is(g: &mut Graph, p: &Paths, t: Value, back: i64, how: Direction) -> Result<Value> {
    let shape = g.dims(p.labels);
    let end = math::add_n(g, p.times, -back)?;
    let end = math::along(g, end, &shape, 0)?;
    let t = g.broadcast_to(t, &shape)?;
    Ok(g.compare(t, end, how)?)
}

/// `_ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)` -> the negative log likelihood
/// `[N]`, and the log probabilities `[T, N, K]` of arriving in each state at each time.
fn loss(cx: &mut Cx<'_, '_>) -> Result<()> {
    let p = paths(cx, 0, 4)?;
    let g = &mut *cx.g;
    let (dims, dtype) = (g.dims(p.emit), g.dtype(p.emit));
    let shape = g.dims(p.labels);
    let never = g.full(dtype, &shape, NEVER)?;
    let all = g.full(dtype, &dims, NEVER)?;
    // A path starts before the first state: one step leads into the first two.
    let state = g.iota(DType::I64, &shape, 1)?;
    let second = math::cmp_n(g, state, 1, Direction::Le)?;
    let entry = g.and(second, p.real)?;
    let zero = g.scalar(DType::I64, 0)?;
    let r = g.while_loop(
        &[zero, never, never, all],
        |g, s| {
            let end = g.scalar(DType::I64, dims[0])?;
            Ok(vec![g.compare(s[0], end, Direction::Lt)?])
        },
        |g, s| {
            let body = |g: &mut Graph| -> Result<Vec<Value>> {
                let (t, before) = (s[0], s[1]);
                let from = step(g, &p, before, 1)?;
                let start = g.full_like(from, 0.0)?;
                let start = g.select(entry, start, never)?;
                let first = math::cmp_n(g, t, 0, Direction::Eq)?;
                let first = g.broadcast_to(first, &shape)?;
                let from = g.select(first, start, from)?;
                let emit = at_time(g, p.emit, t)?;
                let now = g.add(from, emit)?;
                let now = g.select(p.real, now, never)?;
                let within = time_is(g, &p, t, 0, Direction::Lt)?;
                let kept = g.select(within, now, never)?;
                let end = time_is(g, &p, t, 1, Direction::Eq)?;
                let last = g.select(end, now, s[2])?;
                let all = put_time(g, s[3], t, kept)?;
                let one = g.scalar(DType::I64, 1)?;
                Ok(vec![g.add(t, one)?, now, last, all])
            };
            body(g).map_err(super::lu::unwrapped)
        },
    )?;
    let ends = g.select(p.last, r[2], never)?;
    let top = g.reduce_max(ends, &[1])?;
    let none = g.full_like(top, NEVER)?;
    let nowhere = g.compare(top, none, Direction::Eq)?;
    let zeros = g.zeros_like(top)?;
    let top = g.select(nowhere, zeros, top)?;
    let wide = math::along(g, top, &shape, 0)?;
    let d = g.subtract(ends, wide)?;
    let e = g.exp(d)?;
    let sum = g.reduce_sum(e, &[1])?;
    let sum = g.log(sum)?;
    let likelihood = g.add(sum, top)?;
    // No time at all is enough for no labels.
    let (no_time, no_label) =
        (math::cmp_n(g, p.times, 0, Direction::Le)?, math::cmp_n(g, p.targets, 0, Direction::Le)?);
    let empty = g.and(no_time, no_label)?;
    let likelihood = g.select(empty, zeros, likelihood)?;
    let loss = g.neg(likelihood)?;
    cx.out(loss);
    cx.out(r[3]);
    Ok(())
}

/// `_ctc_loss_backward(grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha, blank,
/// zero_infinity)`.
///
/// With `b` the log probability of reaching the end from a state after its emission, `exp(alpha + b + loss)` is how
/// likely the state is at that time. The gradient is `exp(log_probs)` less the sum of these over a class's states.
fn backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let p = paths(cx, 1, 7)?;
    let (grad, x) = (cx.t(0)?, cx.t(1)?);
    let (loss, alpha) = (cx.t(5)?, cx.t(6)?);
    let zero_infinity = cx.bool(8)?;
    let g = &mut *cx.g;
    let (dims, dtype) = (g.dims(p.emit), g.dtype(p.emit));
    let (shape, full) = (g.dims(p.labels), g.dims(x));
    let never = g.full(dtype, &shape, NEVER)?;
    let loss_of_state = math::along(g, loss, &shape, 0)?;
    let none = g.full(dtype, &dims, 0.0)?;
    let start = g.scalar(DType::I64, dims[0] - 1)?;
    let r = g.while_loop(
        &[start, never, none],
        |g, s| {
            let end = g.scalar(DType::I64, 0)?;
            Ok(vec![g.compare(s[0], end, Direction::Ge)?])
        },
        |g, s| {
            let body = |g: &mut Graph| -> Result<Vec<Value>> {
                let t = s[0];
                let onward = step(g, &p, s[1], -1)?;
                let ended = g.zeros_like(onward)?;
                let ended = g.select(p.last, ended, never)?;
                let end = time_is(g, &p, t, 1, Direction::Eq)?;
                let onward = g.select(end, ended, onward)?;
                let alpha = at_time(g, alpha, t)?;
                let share = g.add(alpha, onward)?;
                let share = g.add(share, loss_of_state)?;
                let share = g.exp(share)?;
                let shares = put_time(g, s[2], t, share)?;
                let emit = at_time(g, p.emit, t)?;
                let next = g.add(onward, emit)?;
                let next = g.select(p.real, next, never)?;
                let one = g.scalar(DType::I64, 1)?;
                Ok(vec![g.subtract(t, one)?, next, shares])
            };
            body(g).map_err(super::lu::unwrapped)
        },
    )?;
    // Sum over the states of each class: a product with the labels, one-hot.
    let hot: [i64; 3] = [shape[0], shape[1], full[2]];
    let label = g.broadcast_in_dim(p.labels, &hot, &[0, 1])?;
    let class = g.iota(DType::I64, &hot, 2)?;
    let hit = g.compare(label, class, Direction::Eq)?;
    let hit = g.convert(hit, dtype)?;
    let d = DotDims { lhs_batch: vec![1], rhs_batch: vec![0], lhs_contract: vec![2], rhs_contract: vec![1] };
    let taken = g.dot_general(r[2], hit, &d, primitives::Precision::Highest, None)?;
    let taken = g.transpose(taken, &[1, 0, 2])?;
    let y = g.exp(x)?;
    let y = g.subtract(y, taken)?;
    let grad = math::along(g, grad, &full, 1)?;
    let mut y = g.multiply(y, grad)?;
    let zeros = g.zeros_like(y)?;
    if zero_infinity {
        let lost = math::cmp_n(g, loss, f64::INFINITY, Direction::Eq)?;
        let lost = math::along(g, lost, &full, 1)?;
        y = g.select(lost, zeros, y)?;
    }
    let time = g.iota(DType::I64, &full, 0)?;
    let times = math::along(g, p.times, &full, 1)?;
    let within = g.compare(time, times, Direction::Lt)?;
    let y = g.select(within, y, zeros)?;
    cx.out(y);
    Ok(())
}
