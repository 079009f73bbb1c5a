//! Draws of categories by weight.

use super::math;
use super::random::standard_exponential;
use crate::Result;
use crate::aten::threefry;
use crate::aten::{CheckKind, Cx, Row, exact, promote};
use primitives::{DType, Direction, Graph, Value};

pub const ROWS: &[Row] = &[Row::new("multinomial", multinomial)];

/// `multinomial(self, num_samples, replacement)`: rows of `self` are weights; results are category numbers.
///
/// Without replacement, and for a single draw, the categories with the largest `weight / e`, for exponential `e`; with
/// replacement, where `u * total` falls in the running sum of the weights.
fn multinomial(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (n, replacement) = (cx.int(1)?, cx.bool(2)?);
    let p = cx.t(0)?;
    let (dims, dtype) = (cx.g.dims(p), cx.g.dtype(p));
    if dims.is_empty() || dims.len() > 2 {
        return Err(cx.error("prob_dist must be 1 or 2 dim"));
    }
    if !dtype.is_float() {
        return Err(cx.error(format!(
            "multinomial only supports floating-point dtypes for input, got: {}",
            promote::torch_name(dtype)
        )));
    }
    if n <= 0 {
        return Err(cx.error("cannot sample n_sample <= 0 samples"));
    }
    let k = dims[dims.len() - 1];
    if !replacement && n > k {
        return Err(cx.error("cannot sample n_sample > prob_dist.size(-1) samples without replacement"));
    }
    let rows: i64 = dims[..dims.len() - 1].iter().product();
    let compute = promote::compute_type(dtype);
    let p = cx.g.convert(p, compute)?;
    let p = cx.g.reshape(p, &[rows, k])?;
    check_weights(cx, p)?;
    let picked = if replacement && n > 1 {
        let bits = threefry::draw(cx, Some(3), rows * n)?;
        let u = bits.unit(cx.g, compute)?;
        let u = cx.g.reshape(u, &[rows, n])?;
        by_running_sum(cx.g, p, u)?
    } else {
        let bits = threefry::draw(cx, Some(3), rows * k)?;
        let e = standard_exponential(cx, bits, compute)?;
        let e = cx.g.reshape(e, &[rows, k])?;
        let scores = exact::divide(cx.g, p, e)?;
        cx.g.top_k(scores, n)?.1
    };
    let picked = cx.g.convert(picked, DType::I64)?;
    let mut out = dims;
    if let Some(last) = out.last_mut() {
        *last = n;
    }
    let y = cx.g.reshape(picked, &out)?;
    cx.out(y);
    Ok(())
}

/// Weights are finite, not negative, and of a positive sum in each row.
fn check_weights(cx: &mut Cx<'_, '_>, p: Value) -> Result<()> {
    let fine = math::cmp_n(cx.g, p, 0.0, Direction::Ge)?;
    let finite = cx.g.is_finite(p)?;
    let good = cx.g.and(fine, finite)?;
    let bad = cx.g.not(good)?;
    cx.check(bad, bad, CheckKind::Runtime, "probability tensor contains either `inf`, `nan` or element < 0")?;
    let sums = cx.g.reduce_sum(p, &[1])?;
    let empty = math::cmp_n(cx.g, sums, 0.0, Direction::Le)?;
    cx.check(empty, empty, CheckKind::Runtime, "invalid multinomial distribution (sum of probabilities <= 0)")
}

/// For each `u [R, N]` in `[0, 1)`, the number of categories whose running sum is at most `u * total`.
fn by_running_sum(g: &mut Graph, p: Value, u: Value) -> Result<Value> {
    let dims = g.dims(p);
    let (rows, k, n) = (dims[0], dims[1], g.dims(u)[1]);
    let mut sums = p;
    let mut step = 1;
    // Doubling: after each round an element holds the sum of twice as many elements up to itself.
    while step < k {
        let zero = g.scalar(g.dtype(p), 0)?;
        let shifted = g.pad(sums, zero, &[0, step], &[0, -step], &[0, 0])?;
        sums = g.add(sums, shifted)?;
        step *= 2;
    }
    let total = g.slice(sums, &[0, k - 1], &[rows, k], &[1, 1])?;
    let target = math::mul(g, u, total)?;
    let wide = [rows, n, k];
    let (s, t) = (g.broadcast_in_dim(sums, &wide, &[0, 2])?, g.broadcast_in_dim(target, &wide, &[0, 1])?);
    let passed = g.compare(s, t, Direction::Le)?;
    let passed = g.convert(passed, DType::I32)?;
    let index = g.reduce_sum(passed, &[2])?;
    // Rounding may pass every sum, or the last category that has a weight: the last one with a weight then.
    let weighted = math::cmp_n(g, p, 0.0, Direction::Gt)?;
    let at = g.iota(DType::I32, &[rows, k], 1)?;
    let zeros = g.zeros_like(at)?;
    let at = g.select(weighted, at, zeros)?;
    let last = g.reduce_max(at, &[1])?;
    let last = g.broadcast_in_dim(last, &[rows, n], &[0])?;
    Ok(g.minimum(index, last)?)
}
