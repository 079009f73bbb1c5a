//! Gamma, Dirichlet and binomial numbers.

use super::gamma::iterate;
use super::lu::unwrapped;
use super::math;
use super::util::check_real_float;
use crate::Result;
use crate::aten::expr::{formula, formulas};
use crate::aten::threefry::{self, Bits};
use crate::aten::{CheckKind, Cx, Row, broadcast, exact, promote};
use primitives::{DType, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::pointwise("_standard_gamma", standard_gamma),
    Row::pointwise("_standard_gamma_grad", standard_gamma_grad),
    Row::new("_sample_dirichlet", dirichlet),
    Row::pointwise("binomial", binomial),
];

/// Rounds after which the loop ends in any case: fewer than 1 in 20 is refused in each.
const ROUNDS: i64 = 64;

/// Gamma numbers of scale 1 and shape `alpha`, in f64 for f64 and f32 else, by Marsaglia and Tsang's method: `d v` with
/// `v = (1 + z / sqrt(9 d))^3` and `d = alpha - 1/3`, taken when `log u < z^2 / 2 + d - d v + d log v`. A shape below 1
/// is drawn from `alpha + 1` and multiplied by `u^(1 / alpha)`.
///
/// Each round has a key of its own, so that how many rounds it takes changes no later draw.
fn gamma(cx: &mut Cx<'_, '_>, alpha: Value, generator: Option<usize>) -> Result<Value> {
    let dims = cx.g.dims(alpha);
    let n = cx.g.numel(alpha);
    let dtype = promote::compute_type(cx.g.dtype(alpha));
    let state = cx.rng_state(generator)?;
    // Moves the state on; these bits are the boost of small shapes.
    let boost = threefry::draw(cx, generator, n)?;
    let g = &mut *cx.g;
    let alpha = g.convert(alpha, dtype)?;
    let flat = g.reshape(alpha, &[n])?;
    let [shape, d, c] = formulas(g, [flat], |[a]| {
        let shape = a.lt(1.0).pick(a + 1.0, a);
        let d = shape - 1.0 / 3.0;
        [shape, d, (d * 9.0).rsqrt()]
    })?;
    let usable = formula(g, [shape], |[a]| a.gt(0.0) & a.is_finite())?;
    let blank = g.zeros_like(d)?;
    let round = g.scalar(DType::U32, 0)?;
    let drawn = iterate(
        g,
        &[blank, usable, round],
        ROUNDS,
        |_, s| Ok(s[1]),
        |g, s| {
            let body = |g: &mut Graph| -> Result<Vec<Value>> {
                let (normals, uniforms) = round_bits(g, state, s[2], n)?;
                let z = threefry::normal(g, normals, dtype)?;
                let z = g.convert(z, dtype)?;
                let u = uniforms.open_unit(g, dtype)?;
                let [value, taken] = formulas(g, [z, u, c, d], |[z, u, c, d]| {
                    let t = z * c + 1.0;
                    let positive = t.gt(0.0);
                    let v = positive.pick(t * t * t, 1.0);
                    let bound = z.square() * 0.5 + d - d * v + d * v.log();
                    [d * v, positive & u.log().lt(bound)]
                })?;
                let now = g.and(s[1], taken)?;
                let kept = g.select(now, value, s[0])?;
                let refused = g.not(taken)?;
                let open = g.and(s[1], refused)?;
                Ok(vec![kept, open, math::add_n(g, s[2], 1)?])
            };
            body(g).map_err(unwrapped)
        },
    )?;
    let u = boost.open_unit(g, dtype)?;
    let y = formula(g, [drawn[0], flat, u], |[y, a, u]| {
        let small = a.lt(1.0);
        let factor = small.pick((u.log() / small.pick(a, 1.0)).exp(), 1.0);
        // No shape, or a shape that is no number, has no gamma number.
        let y = y * factor;
        a.eq(f64::INFINITY).pick(f64::INFINITY, a.ge(0.0).pick(y, f64::NAN))
    })?;
    Ok(g.reshape(y, &dims)?)
}

/// Two sets of `n` blocks under a key that the round's number makes from the state's.
fn round_bits(g: &mut Graph, state: Value, round: Value, n: i64) -> Result<(Bits, Bits)> {
    let words = threefry::words(g, state)?;
    let tag = g.scalar(DType::U32, 0x6761_6d6d_u64)?;
    let key = threefry::block(g, (words[0], words[1]), round, tag)?;
    let mut sets = Vec::new();
    for which in 0..2u64 {
        // The top bit of the counter tells the two sets apart.
        let top = g.scalar(DType::U32, which << 31)?;
        let high = g.xor(words[3], top)?;
        sets.push(threefry::blocks(g, (key.low, key.high), (words[2], high), n)?);
    }
    Ok((sets[0], sets[1]))
}

fn check_shape(cx: &mut Cx<'_, '_>, what: &str) -> Result<(Value, DType)> {
    let alpha = cx.t(0)?;
    let dtype = cx.g.dtype(alpha);
    check_real_float(cx, what, dtype)?;
    Ok((alpha, dtype))
}

/// The result in its dtype, not below the smallest number: logarithms of it are taken.
fn positive(g: &mut Graph, y: Value, dtype: DType) -> Result<Value> {
    let least = match dtype {
        DType::F64 => f64::MIN_POSITIVE,
        DType::F16 => (-14f64).exp2(),
        _ => f64::from(f32::MIN_POSITIVE),
    };
    let least = g.full_like(y, least)?;
    let y = g.maximum(y, least)?;
    Ok(g.convert(y, dtype)?)
}

/// `_standard_gamma(self)`.
fn standard_gamma(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (alpha, dtype) = check_shape(cx, "gamma")?;
    let y = gamma(cx, alpha, Some(1))?;
    let y = positive(cx.g, y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `_sample_dirichlet(self)`: gamma numbers over their sum along the last dim, inside `(0, 1)`.
fn dirichlet(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (alpha, dtype) = check_shape(cx, "dirichlet")?;
    let rank = cx.g.rank(alpha);
    if rank == 0 {
        return Err(cx.error("_sample_dirichlet: expected concentrations of at least one dim, got a number"));
    }
    // In f64, so that small concentrations do not all come out as zero.
    let wide = cx.g.convert(alpha, DType::F64)?;
    let y = gamma(cx, wide, Some(1))?;
    let g = &mut *cx.g;
    let dims = g.dims(y);
    let least = g.full_like(y, f64::MIN_POSITIVE)?;
    let y = g.maximum(y, least)?;
    let total = g.reduce_sum(y, &[rank - 1])?;
    let total = math::back_over(g, total, &dims, &[rank - 1])?;
    let y = exact::divide(g, y, total)?;
    let digits = match dtype {
        DType::F64 => 53,
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => 24,
    };
    let below_one = g.full_like(y, 1.0 - (-f64::from(digits)).exp2())?;
    let y = g.minimum(y, below_one)?;
    let y = positive(g, y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `_standard_gamma_grad(self, output)`: how a gamma number moves with its shape, its place in the distribution held:
/// `-(dP/da) / p` for the distribution `P(a, x)` and its density `p`.
///
/// With the series `P = x^a e^-x sum x^n / G(a+n+1)`, this is `-x sum t_n (log x - psi(a+n+1)) / (a ... (a+n))`; for
/// large shapes Wilson and Hilferty's cube root of the normal.
fn standard_gamma_grad(cx: &mut Cx<'_, '_>) -> Result<()> {
    const TERMS: i64 = 6000;
    const LARGE: f64 = 1000.0;
    let (a, x) = (cx.t(0)?, cx.t(1)?);
    let dtype = cx.g.dtype(a);
    let (a, x) = broadcast::pair(cx, a, x)?;
    let g = &mut *cx.g;
    let (a, x) = (g.convert(a, DType::F64)?, g.convert(x, DType::F64)?);
    let [small, a1, x1] = formulas(g, [a, x], |[a, x]| {
        let fine = a.lt(LARGE) & a.gt(0.0) & x.gt(0.0) & x.lt(a + 600.0);
        [fine, fine.pick(a, 1.0), fine.pick(x, 1.0)]
    })?;
    // term = x^n / (a ... (a+n)); gap = log x - psi(a+n+1), which falls by 1 / (a+n+1) with each step.
    let start = formulas(g, [a1, x1], |[a, x]| {
        let term = a.recip();
        let gap = x.log() - super::unary::digamma(a + 1.0);
        [a, term, gap, term * gap]
    })?;
    let summed = iterate(
        g,
        &start,
        TERMS,
        |g, s| {
            formula(g, [s[0], s[1], s[2], s[3], x1], |[n, t, gap, sum, x]| {
                n.lt(x) | (t * gap).abs().gt(sum.abs() * 1e-17 + 1e-300)
            })
        },
        |g, s| {
            formulas(g, [s[0], s[1], s[2], s[3], x1], |[n, t, gap, sum, x]| {
                let n = n + 1.0;
                let (t, gap) = (t * x / n, gap - n.recip());
                [n, t, gap, sum + t * gap]
            })
            .map(Vec::from)
        },
    )?;
    let y = formula(g, [summed[3], x1, a, x, small], |[sum, x1, a, x, small]| {
        let series = -sum * x1;
        let w = (x / a).log() * (1.0 / 3.0);
        let w = w.exp();
        let root = a.sqrt();
        let z = (w - 1.0 + (a * 9.0).recip()) * root * 3.0;
        let slope = (a.square() * 9.0).recip() - z / (a * root * 6.0);
        let cube = w.square() * (w + a * slope * 3.0);
        small.pick(series, cube)
    })?;
    let y = g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `binomial(count, prob)`: walks up the distribution from twelve deviations below its mean until it passes a uniform
/// number; a probability above 1/2 counts the failures.
fn binomial(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (count, prob) = (cx.t(0)?, cx.t(1)?);
    let dtype = cx.g.dtype(count);
    if !dtype.is_float() || !cx.g.dtype(prob).is_float() {
        return Err(cx.error("binomial only supports floating-point dtypes for count and prob"));
    }
    let (count, prob) = broadcast::pair(cx, count, prob)?;
    let (count, prob) = (cx.g.convert(count, DType::F64)?, cx.g.convert(prob, DType::F64)?);
    let bad = formula(cx.g, [count, prob], |[n, p]| n.lt(0.0) | p.lt(0.0) | p.gt(1.0))?;
    cx.check(bad, bad, CheckKind::Runtime, "expected a count of at least 0 and a probability between 0 and 1")?;
    let (dims, numel) = (cx.g.dims(count), cx.g.numel(count));
    let bits = threefry::draw(cx, Some(2), numel)?;
    let g = &mut *cx.g;
    let u = bits.unit(g, DType::F64)?;
    let u = g.reshape(u, &dims)?;
    let [trivial, n, p, odds] = formulas(g, [count, prob], |[n, p]| {
        let p = p.gt(0.5).pick(p * -1.0 + 1.0, p);
        let trivial = p.le(0.0) | n.le(0.0) | p.is_nan() | !n.is_finite();
        let (n, p) = (trivial.pick(1.0, n), trivial.pick(0.5, p));
        [trivial, n, p, p / (p * -1.0 + 1.0)]
    })?;
    let [first, last, chance] = formulas(g, [n, p], |[n, p]| {
        let mean = n * p;
        let deviation = (mean * (p * -1.0 + 1.0)).sqrt();
        let first = (mean - deviation * 12.0).floor().max(0.0);
        let last = n.min(first + deviation * 40.0 + 60.0);
        let ways = (n + 1.0).lgamma() - (first + 1.0).lgamma() - (n - first + 1.0).lgamma();
        [first, last, (ways + first * p.log() + (n - first) * (-p).log1p()).exp()]
    })?;
    let walked = g.while_loop(
        &[first, chance, chance],
        |g, s| {
            let going = formula(g, [s[0], s[2], u, last], |[k, sum, u, last]| sum.le(u) & k.lt(last))?;
            let all: Vec<usize> = (0..g.rank(going)).collect();
            Ok(vec![g.reduce_or(going, &all)?])
        },
        |g, s| {
            formulas(g, [s[0], s[1], s[2], u, last, n, odds], |[k, c, sum, u, last, n, odds]| {
                let going = sum.le(u) & k.lt(last);
                let next = k + 1.0;
                let c2 = c * (n - k) / next * odds;
                [going.pick(next, k), going.pick(c2, c), going.pick(sum + c2, sum)]
            })
            .map(Vec::from)
        },
    )?;
    let y = formula(g, [walked[0], trivial, count, prob], |[k, trivial, n, p]| {
        let k = trivial.pick(0.0, k);
        let k = p.gt(0.5).pick(n - k, k);
        (p.is_nan() | n.is_nan()).pick(f64::NAN, k)
    })?;
    let y = g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}
