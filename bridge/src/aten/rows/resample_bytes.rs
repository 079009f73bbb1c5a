//! Interpolation of images of bytes in integers, as image libraries do it: each dim gives bytes again.

use super::resample_weights::Taps;
use super::upsample::{UNROLLED, by_matrix};
use super::{math, take};
use crate::Result;
use primitives::{DType, Graph, Value};

/// Bits after the point of the largest weight, so that weights fit 16 bits.
fn precision(taps: &Taps) -> u32 {
    let largest = taps.iter().flatten().map(|t| t.1).fold(0.0, f64::max);
    (0..22).find(|p| 0.5 + largest * f64::from(1u32 << (p + 1)) >= f64::from(1u32 << 15)).unwrap_or(22)
}

/// Weights of one element after the same input element named twice has its weights added up.
fn merged(list: &[(i64, f64)]) -> Vec<(i64, f64)> {
    let mut out: Vec<(i64, f64)> = Vec::new();
    for &(i, w) in list {
        match out.iter_mut().find(|t| t.0 == i) {
            Some(t) => t.1 += w,
            None => out.push((i, w)),
        }
    }
    out
}

/// Weighted sums along one dim of `x` (i32, of bytes), rounded and cut to bytes.
pub fn combine(g: &mut Graph, x: Value, dim: usize, taps: &Taps) -> Result<Value> {
    let taps: Taps = taps.iter().map(|t| merged(t)).collect();
    let bits = precision(&taps);
    let one = f64::from(1u32 << bits);
    let longest = taps.iter().map(Vec::len).max().unwrap_or(0);
    let quantised: Taps = taps.iter().map(|t| t.iter().map(|&(i, w)| (i, (w * one).round())).collect()).collect();
    if longest > UNROLLED {
        // Whole numbers below 2^31: a product in f64 is exact.
        let wide = g.convert(x, DType::F64)?;
        let sum = by_matrix(g, wide, dim, &quantised)?;
        let sum = g.convert(sum, DType::I32)?;
        let half = g.full_like(sum, 1i64 << bits >> 1)?;
        let sum = g.add(sum, half)?;
        return bytes(g, sum, bits);
    }
    let mut dims = g.dims(x);
    dims[dim] = taps.len() as i64;
    let mut sum = g.full(DType::I32, &dims, 1i64 << bits >> 1)?;
    for j in 0..longest {
        let picks: Vec<i64> = quantised.iter().map(|t| t.get(j).or(t.first()).map_or(0, |t| t.0)).collect();
        let weights: Vec<i64> = quantised.iter().map(|t| t.get(j).map_or(0, |t| t.1 as i64)).collect();
        let term = take::take(g, x, dim, &picks)?;
        let w = math::ints(g, DType::I32, &weights)?;
        let w = math::along(g, w, &dims, dim)?;
        let term = g.multiply(term, w)?;
        sum = g.add(sum, term)?;
    }
    bytes(g, sum, bits)
}

/// Drops the bits after the point and cuts to `0..=255`.
fn bytes(g: &mut Graph, sum: Value, bits: u32) -> Result<Value> {
    let by = g.full_like(sum, i64::from(bits))?;
    let y = g.shift_right_arithmetic(sum, by)?;
    let (low, high) = (g.scalar(DType::I32, 0)?, g.scalar(DType::I32, 255)?);
    Ok(g.clamp(low, y, high)?)
}
