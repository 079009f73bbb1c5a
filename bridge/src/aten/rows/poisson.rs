//! Poisson counts, by walking up the distribution until it passes a uniform number.

use super::math;
use crate::Result;
use crate::aten::threefry;
use crate::aten::{CheckKind, Cx, Row, exact, promote};
use primitives::{DType, Direction, Graph, Value};

pub const ROWS: &[Row] = &[Row::pointwise("poisson", poisson)];

/// `poisson(self)`: `self` holds the rates.
///
/// The walk starts twelve deviations below the rate, where less than 1e-30 of the distribution is left out, so it takes
/// some `24 * sqrt(rate)` steps at most, all elements at once.
fn poisson(cx: &mut Cx<'_, '_>) -> Result<()> {
    let rate = cx.t(0)?;
    let (dims, dtype) = (cx.g.dims(rate), cx.g.dtype(rate));
    if !dtype.is_float() {
        return Err(cx.error(format!("\"poisson_cpu\" not implemented for '{}'", promote::torch_name(dtype))));
    }
    let fine = math::cmp_n(cx.g, rate, 0.0, Direction::Ge)?;
    let bad = cx.g.not(fine)?;
    cx.check(bad, bad, CheckKind::Runtime, "invalid Poisson rate, expected rate to be non-negative")?;
    let n = cx.g.numel(rate);
    let bits = threefry::draw(cx, Some(1), n)?;
    let g = &mut *cx.g;
    let u = bits.unit(g, DType::F64)?;
    let u = g.reshape(u, &dims)?;
    let rate = g.convert(rate, DType::F64)?;
    let deviation = g.sqrt(rate)?;
    let below = math::mul_n(g, deviation, -12.0)?;
    let first = g.add(rate, below)?;
    let first = g.floor(first)?;
    let zero = g.zeros_like(first)?;
    let first = g.maximum(first, zero)?;
    let above = math::mul_n(g, deviation, 40.0)?;
    let last = g.add(first, above)?;
    let last = math::add_n(g, last, 60.0)?;
    let p = probability(g, rate, first)?;
    let walked = g.while_loop(
        &[first, p, p],
        |g, a| {
            let going = walking(g, u, last, a)?;
            let dims: Vec<usize> = (0..g.rank(going)).collect();
            Ok(vec![g.reduce_or(going, &dims)?])
        },
        |g, a| {
            let going = walking(g, u, last, a)?;
            let one = g.ones_like(a[0])?;
            let k = g.add(a[0], one)?;
            let factor = exact::divide(g, rate, k)?;
            let p = g.multiply(a[1], factor)?;
            let sum = g.add(a[2], p)?;
            Ok(vec![g.select(going, k, a[0])?, g.select(going, p, a[1])?, g.select(going, sum, a[2])?])
        },
    )?;
    let y = g.convert(walked[0], dtype)?;
    cx.out(y);
    Ok(())
}

/// Elements whose running sum has not passed `u`; false for rates that are no numbers or infinite, which end at once.
fn walking(g: &mut Graph, u: Value, last: Value, a: &[Value]) -> primitives::Result<Value> {
    let short = g.compare(a[2], u, Direction::Le)?;
    let within = g.compare(a[0], last, Direction::Lt)?;
    g.and(short, within)
}

/// `rate^k * exp(-rate) / k!`, which is 1 for rate and k of 0.
fn probability(g: &mut Graph, rate: Value, k: Value) -> Result<Value> {
    let log = g.log(rate)?;
    let power = g.multiply(k, log)?;
    let none = math::cmp_n(g, k, 0.0, Direction::Eq)?;
    let zero = g.zeros_like(power)?;
    let power = g.select(none, zero, power)?;
    let next = math::add_n(g, k, 1.0)?;
    let factorial = g.lgamma(next)?;
    let exponent = g.subtract(power, rate)?;
    let exponent = g.subtract(exponent, factorial)?;
    Ok(g.exp(exponent)?)
}
