//! Functions around the gamma function that need iteration: Hurwitz zeta, polygamma, incomplete gamma.

use super::util::{In, Out, Takes, inputs, map};
use crate::Result;
use crate::aten::expr::{Ex, formula, formulas};
use crate::aten::{Cx, Row};
use primitives::{DType, Graph, Value};

const REAL: Takes = Takes::NO_COMPLEX;

pub const ROWS: &[Row] = &[
    Row::pointwise("polygamma", polygamma),
    Row::pointwise("special_zeta", zeta_row),
    Row::pointwise("special_zeta.self_scalar", zeta_row).dynamic(&["self"]),
    Row::pointwise("special_zeta.other_scalar", zeta_row).dynamic(&["other"]),
    Row::pointwise("igamma", |cx| incomplete(cx, false)),
    Row::pointwise("igammac", |cx| incomplete(cx, true)),
    Row::pointwise("mvlgamma", mvlgamma),
];

/// Runs `body` on `state` while `more` holds for any element and at most `limit` times.
pub fn iterate(
    g: &mut Graph,
    state: &[Value],
    limit: i64,
    more: impl FnOnce(&mut Graph, &[Value]) -> primitives::Result<Value>,
    body: impl FnOnce(&mut Graph, &[Value]) -> primitives::Result<Vec<Value>>,
) -> primitives::Result<Vec<Value>> {
    let count = g.scalar(DType::I64, 0)?;
    let all: Vec<Value> = state.iter().copied().chain([count]).collect();
    let n = state.len();
    let mut out = g.while_loop(
        &all,
        |g, v| {
            let alive = more(g, &v[..n])?;
            let dims: Vec<usize> = (0..g.rank(alive)).collect();
            let any = g.reduce_or(alive, &dims)?;
            let last = g.scalar(DType::I64, limit)?;
            let in_time = g.compare(v[n], last, primitives::Direction::Lt)?;
            Ok(vec![g.and(any, in_time)?])
        },
        |g, v| {
            let mut next = body(g, &v[..n])?;
            let one = g.scalar(DType::I64, 1)?;
            next.push(g.add(v[n], one)?);
            Ok(next)
        },
    )?;
    out.truncate(n);
    Ok(out)
}

/// Bernoulli numbers over factorials, `B_2j / (2j)!` for j from 1: the weights of Euler and Maclaurin's sum.
const EULER_MACLAURIN: [f64; 10] = [
    8.333_333_333_333_333e-2,
    -1.388_888_888_888_889e-3,
    3.306_878_306_878_307e-5,
    -8.267_195_767_195_768e-7,
    2.087_675_698_786_81e-8,
    -5.284_190_138_687_493e-10,
    1.338_253_653_068_467_9e-11,
    -3.389_680_296_322_583e-13,
    8.586_062_056_277_845e-15,
    -2.174_868_698_558_061_7e-16,
];

/// Hurwitz zeta, the sum of `(q + k)^-x`: terms up to 9, then the rest by Euler and Maclaurin. Infinite at 1 and at the
/// poles `q = 0, -1, -2 ...`; no number below 1, nor for a negative `q` with a fractional `x`.
fn zeta(g: &mut Graph, x: Value, q: Value) -> primitives::Result<Value> {
    let (x, dtype) = (x, g.dtype(x));
    let (x, q) = (g.convert(x, DType::F64)?, g.convert(q, DType::F64)?);
    let bad = formula(g, [x, q], |[x, q]| (x.lt(1.0) | (q.lt(0.0) & x.ne(x.floor()))) | x.is_nan() | q.is_nan())?;
    let pole = formula(g, [x, q], |[x, q]| x.eq(1.0) | (q.le(0.0) & q.eq(q.floor())))?;
    let [x, q] = {
        // Elements that are settled are replaced, so that they do not keep the loop running.
        let settled = g.or(bad, pole)?;
        formulas(g, [settled, x, q], |[s, x, q]| [s.pick(2.0, x), s.pick(1.0, q)])?
    };
    let zero = g.zeros_like(q)?;
    let summed = iterate(
        g,
        &[q, zero],
        1 << 20,
        |g, v| formula(g, [v[0]], |[a]| a.lt(9.0)),
        |g, v| {
            formulas(g, [v[0], v[1], x], |[a, sum, x]| {
                let more = a.lt(9.0);
                // An integer power of a negative base keeps its sign.
                let term = more.pick(a, 1.0).pow(-x);
                [more.pick(a + 1.0, a), more.pick(sum + term, sum)]
            })
            .map(Vec::from)
        },
    )?;
    let y = formula(g, [x, summed[0], summed[1], bad, pole], |[x, a, sum, bad, pole]| {
        let power = a.pow(-x);
        let mut total = sum + power * a / (x - 1.0) + power * 0.5;
        let mut factor = x * power / a;
        for (j, weight) in EULER_MACLAURIN.iter().enumerate() {
            total = total + factor * *weight;
            let k = 2.0 * j as f64;
            factor = factor * (x + (k + 1.0)) * (x + (k + 2.0)) / a.square();
        }
        bad.pick(f64::NAN, pole.pick(f64::INFINITY, total))
    })?;
    g.convert(y, dtype)
}

fn zeta_row(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ([x, q], dtype) = inputs(cx, REAL, Out::Float, [In::T(0), In::T(1)])?;
    // Below 1 comes before the pole in `x`; NaN wins.
    let y = zeta(cx.g, x, q)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `polygamma(n, self)`: digamma for `n = 0`, else `(-1)^(n+1) n! zeta(n + 1, x)`.
fn polygamma(cx: &mut Cx<'_, '_>) -> Result<()> {
    let n = cx.int(0)?;
    if n < 0 {
        return Err(cx.error("polygamma(n, x) does not support negative n."));
    }
    if n == 0 {
        return map(cx, REAL, Out::Float, [In::T(1)], |[x]| super::unary::digamma(x));
    }
    if n == 1 {
        return map(cx, REAL, Out::Float, [In::T(1)], |[x]| trigamma(x));
    }
    let ([x], dtype) = inputs(cx, REAL, Out::Float, [In::T(1)])?;
    let order = cx.g.full_like(x, n as f64 + 1.0)?;
    let z = zeta(cx.g, order, x)?;
    let factorial: f64 = (1..=n).map(|k| k as f64).product();
    let y = formula(cx.g, [z], |[z]: [Ex<'_>; 1]| z * if n % 2 == 1 { factorial } else { -factorial })?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// Second derivative of `lgamma`: by reflection below 1/2, six steps of its recurrence, then its asymptotic series.
fn trigamma(x: Ex<'_>) -> Ex<'_> {
    let low = x.lt(0.5);
    let wave = (x * std::f64::consts::PI).sin().recip() * std::f64::consts::PI;
    let (mut y, mut sum) = (low.pick(x.constant(1.0) - x, x), low.pick(-wave.square(), 0.0));
    for _ in 0..6 {
        sum = sum + y.square().recip();
        y = y + 1.0;
    }
    let z = y.square().recip();
    let series = z * (z * (z * (1.0 / 42.0) - 1.0 / 30.0) + 1.0 / 6.0) + y.recip() * 0.5 + 1.0;
    let sum = sum + series / y;
    low.pick(-sum, sum)
}

/// Regularised incomplete gamma functions of `(self = a, other = x)`: the lower by its series below `a + 1`, the upper
/// by its continued fraction above; each is 1 minus the other.
fn incomplete(cx: &mut Cx<'_, '_>, upper: bool) -> Result<()> {
    const LIMIT: i64 = 2000;
    let ([a0, x0], dtype) = inputs(cx, Takes::FLOAT, Out::Promoted, [In::T(0), In::T(1)])?;
    let g = &mut *cx.g;
    let (a0, x0) = (g.convert(a0, DType::F64)?, g.convert(x0, DType::F64)?);
    let easy = formula(g, [a0, x0], |[a, x]| x.le(0.0) | a.le(0.0) | !x.is_finite() | !a.is_finite())?;
    let [a, x] = formulas(g, [easy, a0, x0], |[easy, a, x]| [easy.pick(1.0, a), easy.pick(0.5, x)])?;
    let [below, front] = formulas(g, [a, x], |[a, x]| [x.lt(a + 1.0), (a * x.log() - x - a.lgamma()).exp()])?;
    // Series: sum of x^n / (a (a+1) ... (a+n)).
    let xs = formula(g, [below, x], |[b, x]| b.pick(x, 0.0))?;
    let first = formula(g, [a], |[a]| a.recip())?;
    let series = iterate(
        g,
        &[a, first, first],
        LIMIT,
        |g, v| formula(g, [v[1], v[2]], |[term, sum]| term.gt(sum * 1e-17)),
        |g, v| {
            formulas(g, [v[0], v[1], v[2], xs], |[n, term, sum, x]| {
                let n = n + 1.0;
                let term = term * x / n;
                [n, term, sum + term]
            })
            .map(Vec::from)
        },
    )?;
    // Continued fraction by Lentz's method, in b = x + 1 - a + 2i.
    let xf = formula(g, [below, x, a], |[b, x, a]| b.pick(a + 20.0, x))?;
    let start = formulas(g, [a, xf], |[a, x]| {
        let b = x + 1.0 - a;
        let d = b.recip();
        [b, b.constant(1e300), d, d, b.constant(0.0), b.constant(2.0)]
    })?;
    let fraction = iterate(
        g,
        &start,
        LIMIT,
        |g, v| formula(g, [v[5]], |[delta]| (delta - 1.0).abs().gt(1e-16)),
        |g, v| {
            formulas(g, [v[0], v[1], v[2], v[3], v[4], a], |[b, c, d, h, i, a]| {
                let i = i + 1.0;
                let an = -i * (i - a);
                let b = b + 2.0;
                let d = nonzero(an * d + b).recip();
                let c = nonzero(b + an / c);
                let delta = d * c;
                [b, c, d, h * delta, i, delta]
            })
            .map(Vec::from)
        },
    )?;
    let y = formula(g, [series[2], fraction[3], front, below, easy, a0, x0], |[s, h, front, below, easy, a, x]| {
        let (lower, above) = (s * front, h * front);
        let one = s.constant(1.0);
        let y = if upper { below.pick(one - lower, above) } else { below.pick(lower, one - above) };
        // Edges: x = 0, a = 0, infinities; no number outside the domain.
        let whole = (a.eq(0.0) & x.gt(0.0)) | (x.eq(f64::INFINITY) & a.lt(f64::INFINITY));
        let nothing = (x.eq(0.0) & a.gt(0.0)) | (a.eq(f64::INFINITY) & x.lt(f64::INFINITY));
        let (at_whole, at_nothing) = if upper { (0.0, 1.0) } else { (1.0, 0.0) };
        let edge = whole.pick(one * at_whole, nothing.pick(one * at_nothing, f64::NAN));
        let outside = x.lt(0.0) | a.lt(0.0) | x.is_nan() | a.is_nan();
        outside.pick(f64::NAN, easy.pick(edge, y))
    })?;
    let y = g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

fn nonzero(x: Ex<'_>) -> Ex<'_> {
    x.abs().lt(1e-300).pick(1e-300, x)
}

/// `mvlgamma(self, p)`: logarithm of the multivariate gamma function.
fn mvlgamma(cx: &mut Cx<'_, '_>) -> Result<()> {
    let p = cx.int(1)?;
    if p < 1 {
        return Err(cx.error("p has to be greater than or equal to 1"));
    }
    if cx.ty(0)?.dtype.is_bool() {
        return Err(cx.error("The input tensor may not be a boolean tensor."));
    }
    map(cx, REAL, Out::Float, [In::T(0)], |[x]| {
        let start = x.constant(p as f64 * (p - 1) as f64 / 4.0 * std::f64::consts::PI.ln());
        (0..p).fold(start, |sum, j| sum + (x - 0.5 * j as f64).lgamma())
    })
}
