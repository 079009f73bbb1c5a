//! Division with rounding, remainders, and powers.

use super::util::{In, Out, Takes, inputs, map, map2};
use crate::aten::cx::CheckKind;
use crate::aten::expr::{Ex, formula};
use crate::aten::row::Numbers;
use crate::aten::{Cx, Row, exact};
use crate::{Error, Result};
use primitives::{Direction, Graph, Number, Value};

const REAL: Takes = Takes::REAL;

pub const ROWS: &[Row] = &[
    Row::pointwise("div.Tensor_mode", div_mode),
    Row::pointwise("div.Scalar_mode", div_mode).dynamic(&["other"]),
    Row::pointwise("floor_divide", |cx| divide(cx, Rounding::Floor)),
    Row::pointwise("floor_divide.Scalar", |cx| divide(cx, Rounding::Floor)).dynamic(&["other"]),
    Row::pointwise("remainder.Tensor", |cx| modulo(cx, remainder)),
    Row::pointwise("remainder.Scalar", |cx| modulo(cx, remainder)).dynamic(&["other"]),
    Row::pointwise("remainder.Scalar_Tensor", |cx| modulo(cx, remainder)).dynamic(&["self"]),
    Row::pointwise("fmod.Tensor", |cx| modulo(cx, |a, b| a % b)),
    Row::pointwise("fmod.Scalar", |cx| modulo(cx, |a, b| a % b)).dynamic(&["other"]),
    Row::pointwise("pow.Tensor_Tensor", |cx| map2(cx, Takes::ALL, Out::Promoted, power)),
    Row::pointwise("pow.Scalar", |cx| map2(cx, Takes::ALL, Out::Promoted, power)).dynamic(&["self"]),
    // Squares, roots and reciprocals are what an exponent nearly always is.
    Row::pointwise("pow.Tensor_Scalar", pow_scalar)
        .dynamic(&["exponent"])
        .but(&[0.0, 1.0, 2.0, 3.0, 0.5, -0.5, -1.0, -2.0])
        .guarded(no_negative_power),
    Row::pointwise("gcd", |cx| gcd_row(cx, gcd)),
    Row::pointwise("lcm", |cx| gcd_row(cx, lcm)),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    Floor,
    Trunc,
}

/// `div(self, other, *, rounding_mode)`.
fn div_mode(cx: &mut Cx<'_, '_>) -> Result<()> {
    match cx.opt_str(2)? {
        None => map2(cx, Takes::ALL, Out::Float, |a, b| a / b),
        Some("floor") => divide(cx, Rounding::Floor),
        Some("trunc") => divide(cx, Rounding::Trunc),
        Some(other) => Err(
            cx.error(format!("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{other}'"))
        ),
    }
}

/// Operands of an integer division have their divisor checked; float ones do not.
fn divide(cx: &mut Cx<'_, '_>, rounding: Rounding) -> Result<()> {
    let ([a, b], dtype) = inputs(cx, Takes::NO_COMPLEX, Out::Promoted, [In::T(0), In::T(1)])?;
    if dtype.is_bool() {
        return Err(Error::not_implemented(cx.op(), "rounded division of bool".into()));
    }
    let y = if dtype.is_int() {
        no_zero(cx, b)?;
        match rounding {
            Rounding::Trunc => exact::divide(cx.g, a, b)?,
            Rounding::Floor => formula(cx.g, [a, b], |[a, b]| {
                let q = a / b;
                if !a.dtype().is_signed_int() {
                    return q;
                }
                let inexact = (a - q * b).ne(0i64);
                (inexact & a.lt(0i64).ne(b.lt(0i64))).pick(q - 1i64, q)
            })?,
        }
    } else {
        formula(cx.g, [a, b], |[a, b]| match rounding {
            // torch cuts the quotient off after rounding it to the result's dtype.
            Rounding::Trunc => (a / b).rounded_to(dtype).trunc(),
            Rounding::Floor => floor_divide(a, b),
        })?
    };
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// Floor of the exact quotient, as Python's `//`: through the remainder, so that rounding of `a / b` does not matter.
fn floor_divide<'s>(a: Ex<'s>, b: Ex<'s>) -> Ex<'s> {
    let rest = a % b;
    let q = (a - rest) / b;
    let q = (rest.ne(0.0) & b.lt(0.0).ne(rest.lt(0.0))).pick(q - 1.0, q);
    let whole = q.floor();
    let whole = (q - whole).gt(0.5).pick(whole + 1.0, whole);
    let ratio = a / b;
    // A zero quotient takes the sign of the ratio.
    let y = q.eq(0.0).pick(ratio * 0.0, whole);
    b.eq(0.0).pick(ratio, y)
}

/// Reports a zero divisor of integers.
fn no_zero(cx: &mut Cx<'_, '_>, b: Value) -> Result<()> {
    let zero = cx.g.zeros_like(b)?;
    let bad = cx.g.compare(b, zero, Direction::Eq)?;
    cx.check(bad, b, CheckKind::Runtime, "ZeroDivisionError")
}

fn modulo(cx: &mut Cx<'_, '_>, f: super::util::F2) -> Result<()> {
    let ([a, b], dtype) = inputs(cx, REAL, Out::Promoted, [In::T(0), In::T(1)])?;
    if dtype.is_int() {
        no_zero(cx, b)?;
    }
    let y = formula(cx.g, [a, b], |[a, b]| f(a, b))?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// Remainder with the sign of the divisor.
fn remainder<'s>(a: Ex<'s>, b: Ex<'s>) -> Ex<'s> {
    let r = a % b;
    if a.dtype().is_unsigned_int() {
        return r;
    }
    (r.ne(r.constant(0)) & b.lt(b.constant(0)).ne(r.lt(r.constant(0)))).pick(r + b, r)
}

/// Power of equal types. Integers to negative powers: 0, but for bases 1 and -1.
fn power<'s>(a: Ex<'s>, b: Ex<'s>) -> Ex<'s> {
    let dtype = a.dtype();
    if dtype.is_bool() {
        return a | !b;
    }
    if dtype.is_complex() {
        // XLA's complex power is NaN for a zero base in places where the limit is known.
        let zero = a.eq(0.0);
        let y = zero.pick(1.0, a).pow(b);
        return zero.pick(b.eq(0.0).pick(b.constant(1.0), b.constant(0.0)), y);
    }
    if !dtype.is_int() {
        return a.pow(b);
    }
    if !dtype.is_signed_int() {
        return whole_power(a, b);
    }
    let negative = b.lt(0i64);
    let odd = (b & b.constant(1i64)).ne(0i64);
    let unit = a.eq(1i64).pick(a, a.eq(-1i64).pick(odd.pick(a, a.constant(1)), a.constant(0)));
    negative.pick(unit, whole_power(a, negative.pick(b.constant(0), b)))
}

/// `a` to a power that is no less than zero, by squaring. XLA's own power of integers reads six bits of the exponent.
fn whole_power<'s>(a: Ex<'s>, b: Ex<'s>) -> Ex<'s> {
    let dtype = a.dtype();
    let bits = dtype.size_of() * 8 - usize::from(dtype.is_signed_int());
    let (mut y, mut square) = (a.constant(1i64), a);
    for k in 0..bits {
        y = (b & b.constant(1u64 << k)).eq(0i64).pick(y, y * square);
        square = square * square;
    }
    y
}

/// Refuses an integer to a negative integer power, which is no integer.
fn no_negative_power(n: &Numbers<'_>) -> Result<()> {
    if n.of_integers() && n.least_whole(1).is_some_and(|e| e < 0) {
        return Err(n.error("Integers to negative integer powers are not allowed.".into()));
    }
    Ok(())
}

/// `pow(self, exponent)`, the exponent a number: one of the row's special values, or an input of the program.
fn pow_scalar(cx: &mut Cx<'_, '_>) -> Result<()> {
    let Some(exponent) = cx.fixed_number(1)?.filter(|n| !matches!(n, Number::Complex(..))) else {
        return map2(cx, Takes::ALL, Out::Promoted, power);
    };
    let n = exponent.as_f64();
    map(cx, Takes::ALL, Out::Promoted, [In::T(0), In::T(1)], |[x, y]| {
        let (dtype, one) = (x.dtype(), x.constant(1));
        if dtype.is_bool() {
            return power(x, y);
        }
        if n == 0.0 {
            return one;
        }
        if n == 1.0 {
            return x;
        }
        if n == 2.0 {
            return x * x;
        }
        if n == 3.0 {
            return x * x * x;
        }
        if dtype.is_int() {
            return power(x, y);
        }
        if n == -1.0 {
            return one / x;
        }
        if n == -2.0 {
            return one / (x * x);
        }
        if dtype.is_float() && n == 0.5 {
            return x.sqrt();
        }
        if dtype.is_float() && n == -0.5 {
            return one / x.sqrt();
        }
        power(x, y)
    })
}

fn gcd_row(cx: &mut Cx<'_, '_>, f: fn(&mut Graph, Value, Value) -> primitives::Result<Value>) -> Result<()> {
    let ([a, b], _) = inputs(cx, Takes::INT, Out::Promoted, [In::T(0), In::T(1)])?;
    let y = f(cx.g, a, b)?;
    cx.out(y);
    Ok(())
}

fn magnitude(g: &mut Graph, a: Value) -> primitives::Result<Value> {
    if g.dtype(a).is_unsigned_int() { Ok(a) } else { g.abs(a) }
}

/// Greatest common divisor by Euclid's algorithm, all elements at once until every one is done.
fn gcd(g: &mut Graph, a: Value, b: Value) -> primitives::Result<Value> {
    let (a, b) = (magnitude(g, a)?, magnitude(g, b)?);
    let dims: Vec<usize> = (0..g.rank(a)).collect();
    let out = g.while_loop(
        &[a, b],
        |g, v| {
            let zero = g.zeros_like(v[1])?;
            let more = g.compare(v[1], zero, Direction::Ne)?;
            Ok(vec![g.reduce_or(more, &dims)?])
        },
        |g, v| {
            let zero = g.zeros_like(v[1])?;
            let done = g.compare(v[1], zero, Direction::Eq)?;
            let one = g.full_like(v[1], 1)?;
            let divisor = g.select(done, one, v[1])?;
            let rest = g.remainder(v[0], divisor)?;
            let (a, b) = (g.select(done, v[0], v[1])?, g.select(done, zero, rest)?);
            Ok(vec![a, b])
        },
    )?;
    Ok(out[0])
}

/// Least common multiple, 0 when either is 0.
fn lcm(g: &mut Graph, a: Value, b: Value) -> primitives::Result<Value> {
    let d = gcd(g, a, b)?;
    let zero = g.zeros_like(d)?;
    let one = g.full_like(d, 1)?;
    let none = g.compare(d, zero, Direction::Eq)?;
    let safe = g.select(none, one, d)?;
    let part = exact::divide(g, a, safe)?;
    let y = g.multiply(part, b)?;
    let y = magnitude(g, y)?;
    g.select(none, zero, y)
}
