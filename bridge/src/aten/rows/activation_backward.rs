//! Gradients of activation functions.

use super::activation::{GELU_BETA, GELU_KAPPA, halves};
use super::util::{In, Out, Takes, inputs, map};
use crate::Result;
use crate::aten::expr::{Ex, formula, formulas};
use crate::aten::{Cx, Row};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

const FLOAT: Takes = Takes::FLOAT;
/// `(grad_output, self)` or `(grad_output, output)`.
const PAIR: [In; 2] = [In::T(0), In::T(1)];

pub const ROWS: &[Row] = &[
    Row::pointwise("tanh_backward", |cx| {
        map(cx, Takes::FLOATS, Out::Promoted, PAIR, |[g, y]| g * (one(y) - y.square()).conj())
    }),
    Row::pointwise("sigmoid_backward", |cx| {
        map(cx, Takes::FLOATS, Out::Promoted, PAIR, |[g, y]| g * ((one(y) - y) * y).conj())
    }),
    Row::pointwise("threshold_backward", threshold).dynamic(&["threshold"]),
    Row::pointwise("leaky_relu_backward", leaky_relu).dynamic(&["negative_slope"]),
    Row::pointwise("elu_backward", elu).dynamic(&["alpha", "scale", "input_scale"]),
    Row::pointwise("gelu_backward", gelu),
    Row::pointwise("silu_backward", |cx| {
        map(cx, Takes::FLOATS, Out::Promoted, PAIR, |[g, x]| g * silu_slope(x).conj())
    }),
    Row::pointwise("mish_backward", |cx| {
        map(cx, FLOAT, Out::Promoted, PAIR, |[g, x]| {
            let t = super::activation::softplus_one(x).tanh();
            g * (t + x * x.logistic() * (one(t) - t.square()))
        })
    }),
    Row::pointwise("hardtanh_backward", hardtanh).dynamic(&["min_val", "max_val"]),
    Row::pointwise("hardsigmoid_backward", |cx| {
        map(cx, FLOAT, Out::Promoted, PAIR, |[g, x]| (x.gt(-3.0) & x.lt(3.0)).pick(g / 6.0, 0.0))
    }),
    Row::pointwise("hardswish_backward", |cx| {
        map(cx, FLOAT, Out::Promoted, PAIR, |[g, x]| x.le(-3.0).pick(0.0, x.lt(3.0).pick(g * (x / 3.0 + 0.5), g)))
    }),
    Row::pointwise("hardshrink_backward", shrink).dynamic(&["lambd"]),
    Row::pointwise("softshrink_backward", shrink).dynamic(&["lambd"]),
    Row::pointwise("softplus_backward", softplus).dynamic(&["beta", "threshold"]),
    Row::pointwise("log_sigmoid_backward", |cx| map(cx, FLOAT, Out::Promoted, PAIR, |[g, x]| g * (-x).logistic())),
    Row::pointwise("logit_backward", logit).dynamic(&["eps"]),
    Row::pointwise("_prelu_kernel_backward", prelu),
    Row::pointwise("glu_backward", glu),
    Row::pointwise("glu_backward_jvp", glu_jvp),
    Row::pointwise("rrelu_with_noise_backward", rrelu).dynamic(&["lower", "upper"]),
];

fn one(x: Ex<'_>) -> Ex<'_> {
    x.constant(1.0)
}

/// `threshold_backward(grad_output, self, threshold)`.
fn threshold(cx: &mut Cx<'_, '_>) -> Result<()> {
    map(cx, Takes::REAL, Out::Promoted, [In::T(0), In::T(1), In::N(2)], |[g, x, t]| x.le(t).pick(g.constant(0), g))
}

/// `leaky_relu_backward(grad_output, self, negative_slope, self_is_result)`: both forms have the same slopes.
fn leaky_relu(cx: &mut Cx<'_, '_>) -> Result<()> {
    map(cx, FLOAT, Out::Promoted, [In::T(0), In::T(1), In::N(2)], |[g, x, slope]| x.gt(0.0).pick(g, g * slope))
}

/// `elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result)`.
fn elu(cx: &mut Cx<'_, '_>) -> Result<()> {
    let is_result = cx.bool(4)?;
    let args = [In::T(0), In::T(5), In::N(1), In::N(2), In::N(3)];
    map(cx, FLOAT, Out::Promoted, args, |[g, x, alpha, scale, input_scale]| {
        let low = alpha * scale;
        let slope = if is_result { (x + low) * input_scale } else { (x * input_scale).exp() * input_scale * low };
        x.le(0.0).pick(g * slope, g * scale)
    })
}

/// `gelu_backward(grad_output, self, *, approximate)`.
fn gelu(cx: &mut Cx<'_, '_>) -> Result<()> {
    let tanh = cx.str(2)? == "tanh";
    map(cx, FLOAT, Out::Promoted, PAIR, |[g, x]| {
        if tanh {
            let inner = (x + x * x * x * GELU_KAPPA) * GELU_BETA;
            let t = inner.tanh();
            let slope = (x.square() * (3.0 * GELU_KAPPA) + 1.0) * GELU_BETA;
            g * ((t + 1.0) * 0.5 + x * 0.5 * (one(t) - t.square()) * slope)
        } else {
            let cdf = ((x * FRAC_1_SQRT_2).erf() + 1.0) * 0.5;
            let pdf = (x.square() * -0.5).exp() * (FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * 0.5);
            g * (cdf + x * pdf)
        }
    })
}

fn silu_slope(x: Ex<'_>) -> Ex<'_> {
    let s = x.logistic();
    s * (x * (one(s) - s) + 1.0)
}

/// `hardtanh_backward(grad_output, self, min_val, max_val)`.
fn hardtanh(cx: &mut Cx<'_, '_>) -> Result<()> {
    map(cx, FLOAT, Out::Promoted, [In::T(0), In::T(1), In::N(2), In::N(3)], |[g, x, low, high]| {
        (x.le(low) | x.ge(high)).pick(0.0, g)
    })
}

/// Of hardshrink and softshrink: `(grad_output, self, lambd)`.
fn shrink(cx: &mut Cx<'_, '_>) -> Result<()> {
    map(cx, FLOAT, Out::Promoted, [In::T(0), In::T(1), In::N(2)], |[g, x, lambd]| {
        (x.ge(-lambd) & x.le(lambd)).pick(0.0, g)
    })
}

/// `softplus_backward(grad_output, self, beta, threshold)`.
fn softplus(cx: &mut Cx<'_, '_>) -> Result<()> {
    map(cx, FLOAT, Out::Promoted, [In::T(0), In::T(1), In::N(2), In::N(3)], |[g, x, beta, threshold]| {
        let z = x * beta;
        z.gt(threshold).pick(g, g * z.logistic())
    })
}

/// `logit_backward(grad_output, self, eps)`: `g / (x (1 - x))` within the bounds; outside 0, or NaN without `eps`.
fn logit(cx: &mut Cx<'_, '_>) -> Result<()> {
    if cx.is_none(2) {
        return map(cx, FLOAT, Out::Promoted, PAIR, |[g, x]| {
            (x.lt(0.0) | x.gt(1.0)).pick(f64::NAN, g / (x * (one(x) - x)))
        });
    }
    map(cx, FLOAT, Out::Promoted, [In::T(0), In::T(1), In::N(2)], |[g, x, eps]| {
        (x.lt(eps) | x.gt(one(eps) - eps)).pick(0.0, g / (x * (one(x) - x)))
    })
}

/// `_prelu_kernel_backward(grad_output, self, weight)`: gradients of `self` and of `weight`, not yet summed.
fn prelu(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (values, dtype) = inputs(cx, FLOAT, Out::Promoted, [In::T(0), In::T(1), In::T(2)])?;
    let grads = formulas(cx.g, values, |[g, x, w]| {
        let positive = x.gt(0.0);
        [positive.pick(g, w * g), positive.pick(0.0, x * g)]
    })?;
    for v in grads {
        let v = cx.g.convert(v, dtype)?;
        cx.out(v);
    }
    Ok(())
}

/// `glu_backward(grad_output, self, dim)`.
fn glu(cx: &mut Cx<'_, '_>) -> Result<()> {
    let dtype = cx.ty(1)?.dtype;
    FLOAT.check(cx, dtype)?;
    let (a, b, dim) = halves(cx, 1, 2)?;
    let g = cx.t(0)?;
    let g = cx.g.convert(g, cx.g.dtype(a))?;
    let da = formula(cx.g, [g, b], |[g, b]| g * b.logistic())?;
    let db = formula(cx.g, [g, a, b], |[g, a, b]| {
        let s = b.logistic();
        g * a * s * (one(s) - s)
    })?;
    let grad = cx.g.concatenate(&[da, db], dim)?;
    let grad = cx.g.convert(grad, dtype)?;
    cx.out(grad);
    Ok(())
}

/// `glu_backward_jvp(grad_x, grad_glu, x, dgrad_glu, dx, dim)`: the change of `glu_backward(grad_glu, x)`.
fn glu_jvp(cx: &mut Cx<'_, '_>) -> Result<()> {
    let dtype = cx.ty(2)?.dtype;
    FLOAT.check(cx, dtype)?;
    let ((a, b, dim), (da, db, _)) = (halves(cx, 2, 5)?, halves(cx, 4, 5)?);
    let (g, dg) = (cx.t(1)?, cx.t(3)?);
    let compute = cx.g.dtype(a);
    let (g, dg) = (cx.g.convert(g, compute)?, cx.g.convert(dg, compute)?);
    let changes = formulas(cx.g, [g, dg, a, b, da, db], |[g, dg, a, b, da, db]| {
        let s = b.logistic();
        let slope = s * (one(s) - s);
        let first = dg * s + g * slope * db;
        let second = (dg * a + g * da + g * a * (one(s) - s * 2.0) * db) * slope;
        [first, second]
    })?;
    let y = cx.g.concatenate(&changes, dim)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `rrelu_with_noise_backward(grad_output, self, noise, lower, upper, training, self_is_result)`.
fn rrelu(cx: &mut Cx<'_, '_>) -> Result<()> {
    if cx.bool(5)? {
        return map(cx, FLOAT, Out::Promoted, [In::T(0), In::T(2)], |[g, noise]| g * noise);
    }
    map(cx, FLOAT, Out::Promoted, [In::T(0), In::T(1), In::N(3), In::N(4)], |[g, x, lower, upper]| {
        x.gt(0.0).pick(g, g * (lower + upper) * 0.5)
    })
}
