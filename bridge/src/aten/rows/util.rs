//! What pointwise rows share: promotion, torch's compute dtype, broadcasting, the result's dtype.

use crate::aten::expr::{Ex, formula};
use crate::aten::{Cx, Operand, broadcast, fits, promote};
use crate::{Error, Result};
use primitives::{DType, Direction, Graph, Value};

pub type Unary = fn(&mut Graph, Value) -> primitives::Result<Value>;
pub type Binary = fn(&mut Graph, Value, Value) -> primitives::Result<Value>;
/// A formula of one, two, three ... values.
pub type F1 = for<'s> fn(Ex<'s>) -> Ex<'s>;
pub type F2 = for<'s> fn(Ex<'s>, Ex<'s>) -> Ex<'s>;

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

/// Which categories of dtypes an op takes, as a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takes(u8);

impl Takes {
    pub const BOOL: Takes = Takes(1);
    pub const INT: Takes = Takes(2);
    pub const FLOAT: Takes = Takes(4);
    pub const COMPLEX: Takes = Takes(8);
    pub const BITS: Takes = Takes(3);
    pub const REAL: Takes = Takes(6);
    pub const FLOATS: Takes = Takes(12);
    pub const NUMBERS: Takes = Takes(14);
    pub const NO_COMPLEX: Takes = Takes(7);
    pub const ALL: Takes = Takes(15);

    /// Fails for a dtype outside the set, as torch does; the fallback raises torch's own message.
    pub fn check(self, cx: &Cx<'_, '_>, dtype: DType) -> Result<()> {
        if self.0 >> promote::category(dtype) & 1 == 1 {
            return Ok(());
        }
        Err(not_for(cx, cx.op(), dtype))
    }
}

/// torch's error of a kernel that does not take a dtype.
pub fn not_for(cx: &Cx<'_, '_>, kernel: &str, dtype: DType) -> Error {
    Error::not_implemented(cx.op(), format!("\"{kernel}\" not implemented for '{}'", promote::torch_name(dtype)))
}

/// Fails for a dtype that is no real float, as torch's kernel of this name does.
pub fn check_real_float(cx: &Cx<'_, '_>, kernel: &str, dtype: DType) -> Result<()> {
    if dtype.is_float() { Ok(()) } else { Err(not_for(cx, kernel, dtype)) }
}

/// An argument of a pointwise row.
#[derive(Clone, Copy, Debug)]
pub enum In {
    /// A tensor or number that takes part in promotion.
    T(usize),
    /// A number that follows the dtype of the others.
    N(usize),
    /// A bound: it takes part in promotion, and a number past the ends of an integer dtype means its ends.
    B(usize),
    /// A bound that follows the dtype of the others.
    Ends(usize),
}

/// Arguments in the dtype that their op computes with and in one shape; and the dtype of the result.
pub fn inputs<const N: usize>(
    cx: &mut Cx<'_, '_>,
    takes: Takes,
    out: Out,
    args: [In; N],
) -> Result<([Value; N], DType)> {
    let mut promoted = Vec::with_capacity(N);
    for arg in args {
        if let In::T(i) | In::B(i) = arg {
            promoted.push(cx.operand(i)?);
        }
    }
    let common = cx.promote(&promoted);
    takes.check(cx, common)?;
    promotable(cx, &promoted, common)?;
    let (compute, dtype) = out.of(cx, common);
    let mut values = Vec::with_capacity(N);
    for arg in args {
        let (In::T(i) | In::N(i) | In::B(i) | In::Ends(i)) = arg;
        let operand = cx.operand(i)?;
        values.push(match arg {
            In::B(_) | In::Ends(_) if operand.class == promote::Class::Wrapped => bound(cx, &operand, compute)?,
            _ => cx.value_as(&operand, compute)?,
        });
    }
    let values = broadcast::all(cx, &values)?;
    let mut i = 0;
    let values = [(); N].map(|()| {
        i += 1;
        values[i - 1]
    });
    Ok((values, dtype))
}

/// A number as a bound in `dtype`: of integers, the nearest that the dtype has.
fn bound(cx: &mut Cx<'_, '_>, number: &Operand, dtype: DType) -> Result<Value> {
    let Some((least, most)) = fits::range(dtype).filter(|_| dtype.size_of() < 8) else {
        return cx.value_as(number, dtype);
    };
    let n = cx.value_as(number, DType::I64)?;
    let (least, most) = (cx.g.scalar(DType::I64, least as i64)?, cx.g.scalar(DType::I64, most as i64)?);
    let n = cx.g.clamp(least, n, most)?;
    Ok(cx.g.convert(n, dtype)?)
}

/// Fails where there is no dtype for all values: torch's complex numbers of two 16-bit floats, which no device of ours
/// has, and integers of 64 bits with and without sign.
pub fn promotable(cx: &Cx<'_, '_>, operands: &[Operand], common: DType) -> Result<()> {
    let with_dims = || operands.iter().filter(|o| o.class == promote::Class::Dim);
    let half = with_dims().any(|o| matches!(o.dtype, DType::F16 | DType::BF16));
    let unsigned = with_dims().any(|o| o.dtype == DType::U64);
    if let Some(signed) = with_dims().find(|o| o.dtype.is_int() && o.dtype.is_signed()).filter(|_| unsigned) {
        return Err(cx.error(format!(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote UInt64 and {}",
            promote::torch_name(signed.dtype)
        )));
    }
    if common.is_complex() && half && !with_dims().any(|o| o.dtype.is_complex()) {
        return Err(Error::not_implemented(cx.op(), "complex numbers of half precision".into()));
    }
    Ok(())
}

/// Row of any number of arguments.
pub fn map<const N: usize>(
    cx: &mut Cx<'_, '_>,
    takes: Takes,
    out: Out,
    args: [In; N],
    f: impl for<'s> FnOnce([Ex<'s>; N]) -> Ex<'s>,
) -> Result<()> {
    let (values, dtype) = inputs(cx, takes, out, args)?;
    let y = formula(cx.g, values, f)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// Row of one tensor, as a formula.
pub fn map1(cx: &mut Cx<'_, '_>, takes: Takes, out: Out, f: F1) -> Result<()> {
    map(cx, takes, out, [In::T(0)], |[x]| f(x))
}

/// Row of two operands, as a formula.
pub fn map2(cx: &mut Cx<'_, '_>, takes: Takes, out: Out, f: F2) -> Result<()> {
    map(cx, takes, out, [In::T(0), In::T(1)], |[a, b]| f(a, b))
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
    let ([a, b], dtype) = inputs(cx, Takes::ALL, out, [In::T(0), In::T(1)])?;
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
    // Complex numbers are equal or not, but have no order.
    let takes = if matches!(direction, Direction::Eq | Direction::Ne) { Takes::ALL } else { Takes::NO_COMPLEX };
    let ([a, b], _) = inputs(cx, takes, Out::Bool, [In::T(0), In::T(1)])?;
    let y = cx.g.compare(a, b, direction)?;
    cx.out(y);
    Ok(())
}
