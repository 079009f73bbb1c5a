//! Bessel functions, their kin, and error functions, from Chebyshev series.

use super::special_tables as t;
use super::util::{Out, Takes, map1};
use crate::aten::Row;
use crate::aten::expr::Ex;
use std::f64::consts::{FRAC_2_PI, FRAC_PI_4, PI, SQRT_2};

const REAL: Takes = Takes::NO_COMPLEX;

pub const ROWS: &[Row] = &[
    Row::pointwise("i0", |cx| map1(cx, REAL, Out::Float, |x| i0e(x) * x.abs().exp())),
    Row::pointwise("special_i0e", |cx| map1(cx, REAL, Out::Float, i0e)),
    Row::pointwise("special_i1", |cx| map1(cx, REAL, Out::Float, |x| i1e(x) * x.abs().exp())),
    Row::pointwise("special_i1e", |cx| map1(cx, REAL, Out::Float, i1e)),
    Row::pointwise("special_modified_bessel_i0", |cx| map1(cx, REAL, Out::Float, |x| i0e(x) * x.abs().exp())),
    Row::pointwise("special_modified_bessel_i1", |cx| map1(cx, REAL, Out::Float, |x| i1e(x) * x.abs().exp())),
    Row::pointwise("special_modified_bessel_k0", |cx| map1(cx, REAL, Out::Float, |x| k0(x, false))),
    Row::pointwise("special_modified_bessel_k1", |cx| map1(cx, REAL, Out::Float, |x| k1(x, false))),
    Row::pointwise("special_scaled_modified_bessel_k0", |cx| map1(cx, REAL, Out::Float, |x| k0(x, true))),
    Row::pointwise("special_scaled_modified_bessel_k1", |cx| map1(cx, REAL, Out::Float, |x| k1(x, true))),
    Row::pointwise("special_bessel_j0", |cx| map1(cx, REAL, Out::Float, j0)),
    Row::pointwise("special_bessel_j1", |cx| map1(cx, REAL, Out::Float, j1)),
    Row::pointwise("special_bessel_y0", |cx| map1(cx, REAL, Out::Float, y0)),
    Row::pointwise("special_bessel_y1", |cx| map1(cx, REAL, Out::Float, y1)),
    Row::pointwise("special_spherical_bessel_j0", |cx| map1(cx, REAL, Out::Float, spherical_j0)),
    Row::pointwise("special_airy_ai", |cx| map1(cx, REAL, Out::Float, airy_ai)),
    Row::pointwise("special_erfcx", |cx| map1(cx, REAL, Out::Float, erfcx)),
    Row::pointwise("special_ndtri", |cx| map1(cx, REAL, Out::Float, ndtri)),
];

/// The variable that maps `[low, high]` onto `[-1, 1]`.
fn onto<'s>(x: Ex<'s>, low: f64, high: f64) -> Ex<'s> {
    (x - low) * (2.0 / (high - low)) - 1.0
}

/// `x` where `inside`, else a number that a series is safe with.
fn only<'s>(inside: Ex<'s>, x: Ex<'s>, safe: f64) -> Ex<'s> {
    inside.pick(x, safe)
}

/// `exp(-|x|) I0(x)`.
fn i0e(x: Ex<'_>) -> Ex<'_> {
    let x = x.abs();
    let far = x.gt(8.0);
    let near = onto(far.pick(8.0, x), 0.0, 8.0).chebyshev(t::I0E_NEAR);
    let x = only(far, x, 8.0);
    let tail = onto(x.recip(), 0.0, 0.125).chebyshev(t::I0E_FAR) / x.sqrt();
    far.pick(tail, near)
}

/// `exp(-|x|) I1(x)`.
fn i1e(x: Ex<'_>) -> Ex<'_> {
    let size = x.abs();
    let far = size.gt(8.0);
    let near = onto(far.pick(8.0, size), 0.0, 8.0).chebyshev(t::I1E_NEAR) * size;
    let y = only(far, size, 8.0);
    let tail = onto(y.recip(), 0.0, 0.125).chebyshev(t::I1E_FAR) / y.sqrt();
    let y = far.pick(tail, near);
    x.lt(0.0).pick(-y, y)
}

/// `K0(x)`, times `exp(x)` when `scaled`. Infinite at 0, no number below.
fn k0(x: Ex<'_>, scaled: bool) -> Ex<'_> {
    let far = x.gt(2.0);
    let low = far.pick(2.0, x);
    let growth = low.exp();
    let near = onto(low.square(), 0.0, 4.0).chebyshev(t::K0_NEAR) - (low * 0.5).log() * i0e(low) * growth;
    let y = only(far, x, 2.0);
    let tail = onto(y.recip(), 0.0, 0.5).chebyshev(t::K0E_FAR) / y.sqrt();
    modified_second_kind(x, far, near, tail, y, growth, scaled)
}

/// `K1(x)`, times `exp(x)` when `scaled`.
fn k1(x: Ex<'_>, scaled: bool) -> Ex<'_> {
    let far = x.gt(2.0);
    let low = far.pick(2.0, x);
    let growth = low.exp();
    let near = onto(low.square(), 0.0, 4.0).chebyshev(t::K1_NEAR) / low + (low * 0.5).log() * i1e(low) * growth;
    let y = only(far, x, 2.0);
    let tail = onto(y.recip(), 0.0, 0.5).chebyshev(t::K1E_FAR) / y.sqrt();
    modified_second_kind(x, far, near, tail, y, growth, scaled)
}

fn modified_second_kind<'s>(
    x: Ex<'s>,
    far: Ex<'s>,
    near: Ex<'s>,
    tail: Ex<'s>,
    y: Ex<'s>,
    growth: Ex<'s>,
    scaled: bool,
) -> Ex<'s> {
    let value = if scaled { far.pick(tail, near * growth) } else { far.pick(tail * (-y).exp(), near) };
    let value = x.eq(0.0).pick(f64::INFINITY, value);
    (x.lt(0.0) | x.is_nan()).pick(f64::NAN, value)
}

/// Amplitudes `(P, Q)` of a Bessel function of order `v` beyond 8, and its phase.
fn wave<'s>(x: Ex<'s>, order: f64, p: &[f64], q: &[f64]) -> (Ex<'s>, Ex<'s>, Ex<'s>, Ex<'s>) {
    let far = x.gt(8.0);
    let y = only(far, x, 8.0);
    let inverse = y.recip();
    let z = onto(inverse.square(), 0.0, 1.0 / 64.0);
    let scale = (inverse * FRAC_2_PI).sqrt();
    (z.chebyshev(p) * scale, z.chebyshev(q) * inverse * scale, y - FRAC_PI_4 * (1.0 + 2.0 * order), far)
}

/// `x^2` mapped onto the near series' variable, held at its end beyond 8.
fn near_variable(x: Ex<'_>) -> Ex<'_> {
    let x = x.gt(8.0).pick(8.0, x);
    onto(x.square(), 0.0, 64.0)
}

fn j0(x: Ex<'_>) -> Ex<'_> {
    let x = x.abs();
    let near = near_variable(x).chebyshev(t::J0_NEAR);
    let (p, q, phase, far) = wave(x, 0.0, t::P0_FAR, t::Q0_FAR);
    let y = far.pick(p * phase.cos() - q * phase.sin(), near);
    vanishing(x, y)
}

fn j1(x: Ex<'_>) -> Ex<'_> {
    let size = x.abs();
    let near = near_variable(size).chebyshev(t::J1_NEAR) * size;
    let (p, q, phase, far) = wave(size, 1.0, t::P1_FAR, t::Q1_FAR);
    let y = vanishing(size, far.pick(p * phase.cos() - q * phase.sin(), near));
    x.lt(0.0).pick(-y, y)
}

/// The limit 0 at infinity.
fn vanishing<'s>(x: Ex<'s>, y: Ex<'s>) -> Ex<'s> {
    x.eq(f64::INFINITY).pick(0.0, y)
}

fn y0(x: Ex<'_>) -> Ex<'_> {
    let low = x.gt(8.0).pick(8.0, x);
    let v = near_variable(x);
    let near = v.chebyshev(t::Y0_NEAR) + low.log() * v.chebyshev(t::J0_NEAR) * FRAC_2_PI;
    let (p, q, phase, far) = wave(x, 0.0, t::P0_FAR, t::Q0_FAR);
    second_kind(x, far.pick(p * phase.sin() + q * phase.cos(), near))
}

fn y1(x: Ex<'_>) -> Ex<'_> {
    let low = x.gt(8.0).pick(8.0, x);
    let v = near_variable(x);
    let j = v.chebyshev(t::J1_NEAR) * low;
    let near = v.chebyshev(t::Y1_NEAR) * low + (low.log() * j - low.recip()) * FRAC_2_PI;
    let (p, q, phase, far) = wave(x, 1.0, t::P1_FAR, t::Q1_FAR);
    second_kind(x, far.pick(p * phase.sin() + q * phase.cos(), near))
}

/// Minus infinity at 0, no number below.
fn second_kind<'s>(x: Ex<'s>, y: Ex<'s>) -> Ex<'s> {
    let y = x.eq(0.0).pick(f64::NEG_INFINITY, vanishing(x, y));
    (x.lt(0.0) | x.is_nan()).pick(f64::NAN, y)
}

/// `sin(x) / x`, by its series near 0.
fn spherical_j0(x: Ex<'_>) -> Ex<'_> {
    let small = x.abs().lt(0.5);
    let z = small.pick(x.square(), 0.0);
    let series =
        z.poly(&[1.0 / 6227020800.0, -1.0 / 39916800.0, 1.0 / 362880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0, 1.0]);
    let y = small.pick(series, x.sin() / small.pick(1.0, x));
    x.abs().eq(f64::INFINITY).pick(0.0, y)
}

/// Airy function: a series around 0, decay to the right, waves to the left.
fn airy_ai(x: Ex<'_>) -> Ex<'_> {
    let size = x.abs();
    let (right, left) = (x.gt(3.0), x.lt(-3.0));
    let near = onto((right | left).pick(0.0, x), -3.0, 3.0).chebyshev(t::AIRY_NEAR);
    let y = (right | left).pick(size, 3.0);
    let z = y * y.sqrt() * (2.0 / 3.0);
    let quarter = y.sqrt().sqrt();
    let z0 = 2.0 * 3f64.sqrt();
    let decay = onto(z.recip(), 0.0, 1.0 / z0).chebyshev(t::AIRY_RIGHT) * (-z).exp() / (quarter * (2.0 * PI.sqrt()));
    let v = onto(z.square().recip(), 0.0, 1.0 / (z0 * z0));
    let phase = z - FRAC_PI_4;
    let p = v.chebyshev(t::AIRY_LEFT_P) * phase.cos();
    let q = v.chebyshev(t::AIRY_LEFT_Q) / z * phase.sin();
    let waves = (p + q) / (quarter * PI.sqrt());
    let y = right.pick(decay, left.pick(waves, near));
    let y = size.eq(f64::INFINITY).pick(right.pick(y.constant(0.0), f64::NAN), y);
    x.is_nan().pick(x, y)
}

/// `exp(x^2) erfc(x)`.
fn erfcx(x: Ex<'_>) -> Ex<'_> {
    let size = x.abs();
    let v = (size - 4.0) / (size + 4.0);
    let v = size.eq(f64::INFINITY).pick(1.0, v);
    let y = v.chebyshev(t::ERFCX) / (size * 2.0 + 1.0);
    let mirrored = x.square().exp() * 2.0 - y;
    x.lt(0.0).pick(mirrored, y)
}

/// Inverse of the normal distribution function: by `erfinv` in the middle, by a series of its own in the tails.
fn ndtri(p: Ex<'_>) -> Ex<'_> {
    let upper = p.gt(0.5);
    let q = upper.pick(p.constant(1.0) - p, p);
    let tail = q.lt((-2f64).exp());
    let middle = tail.pick(0.0, q * 2.0 - 1.0).erf_inv() * SQRT_2;
    let z = (tail.pick(q, 0.1).log() * -2.0).sqrt();
    let z = z.eq(f64::INFINITY).pick(40.0, z);
    let far = z - (z.log() + onto(z.recip(), 1.0 / 40.0, 0.5).chebyshev(t::NDTRI_TAIL)) / z;
    let y = tail.pick(-far, middle);
    let y = q.eq(0.0).pick(f64::NEG_INFINITY, y);
    let y = upper.pick(-y, y);
    (p.lt(0.0) | p.gt(1.0) | p.is_nan()).pick(f64::NAN, y)
}
