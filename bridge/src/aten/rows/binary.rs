//! Binary functions: extrema, signs, logarithmic sums and their kin.

use super::util::{In, Out, Takes, inputs, map2};
use crate::Result;
use crate::aten::expr::{Ex, formula};
use crate::aten::{Cx, Row};
use primitives::DType;
use std::f64::consts::LN_2;

const REAL: Takes = Takes::NO_COMPLEX;
const FLOAT: Takes = Takes::FLOAT;

pub const ROWS: &[Row] = &[
    Row::pointwise("maximum", |cx| map2(cx, REAL, Out::Promoted, |a, b| a.max(b))),
    Row::pointwise("minimum", |cx| map2(cx, REAL, Out::Promoted, |a, b| a.min(b))),
    Row::pointwise("fmax", |cx| map2(cx, REAL, Out::Promoted, |a, b| past_nan(a, b, a.max(b)))),
    Row::pointwise("fmin", |cx| map2(cx, REAL, Out::Promoted, |a, b| past_nan(a, b, a.min(b)))),
    Row::pointwise("atan2", |cx| map2(cx, REAL, Out::Float, |a, b| a.atan2(b))),
    Row::pointwise("hypot", |cx| map2(cx, FLOAT, Out::Promoted, hypot)),
    Row::pointwise("copysign.Tensor", |cx| map2(cx, REAL, Out::Float, copysign)),
    Row::pointwise("copysign.Scalar", |cx| map2(cx, REAL, Out::Float, copysign)).dynamic(&["other"]),
    Row::pointwise("nextafter", nextafter),
    Row::pointwise("logaddexp", |cx| map2(cx, Takes::FLOATS, Out::Promoted, |a, b| logaddexp(a, b, 1.0))),
    Row::pointwise("logaddexp2", |cx| map2(cx, FLOAT, Out::Promoted, |a, b| logaddexp(a, b, LN_2))),
    Row::pointwise("heaviside", heaviside),
    Row::pointwise("xlogy.Tensor", |cx| map2(cx, REAL, Out::Float, xlogy)),
    Row::pointwise("xlogy.Scalar_Self", |cx| map2(cx, REAL, Out::Float, xlogy)).dynamic(&["self"]),
    Row::pointwise("xlogy.Scalar_Other", |cx| map2(cx, REAL, Out::Float, xlogy)).dynamic(&["other"]),
    Row::pointwise("special_xlog1py", |cx| map2(cx, REAL, Out::Float, xlog1py)),
    Row::pointwise("special_xlog1py.self_scalar", |cx| map2(cx, REAL, Out::Float, xlog1py)).dynamic(&["self"]),
    Row::pointwise("special_xlog1py.other_scalar", |cx| map2(cx, REAL, Out::Float, xlog1py)).dynamic(&["other"]),
];

/// The number of the two where one is NaN, else `y`.
fn past_nan<'s>(a: Ex<'s>, b: Ex<'s>, y: Ex<'s>) -> Ex<'s> {
    if !a.dtype().is_float() {
        return y;
    }
    a.is_nan().pick(b, b.is_nan().pick(a, y))
}

/// `sqrt(a^2 + b^2)` without overflow: the modulus of `a + ib`.
fn hypot<'s>(a: Ex<'s>, b: Ex<'s>) -> Ex<'s> {
    let size = a.complex(b).abs();
    let infinite = a.abs().eq(f64::INFINITY) | b.abs().eq(f64::INFINITY);
    infinite.pick(f64::INFINITY, size)
}

/// The size of `a` with the sign bit of `b`.
fn copysign<'s>(a: Ex<'s>, b: Ex<'s>) -> Ex<'s> {
    let size = a.abs();
    b.sign_bit().pick(-size, size)
}

/// `nextafter(self, other)`, in the dtype itself: its neighbour, not that of a wider type.
fn nextafter(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (a, b) = (cx.operand(0)?, cx.operand(1)?);
    let dtype = cx.promote(&[a, b]);
    FLOAT.check(cx, dtype)?;
    let (a, b) = (cx.value_as(&a, dtype)?, cx.value_as(&b, dtype)?);
    let (a, b) = crate::aten::broadcast::pair(cx, a, b)?;
    let y = formula(cx.g, [a, b], |[a, b]| a.next_after(b))?;
    cx.out(y);
    Ok(())
}

/// `log(base^a + base^b)`, `ln` the base's logarithm.
fn logaddexp<'s>(a: Ex<'s>, b: Ex<'s>, ln: f64) -> Ex<'s> {
    if a.dtype().is_complex() {
        let first = a.real().lt(b.real());
        let (high, low) = (first.pick(b, a), first.pick(a, b));
        let y = high + (low - high).exp().log1p();
        // Equal infinities: their difference is no number.
        let same = a.real().abs().eq(f64::INFINITY) & a.real().eq(b.real());
        return same.pick((a.exp() + b.exp()).log(), y);
    }
    let same = a.abs().eq(f64::INFINITY) & a.eq(b);
    let high = a.max(b);
    let y = high + (-(a - b).abs() * ln).exp().log1p() / ln;
    same.pick(a, y)
}

/// `heaviside(self, values)`: 0, 1, or `values` at 0.
fn heaviside(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (a, b) = (cx.ty(0)?.dtype, cx.ty(1)?.dtype);
    if a.is_complex() || b.is_complex() {
        return Err(cx.error("heaviside is not yet implemented for complex tensors."));
    }
    if a != b {
        return Err(cx.error("heaviside is not yet implemented for tensors with different dtypes."));
    }
    let ([a, b], dtype) = inputs(cx, REAL, Out::Promoted, [In::T(0), In::T(1)])?;
    let y = formula(cx.g, [a, b], |[a, b]| {
        if a.dtype() == DType::Bool {
            return a | b;
        }
        let zero = a.constant(0);
        a.eq(zero).pick(b, a.gt(zero).pick(a.constant(1), zero))
    })?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `x log(y)`, 0 where `x` is 0 unless `y` is NaN.
fn xlogy<'s>(x: Ex<'s>, y: Ex<'s>) -> Ex<'s> {
    y.is_nan().pick(y, x.eq(0.0).pick(0.0, x * y.log()))
}

fn xlog1py<'s>(x: Ex<'s>, y: Ex<'s>) -> Ex<'s> {
    y.is_nan().pick(y, x.eq(0.0).pick(0.0, x * y.log1p()))
}
