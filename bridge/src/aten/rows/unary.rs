//! Mathematical functions of one tensor.

use super::util::{In, Out, Takes, inputs, map, map1};
use crate::Result;
use crate::aten::complex_math::{exp2, scaled_log};
use crate::aten::expr::{Ex, formula, formulas};
use crate::aten::{Cx, Row};
use primitives::DType;
use std::f64::consts::{FRAC_1_SQRT_2, LN_2, LN_10, PI};

const ALL: Takes = Takes::ALL;
/// Integers and bool compute in the default float dtype.
const REAL: Takes = Takes::NO_COMPLEX;

pub const ROWS: &[Row] = &[
    Row::pointwise("abs", abs),
    Row::pointwise("neg", neg),
    Row::pointwise("sign", |cx| map1(cx, REAL, Out::Promoted, sign)),
    Row::pointwise("sgn", |cx| map1(cx, ALL, Out::Promoted, sgn)),
    Row::pointwise("ceil", |cx| rounding(cx, |x| x.ceil())),
    Row::pointwise("floor", |cx| rounding(cx, |x| x.floor())),
    Row::pointwise("trunc", |cx| rounding(cx, |x| x.trunc())),
    Row::pointwise("round", |cx| rounding(cx, |x| x.round_nearest_even())),
    Row::pointwise("round.decimals", round_decimals),
    Row::pointwise("frac", |cx| map1(cx, Takes::FLOAT, Out::Promoted, |x| x - x.trunc())),
    Row::pointwise("exp", |cx| map1(cx, ALL, Out::Float, |x| x.exp())),
    Row::pointwise("exp2", |cx| map1(cx, ALL, Out::Float, exp2)),
    Row::pointwise("expm1", |cx| map1(cx, ALL, Out::Float, |x| x.expm1())),
    Row::pointwise("log", |cx| map1(cx, ALL, Out::Float, |x| x.log())),
    Row::pointwise("log2", |cx| map1(cx, ALL, Out::Float, |x| scaled_log(x, LN_2))),
    Row::pointwise("log10", |cx| map1(cx, ALL, Out::Float, |x| scaled_log(x, LN_10))),
    Row::pointwise("log1p", |cx| map1(cx, ALL, Out::Float, |x| x.log1p())),
    Row::pointwise("sqrt", |cx| map1(cx, ALL, Out::Float, |x| x.sqrt())),
    Row::pointwise("rsqrt", |cx| map1(cx, ALL, Out::Float, rsqrt)),
    Row::pointwise("reciprocal", |cx| map1(cx, ALL, Out::Float, |x| x.recip())),
    Row::pointwise("sin", |cx| map1(cx, ALL, Out::Float, |x| x.sin())),
    Row::pointwise("cos", |cx| map1(cx, ALL, Out::Float, |x| x.cos())),
    Row::pointwise("tan", |cx| map1(cx, ALL, Out::Float, |x| x.tan())),
    Row::pointwise("asin", |cx| map1(cx, ALL, Out::Float, |x| x.asin())),
    Row::pointwise("acos", |cx| map1(cx, ALL, Out::Float, |x| x.acos())),
    Row::pointwise("atan", |cx| map1(cx, ALL, Out::Float, atan)),
    Row::pointwise("sinh", |cx| map1(cx, ALL, Out::Float, |x| x.sinh())),
    Row::pointwise("cosh", |cx| map1(cx, ALL, Out::Float, |x| x.cosh())),
    Row::pointwise("tanh", |cx| map1(cx, ALL, Out::Float, |x| x.tanh())),
    Row::pointwise("asinh", |cx| map1(cx, ALL, Out::Float, |x| x.asinh())),
    Row::pointwise("acosh", |cx| map1(cx, ALL, Out::Float, |x| x.acosh())),
    Row::pointwise("atanh", |cx| map1(cx, ALL, Out::Float, |x| x.atanh())),
    Row::pointwise("sinc", |cx| map1(cx, ALL, Out::Float, sinc)),
    Row::pointwise("sigmoid", |cx| map1(cx, ALL, Out::Float, |x| x.logistic())),
    Row::pointwise("logit", logit).dynamic(&["eps"]),
    Row::pointwise("erf", |cx| map1(cx, REAL, Out::Float, |x| x.erf())),
    Row::pointwise("erfc", |cx| map1(cx, REAL, Out::Float, |x| x.erfc())),
    Row::pointwise("erfinv", |cx| map1(cx, REAL, Out::Float, |x| x.erf_inv())),
    Row::pointwise("lgamma", |cx| map1(cx, REAL, Out::Float, |x| x.lgamma())),
    Row::pointwise("digamma", |cx| map1(cx, REAL, Out::Float, digamma)),
    Row::pointwise("deg2rad", |cx| map1(cx, REAL, Out::Float, |x| x * (PI / 180.0))),
    Row::pointwise("rad2deg", |cx| map1(cx, REAL, Out::Float, |x| x * (180.0 / PI))),
    Row::pointwise("nan_to_num", nan_to_num),
    Row::pointwise("isnan", |cx| map1(cx, ALL, Out::Bool, |x| x.is_nan())),
    Row::pointwise("isinf", isinf),
    Row::pointwise("isposinf", |cx| infinite(cx, f64::INFINITY)),
    Row::pointwise("isneginf", |cx| infinite(cx, f64::NEG_INFINITY)),
    Row::pointwise("signbit", signbit),
    Row::pointwise("frexp.Tensor", frexp),
    Row::pointwise("logical_not", |cx| map1(cx, ALL, Out::Bool, |x| x.eq(x.constant(0)))),
    Row::pointwise("bitwise_not", |cx| map1(cx, Takes::BITS, Out::Promoted, |x| !x)),
    Row::pointwise("special_log_ndtr", |cx| map1(cx, REAL, Out::Float, log_ndtr)),
    Row::pointwise("special_entr", |cx| map1(cx, REAL, Out::Float, entr)),
];

/// Absolute value; the modulus of complex numbers, in their part type.
fn abs(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(0)?;
    if ty.dtype.is_bool() || ty.dtype.is_unsigned_int() {
        Takes::NUMBERS.check(cx, ty.dtype)?;
        let x = cx.t(0)?;
        cx.out(x);
        return Ok(());
    }
    if ty.dtype.is_complex() && cx.op().ends_with("abs_") {
        return Err(cx.error("In-place abs is not supported for complex tensors."));
    }
    let x = cx.t(0)?;
    let x = cx.g.convert(x, crate::aten::promote::compute_type(ty.dtype))?;
    let y = formula(cx.g, [x], |[x]| x.abs())?;
    let y = cx.g.convert(y, ty.dtype.real_of())?;
    cx.out(y);
    Ok(())
}

fn neg(cx: &mut Cx<'_, '_>) -> Result<()> {
    // torch's own type for this mistake is NotImplementedError.
    map1(cx, Takes::NUMBERS, Out::Promoted, |x| -x)
}

/// -1, 0 or 1; 0 for NaN.
fn sign(x: Ex<'_>) -> Ex<'_> {
    if x.dtype().is_bool() {
        return x;
    }
    let positive = x.gt(x.constant(0)).pick(x.constant(1), x.constant(0));
    if x.dtype().is_unsigned_int() {
        return positive;
    }
    x.lt(x.constant(0)).pick(x.constant(-1), positive)
}

/// `sign`; `x / |x|` for complex numbers.
fn sgn(x: Ex<'_>) -> Ex<'_> {
    if !x.dtype().is_complex() {
        return sign(x);
    }
    let modulus = x.abs();
    let none = modulus.eq(0.0);
    let part = |p| none.pick(0.0, p / none.pick(1.0, modulus));
    part(x.real()).complex(part(x.imag()))
}

/// Rounding: integers are what they are.
fn rounding(cx: &mut Cx<'_, '_>, f: for<'s> fn(Ex<'s>) -> Ex<'s>) -> Result<()> {
    let dtype = cx.ty(0)?.dtype;
    Takes::REAL.check(cx, dtype)?;
    if dtype.is_int() {
        let x = cx.t(0)?;
        cx.out(x);
        return Ok(());
    }
    map1(cx, Takes::FLOAT, Out::Promoted, f)
}

/// `round(self, *, decimals)`: ties to even after scaling by `10^decimals`.
fn round_decimals(cx: &mut Cx<'_, '_>) -> Result<()> {
    let decimals = cx.int(1)?;
    if cx.ty(0)?.dtype.is_int() {
        return if decimals == 0 {
            rounding(cx, |x| x.round_nearest_even())
        } else {
            Err(crate::Error::not_implemented(cx.op(), "integers with decimals".into()))
        };
    }
    let ten = 10f64.powi(decimals.unsigned_abs().min(400) as i32);
    map(cx, Takes::FLOAT, Out::Promoted, [In::T(0)], |[x]| match decimals {
        0 => x.round_nearest_even(),
        d if d > 0 => (x * ten).round_nearest_even() / ten,
        _ => (x / ten).round_nearest_even() * ten,
    })
}

/// Arc tangent. Of reals it is `atan2(x, 1)` with a 1 that the compiler does not see: XLA's CPU compiler gives garbage for
/// large f64 arrays when it does.
fn atan(x: Ex<'_>) -> Ex<'_> {
    if x.dtype().is_complex() {
        return x.atan();
    }
    x.atan2(x.constant(1.0).map(|g, v| g.optimization_barrier(&[v]).map(|v| v[0])))
}

fn rsqrt(x: Ex<'_>) -> Ex<'_> {
    if x.dtype().is_complex() { x.sqrt().recip() } else { x.rsqrt() }
}

/// `sin(pi x) / (pi x)`, 1 at 0.
fn sinc(x: Ex<'_>) -> Ex<'_> {
    let p = x * PI;
    let zero = x.eq(0.0);
    zero.pick(1.0, p.sin() / zero.pick(1.0, p))
}

/// `logit(self, eps)`: `log(x / (1 - x))`, of `x` clamped to `[eps, 1 - eps]` when `eps` is given.
fn logit(cx: &mut Cx<'_, '_>) -> Result<()> {
    if cx.is_none(1) {
        return map1(cx, REAL, Out::Float, |x| (x / (x.constant(1.0) - x)).log());
    }
    map(cx, REAL, Out::Float, [In::T(0), In::N(1)], |[x, eps]| {
        let high = eps.constant(1.0) - eps;
        let x = x.lt(eps).pick(eps, x.gt(high).pick(high, x));
        (x / (x.constant(1.0) - x)).log()
    })
}

/// Infinite at 0, with the sign against that of the zero.
pub fn digamma(x: Ex<'_>) -> Ex<'_> {
    x.eq(0.0).pick(-x.recip(), x.digamma())
}

/// `nan_to_num(self, nan, posinf, neginf)`: defaults 0, the largest and the smallest finite number.
fn nan_to_num(cx: &mut Cx<'_, '_>) -> Result<()> {
    let dtype = cx.ty(0)?.dtype;
    let x = cx.t(0)?;
    if !dtype.is_float() && !dtype.is_complex() {
        cx.out(x);
        return Ok(());
    }
    let (nan, high, low) = (cx.opt_float(1)?.unwrap_or(0.0), cx.opt_float(2)?, cx.opt_float(3)?);
    let limit = largest(dtype.real_of());
    let (high, low) = (high.unwrap_or(limit), low.unwrap_or(-limit));
    let y = if dtype.is_complex() {
        let (re, im) = (cx.g.real(x)?, cx.g.imag(x)?);
        let re = formula(cx.g, [re], |[x]| replace_non_finite(x, nan, high, low))?;
        let im = formula(cx.g, [im], |[x]| replace_non_finite(x, nan, high, low))?;
        cx.g.complex(re, im)?
    } else {
        formula(cx.g, [x], |[x]| replace_non_finite(x, nan, high, low))?
    };
    cx.out(y);
    Ok(())
}

fn replace_non_finite(x: Ex<'_>, nan: f64, high: f64, low: f64) -> Ex<'_> {
    let y = x.eq(f64::INFINITY).pick(high, x);
    let y = x.eq(f64::NEG_INFINITY).pick(low, y);
    x.is_nan().pick(nan, y)
}

/// The largest finite number of a float dtype.
pub fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 65504.0,
        DType::BF16 => f64::from(f32::from_bits(0x7f7f_0000)),
        DType::F64 => f64::MAX,
        DType::F8E4M3FN => 448.0,
        DType::F8E5M2 => 57344.0,
        _ => f64::from(f32::MAX),
    }
}

fn isinf(cx: &mut Cx<'_, '_>) -> Result<()> {
    map1(cx, ALL, Out::Bool, |x| match x.dtype() {
        d if d.is_complex() => x.real().abs().eq(f64::INFINITY) | x.imag().abs().eq(f64::INFINITY),
        d if d.is_float() => x.abs().eq(f64::INFINITY),
        _ => x.ne(x),
    })
}

fn infinite(cx: &mut Cx<'_, '_>, which: f64) -> Result<()> {
    if cx.ty(0)?.dtype.is_complex() {
        return Err(cx.error(format!("{} does not support complex inputs.", cx.op())));
    }
    map(cx, REAL, Out::Bool, [In::T(0)], |[x]| if x.dtype().is_float() { x.eq(which) } else { x.ne(x) })
}

/// Whether the sign bit is set: true of -0.0 and of negative NaNs.
fn signbit(cx: &mut Cx<'_, '_>) -> Result<()> {
    if cx.ty(0)?.dtype.is_complex() {
        return Err(cx.error("signbit is not implemented for complex tensors."));
    }
    map1(cx, REAL, Out::Bool, |x| match x.dtype() {
        d if d.is_float() => x.sign_bit(),
        d if d.is_bool() || d.is_unsigned_int() => x.ne(x),
        _ => x.lt(x.constant(0)),
    })
}

/// Logarithm of the normal distribution function, exact in the lower tail by its asymptotic series.
fn log_ndtr(x: Ex<'_>) -> Ex<'_> {
    // Below the seam erfc underflows; there ndtr(x) = phi(x)/-x * (1 - 1/x^2 + 3/x^4 - 15/x^6 + ...).
    let t = x * FRAC_1_SQRT_2;
    let single = x.dtype() == DType::F32;
    let seam = if single { -9.0 } else { -25.0 };
    let low = x.lt(seam);
    let far = low.pick(x, seam);
    let z = far.square().recip();
    let series = z.poly(&[-135135.0, 10395.0, -945.0, 105.0, -15.0, 3.0, -1.0, 1.0]);
    let tail = far.square() * -0.5 - (-far).log() - 0.5 * LN_2_PI + series.log();
    let near = low.pick(0.0, t);
    let lower = ((-near).erfc() * 0.5).log();
    let upper = (near.erfc() * -0.5).log1p();
    low.pick(tail, x.gt(1.0).pick(upper, lower))
}

/// `log(2 pi)`.
const LN_2_PI: f64 = 1.837_877_066_409_345_3;

/// `-x log(x)`; 0 at 0, -inf below.
fn entr(x: Ex<'_>) -> Ex<'_> {
    let y = -x * x.log();
    let y = x.eq(0.0).pick(0.0, x.lt(0.0).pick(f64::NEG_INFINITY, y));
    x.is_nan().pick(x, y)
}

/// `frexp(self)`: mantissa in [0.5, 1) and exponent, by the bits. Zero, infinity and NaN stay, with exponent 0.
fn frexp(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ([x], dtype) = inputs(cx, Takes::FLOAT, Out::Promoted, [In::T(0)])?;
    let double = cx.g.dtype(x) == DType::F64;
    let (int, width, mantissa_bits, bias) =
        if double { (DType::I64, 64, 52i64, 1022i64) } else { (DType::I32, 32, 23, 126) };
    let exponent_mask = (1i64 << (width - 1 - mantissa_bits)) - 1;
    let [m, e] = formulas(cx.g, [x], |[x]: [Ex<'_>; 1]| {
        // Bits throughout: a device may take subnormal numbers for 0 in arithmetic.
        let bits = x.bits_as(int);
        let raw = bits.shift_right_logical(bits.constant(mantissa_bits)) & bits.constant(exponent_mask);
        let fraction = bits & bits.constant((1i64 << mantissa_bits) - 1);
        let sign = bits & bits.constant(1i64 << (width - 1));
        let special = raw.eq(exponent_mask) | (raw | fraction).eq(0i64);
        // A subnormal fraction is shifted until its first one stands where the implied one does.
        let tiny = raw.eq(0i64);
        let shift = fraction.map(|g, v| g.count_leading_zeros(v)) - (width - 1 - mantissa_bits);
        let shift = tiny.pick(shift, 0i64);
        let e = tiny.pick(shift.constant(1i64), raw) - shift - bias;
        let fraction = fraction.shift_left(shift) & fraction.constant((1i64 << mantissa_bits) - 1);
        let m = (sign | fraction | bits.constant(bias << mantissa_bits)).bits_as(x.dtype());
        [special.pick(x, m), special.pick(e.constant(0i64), e).to(DType::I32)]
    })?;
    let m = cx.g.convert(m, dtype)?;
    cx.out(m);
    cx.out(e);
    Ok(())
}
