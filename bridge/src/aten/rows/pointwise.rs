//! Pointwise arithmetic with type promotion.

use super::util::{Out, binary, compare, unary};
use crate::aten::{Cx, Row};
use crate::{Error, Result};
use primitives::{DType, Direction, Graph};

/// Arguments of these rows: `(self, other)`, both tensors or numbers.
pub const ROWS: &[Row] = &[
    Row::pointwise("add.Tensor", |cx| scaled(cx, Graph::add)).dynamic(&["alpha"]),
    Row::pointwise("add.Scalar", |cx| scaled(cx, Graph::add)).dynamic(&["other", "alpha"]),
    Row::pointwise("sub.Tensor", |cx| scaled(cx, Graph::subtract)).dynamic(&["alpha"]),
    Row::pointwise("sub.Scalar", |cx| scaled(cx, Graph::subtract)).dynamic(&["other", "alpha"]),
    Row::pointwise("mul.Tensor", |cx| binary(cx, Out::Promoted, mul)),
    Row::pointwise("mul.Scalar", |cx| binary(cx, Out::Promoted, mul)).dynamic(&["other"]),
    Row::pointwise("div.Tensor", |cx| binary(cx, Out::Float, Graph::divide)),
    Row::pointwise("div.Scalar", |cx| binary(cx, Out::Float, Graph::divide)).dynamic(&["other"]),
    Row::pointwise("eq.Tensor", |cx| compare(cx, Direction::Eq)),
    Row::pointwise("eq.Scalar", |cx| compare(cx, Direction::Eq)).dynamic(&["other"]),
    Row::pointwise("ne.Tensor", |cx| compare(cx, Direction::Ne)),
    Row::pointwise("ne.Scalar", |cx| compare(cx, Direction::Ne)).dynamic(&["other"]),
    Row::pointwise("lt.Tensor", |cx| compare(cx, Direction::Lt)),
    Row::pointwise("lt.Scalar", |cx| compare(cx, Direction::Lt)).dynamic(&["other"]),
    Row::pointwise("le.Tensor", |cx| compare(cx, Direction::Le)),
    Row::pointwise("le.Scalar", |cx| compare(cx, Direction::Le)).dynamic(&["other"]),
    Row::pointwise("gt.Tensor", |cx| compare(cx, Direction::Gt)),
    Row::pointwise("gt.Scalar", |cx| compare(cx, Direction::Gt)).dynamic(&["other"]),
    Row::pointwise("ge.Tensor", |cx| compare(cx, Direction::Ge)),
    Row::pointwise("ge.Scalar", |cx| compare(cx, Direction::Ge)).dynamic(&["other"]),
    Row::pointwise("neg", |cx| unary(cx, Out::Promoted, Graph::neg)),
    Row::pointwise("exp", |cx| unary(cx, Out::Float, Graph::exp)),
    Row::pointwise("tanh", |cx| unary(cx, Out::Float, Graph::tanh)),
    Row::pointwise("sqrt", |cx| unary(cx, Out::Float, Graph::sqrt)),
];

/// `self ± alpha * other`.
fn scaled(cx: &mut Cx<'_, '_>, f: super::util::Binary) -> Result<()> {
    let (a, b) = (cx.operand(0)?, cx.operand(1)?);
    let dtype = cx.promote(&[a, b]);
    let alpha = cx.operand(2)?;
    if !crate::aten::promote::can_cast(alpha.dtype, dtype) {
        return Err(Error::runtime(
            cx.op(),
            "For integral input tensors, argument alpha must not be a floating point number.".into(),
        ));
    }
    binary_alpha(cx, dtype, f)
}

fn binary_alpha(cx: &mut Cx<'_, '_>, dtype: DType, f: super::util::Binary) -> Result<()> {
    let compute = crate::aten::promote::compute_type(dtype);
    let (a, b) = (cx.operand(0)?, cx.operand(1)?);
    let (a, b) = (cx.value_as(&a, compute)?, cx.value_as(&b, compute)?);
    let b = if cx.scalar_is_one(2) {
        b
    } else {
        let alpha = cx.number_as(2, compute)?;
        let alpha = cx.g.broadcast_to(alpha, &cx.g.dims(b))?;
        mul(cx.g, b, alpha)?
    };
    let (a, b) = crate::aten::broadcast::pair(cx, a, b)?;
    let y = f(cx.g, a, b)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// Product; of bools, their conjunction.
fn mul(g: &mut Graph, a: primitives::Value, b: primitives::Value) -> primitives::Result<primitives::Value> {
    if g.dtype(a) == DType::Bool { g.and(a, b) } else { g.multiply(a, b) }
}
