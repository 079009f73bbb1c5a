//! Random numbers of continuous distributions: `uniform`, `normal`, `exponential`, `cauchy`, `log_normal`.
//!
//! The functional overloads take a tensor for its shape and dtype alone; the in-place ones are what users call.

use super::math;
use crate::Result;
use crate::aten::row::Numbers;
use crate::aten::threefry::{self, Bits};
use crate::aten::{Cx, Row, promote};
use primitives::{DType, Dims, Value};

pub const ROWS: &[Row] = &[
    Row::pointwise("uniform", uniform).dynamic(&["from", "to"]).guarded(uniform_bounds),
    Row::pointwise("normal_functional", |cx| normal_fill(cx, 3)).dynamic(&["mean", "std"]).guarded(|n| std_at(n, 2)),
    Row::pointwise("normal.Tensor_Tensor", normal_like),
    Row::pointwise("normal.Tensor_float", normal_like).dynamic(&["std"]).guarded(|n| std_at(n, 1)),
    Row::pointwise("normal.float_Tensor", normal_like).dynamic(&["mean"]),
    Row::pointwise("exponential", exponential).dynamic(&["lambd"]).guarded(positive_rate),
    Row::pointwise("cauchy", cauchy).dynamic(&["median", "sigma"]).guarded(positive_sigma),
    Row::pointwise("log_normal", log_normal).dynamic(&["mean", "std"]).guarded(positive_std),
];

/// The numbers that an elementwise fill of argument 0 draws, and its type.
pub fn bits(cx: &mut Cx<'_, '_>, generator: usize) -> Result<(Bits, DType, Dims)> {
    let ty = cx.ty(0)?;
    let bits = threefry::draw(cx, Some(generator), ty.numel())?;
    Ok((bits, ty.dtype, ty.dims))
}

/// Flat numbers as the result, in its shape and dtype.
pub fn finish(cx: &mut Cx<'_, '_>, flat: Value, dtype: DType, dims: &[i64]) -> Result<()> {
    let y = cx.g.convert(flat, dtype)?;
    let y = cx.g.reshape(y, dims)?;
    cx.out(y);
    Ok(())
}

pub fn floating(cx: &Cx<'_, '_>, what: &str, dtype: DType) -> Result<()> {
    if dtype.is_float() {
        return Ok(());
    }
    Err(cx.error(format!("{what} expects a floating dtype, got {}", promote::torch_name(dtype))))
}

fn uniform_bounds(n: &Numbers<'_>) -> Result<()> {
    let (from, to) = (n.get(1).unwrap_or(0.0), n.get(2).unwrap_or(1.0));
    if from > to {
        return Err(n.error(format!("uniform_ expects to return a [from, to) range, but found from={from} > to={to}")));
    }
    Ok(())
}

fn std_at(n: &Numbers<'_>, i: usize) -> Result<()> {
    match n.get(i) {
        Some(std) if std < 0.0 => Err(n.error(format!("normal expects std >= 0.0, but found std {std}"))),
        _ => Ok(()),
    }
}

fn positive_rate(n: &Numbers<'_>) -> Result<()> {
    match n.get(1) {
        Some(l) if l <= 0.0 => Err(n.error(format!("exponential_ expects lambda > 0.0, but found lambda={l}"))),
        _ => Ok(()),
    }
}

fn positive_sigma(n: &Numbers<'_>) -> Result<()> {
    match n.get(2) {
        Some(s) if s <= 0.0 => Err(n.error(format!("cauchy_ expects sigma > 0.0, but found sigma={s}"))),
        _ => Ok(()),
    }
}

fn positive_std(n: &Numbers<'_>) -> Result<()> {
    match n.get(2) {
        Some(s) if s <= 0.0 => Err(n.error(format!("log_normal_ expects std > 0.0, but found std={s}"))),
        _ => Ok(()),
    }
}

/// `from + u * (to - from)` with `u` in `[0, 1)`; both parts of a complex number.
fn uniform(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(0)?;
    let real = ty.dtype.real_of();
    floating(cx, "uniform_", real)?;
    let parts = if ty.dtype.is_complex() { 2 } else { 1 };
    let bits = threefry::draw(cx, Some(3), parts * ty.numel())?;
    let u = bits.unit(cx.g, real)?;
    let compute = cx.g.dtype(u);
    let (from, to) = (cx.number_as(1, compute)?, cx.number_as(2, compute)?);
    let span = cx.g.subtract(to, from)?;
    let x = math::mul(cx.g, u, span)?;
    let x = math::add(cx.g, x, from)?;
    if parts == 2 {
        let x = pairs(cx, x, ty.numel())?;
        return finish(cx, x, ty.dtype, &ty.dims);
    }
    finish(cx, x, ty.dtype, &ty.dims)
}

/// Complex numbers from `2n` reals.
fn pairs(cx: &mut Cx<'_, '_>, x: Value, n: i64) -> Result<Value> {
    let re = cx.g.slice(x, &[0], &[n], &[1])?;
    let im = cx.g.slice(x, &[n], &[2 * n], &[1])?;
    Ok(cx.g.complex(re, im)?)
}

/// Standard normal numbers, flat, in the compute dtype of `dtype`; a complex number's parts have variance 1/2.
fn standard(cx: &mut Cx<'_, '_>, generator: usize, dtype: DType, n: i64) -> Result<Value> {
    if !dtype.is_complex() {
        floating(cx, "normal", dtype)?;
        let bits = threefry::draw(cx, Some(generator), n)?;
        return threefry::normal(cx.g, bits, dtype);
    }
    let bits = threefry::draw(cx, Some(generator), 2 * n)?;
    let x = threefry::normal(cx.g, bits, dtype.real_of())?;
    let x = math::mul_n(cx.g, x, std::f64::consts::FRAC_1_SQRT_2)?;
    pairs(cx, x, n)
}

/// `mean + std * z` for numbers `mean` and `std` (arguments 1 and 2).
fn normal_fill(cx: &mut Cx<'_, '_>, generator: usize) -> Result<()> {
    let ty = cx.ty(0)?;
    let z = standard(cx, generator, ty.dtype, ty.numel())?;
    let compute = cx.g.dtype(z);
    let (mean, std) = (cx.number_as(1, compute)?, cx.number_as(2, compute)?);
    let x = math::mul(cx.g, z, std)?;
    let x = math::add(cx.g, x, mean)?;
    finish(cx, x, ty.dtype, &ty.dims)
}

/// `normal(mean, std)` where one or both are tensors, broadcast.
fn normal_like(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (mean, std) = (cx.operand(0)?, cx.operand(1)?);
    if std.dtype.is_complex() {
        return Err(cx.error("normal expects standard deviation to be non-complex"));
    }
    let dtype = cx.promote(&[mean, std]);
    let compute = promote::compute_type(dtype);
    let (mean, std) = (cx.value_as(&mean, compute)?, cx.value_as(&std, compute.real_of())?);
    if matches!(cx.arg(1), crate::aten::Arg::Tensor(_)) {
        let bad = math::cmp_n(cx.g, std, 0.0, primitives::Direction::Lt)?;
        cx.check(bad, bad, crate::aten::CheckKind::Runtime, "normal expects all elements of std >= 0.0")?;
    }
    let std = cx.g.convert(std, compute)?;
    let (mean, std) = crate::aten::broadcast::pair(cx, mean, std)?;
    let dims = cx.g.dims(mean);
    let n = cx.g.numel(mean);
    let z = standard(cx, 2, dtype, n)?;
    let z = cx.g.reshape(z, &dims)?;
    let x = cx.g.multiply(z, std)?;
    let x = cx.g.add(x, mean)?;
    finish(cx, x, dtype, &dims)
}

/// `-log(u) / lambd` with `u` in `(0, 1)`.
fn exponential(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (bits, dtype, dims) = bits(cx, 2)?;
    floating(cx, "exponential_", dtype)?;
    let e = standard_exponential(cx, bits, dtype)?;
    let rate = cx.number_as(1, cx.g.dtype(e))?;
    let x = math::div(cx.g, e, rate)?;
    finish(cx, x, dtype, &dims)
}

/// Exponential numbers of rate 1, flat and positive.
pub fn standard_exponential(cx: &mut Cx<'_, '_>, bits: Bits, dtype: DType) -> Result<Value> {
    let u = bits.open_unit(cx.g, dtype)?;
    let l = cx.g.log(u)?;
    Ok(cx.g.neg(l)?)
}

/// `median + sigma * tan(pi * (u - 1/2))`.
fn cauchy(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (bits, dtype, dims) = bits(cx, 3)?;
    floating(cx, "cauchy_", dtype)?;
    let u = bits.open_unit(cx.g, dtype)?;
    let u = math::add_n(cx.g, u, -0.5)?;
    let angle = math::mul_n(cx.g, u, std::f64::consts::PI)?;
    let t = cx.g.tan(angle)?;
    let compute = cx.g.dtype(t);
    let (median, sigma) = (cx.number_as(1, compute)?, cx.number_as(2, compute)?);
    let x = math::mul(cx.g, t, sigma)?;
    let x = math::add(cx.g, x, median)?;
    finish(cx, x, dtype, &dims)
}

/// `exp(mean + std * z)`.
fn log_normal(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(0)?;
    floating(cx, "log_normal_", ty.dtype)?;
    let z = standard(cx, 3, ty.dtype, ty.numel())?;
    let compute = cx.g.dtype(z);
    let (mean, std) = (cx.number_as(1, compute)?, cx.number_as(2, compute)?);
    let x = math::mul(cx.g, z, std)?;
    let x = math::add(cx.g, x, mean)?;
    let x = cx.g.exp(x)?;
    finish(cx, x, ty.dtype, &ty.dims)
}
