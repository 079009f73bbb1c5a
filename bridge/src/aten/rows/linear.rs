//! `linear` and its backward pass: one product each for the result, the input's and the weight's gradient.

use super::matmul::{cannot_multiply, contract, expand};
use crate::Result;
use crate::aten::{Cx, Row};
use primitives::{Dims, DotDims, Value};

pub const ROWS: &[Row] =
    &[Row::new("linear", linear).precise(), Row::new("linear_backward", linear_backward).precise()];

/// `x` as a matrix of all its rows.
fn rows(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let dims = cx.g.dims(x);
    let k = dims.last().copied().unwrap_or(1);
    let n: i64 = dims[..dims.len().saturating_sub(1)].iter().product();
    Ok(cx.g.reshape(x, &[n, k])?)
}

/// `linear(input, weight, bias)`: `input @ weight.T + bias` over the last dimension.
///
/// Shapes: input `[.., k]`, weight `[n, k]` or `[k]`, bias broadcast to the result `[.., n]` (or `[..]`).
fn linear(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (x, w, bias) = (cx.t(0)?, cx.t(1)?, cx.opt_t(2)?);
    let (xd, wd) = (cx.g.dims(x), cx.g.dims(w));
    let dtype = cx.g.dtype(x);
    if xd.is_empty() || wd.is_empty() || wd.len() > 2 {
        return Err(cx.error(format!(
            "both arguments to linear need to be at least 1D, and the weight at most 2D, but they are {}D and {}D",
            xd.len(),
            wd.len()
        )));
    }
    if dtype.is_bool() {
        return Err(crate::Error::not_implemented(cx.op(), "\"addmm_impl_cpu_\" not implemented for 'Bool'".into()));
    }
    if dtype != cx.g.dtype(w) {
        return Err(cx.error(format!(
            "mat1 and mat2 must have the same dtype, but got {} and {}",
            crate::aten::promote::torch_name(dtype),
            crate::aten::promote::torch_name(cx.g.dtype(w))
        )));
    }
    let flat = rows(cx, x)?;
    let w2 = rows(cx, w)?;
    let (fd, w2d) = (cx.g.dims(flat), cx.g.dims(w2));
    if fd[1] != w2d[1] {
        return Err(cannot_multiply(cx, &fd, &[w2d[1], w2d[0]]));
    }
    let d = DotDims { lhs_contract: vec![1], rhs_contract: vec![1], ..DotDims::default() };
    let y = contract(cx, flat, w2, &d)?;
    let mut shape: Dims = Dims::from_slice(&xd[..xd.len() - 1]);
    if wd.len() == 2 {
        shape.push(wd[0]);
    }
    let mut y = cx.g.reshape(y, &shape)?;
    if let Some(b) = bias {
        if cx.g.dtype(b) != dtype {
            return Err(cx.error("self and mat2 must have the same dtype"));
        }
        let b = cx.g.convert(b, cx.g.dtype(y))?;
        let b = expand(cx, b, &shape)?;
        y = cx.g.add(y, b)?;
    }
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `linear_backward(self, grad_output, weight, output_mask)`: `grad @ weight`, `grad.T @ self` and the sum of `grad`.
fn linear_backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let mask = cx.bools(3)?;
    let grad = cx.t(1)?;
    let (xt, wt) = (cx.ty(0)?, cx.ty(2)?);
    let dtype = cx.g.dtype(grad);
    let n: i64 = xt.dims[..xt.dims.len() - 1].iter().product();
    let out = if wt.dims.len() == 2 { wt.dims[0] } else { 1 };
    let grad = cx.g.reshape(grad, &[n, out])?;
    if mask[0] {
        let w = cx.t(2)?;
        let w = rows(cx, w)?;
        let w = conj(cx, w)?;
        let d = DotDims { lhs_contract: vec![1], rhs_contract: vec![0], ..DotDims::default() };
        let y = contract(cx, grad, w, &d)?;
        let y = cx.g.convert(y, dtype)?;
        let y = cx.g.reshape(y, &xt.dims)?;
        cx.out(y);
    } else {
        cx.out_none();
    }
    if mask[1] {
        let x = cx.t(0)?;
        let x = rows(cx, x)?;
        let x = conj(cx, x)?;
        let d = DotDims { lhs_contract: vec![0], rhs_contract: vec![0], ..DotDims::default() };
        let y = contract(cx, grad, x, &d)?;
        let y = cx.g.convert(y, dtype)?;
        let y = cx.g.reshape(y, &wt.dims)?;
        cx.out(y);
    } else {
        cx.out_none();
    }
    if mask[2] {
        let wide = cx.g.convert(grad, crate::aten::promote::compute_type(dtype))?;
        let dims: &[usize] = if wt.dims.len() == 2 { &[0] } else { &[0, 1] };
        let y = cx.g.reduce_sum(wide, dims)?;
        let y = cx.g.convert(y, dtype)?;
        cx.out(y);
    } else {
        cx.out_none();
    }
    Ok(())
}

fn conj(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    Ok(if cx.g.dtype(v).is_complex() { cx.g.conj(v)? } else { v })
}
