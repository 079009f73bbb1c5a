//! What pointwise rows share: promotion, torch's compute dtype, broadcasting, the result's dtype.

use crate::Result;
use crate::aten::{Cx, broadcast, promote};
use primitives::{DType, Direction, Graph, Value};

pub type Unary = fn(&mut Graph, Value) -> primitives::Result<Value>;
pub type Binary = fn(&mut Graph, Value, Value) -> primitives::Result<Value>;

/// Dtype in which an op's operands are promoted and its result comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// The promoted dtype.
    Promoted,
    /// The promoted dtype; the default dtype for bool and integers.
    Float,
    /// Bool.
    Bool,
}

impl Out {
    /// Dtype to compute with, and dtype of the result.
    pub fn of(self, cx: &Cx<'_, '_>, promoted: DType) -> (DType, DType) {
        let dtype = if self == Out::Float { promote::to_float(promoted, cx.env.default_dtype) } else { promoted };
        (promote::compute_type(dtype), if self == Out::Bool { DType::Bool } else { dtype })
    }
}

/// Row of one tensor (argument 0).
pub fn unary(cx: &mut Cx<'_, '_>, out: Out, f: Unary) -> Result<()> {
    let x = cx.t(0)?;
    let (compute, dtype) = out.of(cx, cx.g.dtype(x));
    let x = cx.g.convert(x, compute)?;
    let y = f(cx.g, x)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// Arguments 0 and 1, promoted to what `f` computes with and broadcast; and the dtype of the result.
pub fn operands(cx: &mut Cx<'_, '_>, out: Out) -> Result<(Value, Value, DType)> {
    let (a, b) = (cx.operand(0)?, cx.operand(1)?);
    let promoted = cx.promote(&[a, b]);
    let (compute, dtype) = out.of(cx, promoted);
    let (a, b) = (cx.value_as(&a, compute)?, cx.value_as(&b, compute)?);
    let (a, b) = broadcast::pair(cx, a, b)?;
    Ok((a, b, dtype))
}

/// Row of two operands (arguments 0 and 1).
pub fn binary(cx: &mut Cx<'_, '_>, out: Out, f: Binary) -> Result<()> {
    let (a, b, dtype) = operands(cx, out)?;
    let y = f(cx.g, a, b)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// Comparison of arguments 0 and 1.
pub fn compare(cx: &mut Cx<'_, '_>, direction: Direction) -> Result<()> {
    let (a, b, _) = operands(cx, Out::Bool)?;
    let y = cx.g.compare(a, b, direction)?;
    cx.out(y);
    Ok(())
}
