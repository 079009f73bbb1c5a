//! Operands of type promotion: tensors and numbers, and the values that they become.

use super::Cx;
use crate::aten::args::{Arg, ArgPos};
use crate::aten::promote::{self, Class};
use crate::{Error, Result};
use primitives::{DType, Number, Value};

/// A tensor or number operand of a promoting op.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    source: OperandSource,
    pub dtype: DType,
    pub class: Class,
}

#[derive(Clone, Copy, Debug)]
enum OperandSource {
    Arg(ArgPos),
    Value(Value),
    Const(Number),
}

impl Cx<'_, '_> {
    /// Argument `i` as an operand of type promotion: a tensor, or a number (wrapped, like torch's `wrapped_number`).
    pub fn operand(&self, i: usize) -> Result<Operand> {
        self.operand_at(self.pos(i)).ok_or_else(|| self.wrong(i, "Tensor or number"))
    }

    /// Item `k` of list argument `i` as an operand.
    pub fn operand_item(&self, i: usize, k: usize) -> Result<Operand> {
        let pos = ArgPos::item(self.pos(i).arg as usize, k);
        self.operand_at(pos).ok_or_else(|| self.wrong(i, "Tensor or number"))
    }

    fn operand_at(&self, pos: ArgPos) -> Option<Operand> {
        Some(match pos.get(self.args) {
            Arg::Tensor(t) => {
                let class = if t.sizes.is_empty() { Class::Zero } else { Class::Dim };
                Operand { source: OperandSource::Arg(pos), dtype: t.dtype, class }
            }
            Arg::HostScalar { dtype, wrapped, .. } => {
                let class = if *wrapped { Class::Wrapped } else { Class::Zero };
                Operand { source: OperandSource::Arg(pos), dtype: *dtype, class }
            }
            _ => {
                let dtype = number_dtype(pos.number(self.args)?);
                Operand { source: OperandSource::Arg(pos), dtype, class: Class::Wrapped }
            }
        })
    }

    /// A value of the graph as an operand.
    pub fn operand_of(&self, v: Value) -> Operand {
        let class = if self.g.rank(v) == 0 { Class::Zero } else { Class::Dim };
        Operand { source: OperandSource::Value(v), dtype: self.g.dtype(v), class }
    }

    /// A constant number as an operand.
    pub fn operand_const(&self, n: Number) -> Operand {
        Operand { source: OperandSource::Const(n), dtype: number_dtype(n), class: Class::Wrapped }
    }

    /// Common dtype of operands by torch's rules.
    pub fn promote(&self, operands: &[Operand]) -> DType {
        promote::result_type(operands.iter().map(|o| (o.dtype, o.class)), self.env.default_dtype)
    }

    /// The operand as a value of `dtype`, in its own shape (0-d for numbers). A dynamic number becomes an input of that dtype.
    pub fn value_as(&mut self, o: &Operand, dtype: DType) -> Result<Value> {
        let v = match o.source {
            OperandSource::Value(v) => v,
            OperandSource::Const(n) => return Ok(self.g.scalar(dtype, n)?),
            OperandSource::Arg(pos) => match pos.get(self.args) {
                Arg::Tensor(_) => self.tensor_at(pos, pos.arg as usize)?,
                Arg::HostScalar { value, .. } => return self.source.number(self.g, pos, *value, dtype),
                _ => {
                    let n = pos.number(self.args).ok_or_else(|| Error::internal("operand without a number".into()))?;
                    let row_arg = self.map.iter().position(|p| p.arg == pos.arg).unwrap_or(usize::MAX);
                    return if self.is_dynamic(row_arg) {
                        self.source.number(self.g, pos, n, dtype)
                    } else {
                        Ok(self.g.scalar(dtype, n)?)
                    };
                }
            },
        };
        Ok(self.g.convert(v, dtype)?)
    }

    /// Number argument `i` as a 0-d value of `dtype` (an input when dynamic, else a constant).
    pub fn number_as(&mut self, i: usize, dtype: DType) -> Result<Value> {
        let o = self.operand(i)?;
        self.value_as(&o, dtype)
    }
}

/// Dtype that torch gives a Python number.
pub fn number_dtype(n: Number) -> DType {
    match n {
        Number::Bool(_) => DType::Bool,
        Number::Int(_) => DType::I64,
        Number::UInt(_) => DType::U64,
        Number::Float(_) => DType::F64,
        Number::Complex(..) => DType::C128,
    }
}
