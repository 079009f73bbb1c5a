//! Losses that compare two tensors elementwise, and their backward passes.

use super::util::check_real_float;
use crate::Result;
use crate::aten::cx::CheckKind;
use crate::aten::{Cx, Row, broadcast, exact, promote};
use primitives::{DType, Direction, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::pointwise("mse_loss", |cx| forward(cx, 2, squared)),
    Row::new("mse_loss_backward", |cx| backward(cx, 3, |cx, d, _, _| times(cx.g, d, 2.0))),
    Row::pointwise("smooth_l1_loss", |cx| forward(cx, 2, smooth_l1)).dynamic(&["beta"]),
    Row::new("smooth_l1_loss_backward", |cx| backward(cx, 3, smooth_l1_slope)).dynamic(&["beta"]),
    Row::pointwise("huber_loss", |cx| forward(cx, 2, huber)).dynamic(&["delta"]),
    Row::new("huber_loss_backward", |cx| backward(cx, 3, huber_slope)).dynamic(&["delta"]),
    Row::new("soft_margin_loss", |cx| forward(cx, 2, soft_margin)),
    Row::new("soft_margin_loss_backward", |cx| backward(cx, 3, soft_margin_slope)),
    Row::pointwise("binary_cross_entropy", |cx| same_dtypes(cx, &[0, 1, 2]).and(forward(cx, 3, bce))),
    Row::new("binary_cross_entropy_backward", |cx| backward(cx, 4, bce_slope)),
    Row::new("binary_cross_entropy_with_logits", |cx| forward(cx, 4, bce_with_logits)),
];

/// All tensors among the arguments have the dtype of the first.
fn same_dtypes(cx: &Cx<'_, '_>, args: &[usize]) -> Result<()> {
    let first = cx.ty(args[0])?.dtype;
    for &i in args.iter().filter(|&&i| !cx.is_none(i)) {
        let dtype = cx.ty(i)?.dtype;
        if dtype != first {
            let (found, expected) = (promote::torch_name(dtype), promote::torch_name(first));
            return Err(cx.error(format!("Found dtype {found} but expected {expected}")));
        }
    }
    Ok(())
}

/// What is done with the elements' losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    None,
    Mean,
    Sum,
}

/// Argument `reduction`.
pub fn reduction(cx: &Cx<'_, '_>, i: usize) -> Result<Reduction> {
    Ok(match cx.int(i)? {
        0 => Reduction::None,
        1 => Reduction::Mean,
        2 => Reduction::Sum,
        other => {
            return Err(cx.error(format!("argument `reduction`: got {other}, expected 0 (none), 1 (mean) or 2 (sum)")));
        }
    })
}

/// Reduces the losses of elements. The mean of none is NaN.
pub fn reduced(g: &mut Graph, v: Value, how: Reduction) -> Result<Value> {
    if how == Reduction::None {
        return Ok(v);
    }
    let dims: Vec<usize> = (0..g.rank(v)).collect();
    let sum = g.reduce_sum(v, &dims)?;
    if how == Reduction::Sum {
        return Ok(sum);
    }
    let n = g.full_like(sum, g.numel(v))?;
    Ok(exact::divide(g, sum, n)?)
}

/// Takes `x - target`, `x` and `target`; returns each element's loss or slope.
type Element = fn(&mut Cx<'_, '_>, Value, Value, Value) -> Result<Value>;

fn pair(cx: &mut Cx<'_, '_>, first: usize) -> Result<(Value, Value, DType)> {
    let (x, t) = (cx.operand(first)?, cx.operand(first + 1)?);
    let dtype = cx.promote(&[x, t]);
    let compute = promote::compute_type(dtype);
    let (x, t) = (cx.value_as(&x, compute)?, cx.value_as(&t, compute)?);
    let (x, t) = broadcast::pair(cx, x, t)?;
    Ok((x, t, dtype))
}

/// `loss(self, target, .., reduction, ..)`.
fn forward(cx: &mut Cx<'_, '_>, reduce: usize, f: Element) -> Result<()> {
    let how = reduction(cx, reduce)?;
    let (x, t, dtype) = pair(cx, 0)?;
    let d = cx.g.subtract(x, t)?;
    let v = f(cx, d, x, t)?;
    let y = reduced(cx.g, v, how)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `loss_backward(grad_output, self, target, .., reduction, ..)`: `slope * grad`, over the number of elements for a mean.
fn backward(cx: &mut Cx<'_, '_>, reduce: usize, f: Element) -> Result<()> {
    let how = reduction(cx, reduce)?;
    let (x, t, dtype) = pair(cx, 1)?;
    let d = cx.g.subtract(x, t)?;
    let slope = f(cx, d, x, t)?;
    let grad = cx.t(0)?;
    let mut grad = cx.g.convert(grad, cx.g.dtype(x))?;
    if how == Reduction::Mean {
        let n = cx.g.full_like(grad, cx.g.numel(x))?;
        grad = exact::divide(cx.g, grad, n)?;
    }
    let (slope, grad) = broadcast::pair(cx, slope, grad)?;
    let y = cx.g.multiply(slope, grad)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

fn times(g: &mut Graph, x: Value, n: f64) -> Result<Value> {
    let n = g.full_like(x, n)?;
    Ok(g.multiply(x, n)?)
}

/// Number argument `i` in the shape of `like`.
fn number(cx: &mut Cx<'_, '_>, i: usize, like: Value) -> Result<Value> {
    let n = cx.number_as(i, cx.g.dtype(like))?;
    Ok(cx.g.broadcast_to(n, &cx.g.dims(like))?)
}

fn squared(cx: &mut Cx<'_, '_>, d: Value, _: Value, _: Value) -> Result<Value> {
    check_real_float(cx, "mse_cpu", cx.g.dtype(d))?;
    Ok(cx.g.multiply(d, d)?)
}

/// `|d| < beta ? d^2 / (2 beta) : |d| - beta / 2`.
fn smooth_l1(cx: &mut Cx<'_, '_>, d: Value, _: Value, _: Value) -> Result<Value> {
    check_real_float(cx, "smooth_l1_cpu", cx.g.dtype(d))?;
    let beta = number(cx, 3, d)?;
    let g = &mut *cx.g;
    let a = g.abs(d)?;
    let near = g.compare(a, beta, Direction::Lt)?;
    let half = times(g, a, 0.5)?;
    let square = g.multiply(half, a)?;
    let square = exact::divide(g, square, beta)?;
    let half_beta = times(g, beta, 0.5)?;
    let line = g.subtract(a, half_beta)?;
    Ok(g.select(near, square, line)?)
}

/// `d / beta` near 0, else the sign of `d`.
fn smooth_l1_slope(cx: &mut Cx<'_, '_>, d: Value, _: Value, _: Value) -> Result<Value> {
    let beta = number(cx, 4, d)?;
    let g = &mut *cx.g;
    let a = g.abs(d)?;
    let far = g.compare(a, beta, Direction::Ge)?;
    let sign = g.sign(d)?;
    let line = exact::divide(g, d, beta)?;
    Ok(g.select(far, sign, line)?)
}

/// `|d| <= delta ? d^2 / 2 : delta (|d| - delta / 2)`.
fn huber(cx: &mut Cx<'_, '_>, d: Value, _: Value, _: Value) -> Result<Value> {
    check_real_float(cx, "huber_cpu", cx.g.dtype(d))?;
    let delta = positive_delta(cx, 3, d)?;
    let g = &mut *cx.g;
    let a = g.abs(d)?;
    let near = g.compare(a, delta, Direction::Le)?;
    let half = times(g, a, 0.5)?;
    let square = g.multiply(half, a)?;
    let half_delta = times(g, delta, 0.5)?;
    let line = g.subtract(a, half_delta)?;
    let line = g.multiply(delta, line)?;
    Ok(g.select(near, square, line)?)
}

/// The threshold, which torch wants above 0.
fn positive_delta(cx: &mut Cx<'_, '_>, i: usize, like: Value) -> Result<Value> {
    let delta = cx.number_as(i, cx.g.dtype(like))?;
    let zero = cx.g.zeros_like(delta)?;
    let bad = cx.g.compare(delta, zero, Direction::Le)?;
    cx.check(bad, delta, CheckKind::Runtime, "huber_loss does not support non-positive values for delta.")?;
    Ok(cx.g.broadcast_to(delta, &cx.g.dims(like))?)
}

/// `d` clamped to `[-delta, delta]`.
fn huber_slope(cx: &mut Cx<'_, '_>, d: Value, _: Value, _: Value) -> Result<Value> {
    let delta = number(cx, 4, d)?;
    let low = cx.g.neg(delta)?;
    Ok(cx.g.clamp(low, d, delta)?)
}

/// `log(1 + exp(-x t))`.
fn soft_margin(cx: &mut Cx<'_, '_>, _: Value, x: Value, t: Value) -> Result<Value> {
    let p = cx.g.multiply(x, t)?;
    let p = cx.g.neg(p)?;
    let e = cx.g.exp(p)?;
    Ok(cx.g.log1p(e)?)
}

/// `-t / (1 + exp(x t))`.
fn soft_margin_slope(cx: &mut Cx<'_, '_>, _: Value, x: Value, t: Value) -> Result<Value> {
    let p = cx.g.multiply(x, t)?;
    let p = cx.g.neg(p)?;
    let s = cx.g.logistic(p)?;
    let y = cx.g.multiply(t, s)?;
    Ok(cx.g.neg(y)?)
}

/// `v` times tensor argument `i`, if it is given.
fn weighted(cx: &mut Cx<'_, '_>, v: Value, i: usize) -> Result<Value> {
    let Some(w) = cx.opt_t(i)? else { return Ok(v) };
    let w = cx.g.convert(w, cx.g.dtype(v))?;
    let (v, w) = broadcast::pair(cx, v, w)?;
    Ok(cx.g.multiply(v, w)?)
}

/// `-(t log x + (1 - t) log(1 - x))`, each logarithm at least -100.
fn bce(cx: &mut Cx<'_, '_>, _: Value, x: Value, t: Value) -> Result<Value> {
    let g = &mut *cx.g;
    let (zero, one, floor) = (g.zeros_like(x)?, g.ones_like(x)?, g.full_like(x, -100.0)?);
    let above = g.compare(x, zero, Direction::Ge)?;
    let below = g.compare(x, one, Direction::Le)?;
    let fine = g.and(above, below)?;
    let nan = g.compare(x, x, Direction::Ne)?;
    let fine = g.or(fine, nan)?;
    let bad = g.not(fine)?;
    cx.check(bad, x, CheckKind::Runtime, "all elements of input should be between 0 and 1")?;
    let g = &mut *cx.g;
    let l = g.log(x)?;
    let l = g.maximum(l, floor)?;
    let m = g.neg(x)?;
    let m = g.log1p(m)?;
    let m = g.maximum(m, floor)?;
    let rest = g.subtract(t, one)?;
    let a = g.multiply(rest, m)?;
    let b = g.multiply(t, l)?;
    let v = g.subtract(a, b)?;
    weighted(cx, v, 2)
}

/// `(x - t) / max((1 - x) x, 1e-12)`.
fn bce_slope(cx: &mut Cx<'_, '_>, d: Value, x: Value, _: Value) -> Result<Value> {
    let g = &mut *cx.g;
    let (one, eps) = (g.ones_like(x)?, g.full_like(x, 1e-12)?);
    let r = g.subtract(one, x)?;
    let r = g.multiply(r, x)?;
    let r = g.maximum(r, eps)?;
    let v = exact::divide(g, d, r)?;
    weighted(cx, v, 3)
}

/// `(1 - t) x + (1 + (pos_weight - 1) t) (log(1 + exp(-|x|)) + max(-x, 0))`.
fn bce_with_logits(cx: &mut Cx<'_, '_>, _: Value, x: Value, t: Value) -> Result<Value> {
    let pos = cx.opt_t(3)?;
    let one = cx.g.ones_like(x)?;
    let a = cx.g.abs(x)?;
    let a = cx.g.neg(a)?;
    let a = cx.g.exp(a)?;
    let a = cx.g.log1p(a)?;
    let zero = cx.g.zeros_like(x)?;
    let m = cx.g.neg(x)?;
    let m = cx.g.maximum(m, zero)?;
    let mut soft = cx.g.add(a, m)?;
    if let Some(p) = pos {
        let p = cx.g.convert(p, cx.g.dtype(x))?;
        let p = cx.g.broadcast_to(p, &cx.g.dims(x))?;
        let p = cx.g.subtract(p, one)?;
        let p = cx.g.multiply(p, t)?;
        let p = cx.g.add(p, one)?;
        soft = cx.g.multiply(p, soft)?;
    }
    let r = cx.g.subtract(one, t)?;
    let r = cx.g.multiply(r, x)?;
    let v = cx.g.add(r, soft)?;
    weighted(cx, v, 2)
}
