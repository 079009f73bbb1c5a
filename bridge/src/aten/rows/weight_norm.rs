//! Weight normalization: a weight as a direction `v` and a length `g` for each slice along one dim.

use crate::Result;
use crate::aten::expr::formula;
use crate::aten::{Cx, Row, promote};
use primitives::{DType, Graph, Value};

pub const ROWS: &[Row] =
    &[Row::new("_weight_norm_interface", forward), Row::new("_weight_norm_interface_backward", backward)];

/// Sums over all dims but one, in the full rank.
fn summed(g: &mut Graph, x: Value, dim: usize) -> Result<Value> {
    let mut dims = g.dims(x);
    let rest: Vec<usize> = (0..dims.len()).filter(|&d| d != dim).collect();
    let sum = g.reduce_sum(x, &rest)?;
    rest.iter().for_each(|&d| dims[d] = 1);
    Ok(g.reshape(sum, &dims)?)
}

fn kept(cx: &Cx<'_, '_>, i: usize, rank: usize) -> Result<usize> {
    let d = cx.int(i)?;
    let d = if d < 0 { d + rank as i64 } else { d };
    usize::try_from(d)
        .ok()
        .filter(|&d| d < rank)
        .ok_or_else(|| cx.error(format!("argument `dim`: got {}, expected a dim of a tensor with {rank} dims", d)))
}

/// `_weight_norm_interface(v, g, dim)`: `v * (g / |v|)`, and the norms, which are f32 for bf16.
fn forward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (v, length) = (cx.t(0)?, cx.t(1)?);
    let (dtype, sizes) = (cx.g.dtype(v), cx.g.dims(v));
    let dim = kept(cx, 2, sizes.len())?;
    let compute = promote::compute_type(dtype);
    let (v, length) = (cx.g.convert(v, compute)?, cx.g.convert(length, compute)?);
    let square = cx.g.multiply(v, v)?;
    let square = summed(cx.g, square, dim)?;
    let norm = cx.g.sqrt(square)?;
    let scale = formula(cx.g, [length, norm], |[length, norm]| length / norm)?;
    let scale = cx.g.broadcast_to(scale, &sizes)?;
    let w = cx.g.multiply(v, scale)?;
    let w = cx.g.convert(w, dtype)?;
    let norm = cx.g.convert(norm, if dtype == DType::BF16 { DType::F32 } else { dtype })?;
    cx.out(w);
    cx.out(norm);
    Ok(())
}

/// `_weight_norm_interface_backward(grad_w, saved_v, saved_g, saved_norms, dim)`: the gradients of `v` and `g`.
fn backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (dtype, sizes) = (cx.ty(1)?.dtype, cx.ty(1)?.dims);
    let dim = kept(cx, 4, sizes.len())?;
    let compute = promote::compute_type(dtype);
    let mut args = [cx.t(0)?, cx.t(1)?, cx.t(2)?, cx.t(3)?];
    for v in &mut args {
        *v = cx.g.convert(*v, compute)?;
    }
    let [grad, v, length, norm] = args;
    let along = cx.g.multiply(grad, v)?;
    let along = summed(cx.g, along, dim)?;
    let grad_g = formula(cx.g, [along, norm], |[along, norm]| along / norm)?;
    let (scale, back) = (
        formula(cx.g, [length, norm], |[length, norm]| length / norm)?,
        formula(cx.g, [along, norm], |[along, norm]| along / (norm * norm))?,
    );
    let (scale, back) = (cx.g.broadcast_to(scale, &sizes)?, cx.g.broadcast_to(back, &sizes)?);
    let grad_v = formula(cx.g, [scale, grad, v, back], |[scale, grad, v, back]| scale * (grad - v * back))?;
    for y in [grad_v, grad_g] {
        let y = cx.g.convert(y, dtype)?;
        cx.out(y);
    }
    Ok(())
}
