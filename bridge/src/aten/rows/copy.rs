//! Copies, casts and fills.

use crate::Result;
use crate::aten::cast::cast;
use crate::aten::{Cx, Row};

pub const ROWS: &[Row] = &[
    Row::pointwise("clone", clone),
    Row::pointwise("copy", copy),
    Row::pointwise("_to_copy", to_copy),
    Row::pointwise("fill.Scalar", fill).dynamic(&["value"]).guarded(|n| n.fits(1)),
    Row::pointwise("fill.Tensor", fill),
    Row::pointwise("zero", zero),
    Row::pointwise("zeros_like", zeros_like),
];

/// `clone(self, *, memory_format)`: the values, in memory of their own.
fn clone(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    cx.lay_out_by(1, cx.g.rank(x))?;
    cx.out(x);
    Ok(())
}

/// `copy(self, src)`: `src` broadcast to the shape of `self` and converted to its dtype.
fn copy(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(0)?;
    let src = cx.t(1)?;
    let v = cast(cx.g, src, ty.dtype)?;
    let from = cx.g.dims(v);
    let v = cx.g.broadcast_to(v, &ty.dims).map_err(|_| {
        cx.error(format!(
            "The expanded size of the tensor {:?} must match the existing size {:?}",
            &ty.dims[..],
            &from[..]
        ))
    })?;
    cx.out(v);
    Ok(())
}

/// `_to_copy(self, *, dtype)`: the cast; a move to another device is the face's business.
fn to_copy(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let dtype = cx.dtype_arg(1)?.unwrap_or(cx.g.dtype(x));
    let y = cast(cx.g, x, dtype)?;
    cx.out(y);
    Ok(())
}

/// `fill(self, value)`.
fn fill(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(0)?;
    let value = cx.operand(1)?;
    let v = cx.value_as(&value, ty.dtype)?;
    if cx.g.rank(v) > 0 {
        return Err(cx.error(format!(
            "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
            cx.g.rank(v)
        )));
    }
    let v = cx.g.broadcast_to(v, &ty.dims)?;
    cx.out(v);
    Ok(())
}

fn zero(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(0)?;
    let v = cx.g.full(ty.dtype, &ty.dims, 0)?;
    cx.out(v);
    Ok(())
}

/// `zeros_like(self, *, dtype)`.
fn zeros_like(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(0)?;
    let dtype = cx.dtype_arg(1)?.unwrap_or(ty.dtype);
    let v = cx.g.full(dtype, &ty.dims, 0)?;
    cx.out(v);
    Ok(())
}
