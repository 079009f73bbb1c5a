//! The pointwise halves of LSTM and GRU cells, and their gradients. The matrix products come before, as ops of their own.

use super::math;
use crate::Result;
use crate::aten::{Cx, Row, promote};
use primitives::{DType, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::new("_thnn_fused_lstm_cell", lstm),
    Row::new("_thnn_fused_lstm_cell_backward_impl", lstm_backward),
    Row::new("_thnn_fused_gru_cell", gru),
    Row::new("_thnn_fused_gru_cell_backward", gru_backward),
];

/// `n` equal parts of the last dim.
fn chunks(g: &mut Graph, x: Value, n: i64) -> Result<Vec<Value>> {
    let dims = g.dims(x);
    let last = dims.len() - 1;
    let width = dims[last] / n;
    (0..n)
        .map(|i| {
            let (mut start, mut limit) = (vec![0; dims.len()], dims.to_vec());
            (start[last], limit[last]) = (i * width, (i + 1) * width);
            Ok(g.slice(x, &start, &limit, &vec![1; dims.len()])?)
        })
        .collect()
}

fn join(g: &mut Graph, parts: &[Value]) -> Result<Value> {
    let last = g.rank(parts[0]) - 1;
    Ok(g.concatenate(parts, last)?)
}

/// `1 - x`.
fn rest(g: &mut Graph, x: Value) -> Result<Value> {
    let one = g.ones_like(x)?;
    Ok(g.subtract(one, x)?)
}

/// `g * s * (1 - s)`: through a sigmoid whose value is `s`.
fn through_sigmoid(g: &mut Graph, grad: Value, s: Value) -> Result<Value> {
    let r = rest(g, s)?;
    let v = g.multiply(grad, s)?;
    Ok(g.multiply(v, r)?)
}

/// `g * (1 - t^2)`: through a tanh whose value is `t`.
fn through_tanh(g: &mut Graph, grad: Value, t: Value) -> Result<Value> {
    let square = math::square(g, t)?;
    let r = rest(g, square)?;
    Ok(g.multiply(grad, r)?)
}

/// Argument `i` in the compute dtype, and the dtype it came in.
fn wide(cx: &mut Cx<'_, '_>, i: usize) -> Result<(Value, DType)> {
    let x = cx.t(i)?;
    let dtype = cx.g.dtype(x);
    Ok((cx.g.convert(x, promote::compute_type(dtype))?, dtype))
}

fn with_bias(cx: &mut Cx<'_, '_>, x: Value, bias: usize) -> Result<Value> {
    match cx.opt_t(bias)? {
        None => Ok(x),
        Some(b) => {
            let b = cx.g.convert(b, cx.g.dtype(x))?;
            math::add(cx.g, x, b)
        }
    }
}

fn finish(cx: &mut Cx<'_, '_>, v: Value, dtype: DType) -> Result<()> {
    let v = cx.g.convert(v, dtype)?;
    cx.out(v);
    Ok(())
}

/// `(hy, cy, workspace)` of gates in the order input, forget, cell, output; the workspace holds the activated gates.
fn lstm(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (a, dtype) = wide(cx, 0)?;
    let (b, _) = wide(cx, 1)?;
    let (c, _) = wide(cx, 2)?;
    let a = with_bias(cx, a, 3)?;
    let b = with_bias(cx, b, 4)?;
    let gates = cx.g.add(a, b)?;
    let g = &mut *cx.g;
    let parts = chunks(g, gates, 4)?;
    let (i, f) = (g.logistic(parts[0])?, g.logistic(parts[1])?);
    let (n, o) = (g.tanh(parts[2])?, g.logistic(parts[3])?);
    let (old, new) = (g.multiply(f, c)?, g.multiply(i, n)?);
    let cy = g.add(old, new)?;
    let t = g.tanh(cy)?;
    let hy = g.multiply(o, t)?;
    let workspace = join(g, &[i, f, n, o])?;
    for v in [hy, cy, workspace] {
        finish(cx, v, dtype)?;
    }
    Ok(())
}

/// `(grad_hy, grad_cy, cx, cy, workspace, has_bias)`: gradients of the gates, of the old cell state and of the biases.
fn lstm_backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (c, dtype) = wide(cx, 2)?;
    let (cy, _) = wide(cx, 3)?;
    let (workspace, _) = wide(cx, 4)?;
    let gh = if cx.is_none(0) { None } else { Some(wide(cx, 0)?.0) };
    let gc = if cx.is_none(1) { None } else { Some(wide(cx, 1)?.0) };
    if gh.is_none() && gc.is_none() {
        for _ in 0..3 {
            cx.out_none();
        }
        return Ok(());
    }
    let g = &mut *cx.g;
    let w = chunks(g, workspace, 4)?;
    let (i, f, n, o) = (w[0], w[1], w[2], w[3]);
    let t = g.tanh(cy)?;
    let zeros = g.zeros_like(cy)?;
    let gh = gh.unwrap_or(zeros);
    let into = g.multiply(gh, o)?;
    let into = through_tanh(g, into, t)?;
    let grad = match gc {
        Some(gc) => g.add(into, gc)?,
        None => into,
    };
    let gi = g.multiply(grad, n)?;
    let gi = through_sigmoid(g, gi, i)?;
    let gf = g.multiply(grad, c)?;
    let gf = through_sigmoid(g, gf, f)?;
    let gn = g.multiply(grad, i)?;
    let gn = through_tanh(g, gn, n)?;
    let go = g.multiply(gh, t)?;
    let go = through_sigmoid(g, go, o)?;
    let gates = join(g, &[gi, gf, gn, go])?;
    let old = g.multiply(grad, f)?;
    finish(cx, gates, dtype)?;
    finish(cx, old, dtype)?;
    bias_grad(cx, cx.bool(5)?, gates, dtype)
}

fn bias_grad(cx: &mut Cx<'_, '_>, wanted: bool, gates: Value, dtype: DType) -> Result<()> {
    if !wanted {
        cx.out_none();
        return Ok(());
    }
    let b = cx.g.reduce_sum(gates, &[0])?;
    finish(cx, b, dtype)
}

/// `(hy, workspace)` of gates in the order reset, update, new; the workspace holds them, `hx` and the hidden new gate.
fn gru(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (a, dtype) = wide(cx, 0)?;
    let (b, _) = wide(cx, 1)?;
    let (h, _) = wide(cx, 2)?;
    let a = with_bias(cx, a, 3)?;
    let b = with_bias(cx, b, 4)?;
    let g = &mut *cx.g;
    let (x, y) = (chunks(g, a, 3)?, chunks(g, b, 3)?);
    let r = g.add(x[0], y[0])?;
    let r = g.logistic(r)?;
    let z = g.add(x[1], y[1])?;
    let z = g.logistic(z)?;
    let n = g.multiply(r, y[2])?;
    let n = g.add(x[2], n)?;
    let n = g.tanh(n)?;
    let d = g.subtract(h, n)?;
    let d = g.multiply(z, d)?;
    let hy = g.add(n, d)?;
    let workspace = join(g, &[r, z, n, h, y[2]])?;
    finish(cx, hy, dtype)?;
    finish(cx, workspace, dtype)
}

/// `(grad_hy, workspace, has_bias)`: gradients of both gates, of `hx` and of both biases.
fn gru_backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (grad, dtype) = wide(cx, 0)?;
    let (workspace, _) = wide(cx, 1)?;
    let g = &mut *cx.g;
    let w = chunks(g, workspace, 5)?;
    let (r, z, n, h, hn) = (w[0], w[1], w[2], w[3], w[4]);
    let d = g.subtract(h, n)?;
    let gz = g.multiply(grad, d)?;
    let gz = through_sigmoid(g, gz, z)?;
    let kept = rest(g, z)?;
    let gn = g.multiply(grad, kept)?;
    let gn = through_tanh(g, gn, n)?;
    let ghn = g.multiply(gn, r)?;
    let gr = g.multiply(gn, hn)?;
    let gr = through_sigmoid(g, gr, r)?;
    let (inputs, hidden) = (join(g, &[gr, gz, gn])?, join(g, &[gr, gz, ghn])?);
    let gh = g.multiply(grad, z)?;
    for v in [inputs, hidden, gh] {
        finish(cx, v, dtype)?;
    }
    let has_bias = cx.bool(2)?;
    bias_grad(cx, has_bias, inputs, dtype)?;
    bias_grad(cx, has_bias, hidden, dtype)
}
