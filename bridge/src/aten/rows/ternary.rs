//! Pointwise ops of three operands, bounds and masks.

use super::util::{In, Out, Takes, map};
use crate::Result;
use crate::aten::expr::Ex;
use crate::aten::{Cx, Row, broadcast, fits, promote};
use primitives::DType;

pub const ROWS: &[Row] = &[
    Row::pointwise("where.self", where_self),
    Row::pointwise("addcmul", addcmul).dynamic(&["value"]),
    Row::pointwise("addcdiv", addcdiv).dynamic(&["value"]),
    Row::pointwise("lerp.Scalar", |cx| lerp(cx, In::N(2))).dynamic(&["weight"]),
    Row::pointwise("lerp.Tensor", |cx| lerp(cx, In::T(2))),
    Row::pointwise("clamp", clamp).dynamic(&["min", "max"]).guarded(|n| n.bounds(Some(1), Some(2))),
    Row::pointwise("clamp.Tensor", clamp),
    Row::pointwise("clamp_min", |cx| bound(cx, |a, b| a.max(b))).dynamic(&["min"]).guarded(|n| n.bounds(Some(1), None)),
    Row::pointwise("clamp_min.Tensor", |cx| bound(cx, |a, b| a.max(b))),
    Row::pointwise("clamp_max", |cx| bound(cx, |a, b| a.min(b))).dynamic(&["max"]).guarded(|n| n.bounds(None, Some(1))),
    Row::pointwise("clamp_max.Tensor", |cx| bound(cx, |a, b| a.min(b))),
    Row::new("masked_fill.Scalar", masked_fill).dynamic(&["value"]).guarded(|n| n.fits(2)),
    Row::new("masked_fill.Tensor", masked_fill).guarded(|n| n.fits(2)),
];

/// `where(condition, self, other)`: a choice by a bool (or, of old, uint8) condition.
fn where_self(cx: &mut Cx<'_, '_>) -> Result<()> {
    let condition = cx.ty(0)?.dtype;
    if !matches!(condition, DType::Bool | DType::U8) {
        return Err(cx.error(format!(
            "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
            crate::aten::promote::torch_name(condition)
        )));
    }
    let (a, b) = (cx.operand(1)?, cx.operand(2)?);
    let dtype = cx.promote(&[a, b]);
    let p = cx.t(0)?;
    let p = cx.g.convert(p, DType::Bool)?;
    let (a, b) = (cx.value_as(&a, dtype)?, cx.value_as(&b, dtype)?);
    let v = broadcast::all(cx, &[p, a, b])?;
    let y = cx.g.select(v[0], v[1], v[2])?;
    cx.out(y);
    Ok(())
}

/// `addcmul(self, tensor1, tensor2, *, value)`: `self + value * tensor1 * tensor2`.
fn addcmul(cx: &mut Cx<'_, '_>) -> Result<()> {
    let args = [In::T(0), In::T(1), In::T(2), In::N(3)];
    map(cx, Takes::NUMBERS, Out::Promoted, args, |[x, a, b, value]| x + value * a * b)
}

/// `addcdiv(self, tensor1, tensor2, *, value)`: `self + value * tensor1 / tensor2`.
fn addcdiv(cx: &mut Cx<'_, '_>) -> Result<()> {
    if !cx.ty(1)?.dtype.is_signed() && !cx.ty(2)?.dtype.is_signed()
        || (cx.ty(1)?.dtype.is_int() && cx.ty(2)?.dtype.is_int())
    {
        return Err(cx.error(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true division of tensor1 and tensor2. Use (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for the historic addcdiv behavior, or (input + value * tensor1 / tensor2) for the future one",
        ));
    }
    let args = [In::T(0), In::T(1), In::T(2), In::N(3)];
    map(cx, Takes::FLOATS, Out::Promoted, args, |[x, a, b, value]| x + value * a / b)
}

/// `lerp(self, end, weight)`, by the form that is exact at the nearer end.
fn lerp(cx: &mut Cx<'_, '_>, weight: In) -> Result<()> {
    let (start, end) = (cx.ty(0)?.dtype, cx.ty(1)?.dtype);
    if start != end {
        return Err(cx.error(format!(
            "expected dtype {} for `end` but got dtype {}",
            promote::c_name(start),
            promote::c_name(end)
        )));
    }
    if let In::T(i) = weight {
        let w = cx.ty(i)?;
        if w.dtype != start && !w.dims.is_empty() {
            return Err(cx.error(format!(
                "expected dtype {} for `weight` but got dtype {}",
                promote::c_name(start),
                promote::c_name(w.dtype)
            )));
        }
    }
    let weight = match weight {
        In::T(i) if cx.ty(i)?.dims.is_empty() => In::N(i),
        w => w,
    };
    map(cx, Takes::FLOATS, Out::Promoted, [In::T(0), In::T(1), weight], |[a, b, w]| {
        let small = w.abs().lt(0.5);
        let d = b - a;
        small.pick(a + w * d, b - d * (w.constant(1.0) - w))
    })
}

/// `clamp(self, min, max)`: `minimum(maximum(self, min), max)`; NaN in a bound makes NaN.
fn clamp(cx: &mut Cx<'_, '_>) -> Result<()> {
    const REAL: Takes = Takes::REAL;
    match (cx.is_none(1), cx.is_none(2)) {
        (true, true) => Err(cx.error("At least one of 'min' or 'max' must not be None")),
        (false, true) => bounded(cx, 1, |a, b| a.max(b)),
        (true, false) => bounded(cx, 2, |a, b| a.min(b)),
        (false, false) => {
            map(cx, REAL, Out::Promoted, [In::T(0), In::B(1), In::B(2)], |[x, low, high]| x.max(low).min(high))
        }
    }
}

fn bound(cx: &mut Cx<'_, '_>, f: for<'s> fn(Ex<'s>, Ex<'s>) -> Ex<'s>) -> Result<()> {
    bounded(cx, 1, f)
}

fn bounded(cx: &mut Cx<'_, '_>, i: usize, f: for<'s> fn(Ex<'s>, Ex<'s>) -> Ex<'s>) -> Result<()> {
    map(cx, Takes::NO_COMPLEX, Out::Promoted, [In::T(0), In::B(i)], |[x, b]| f(x, b))
}

/// `masked_fill(self, mask, value)`: `value`, in the dtype of `self`, where the mask is set.
fn masked_fill(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (ty, mask) = (cx.ty(0)?, cx.ty(1)?);
    if mask.dtype != DType::Bool {
        return Err(cx.error(format!(
            "masked_fill only supports boolean masks, but got mask with dtype {}",
            crate::aten::promote::torch_name(mask.dtype)
        )));
    }
    let value = cx.operand(2)?;
    if value.class == crate::aten::promote::Class::Dim {
        return Err(cx.error(format!(
            "masked_fill only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
            cx.ty(2)?.dims.len()
        )));
    }
    // Of a number the guard knows whether it has an imaginary part.
    if !ty.dtype.is_complex() && !ty.dtype.is_bool() && cx.ty(2).is_ok_and(|v| v.dtype.is_complex()) {
        let name = fits::c_name(ty.dtype);
        return Err(cx.error(format!("value cannot be converted to type {name} without overflow")));
    }
    let (x, mask) = (cx.t(0)?, cx.t(1)?);
    let value = cx.value_as(&value, ty.dtype)?;
    let v = broadcast::all(cx, &[x, mask, value])?;
    let y = cx.g.select(v[1], v[2], v[0])?;
    cx.out(y);
    Ok(())
}
