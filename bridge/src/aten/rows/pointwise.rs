//! Pointwise arithmetic, comparisons and logic of two operands, with type promotion.

use super::util::{Out, Takes, binary, compare, map2, promotable};
use crate::aten::expr::Ex;
use crate::aten::{Cx, Row, broadcast, exact, promote};
use crate::{Error, Result};
use primitives::{DType, Direction, Graph, Value};

/// Arguments of these rows: `(self, other)`, both tensors or numbers.
pub const ROWS: &[Row] = &[
    Row::pointwise("add.Tensor", |cx| scaled(cx, 0, 1, Graph::add)).dynamic(&["alpha"]),
    Row::pointwise("add.Scalar", |cx| scaled(cx, 0, 1, Graph::add)).dynamic(&["other", "alpha"]),
    Row::pointwise("sub.Tensor", |cx| scaled(cx, 0, 1, Graph::subtract)).dynamic(&["alpha"]),
    Row::pointwise("sub.Scalar", |cx| scaled(cx, 0, 1, Graph::subtract)).dynamic(&["other", "alpha"]),
    Row::pointwise("rsub.Tensor", |cx| scaled(cx, 1, 0, Graph::subtract)).dynamic(&["alpha"]),
    Row::pointwise("rsub.Scalar", |cx| scaled(cx, 1, 0, Graph::subtract)).dynamic(&["other", "alpha"]),
    Row::pointwise("mul.Tensor", |cx| binary(cx, Out::Promoted, mul)),
    Row::pointwise("mul.Scalar", |cx| binary(cx, Out::Promoted, mul)).dynamic(&["other"]),
    Row::pointwise("div.Tensor", |cx| binary(cx, Out::Float, exact::divide)),
    Row::pointwise("div.Scalar", |cx| binary(cx, Out::Float, exact::divide)).dynamic(&["other"]),
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
    Row::pointwise("logical_and", |cx| map2(cx, Takes::ALL, Out::Bool, |a, b| truth(a) & truth(b))),
    Row::pointwise("logical_or", |cx| map2(cx, Takes::ALL, Out::Bool, |a, b| truth(a) | truth(b))),
    Row::pointwise("logical_xor", |cx| map2(cx, Takes::ALL, Out::Bool, |a, b| truth(a).xor(truth(b)))),
    Row::pointwise("bitwise_and.Tensor", |cx| map2(cx, Takes::BITS, Out::Promoted, |a, b| a & b)),
    Row::pointwise("bitwise_and.Scalar", |cx| map2(cx, Takes::BITS, Out::Promoted, |a, b| a & b)).dynamic(&["other"]),
    Row::pointwise("bitwise_and.Scalar_Tensor", |cx| map2(cx, Takes::BITS, Out::Promoted, |a, b| a & b))
        .dynamic(&["self"]),
    Row::pointwise("bitwise_or.Tensor", |cx| map2(cx, Takes::BITS, Out::Promoted, |a, b| a | b)),
    Row::pointwise("bitwise_or.Scalar", |cx| map2(cx, Takes::BITS, Out::Promoted, |a, b| a | b)).dynamic(&["other"]),
    Row::pointwise("bitwise_or.Scalar_Tensor", |cx| map2(cx, Takes::BITS, Out::Promoted, |a, b| a | b))
        .dynamic(&["self"]),
    Row::pointwise("bitwise_xor.Tensor", |cx| map2(cx, Takes::BITS, Out::Promoted, |a, b| a.xor(b))),
    Row::pointwise("bitwise_xor.Scalar", |cx| map2(cx, Takes::BITS, Out::Promoted, |a, b| a.xor(b)))
        .dynamic(&["other"]),
    Row::pointwise("bitwise_xor.Scalar_Tensor", |cx| map2(cx, Takes::BITS, Out::Promoted, |a, b| a.xor(b)))
        .dynamic(&["self"]),
    Row::pointwise("bitwise_left_shift.Tensor", |cx| map2(cx, Takes::INT, Out::Promoted, shift_left)),
    Row::pointwise("bitwise_left_shift.Tensor_Scalar", |cx| map2(cx, Takes::INT, Out::Promoted, shift_left))
        .dynamic(&["other"]),
    Row::pointwise("bitwise_left_shift.Scalar_Tensor", |cx| map2(cx, Takes::INT, Out::Promoted, shift_left))
        .dynamic(&["self"]),
    Row::pointwise("bitwise_right_shift.Tensor", |cx| map2(cx, Takes::INT, Out::Promoted, shift_right)),
    Row::pointwise("bitwise_right_shift.Tensor_Scalar", |cx| map2(cx, Takes::INT, Out::Promoted, shift_right))
        .dynamic(&["other"]),
    Row::pointwise("bitwise_right_shift.Scalar_Tensor", |cx| map2(cx, Takes::INT, Out::Promoted, shift_right))
        .dynamic(&["self"]),
    Row::pointwise("__lshift__.Tensor", |cx| map2(cx, Takes::INT, Out::Promoted, shift_left)),
    Row::pointwise("__lshift__.Scalar", |cx| map2(cx, Takes::INT, Out::Promoted, shift_left)).dynamic(&["other"]),
    Row::pointwise("__rshift__.Tensor", |cx| map2(cx, Takes::INT, Out::Promoted, shift_right)),
    Row::pointwise("__rshift__.Scalar", |cx| map2(cx, Takes::INT, Out::Promoted, shift_right)).dynamic(&["other"]),
];

/// `argument[from] ± alpha * argument[other]`.
fn scaled(cx: &mut Cx<'_, '_>, from: usize, other: usize, f: super::util::Binary) -> Result<()> {
    let (a, b) = (cx.operand(from)?, cx.operand(other)?);
    let dtype = cx.promote(&[a, b]);
    let alpha = cx.operand(2)?;
    if (a.dtype.is_bool() || b.dtype.is_bool()) && !cx.op().contains("add") {
        // torch's type for this mistake is NotImplementedError, which the fallback raises.
        return Err(Error::not_implemented(cx.op(), "subtraction with a bool tensor".into()));
    }
    let fits = promote::can_cast(alpha.dtype, dtype) || (dtype.is_bool() && alpha.dtype.is_int());
    if !fits && !cx.scalar_is_one(2) {
        let message = if alpha.dtype.is_complex() {
            "For non-complex input tensors, argument alpha must not be a complex number."
        } else {
            "For integral input tensors, argument alpha must not be a floating point number."
        };
        return Err(Error::runtime(cx.op(), message.into()));
    }
    if alpha.dtype.is_bool() && !dtype.is_bool() {
        return Err(cx.error("Boolean alpha only supported for Boolean results."));
    }
    promotable(cx, &[a, b], dtype)?;
    let compute = promote::compute_type(dtype);
    let (a, b) = (cx.value_as(&a, compute)?, cx.value_as(&b, compute)?);
    let b = if cx.scalar_is_one(2) {
        b
    } else {
        let alpha = cx.number_as(2, compute)?;
        let alpha = cx.g.broadcast_to(alpha, &cx.g.dims(b))?;
        mul(cx.g, b, alpha)?
    };
    let (a, b) = broadcast::pair(cx, a, b)?;
    let y = f(cx.g, a, b)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// Product; of bools, their conjunction.
fn mul(g: &mut Graph, a: Value, b: Value) -> primitives::Result<Value> {
    if g.dtype(a) == DType::Bool { g.and(a, b) } else { g.multiply(a, b) }
}

/// Whether an element is not zero.
fn truth(x: Ex<'_>) -> Ex<'_> {
    x.to(DType::Bool)
}

fn width<'s>(x: Ex<'s>) -> i64 {
    x.dtype().size_of() as i64 * 8
}

/// `a << b`; 0 where `b` is negative or no less than the width.
fn shift_left<'s>(a: Ex<'s>, b: Ex<'s>) -> Ex<'s> {
    let bad = b.lt(0i64) | b.ge(width(a));
    bad.pick(0i64, a.shift_left(bad.pick(0i64, b)))
}

/// `a >> b`, arithmetic for signed types; a `b` out of range counts as the largest shift.
fn shift_right<'s>(a: Ex<'s>, b: Ex<'s>) -> Ex<'s> {
    let bad = b.lt(0i64) | b.ge(width(a));
    if a.dtype().is_signed_int() {
        return a.shift_right(bad.pick(width(a) - 1, b));
    }
    bad.pick(0i64, a.shift_right_logical(bad.pick(0i64, b)))
}
