//! Random integers and coins: `random`, `randperm`, `bernoulli`, `geometric`.

use super::math;
use super::random::{bits, finish};
use crate::aten::row::Numbers;
use crate::aten::threefry;
use crate::aten::{Arg, CheckKind, Cx, Row, promote};
use crate::{Error, Result};
use primitives::{DType, Direction, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::pointwise("random", |cx| random(cx, None, None, 1)),
    Row::pointwise("random.to", |cx| random(cx, None, Some(1), 2)).dynamic(&["to"]).guarded(|n| bounds(n, None, 1)),
    Row::pointwise("random.from", |cx| random(cx, Some(1), Some(2), 3))
        .dynamic(&["from", "to"])
        .guarded(|n| bounds(n, Some(1), 2)),
    Row::new("randperm", |cx| randperm(cx, 1, None)),
    Row::new("randperm.generator", |cx| randperm(cx, 2, Some(1))),
    Row::pointwise("bernoulli", bernoulli_self),
    Row::pointwise("bernoulli.Tensor", bernoulli_tensor),
    Row::pointwise("bernoulli.p", bernoulli_p).dynamic(&["p"]).guarded(probability),
    Row::pointwise("geometric", geometric).dynamic(&["p"]).guarded(open_probability),
];

/// Largest integer that `random_()` makes: the dtype's own, or 2^digits where a float stops being exact.
fn largest(dtype: DType) -> i64 {
    match dtype {
        DType::Bool => 1,
        DType::U8 => u8::MAX as i64,
        DType::I8 => i8::MAX as i64,
        DType::U16 => u16::MAX as i64,
        DType::I16 => i16::MAX as i64,
        DType::U32 => u32::MAX as i64,
        DType::I32 => i32::MAX as i64,
        DType::F16 => 1 << 11,
        DType::BF16 => 1 << 8,
        DType::F32 => 1 << 24,
        DType::F64 => 1 << 53,
        _ => i64::MAX,
    }
}

fn smallest(dtype: DType) -> i64 {
    match dtype {
        DType::I8 => i8::MIN as i64,
        DType::I16 => i16::MIN as i64,
        DType::I32 => i32::MIN as i64,
        DType::I64 => i64::MIN,
        d if d.is_float() => -largest(d),
        _ => 0,
    }
}

fn bounds(n: &Numbers<'_>, from: Option<usize>, to: usize) -> Result<()> {
    let low = from.and_then(|i| n.int(i)).unwrap_or(0);
    let Some(dtype) = n.dtype() else { return Ok(()) };
    let name = promote::torch_name(dtype);
    if !dtype.is_float() && !(smallest(dtype)..=largest(dtype)).contains(&low) {
        return Err(n.error(format!("from is out of bounds for {name}")));
    }
    if let Some(high) = n.int(to) {
        if low >= high {
            return Err(
                n.error(format!("random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"))
            );
        }
        if !dtype.is_float() && !(smallest(dtype)..=largest(dtype)).contains(&(high - 1)) {
            return Err(n.error(format!("to - 1 is out of bounds for {name}")));
        }
    }
    Ok(())
}

/// Integers in `[from, to)`: 64 random bits modulo the width of the range, which may be all of 2^64.
fn random(cx: &mut Cx<'_, '_>, from: Option<usize>, to: Option<usize>, generator: usize) -> Result<()> {
    let (bits, dtype, dims) = bits(cx, generator)?;
    if dtype.is_complex() {
        return Err(cx.error(format!("\"random_\" not implemented for '{}'", promote::torch_name(dtype))));
    }
    let word = bits.word64(cx.g)?;
    let low = match from {
        Some(i) => cx.number_as(i, DType::I64)?,
        None => cx.g.scalar(DType::I64, 0)?,
    };
    let past = match to {
        Some(i) if !cx.is_none(i) => cx.number_as(i, DType::I64)?,
        // One past the largest wraps to the smallest i64; the difference is right modulo 2^64.
        _ => cx.g.scalar(DType::I64, largest(dtype).wrapping_add(1))?,
    };
    let width = cx.g.subtract(past, low)?;
    let width = cx.g.bitcast_convert(width, DType::U64)?;
    let zero = cx.g.zeros_like(width)?;
    let everything = cx.g.compare(width, zero, Direction::Eq)?;
    let one = cx.g.ones_like(width)?;
    let divisor = cx.g.select(everything, one, width)?;
    let divisor = cx.g.broadcast_to(divisor, &cx.g.dims(word))?;
    let rest = cx.g.remainder(word, divisor)?;
    let x = math::select(cx.g, everything, word, rest)?;
    let x = cx.g.bitcast_convert(x, DType::I64)?;
    let x = math::add(cx.g, x, low)?;
    finish(cx, x, dtype, &dims)
}

/// A permutation of `0..n`: the order that sorts as many random words.
fn randperm(cx: &mut Cx<'_, '_>, dtype: usize, generator: Option<usize>) -> Result<()> {
    let n = cx.int(0)?;
    if n < 0 {
        return Err(cx.error(format!("n must be non-negative, got{n}")));
    }
    let dtype = match cx.arg(dtype) {
        Arg::DType(d) => *d,
        _ => DType::I64,
    };
    if n > 1 && n - 1 > largest(dtype) {
        return Err(cx.error(format!("n is too large for result tensor type: '{}'", promote::torch_name(dtype))));
    }
    if n == 0 {
        let empty = cx.g.full(dtype, &[0], 0)?;
        cx.out(empty);
        return Ok(());
    }
    let bits = threefry::draw(cx, generator, n)?;
    let keys = bits.word64(cx.g)?;
    let index = cx.g.iota(if n < 1 << 31 { DType::I32 } else { DType::I64 }, &[n], 0)?;
    let sorted = cx.g.sort(&[keys, index], 0, true, |g, a| Ok(vec![g.compare(a[0], a[1], Direction::Lt)?]))?;
    finish(cx, sorted[1], dtype, &[n])
}

fn probability(n: &Numbers<'_>) -> Result<()> {
    match n.get(1) {
        Some(p) if !(0.0..=1.0).contains(&p) => {
            Err(n.error(format!("bernoulli_ expects p to be in [0, 1], but got p={p}")))
        }
        _ => Ok(()),
    }
}

fn open_probability(n: &Numbers<'_>) -> Result<()> {
    match n.get(1) {
        Some(p) if !(p > 0.0 && p < 1.0) => {
            Err(n.error(format!("geometric_ expects p to be in (0, 1), but got p={p}")))
        }
        _ => Ok(()),
    }
}

/// `u < p`, flat, where `p` is 0-d or flat, of f32 or f64.
fn coins(g: &mut Graph, bits: threefry::Bits, p: Value) -> Result<Value> {
    let u = bits.unit(g, g.dtype(p))?;
    math::cmp(g, u, p, Direction::Lt)
}

fn coin_dtype(p: DType) -> DType {
    if p == DType::F64 { DType::F64 } else { DType::F32 }
}

/// `bernoulli(self, p)`: only the shape and dtype of `self` count.
fn bernoulli_p(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (bits, dtype, dims) = bits(cx, 2)?;
    let p = cx.number_as(1, coin_dtype(dtype))?;
    let y = coins(cx.g, bits, p)?;
    finish(cx, y, dtype, &dims)
}

fn checked_probabilities(cx: &mut Cx<'_, '_>, p: Value) -> Result<Value> {
    if !cx.g.dtype(p).is_float() {
        return Err(Error::runtime(cx.op(), "expected probabilities tensor to have floating type".into()));
    }
    let p = cx.g.convert(p, coin_dtype(cx.g.dtype(p)))?;
    let low = math::cmp_n(cx.g, p, 0.0, Direction::Ge)?;
    let high = math::cmp_n(cx.g, p, 1.0, Direction::Le)?;
    let good = cx.g.and(low, high)?;
    let bad = cx.g.not(good)?;
    cx.check(bad, bad, CheckKind::Runtime, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.")?;
    Ok(p)
}

/// `bernoulli(self)`: `self` holds the probabilities.
fn bernoulli_self(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (bits, dtype, dims) = bits(cx, 1)?;
    let p = cx.t(0)?;
    let p = checked_probabilities(cx, p)?;
    let n = cx.g.numel(p);
    let p = cx.g.reshape(p, &[n])?;
    let y = coins(cx.g, bits, p)?;
    finish(cx, y, dtype, &dims)
}

/// `bernoulli(self, p)` with a tensor of probabilities, broadcast to the shape of `self`.
fn bernoulli_tensor(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (bits, dtype, dims) = bits(cx, 2)?;
    let p = cx.t(1)?;
    let p = checked_probabilities(cx, p)?;
    let p = cx.g.broadcast_to(p, &dims)?;
    let n = cx.g.numel(p);
    let p = cx.g.reshape(p, &[n])?;
    let y = coins(cx.g, bits, p)?;
    finish(cx, y, dtype, &dims)
}

/// Trials until a first success: `ceil(log(u) / log(1 - p))` with `u` in `(0, 1)`, at least 1.
fn geometric(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (bits, dtype, dims) = bits(cx, 2)?;
    super::util::Takes::REAL.check(cx, dtype)?;
    let compute = coin_dtype(dtype);
    let u = bits.open_unit(cx.g, compute)?;
    let p = cx.number_as(1, compute)?;
    let minus = cx.g.neg(p)?;
    let fails = cx.g.log1p(minus)?;
    let x = cx.g.log(u)?;
    let x = math::div(cx.g, x, fails)?;
    let x = cx.g.ceil(x)?;
    let one = cx.g.ones_like(x)?;
    let x = cx.g.maximum(x, one)?;
    finish(cx, x, dtype, &dims)
}
