//! Activation functions.

use super::util::{In, Out, Takes, inputs, map, map1};
use crate::Result;
use crate::aten::expr::{Ex, formula, formulas};
use crate::aten::row::Numbers;
use crate::aten::{Cx, Row, promote, threefry};
use primitives::Value;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

const FLOAT: Takes = Takes::FLOAT;

pub const ROWS: &[Row] = &[
    Row::pointwise("relu", |cx| map1(cx, Takes::REAL, Out::Promoted, |x| x.max(x.constant(0)))),
    Row::pointwise("leaky_relu", leaky_relu).dynamic(&["negative_slope"]),
    Row::pointwise("elu", elu).dynamic(&["alpha", "scale", "input_scale"]),
    Row::pointwise("celu", celu).dynamic(&["alpha"]).guarded(|n| match n.get(1) {
        Some(0.0) => Err(n.error("ZeroDivisionError: alpha cannot be 0 for CELU".into())),
        _ => Ok(()),
    }),
    Row::pointwise("gelu", gelu),
    Row::pointwise("silu", |cx| map1(cx, Takes::FLOATS, Out::Promoted, |x| x * x.logistic())),
    Row::pointwise("mish", |cx| map1(cx, FLOAT, Out::Promoted, |x| x * softplus_one(x).tanh())),
    Row::pointwise("hardtanh", hardtanh).dynamic(&["min_val", "max_val"]).guarded(|n| n.bounds(Some(1), Some(2))),
    Row::pointwise("hardsigmoid", |cx| map1(cx, FLOAT, Out::Promoted, |x| relu6(x + 3.0) / 6.0)),
    Row::pointwise("hardswish", |cx| map1(cx, FLOAT, Out::Promoted, |x| x * relu6(x + 3.0) / 6.0)),
    Row::pointwise("hardshrink", hardshrink).dynamic(&["lambd"]),
    Row::pointwise("softshrink", softshrink).dynamic(&["lambd"]).guarded(|n| not_negative(n, 1)),
    Row::pointwise("softplus", softplus).dynamic(&["beta", "threshold"]),
    Row::pointwise("threshold", threshold).dynamic(&["threshold", "value"]).guarded(|n| n.fits(1).and(n.fits(2))),
    Row::pointwise("log_sigmoid_forward", log_sigmoid),
    Row::pointwise("_prelu_kernel", prelu),
    Row::pointwise("glu", glu),
    Row::pointwise("glu_jvp", glu_jvp),
    Row::pointwise("rrelu_with_noise", rrelu).dynamic(&["lower", "upper"]),
];

/// `leaky_relu(self, negative_slope)`.
fn leaky_relu(cx: &mut Cx<'_, '_>) -> Result<()> {
    map(cx, FLOAT, Out::Promoted, [In::T(0), In::N(1)], |[x, slope]| x.gt(0.0).pick(x, x * slope))
}

/// `elu(self, alpha, scale, input_scale)`.
fn elu(cx: &mut Cx<'_, '_>) -> Result<()> {
    map(cx, FLOAT, Out::Promoted, [In::T(0), In::N(1), In::N(2), In::N(3)], |[x, alpha, scale, input_scale]| {
        x.lt(0.0).pick((x * input_scale).expm1() * (alpha * scale), x * scale)
    })
}

/// `celu(self, alpha)`: `alpha * (exp(x / alpha) - 1)` below 0.
fn celu(cx: &mut Cx<'_, '_>) -> Result<()> {
    map(cx, FLOAT, Out::Promoted, [In::T(0), In::N(1)], |[x, alpha]| x.lt(0.0).pick((x / alpha).expm1() * alpha, x))
}

/// `sqrt(2 / pi)`, and the cubic's weight in the tanh form of gelu.
pub const GELU_BETA: f64 = SQRT_2 * FRAC_2_SQRT_PI * 0.5;
pub const GELU_KAPPA: f64 = 0.044715;

/// `gelu(self, *, approximate)`: `x Phi(x)`, or its tanh form.
fn gelu(cx: &mut Cx<'_, '_>) -> Result<()> {
    match cx.str(1)? {
        "none" => map1(cx, FLOAT, Out::Promoted, |x| x * ((x * FRAC_1_SQRT_2).erf() + 1.0) * 0.5),
        "tanh" => map1(cx, FLOAT, Out::Promoted, |x| {
            let inner = (x + x * x * x * GELU_KAPPA) * GELU_BETA;
            x * 0.5 * (inner.tanh() + 1.0)
        }),
        other => Err(cx.error(format!("approximate argument must be either none or tanh, got {other}"))),
    }
}

/// `log(1 + exp(x))` without overflow.
pub fn softplus_one(x: Ex<'_>) -> Ex<'_> {
    x.max(0.0) + (-x.abs()).exp().log1p()
}

fn relu6(x: Ex<'_>) -> Ex<'_> {
    x.max(0.0).min(6.0)
}

/// `hardtanh(self, min_val, max_val)`.
fn hardtanh(cx: &mut Cx<'_, '_>) -> Result<()> {
    map(cx, Takes::REAL, Out::Promoted, [In::T(0), In::Ends(1), In::Ends(2)], |[x, low, high]| x.max(low).min(high))
}

/// `hardshrink(self, lambd)`: 0 within `[-lambd, lambd]`.
fn hardshrink(cx: &mut Cx<'_, '_>) -> Result<()> {
    map(cx, FLOAT, Out::Promoted, [In::T(0), In::N(1)], |[x, lambd]| (x.ge(-lambd) & x.le(lambd)).pick(0.0, x))
}

/// `softshrink(self, lambd)`: moves towards 0 by `lambd`.
fn softshrink(cx: &mut Cx<'_, '_>) -> Result<()> {
    map(cx, FLOAT, Out::Promoted, [In::T(0), In::N(1)], |[x, lambd]| {
        x.gt(lambd).pick(x - lambd, x.lt(-lambd).pick(x + lambd, x * 0.0))
    })
}

/// The bound of a shrinkage is not negative.
pub fn not_negative(n: &Numbers<'_>, i: usize) -> Result<()> {
    match n.get(i) {
        Some(lambd) if lambd >= 0.0 => Ok(()),
        Some(lambd) => {
            let dtype = n.dtype().unwrap_or(primitives::DType::F32);
            let (limit, name) = (super::unary::largest(dtype), promote::torch_name(dtype));
            Err(n.error(format!("lambda must be in range [0, {limit:e}] for input dtype {name}, but found {lambd}")))
        }
        None => Ok(()),
    }
}

/// `softplus(self, beta, threshold)`: `log(1 + exp(beta x)) / beta`; `x` itself beyond the threshold.
fn softplus(cx: &mut Cx<'_, '_>) -> Result<()> {
    map(cx, FLOAT, Out::Promoted, [In::T(0), In::N(1), In::N(2)], |[x, beta, threshold]| {
        let z = x * beta;
        z.gt(threshold).pick(x, z.exp().log1p() / beta)
    })
}

/// `threshold(self, threshold, value)`: `value` where `x <= threshold`.
fn threshold(cx: &mut Cx<'_, '_>) -> Result<()> {
    map(cx, Takes::REAL, Out::Promoted, [In::T(0), In::N(1), In::N(2)], |[x, threshold, value]| {
        x.le(threshold).pick(value, x)
    })
}

/// `log_sigmoid_forward(self)`: the result, and a buffer that our backward has no use for.
fn log_sigmoid(cx: &mut Cx<'_, '_>) -> Result<()> {
    map1(cx, FLOAT, Out::Promoted, |x| x.min(0.0) - (-x.abs()).exp().log1p())?;
    let dtype = cx.ty(0)?.dtype;
    let buffer = cx.g.full(dtype, &[0], 0)?;
    cx.out(buffer);
    Ok(())
}

/// `_prelu_kernel(self, weight)`, `weight` already of a shape that broadcasts.
fn prelu(cx: &mut Cx<'_, '_>) -> Result<()> {
    map(cx, FLOAT, Out::Promoted, [In::T(0), In::T(1)], |[x, w]| x.gt(0.0).pick(x, x * w))
}

/// `rrelu_with_noise(self, noise, lower, upper, training, generator)`: in training, slopes below 0 are drawn from
/// `[lower, upper)` and kept in `noise`, which is 1 elsewhere; else the slope is their mean.
fn rrelu(cx: &mut Cx<'_, '_>) -> Result<()> {
    if !cx.bool(4)? {
        return map(cx, FLOAT, Out::Promoted, [In::T(0), In::N(2), In::N(3)], |[x, lower, upper]| {
            x.gt(0.0).pick(x, x * (lower + upper) * 0.5)
        });
    }
    let ([x, lower, upper], dtype) = inputs(cx, FLOAT, Out::Promoted, [In::T(0), In::N(2), In::N(3)])?;
    let bits = threefry::draw(cx, Some(5), cx.g.numel(x))?;
    let compute = cx.g.dtype(x);
    let unit = bits.unit(cx.g, compute)?;
    let dims = cx.g.dims(x);
    let unit = cx.g.reshape(unit, &dims)?;
    let [y, noise] = formulas(cx.g, [x, lower, upper, unit], |[x, lower, upper, unit]| {
        let noise = x.le(0.0).pick(lower + unit * (upper - lower), 1.0);
        [x * noise, noise]
    })?;
    let (y, noise) = (cx.g.convert(y, dtype)?, cx.g.convert(noise, dtype)?);
    cx.mutate(1, noise);
    cx.out(y);
    Ok(())
}

/// `glu(self, dim)`: the first half times the sigmoid of the second.
fn glu(cx: &mut Cx<'_, '_>) -> Result<()> {
    let dtype = cx.ty(0)?.dtype;
    FLOAT.check(cx, dtype)?;
    let (a, b, _) = halves(cx, 0, 1)?;
    let y = formula(cx.g, [a, b], |[a, b]| a * b.logistic())?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `glu_jvp(glu, x, dx, dim)`: the change of `glu(x)` with `dx`.
fn glu_jvp(cx: &mut Cx<'_, '_>) -> Result<()> {
    let dtype = cx.ty(1)?.dtype;
    FLOAT.check(cx, dtype)?;
    let ((_, b, _), (da, db, _)) = (halves(cx, 1, 3)?, halves(cx, 2, 3)?);
    let y = cx.t(0)?;
    let y = cx.g.convert(y, cx.g.dtype(b))?;
    let dy = formula(cx.g, [y, b, da, db], |[y, b, da, db]| {
        let s = b.logistic();
        da * s + y * (s.constant(1.0) - s) * db
    })?;
    let dy = cx.g.convert(dy, dtype)?;
    cx.out(dy);
    Ok(())
}

/// The halves of tensor argument `i` along the dim in argument `d`, in the compute dtype; and the dim.
pub fn halves(cx: &mut Cx<'_, '_>, i: usize, d: usize) -> Result<(Value, Value, usize)> {
    let ty = cx.ty(i)?;
    let rank = ty.dims.len() as i64;
    if rank == 0 {
        return Err(cx.error("glu does not support 0-dimensional tensors"));
    }
    let dim = cx.int(d)?;
    if dim < -rank || dim >= rank {
        return Err(crate::Error::index(
            cx.op(),
            format!("Dimension out of range (expected to be in range of [{}, {}], but got {dim})", -rank, rank - 1),
        ));
    }
    let dim = if dim < 0 { dim + rank } else { dim } as usize;
    let n = ty.dims[dim];
    if n % 2 != 0 {
        return Err(cx.error(format!("Halving dimension must be even, but dimension {dim} is size {n}")));
    }
    let x = cx.t(i)?;
    let x = cx.g.convert(x, promote::compute_type(ty.dtype))?;
    let ones = vec![1; ty.dims.len()];
    let mut middle = ty.dims.to_vec();
    middle[dim] = n / 2;
    let mut start = vec![0; ty.dims.len()];
    let a = cx.g.slice(x, &start, &middle, &ones)?;
    start[dim] = n / 2;
    let b = cx.g.slice(x, &start, &ty.dims, &ones)?;
    Ok((a, b, dim))
}
