//! Fused optimizers and the two ops of gradient scaling: one program updates all parameters and their state.
//!
//! Each tensor is computed in its compute dtype. `grad_scale` divides the gradients (and is written back to them);
//! where `found_inf` is 1 nothing changes.

use crate::aten::expr::{Ex, formula, formulas};
use crate::aten::{Cx, Row, exact, promote};
use crate::{Error, Result};
use primitives::{DType, Value};

const ADAM: &[&str] = &["lr", "beta1", "beta2", "weight_decay", "eps"];
const ADAM_TENSOR_LR: &[&str] = &["beta1", "beta2", "weight_decay", "eps"];
const SGD: &[&str] = &["weight_decay", "momentum", "lr", "dampening"];
const SGD_TENSOR_LR: &[&str] = &["weight_decay", "momentum", "dampening"];
const ADAGRAD: &[&str] = &["lr", "lr_decay", "weight_decay", "eps"];
const ADAGRAD_TENSOR_LR: &[&str] = &["lr_decay", "weight_decay", "eps"];

pub const ROWS: &[Row] = &[
    Row::new("_fused_adam_", |cx| adam(cx, false)).dynamic(ADAM),
    Row::new("_fused_adam_.tensor_lr", |cx| adam(cx, false)).dynamic(ADAM_TENSOR_LR),
    Row::new("_fused_adamw_", |cx| adam(cx, true)).dynamic(ADAM),
    Row::new("_fused_adamw_.tensor_lr", |cx| adam(cx, true)).dynamic(ADAM_TENSOR_LR),
    Row::new("_fused_sgd_", sgd).dynamic(SGD),
    Row::new("_fused_sgd_.tensor_lr", sgd).dynamic(SGD_TENSOR_LR),
    Row::new("_fused_adagrad_", adagrad).dynamic(ADAGRAD),
    Row::new("_fused_adagrad_.tensor_lr", adagrad).dynamic(ADAGRAD_TENSOR_LR),
    Row::new("_amp_foreach_non_finite_check_and_unscale_", unscale),
    Row::new("_amp_update_scale_", update_scale).dynamic(&["scale_growth_factor", "scale_backoff_factor"]),
];

/// Values of list argument `i`, item `k`.
struct Lists {
    values: Vec<Vec<Value>>,
}

impl Lists {
    fn read(cx: &mut Cx<'_, '_>, args: std::ops::Range<usize>) -> Result<Self> {
        let values = args.map(|i| cx.ts(i)).collect::<Result<Vec<_>>>()?;
        let n = values[0].len();
        for (i, list) in values.iter().enumerate() {
            if list.len() != n && !list.is_empty() {
                return Err(Error::runtime(
                    cx.op(),
                    format!("tensor lists must have the same length, got {n} and {} (argument {i})", list.len()),
                ));
            }
        }
        Ok(Self { values })
    }

    fn len(&self) -> usize {
        self.values[0].len()
    }

    /// Item `k` of list `i` in `dtype`.
    fn get(&self, cx: &mut Cx<'_, '_>, i: usize, k: usize, dtype: DType) -> Result<Value> {
        Ok(cx.g.convert(self.values[i][k], dtype)?)
    }
}

/// Number or 0-d tensor argument `i` in `dtype`, in the shape of `like`.
fn spread(cx: &mut Cx<'_, '_>, i: usize, like: Value) -> Result<Value> {
    let dtype = cx.g.dtype(like);
    let v = cx.number_as(i, dtype)?;
    spread_value(cx, v, like)
}

/// A one-element value in the dtype and shape of `like`.
fn spread_value(cx: &mut Cx<'_, '_>, v: Value, like: Value) -> Result<Value> {
    let v = cx.g.convert(v, cx.g.dtype(like))?;
    let v = cx.g.reshape(v, &[])?;
    let dims = cx.g.dims(like);
    Ok(cx.g.broadcast_to(v, &dims)?)
}

/// The gradient after scaling and `maximize`, and the predicate under which the step is skipped.
struct Grad {
    value: Value,
    scaled: bool,
}

fn gradient(cx: &mut Cx<'_, '_>, g: Value, scale: Option<Value>, maximize: bool) -> Result<Grad> {
    let mut value = g;
    if let Some(s) = scale {
        let s = spread_value(cx, s, value)?;
        value = exact::divide(cx.g, value, s)?;
    }
    let grad = Grad { value, scaled: scale.is_some() };
    if maximize {
        let value = cx.g.neg(grad.value)?;
        return Ok(Grad { value, ..grad });
    }
    Ok(grad)
}

/// Stores item `k` of list `i`, unless `found_inf` says that this step is skipped.
fn store(cx: &mut Cx<'_, '_>, i: usize, k: usize, old: Value, new: Value, skip: Option<Value>) -> Result<()> {
    let mut new = cx.g.convert(new, cx.g.dtype(old))?;
    if let Some(found) = skip {
        let found = cx.g.reshape(found, &[])?;
        let one = cx.g.full_like(found, 1)?;
        let skip = cx.g.compare(found, one, primitives::Direction::Eq)?;
        new = cx.g.select(skip, old, new)?;
    }
    cx.mutate_item(i, k, new);
    Ok(())
}

/// `_fused_adam_(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *, lr, beta1, beta2, weight_decay,
/// eps, amsgrad, maximize, grad_scale, found_inf)`; `decoupled` is AdamW.
fn adam(cx: &mut Cx<'_, '_>, decoupled: bool) -> Result<()> {
    let lists = Lists::read(cx, 0..6)?;
    let (amsgrad, maximize) = (cx.bool(11)?, cx.bool(12)?);
    let (scale, skip) = (cx.opt_t(13)?, cx.opt_t(14)?);
    for k in 0..lists.len() {
        let dtype = promote::compute_type(cx.g.dtype(lists.values[0][k]));
        let (p, m, v) = (lists.get(cx, 0, k, dtype)?, lists.get(cx, 2, k, dtype)?, lists.get(cx, 3, k, dtype)?);
        let g = lists.get(cx, 1, k, dtype)?;
        let grad = gradient(cx, g, scale, false)?;
        if grad.scaled {
            store(cx, 1, k, lists.values[1][k], grad.value, None)?;
        }
        let g = gradient(cx, grad.value, None, maximize)?.value;
        let [lr, beta1, beta2, decay, eps] =
            [spread(cx, 6, p)?, spread(cx, 7, p)?, spread(cx, 8, p)?, spread(cx, 9, p)?, spread(cx, 10, p)?];
        // The bias corrections are powers of the step: 0-d, in full precision, then spread.
        let step = cx.g.convert(lists.values[5][k], DType::F64)?;
        let step = cx.g.reshape(step, &[])?;
        let (c1, c2) = (correction(cx, 7, step)?, correction(cx, 8, step)?);
        let c2 = cx.g.sqrt(c2)?;
        let (c1, c2) = (spread_value(cx, c1, p)?, spread_value(cx, c2, p)?);
        let [p1, g] =
            formulas(
                cx.g,
                [p, g, lr, decay],
                |[p, g, lr, decay]| {
                    if decoupled { [p - lr * decay * p, g] } else { [p, g + p * decay] }
                },
            )?;
        let m1 = formula(cx.g, [m, g, beta1], |[m, g, b]| m + (g - m) * (b.constant(1.0) - b))?;
        let v1 = formula(cx.g, [v, g, beta2], |[v, g, b]| v * b + (b.constant(1.0) - b) * g * g)?;
        let mut denominator = v1;
        if amsgrad {
            let high = lists.get(cx, 4, k, dtype)?;
            denominator = cx.g.maximum(high, v1)?;
            store(cx, 4, k, lists.values[4][k], denominator, skip)?;
        }
        let p2 = formula(cx.g, [p1, m1, denominator, lr, eps, c1, c2], |[p, m, v, lr, eps, c1, c2]| {
            p - (lr / c1) * m / (v.sqrt() / c2 + eps)
        })?;
        store(cx, 0, k, lists.values[0][k], p2, skip)?;
        store(cx, 2, k, lists.values[2][k], m1, skip)?;
        store(cx, 3, k, lists.values[3][k], v1, skip)?;
    }
    Ok(())
}

/// `1 - beta^step`.
fn correction(cx: &mut Cx<'_, '_>, beta: usize, step: Value) -> Result<Value> {
    let beta = cx.number_as(beta, DType::F64)?;
    Ok(formula(cx.g, [beta, step], |[b, n]| b.constant(1.0) - b.pow(n))?)
}

/// `_fused_sgd_(self, grads, momentum_buffer_list, *, weight_decay, momentum, lr, dampening, nesterov, maximize,
/// is_first_step, grad_scale, found_inf)`. An empty list of buffers means no momentum.
fn sgd(cx: &mut Cx<'_, '_>) -> Result<()> {
    let lists = Lists::read(cx, 0..3)?;
    let (nesterov, maximize, first) = (cx.bool(7)?, cx.bool(8)?, cx.bool(9)?);
    let (scale, skip) = (cx.opt_t(10)?, cx.opt_t(11)?);
    let with_momentum = !lists.values[2].is_empty();
    for k in 0..lists.len() {
        let dtype = promote::compute_type(cx.g.dtype(lists.values[0][k]));
        let (p, g) = (lists.get(cx, 0, k, dtype)?, lists.get(cx, 1, k, dtype)?);
        let grad = gradient(cx, g, scale, false)?;
        if grad.scaled {
            store(cx, 1, k, lists.values[1][k], grad.value, None)?;
        }
        let g = gradient(cx, grad.value, None, maximize)?.value;
        let [decay, momentum, lr, dampening] =
            [spread(cx, 3, p)?, spread(cx, 4, p)?, spread(cx, 5, p)?, spread(cx, 6, p)?];
        let mut d = formula(cx.g, [p, g, decay], |[p, g, decay]| g + p * decay)?;
        if with_momentum {
            let buffer = lists.get(cx, 2, k, dtype)?;
            let new = if first {
                d
            } else {
                formula(cx.g, [buffer, d, momentum, dampening], |[b, d, momentum, dampening]| {
                    b * momentum + d * (d.constant(1.0) - dampening)
                })?
            };
            store(cx, 2, k, lists.values[2][k], new, skip)?;
            d = if nesterov { formula(cx.g, [d, new, momentum], |[d, b, momentum]| d + b * momentum)? } else { new };
        }
        let p1 = formula(cx.g, [p, d, lr], |[p, d, lr]| p - lr * d)?;
        store(cx, 0, k, lists.values[0][k], p1, skip)?;
    }
    Ok(())
}

/// `_fused_adagrad_(self, grads, state_sums, state_steps, *, lr, lr_decay, weight_decay, eps, maximize, grad_scale,
/// found_inf)`.
fn adagrad(cx: &mut Cx<'_, '_>) -> Result<()> {
    let lists = Lists::read(cx, 0..4)?;
    let maximize = cx.bool(8)?;
    let (scale, skip) = (cx.opt_t(9)?, cx.opt_t(10)?);
    for k in 0..lists.len() {
        let dtype = promote::compute_type(cx.g.dtype(lists.values[0][k]));
        let (p, g, sum) = (lists.get(cx, 0, k, dtype)?, lists.get(cx, 1, k, dtype)?, lists.get(cx, 2, k, dtype)?);
        let grad = gradient(cx, g, scale, false)?;
        if grad.scaled {
            store(cx, 1, k, lists.values[1][k], grad.value, None)?;
        }
        let g = gradient(cx, grad.value, None, maximize)?.value;
        let step = cx.g.convert(lists.values[3][k], DType::F64)?;
        let step = cx.g.reshape(step, &[])?;
        let (lr, decay) = (cx.number_as(4, DType::F64)?, cx.number_as(5, DType::F64)?);
        let rate = formula(cx.g, [lr, decay, step], |[lr, decay, n]| lr / ((n - 1.0) * decay + 1.0))?;
        let rate = spread_value(cx, rate, p)?;
        let [weight_decay, eps] = [spread(cx, 6, p)?, spread(cx, 7, p)?];
        let g = formula(cx.g, [p, g, weight_decay], |[p, g, d]| g + p * d)?;
        let sum1 = formula(cx.g, [sum, g], |[s, g]| s + g * g)?;
        let p1 = formula(cx.g, [p, g, sum1, rate, eps], |[p, g, s, rate, eps]| p - rate * g / (s.sqrt() + eps))?;
        store(cx, 0, k, lists.values[0][k], p1, skip)?;
        store(cx, 2, k, lists.values[2][k], sum1, skip)?;
    }
    Ok(())
}

/// `_amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale)`: multiplies every tensor by `inv_scale`;
/// sets `found_inf` to 1 when one held a number that is not finite.
fn unscale(cx: &mut Cx<'_, '_>) -> Result<()> {
    let tensors = cx.ts(0)?;
    let (found_ty, old) = (cx.ty(1)?, cx.t(1)?);
    let inverse = cx.t(2)?;
    let mut any = cx.g.scalar(DType::Bool, false)?;
    for (k, &t) in tensors.iter().enumerate() {
        let x = cx.g.convert(t, promote::compute_type(cx.g.dtype(t)))?;
        let finite = cx.g.is_finite(x)?;
        let dims: Vec<usize> = (0..cx.g.rank(x)).collect();
        let all = cx.g.reduce_and(finite, &dims)?;
        let bad = cx.g.not(all)?;
        any = cx.g.or(any, bad)?;
        let s = spread_value(cx, inverse, x)?;
        // Kept as it is at a scale of 1, like torch: infinity times 1 stays, and 0 times infinity is not asked.
        let y = formula(cx.g, [x, s], |[x, s]: [Ex<'_>; 2]| s.eq(1.0).pick(x, x * s))?;
        let y = cx.g.convert(y, cx.g.dtype(t))?;
        cx.mutate_item(0, k, y);
    }
    let any = cx.g.broadcast_to(any, &found_ty.dims)?;
    let one = cx.g.full_like(old, 1)?;
    let found = cx.g.select(any, one, old)?;
    cx.mutate(1, found);
    Ok(())
}

/// `_amp_update_scale_(self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval)`.
fn update_scale(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (scale, tracker, found) = (cx.t(0)?, cx.t(1)?, cx.t(2)?);
    let (growth, backoff) = (spread(cx, 3, scale)?, spread(cx, 4, scale)?);
    let interval = cx.int(5)?;
    let dims = cx.g.dims(scale);
    let tracker_dims = cx.g.dims(tracker);
    let tracker_flat = cx.g.reshape(tracker, &dims)?;
    let found = cx.g.reshape(found, &dims)?;
    let [new_scale, new_tracker] =
        formulas(cx.g, [scale, tracker_flat, found, growth, backoff], |[scale, tracker, found, growth, backoff]| {
            let bad = found.ne(0.0);
            let next = tracker + 1i64;
            let due = next.eq(interval);
            let grown = scale * growth;
            let grown = grown.is_finite().pick(grown, scale);
            [bad.pick(scale * backoff, due.pick(grown, scale)), (bad | due).pick(0i64, next)]
        })?;
    let new_tracker = cx.g.reshape(new_tracker, &tracker_dims)?;
    cx.mutate(0, new_scale);
    cx.mutate(1, new_tracker);
    Ok(())
}
