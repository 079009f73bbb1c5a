//! Threefry-2x32, 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11), on StableHLO integers.
//!
//! Element `i` of a call is the block with counter `counter + i`: 64 random bits that depend on key and counter alone.
//! A call moves the counter on by the number of blocks that it took, so a seed gives the same numbers whatever the
//! plugin, the mode and the cuts between programs.

use super::cx::Cx;
use crate::{Error, Result};
use primitives::{DType, Graph, Value};

const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
const PARITY: u32 = 0x1BD1_1BDA;

/// 64 random bits for each element: two words, flat.
#[derive(Clone, Copy)]
pub struct Bits {
    pub low: Value,
    pub high: Value,
}

/// Draws `n` blocks and moves the state on. `generator` is the position of the generator argument, if the op has one.
pub fn draw(cx: &mut Cx<'_, '_>, generator: Option<usize>, n: i64) -> Result<Bits> {
    if n >= 1 << 32 {
        return Err(Error::not_implemented(
            cx.op(),
            format!("{n} random numbers in one call, expected less than 2^32"),
        ));
    }
    let state = cx.rng_state(generator)?;
    let g = &mut *cx.g;
    let words = words(g, state)?;
    let bits = blocks(g, (words[0], words[1]), (words[2], words[3]), n)?;
    let step = g.scalar(DType::U32, n)?;
    let (low, high) = advance(g, words[2], words[3], step)?;
    let next: Vec<Value> =
        [words[0], words[1], low, high].iter().map(|&w| g.reshape(w, &[1])).collect::<Result<_, _>>()?;
    let next = g.concatenate(&next, 0)?;
    cx.set_rng_state(generator, next);
    Ok(bits)
}

/// The bits that a draw of `n` blocks from `state` gave, without moving any state.
pub fn redraw(g: &mut Graph, state: Value, n: i64) -> Result<Bits> {
    let w = words(g, state)?;
    blocks(g, (w[0], w[1]), (w[2], w[3]), n)
}

/// The four words of a state, each 0-d.
pub fn words(g: &mut Graph, state: Value) -> Result<Vec<Value>> {
    (0..4)
        .map(|i| {
            let w = g.slice(state, &[i], &[i + 1], &[1])?;
            Ok(g.reshape(w, &[])?)
        })
        .collect()
}

/// Blocks `counter .. counter + n` of a key.
pub fn blocks(g: &mut Graph, key: (Value, Value), counter: (Value, Value), n: i64) -> Result<Bits> {
    let index = g.iota(DType::U32, &[n], 0)?;
    let (low, high) = (g.broadcast_to(counter.0, &[n])?, g.broadcast_to(counter.1, &[n])?);
    let (low, high) = advance(g, low, high, index)?;
    let (k0, k1) = (g.broadcast_to(key.0, &[n])?, g.broadcast_to(key.1, &[n])?);
    block(g, (k0, k1), low, high)
}

/// A 64-bit sum of two words and one.
fn advance(g: &mut Graph, low: Value, high: Value, by: Value) -> Result<(Value, Value)> {
    let sum = g.add(low, by)?;
    let carry = g.compare(sum, by, primitives::Direction::Lt)?;
    let carry = g.convert(carry, DType::U32)?;
    Ok((sum, g.add(high, carry)?))
}

/// The cipher: `x0, x1` encrypted under the key, elementwise on ui32 of one shape.
pub fn block(g: &mut Graph, key: (Value, Value), x0: Value, x1: Value) -> Result<Bits> {
    let parity = g.full_like(x0, PARITY as u64)?;
    let k2 = g.xor(key.0, key.1)?;
    let k2 = g.xor(k2, parity)?;
    let keys = [key.0, key.1, k2];
    let mut a = g.add(x0, keys[0])?;
    let mut b = g.add(x1, keys[1])?;
    for group in 0..5usize {
        for r in ROTATIONS[group % 2] {
            a = g.add(a, b)?;
            b = rotate_left(g, b, r)?;
            b = g.xor(b, a)?;
        }
        a = g.add(a, keys[(group + 1) % 3])?;
        b = g.add(b, keys[(group + 2) % 3])?;
        let round = g.full_like(b, group as u64 + 1)?;
        b = g.add(b, round)?;
    }
    Ok(Bits { low: a, high: b })
}

fn rotate_left(g: &mut Graph, x: Value, by: u32) -> Result<Value> {
    let (l, r) = (g.full_like(x, by as u64)?, g.full_like(x, 32 - by as u64)?);
    let (hi, lo) = (g.shift_left(x, l)?, g.shift_right_logical(x, r)?);
    Ok(g.or(hi, lo)?)
}

impl Bits {
    /// The two words as one of 64 bits.
    pub fn word64(self, g: &mut Graph) -> Result<Value> {
        let (low, high) = (g.convert(self.low, DType::U64)?, g.convert(self.high, DType::U64)?);
        let by = g.full_like(high, 32)?;
        let high = g.shift_left(high, by)?;
        Ok(g.or(high, low)?)
    }

    /// Uniform in `[0, 1)` with as many bits as `dtype` has digits (24 for f32, 53 for f64, 11 for f16, 8 for bf16), in
    /// the dtype that it is computed with.
    pub fn unit(self, g: &mut Graph, dtype: DType) -> Result<Value> {
        let (word, digits, compute) = match dtype {
            DType::F64 => (self.word64(g)?, 53, DType::F64),
            DType::F16 => (self.low, 11, DType::F32),
            DType::BF16 => (self.low, 8, DType::F32),
            _ => (self.low, 24, DType::F32),
        };
        let width = 8 * g.dtype(word).size_of() as u64;
        let by = g.full_like(word, width - digits)?;
        let word = g.shift_right_logical(word, by)?;
        // At most 53 bits: the signed type converts exactly, and is what hardware converts from.
        let signed = if dtype == DType::F64 { DType::I64 } else { DType::I32 };
        let word = g.convert(word, signed)?;
        let x = g.convert(word, compute)?;
        let scale = g.full_like(x, (-(digits as f64)).exp2())?;
        Ok(g.multiply(x, scale)?)
    }

    /// Uniform in `(0, 1)`, finer towards 0: for logarithms.
    pub fn open_unit(self, g: &mut Graph, dtype: DType) -> Result<Value> {
        if dtype == DType::F64 {
            let x = self.unit(g, dtype)?;
            let half = g.full_like(x, (-54f64).exp2())?;
            return Ok(g.add(x, half)?);
        }
        fine_unit(g, self.low)
    }
}

/// `(w + 1) / 2^32` in f32, kept below 1.
fn fine_unit(g: &mut Graph, word: Value) -> Result<Value> {
    let x = g.convert(word, DType::F32)?;
    let one = g.ones_like(x)?;
    let x = g.add(x, one)?;
    let scale = g.full_like(x, (-32f64).exp2())?;
    let x = g.multiply(x, scale)?;
    let below_one = g.full_like(x, 1.0 - (-24f64).exp2())?;
    Ok(g.minimum(x, below_one)?)
}

/// Standard normal numbers, flat: Box-Muller on the two words for f32 and below, the inverse error function for f64.
pub fn normal(g: &mut Graph, bits: Bits, dtype: DType) -> Result<Value> {
    if dtype == DType::F64 {
        let u = bits.open_unit(g, dtype)?;
        let two = g.full_like(u, 2.0)?;
        let one = g.ones_like(u)?;
        let x = g.multiply(u, two)?;
        let x = g.subtract(x, one)?;
        let x = g.erf_inv(x)?;
        let root = g.full_like(x, std::f64::consts::SQRT_2)?;
        return Ok(g.multiply(x, root)?);
    }
    let radius = fine_unit(g, bits.low)?;
    let radius = g.log(radius)?;
    let scale = g.full_like(radius, -2.0)?;
    let radius = g.multiply(radius, scale)?;
    let radius = g.sqrt(radius)?;
    let angle = Bits { low: bits.high, high: bits.low }.unit(g, DType::F32)?;
    let turn = g.full_like(angle, std::f64::consts::TAU)?;
    let angle = g.multiply(angle, turn)?;
    let cos = g.cos(angle)?;
    Ok(g.multiply(radius, cos)?)
}
