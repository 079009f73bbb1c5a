//! Softmax and log-softmax with their backward passes, each one program.

use super::axes::{Axes, wrap};
use super::util::check_real_float;
use crate::Result;
use crate::aten::{Cx, Row, promote};
use primitives::{DType, Value};

pub const ROWS: &[Row] = &[
    Row::new("_softmax", |cx| forward(cx, false)),
    Row::new("_log_softmax", |cx| forward(cx, true)),
    Row::new("_softmax_backward_data", |cx| backward(cx, false)),
    Row::new("_log_softmax_backward_data", |cx| backward(cx, true)),
];

/// `_softmax(self, dim, half_to_float)`: `exp(x - max) / sum(exp(x - max))`, or its logarithm.
fn forward(cx: &mut Cx<'_, '_>, log: bool) -> Result<()> {
    let x = cx.t(0)?;
    let dtype = cx.g.dtype(x);
    if !dtype.is_float() {
        let name = if log { "log_softmax" } else { "softmax" };
        return Err(crate::Error::not_implemented(
            cx.op(),
            format!("\"{name}_kernel_impl\" not implemented for '{}'", promote::torch_name(dtype)),
        ));
    }
    let out = if cx.bool(2)? { DType::F32 } else { dtype };
    let x = cx.g.convert(x, promote::compute_type(dtype))?;
    let y = softmax(cx, x, cx.int(1)?, log)?;
    let y = cx.g.convert(y, out)?;
    cx.out(y);
    Ok(())
}

/// Softmax of floats along `dim`, in their own dtype.
pub fn softmax(cx: &mut Cx<'_, '_>, x: Value, dim: i64, log: bool) -> Result<Value> {
    let ax = Axes::new(cx, &cx.g.dims(x), Some(&[dim]), false)?;
    if cx.g.numel(x) == 0 {
        return Ok(x);
    }
    let g = &mut *cx.g;
    let max = g.reduce_max(x, &ax.dims)?;
    let max = ax.spread(g, max)?;
    let d = g.subtract(x, max)?;
    let e = g.exp(d)?;
    let sum = g.reduce_sum(e, &ax.dims)?;
    Ok(if log {
        let l = g.log(sum)?;
        let l = ax.spread(g, l)?;
        g.subtract(d, l)?
    } else {
        let sum = ax.spread(g, sum)?;
        g.divide(e, sum)?
    })
}

/// `_softmax_backward_data(grad, output, dim, input_dtype)`: `y (g - sum(g y))`; for the logarithm `g - exp(y) sum(g)`.
fn backward(cx: &mut Cx<'_, '_>, log: bool) -> Result<()> {
    let (grad, y) = (cx.t(0)?, cx.t(1)?);
    check_real_float(cx, "softmax_backward_kernel_impl", cx.g.dtype(grad))?;
    let out = cx.dtype_arg(3)?.unwrap_or(cx.g.dtype(grad));
    let compute = promote::compute_type(cx.g.dtype(grad));
    let rank = cx.g.rank(grad);
    let dim = wrap(cx, cx.int(2)?, rank)? as i64;
    let ax = Axes::new(cx, &cx.g.dims(grad), Some(&[dim]), false)?;
    let g = &mut *cx.g;
    let (grad, y) = (g.convert(grad, compute)?, g.convert(y, compute)?);
    let r = if log {
        let sum = g.reduce_sum(grad, &ax.dims)?;
        let sum = ax.spread(g, sum)?;
        let e = g.exp(y)?;
        let part = g.multiply(e, sum)?;
        g.subtract(grad, part)?
    } else {
        let gy = g.multiply(grad, y)?;
        let sum = g.reduce_sum(gy, &ax.dims)?;
        let sum = ax.spread(g, sum)?;
        let d = g.subtract(grad, sum)?;
        g.multiply(y, d)?
    };
    let r = g.convert(r, out)?;
    cx.out(r);
    Ok(())
}
