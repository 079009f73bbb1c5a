//! Variance and standard deviation.

use super::axes::Axes;
use super::reduce::mean_of;
use crate::Result;
use crate::aten::{Cx, Row, exact, promote};
use primitives::{Graph, Value};

/// Arguments of these rows: `(self, dim, *, correction, keepdim)`.
pub const ROWS: &[Row] = &[
    Row::new("var.correction", |cx| spread(cx, "var", false, false)),
    Row::new("std.correction", |cx| spread(cx, "std", true, false)),
    Row::new("var_mean.correction", |cx| spread(cx, "var_mean", false, true)),
    Row::new("std_mean.correction", |cx| spread(cx, "std_mean", true, true)),
];

/// `sum(|x - mean|^2) / max(0, n - correction)`, its root for `std`, and the mean where asked for.
fn spread(cx: &mut Cx<'_, '_>, name: &str, root: bool, with_mean: bool) -> Result<()> {
    let x = cx.t(0)?;
    let dtype = cx.g.dtype(x);
    if promote::category(dtype) < 2 {
        let what = if with_mean { name } else { "std and var" };
        return Err(cx.error(format!("{what} only support floating point and complex dtypes")));
    }
    let ax = Axes::of(cx, x, 1, 3)?;
    let correction = if cx.is_none(2) { 1.0 } else { cx.float(2)? };
    let x = cx.g.convert(x, promote::compute_type(dtype))?;
    let (mut y, mean) = variance(cx.g, x, &ax, correction)?;
    if root {
        y = cx.g.sqrt(y)?;
    }
    let y = cx.g.convert(y, dtype.real_of())?;
    let y = ax.finish(cx.g, y)?;
    cx.out(y);
    if with_mean {
        let mean = cx.g.convert(mean, dtype)?;
        let mean = ax.finish(cx.g, mean)?;
        cx.out(mean);
    }
    Ok(())
}

/// Variance and mean over the axes, in two passes. The variance of complex numbers is real.
pub fn variance(g: &mut Graph, x: Value, ax: &Axes, correction: f64) -> Result<(Value, Value)> {
    let mean = mean_of(g, x, ax)?;
    let wide = ax.spread(g, mean)?;
    let d = g.subtract(x, wide)?;
    let square = if g.dtype(d).is_complex() {
        let (re, im) = (g.real(d)?, g.imag(d)?);
        let (re, im) = (g.multiply(re, re)?, g.multiply(im, im)?);
        g.add(re, im)?
    } else {
        g.multiply(d, d)?
    };
    let sum = g.reduce_sum(square, &ax.dims)?;
    let n = g.full_like(sum, (ax.count() as f64 - correction).max(0.0))?;
    Ok((exact::divide(g, sum, n)?, mean))
}
