//! Dropout with its mask, and its gradient.

use super::math;
use crate::Result;
use crate::aten::threefry;
use crate::aten::{Cx, Row, exact, promote};
use primitives::{DType, Direction};

pub const ROWS: &[Row] = &[
    Row::pointwise("native_dropout", native_dropout).dynamic(&["p"]),
    Row::pointwise("native_dropout_backward", native_dropout_backward).dynamic(&["scale"]),
];

/// `(output, mask)`: elements are kept with probability `1 - p` and scaled by `1 / (1 - p)`.
fn native_dropout(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let dims = cx.g.dims(x);
    if cx.opt_bool(2)? == Some(false) {
        let mask = cx.g.full(DType::Bool, &dims, true)?;
        cx.out(x);
        cx.out(mask);
        return Ok(());
    }
    let dtype = cx.g.dtype(x);
    let compute = promote::compute_type(dtype);
    let n = cx.g.numel(x);
    let bits = threefry::draw(cx, None, n)?;
    let g = &mut *cx.g;
    let u = bits.unit(g, DType::F32)?;
    let p = cx.number_as(1, DType::F32)?;
    let keep = math::cmp(cx.g, u, p, Direction::Ge)?;
    let keep = cx.g.reshape(keep, &dims)?;
    // p = 1 keeps nothing, whatever the scale: avoid 1 / 0.
    let p = cx.number_as(1, compute.real_of())?;
    let g = &mut *cx.g;
    let one = g.ones_like(p)?;
    let kept = g.subtract(one, p)?;
    let zero = g.zeros_like(p)?;
    let none = g.compare(kept, zero, Direction::Le)?;
    let kept = g.select(none, one, kept)?;
    let scale = exact::divide(g, one, kept)?;
    let scale = g.convert(scale, compute)?;
    let wide = g.convert(x, compute)?;
    let y = math::mul(g, wide, scale)?;
    // A product rather than a selection: NaN and infinity stay visible, as in torch.
    let kept = g.convert(keep, compute)?;
    let y = g.multiply(y, kept)?;
    let y = g.convert(y, dtype)?;
    cx.out(y);
    cx.out(keep);
    Ok(())
}

/// `grad_output * mask * scale`, promoted as this product.
fn native_dropout_backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (grad, mask) = (cx.t(0)?, cx.t(1)?);
    let dtype = cx.promote(&[cx.operand(0)?, cx.operand(1)?, cx.operand(2)?]);
    let compute = promote::compute_type(dtype);
    let scale = cx.number_as(2, compute.real_of())?;
    let scale = cx.g.convert(scale, compute)?;
    let grad = cx.g.convert(grad, compute)?;
    let y = math::mul(cx.g, grad, scale)?;
    let mask = cx.g.convert(mask, compute)?;
    let y = cx.g.multiply(y, mask)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}
