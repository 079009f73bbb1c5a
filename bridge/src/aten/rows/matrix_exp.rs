//! The exponential of matrices: halved until small, a Taylor polynomial, squared as often.

use super::gamma::iterate;
use super::linalg::{batch_dims, check_float, identity, square_error};
use super::lu::{matmul, unwrapped};
use super::math;
use crate::Result;
use crate::aten::{Cx, Row, promote};
use primitives::{DType, Direction, Graph, Value};

pub const ROWS: &[Row] = &[Row::new("linalg_matrix_exp", matrix_exp)];

/// Norm `s` up to which the polynomial of degree 16 is exact to the last place: `s^17 / 17!` is 2e-17 for f64 and 2e-8 of
/// `exp(s)` for f32. The fewer squarings, the less rounding is squared with them.
fn small(dtype: DType) -> f64 {
    if dtype == DType::F64 { 0.75 } else { 3.0 }
}

/// More halvings than an f64 has.
const LIMIT: i64 = 1100;

/// `linalg_matrix_exp(self)`; half precision is computed in f32.
fn matrix_exp(cx: &mut Cx<'_, '_>) -> Result<()> {
    let a = cx.t(0)?;
    square_error(cx, a, "linalg.matrix_exp")?;
    let dtype = cx.g.dtype(a);
    let wide = cx.g.convert(a, promote::compute_type(dtype))?;
    check_float(cx, wide, "matrix_exp")?;
    let y = if cx.g.numel(a) == 0 { wide } else { exponential(cx.g, wide)? };
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

fn exponential(g: &mut Graph, a: Value) -> Result<Value> {
    let dims = g.dims(a);
    let rank = dims.len();
    let batch: Vec<usize> = (0..rank - 2).collect();
    let size = g.abs(a)?;
    let norm = g.reduce_sum(size, &[rank - 2])?;
    let norm = g.reduce_max(norm, &[rank - 2])?;
    let real = g.dtype(norm);
    let none = g.full(real, &batch_dims(&dims), 0)?;
    let halved = iterate(
        g,
        &[a, norm, none],
        LIMIT,
        |g, s| too_large(g, s[1]).map_err(unwrapped),
        |g, s| {
            let body = |g: &mut Graph| -> Result<Vec<Value>> {
                let large = too_large(g, s[1])?;
                let (half, one) = (g.full_like(s[1], 0.5)?, g.full_like(s[1], 1.0)?);
                let by = g.select(large, half, one)?;
                let norm = g.multiply(s[1], by)?;
                let by_all = g.broadcast_in_dim(by, &dims, &batch)?;
                let by_all = g.convert(by_all, g.dtype(a))?;
                let zero = g.zeros_like(one)?;
                let count = g.select(large, one, zero)?;
                Ok(vec![g.multiply(s[0], by_all)?, norm, g.add(s[2], count)?])
            };
            body(g).map_err(unwrapped)
        },
    )?;
    let y = taylor(g, halved[0])?;
    let squared = iterate(
        g,
        &[y, halved[2]],
        LIMIT,
        |g, s| math::cmp_n(g, s[1], 0.0, Direction::Gt).map_err(unwrapped),
        |g, s| {
            let body = |g: &mut Graph| -> Result<Vec<Value>> {
                let more = math::cmp_n(g, s[1], 0.0, Direction::Gt)?;
                let more = g.broadcast_in_dim(more, &dims, &batch)?;
                let square = matmul(g, s[0], s[0])?;
                Ok(vec![g.select(more, square, s[0])?, math::add_n(g, s[1], -1.0)?])
            };
            body(g).map_err(unwrapped)
        },
    )?;
    Ok(squared[0])
}

fn too_large(g: &mut Graph, norm: Value) -> Result<Value> {
    let bound = small(g.dtype(norm));
    math::cmp_n(g, norm, bound, Direction::Gt)
}

/// The sum of `A^k / k!` up to 16, in groups of four powers: six products.
fn taylor(g: &mut Graph, a: Value) -> Result<Value> {
    let one = identity(g, a)?;
    let a2 = matmul(g, a, a)?;
    let a3 = matmul(g, a2, a)?;
    let a4 = matmul(g, a2, a2)?;
    let powers = [one, a, a2, a3];
    let weight = |k: usize| -> f64 { (1..=k).map(|n| 1.0 / n as f64).product() };
    let mut y = math::mul_n(g, a4, weight(16))?;
    for group in (0..4).rev() {
        for (j, &p) in powers.iter().enumerate() {
            let term = math::mul_n(g, p, weight(4 * group + j))?;
            y = g.add(y, term)?;
        }
        if group > 0 {
            y = matmul(g, y, a4)?;
        }
    }
    Ok(y)
}
