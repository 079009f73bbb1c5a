//! Pointwise arithmetic with type promotion.

use crate::Result;
use crate::aten::{Cx, Row};
use crate::aten::broadcast;
use crate::aten::promote::compute_type;
use primitives::{Graph, Value};

type Binary = fn(&mut Graph, Value, Value) -> primitives::Result<Value>;

pub const ROWS: &[Row] = &[
    Row::pointwise("mul.Tensor", |cx| binary(cx, Graph::multiply)).dynamic(&[]),
];

/// Promotes arguments 0 and 1, computes in torch's compute dtype, broadcasts, applies `f`.
fn binary(cx: &mut Cx<'_, '_>, f: Binary) -> Result<()> {
    let (a, b) = (cx.operand(0)?, cx.operand(1)?);
    let dtype = cx.promote(&[a, b]);
    let compute = compute_type(dtype);
    let (a, b) = (cx.value_as(&a, compute)?, cx.value_as(&b, compute)?);
    let (a, b) = broadcast::pair(cx, a, b)?;
    let y = f(cx.g, a, b)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}
