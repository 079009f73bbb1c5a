//! A hash of tensors: the exclusive or of all bits.

use super::axes::Axes;
use crate::Result;
use crate::aten::{Cx, Row};
use primitives::DType;

pub const ROWS: &[Row] = &[Row::new("hash_tensor", hash_tensor)];

/// `hash_tensor(self, dim, *, keepdim, mode)`: floats as the bits of their f64, integers as those of their i64.
fn hash_tensor(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let mode = cx.int(3)?;
    if mode != 0 {
        return Err(cx.error(format!("hash_tensor: expected mode 0, got {mode}")));
    }
    let dtype = cx.g.dtype(x);
    if dtype.is_complex() {
        return Err(crate::Error::not_implemented(cx.op(), "complex numbers".into()));
    }
    let ax = Axes::of(cx, x, 1, 2)?;
    let g = &mut *cx.g;
    let wide = g.convert(x, if dtype.is_float() { DType::F64 } else { DType::I64 })?;
    let bits = g.bitcast_convert(wide, DType::U64)?;
    let none = g.scalar(DType::U64, 0)?;
    let y = g.reduce(&[bits], &[none], &ax.dims, |g, a| Ok(vec![g.xor(a[0], a[1])?]))?[0];
    let y = ax.finish(cx.g, y)?;
    cx.out(y);
    Ok(())
}
