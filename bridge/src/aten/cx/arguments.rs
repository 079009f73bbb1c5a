//! The arguments of a call, read by position in the row's schema.

use super::{Cx, view_of, within};
use crate::aten::args::{Arg, ArgPos, MemoryFormat, TensorArg};
use crate::aten::view;
use crate::{Error, Result};
use primitives::{DType, Dims, Number, TensorType, Value};

impl<'a> Cx<'a, '_> {
    pub(super) fn tensor_at(&mut self, pos: ArgPos, what: usize) -> Result<Value> {
        if let Some((_, v)) = self.tensors.iter().find(|(p, _)| *p == pos) {
            return Ok(*v);
        }
        let args: &'a [Arg<'a>] = self.args;
        let v = match pos.get(args) {
            Arg::Tensor(t) => self.read(pos, t)?,
            Arg::HostScalar { value, dtype, .. } => self.source.number(self.g, pos, *value, *dtype)?,
            _ => return Err(self.wrong(what, "Tensor")),
        };
        self.tensors.push((pos, v));
        Ok(v)
    }

    fn read(&mut self, pos: ArgPos, t: &TensorArg<'a>) -> Result<Value> {
        if t.numel() == 0 {
            return Ok(self.g.full(t.dtype, t.sizes, 0)?);
        }
        within(self.op, t, &self.source.storage_type(t.slot)?)?;
        let base = self.source.base(self.g, pos, t.slot)?;
        let view = view_of(t);
        view::read(self.g, base, &view)
    }

    /// Tensor argument `i`, its view already lowered. A 0-d CPU tensor counts as a tensor too.
    pub fn t(&mut self, i: usize) -> Result<Value> {
        let pos = self.map.get(i).copied().ok_or_else(|| Error::argument(self.op, i, "nothing".into(), "Tensor"))?;
        self.tensor_at(pos, i)
    }

    /// Optional tensor argument `i`.
    pub fn opt_t(&mut self, i: usize) -> Result<Option<Value>> {
        if self.is_none(i) { Ok(None) } else { self.t(i).map(Some) }
    }

    /// Type of tensor argument `i`, without making it an input of the program.
    pub fn ty(&self, i: usize) -> Result<TensorType> {
        match self.arg(i) {
            Arg::Tensor(t) => Ok(TensorType::new(t.dtype, t.sizes)),
            Arg::HostScalar { dtype, .. } => Ok(TensorType::new(*dtype, &[])),
            _ => Err(self.wrong(i, "Tensor")),
        }
    }

    /// Number of items of list argument `i` (0 when `None`).
    pub fn list_len(&self, i: usize) -> usize {
        match self.arg(i) {
            Arg::List(items) => items.len(),
            _ => 0,
        }
    }

    /// Tensor list argument `i`.
    pub fn ts(&mut self, i: usize) -> Result<Vec<Value>> {
        let values = self.opt_ts(i)?;
        values.into_iter().map(|v| v.ok_or_else(|| self.wrong(i, "Tensor[] without None"))).collect()
    }

    /// `Tensor?[]` argument `i`.
    pub fn opt_ts(&mut self, i: usize) -> Result<Vec<Option<Value>>> {
        let Arg::List(items) = self.arg(i) else { return Err(self.wrong(i, "Tensor[]")) };
        let arg = self.pos(i).arg as usize;
        (0..items.len())
            .map(|k| match items[k] {
                Arg::None => Ok(None),
                _ => self.tensor_at(ArgPos::item(arg, k), i).map(Some),
            })
            .collect()
    }

    pub fn opt_int(&self, i: usize) -> Result<Option<i64>> {
        match self.arg(i) {
            Arg::None => Ok(None),
            Arg::Int(v) => Ok(Some(*v)),
            Arg::Bool(v) => Ok(Some(*v as i64)),
            Arg::Scalar(Number::Int(v)) => Ok(Some(*v)),
            _ => Err(self.wrong(i, "int")),
        }
    }

    pub fn int(&self, i: usize) -> Result<i64> {
        self.opt_int(i)?.ok_or_else(|| self.wrong(i, "int"))
    }

    pub fn opt_bool(&self, i: usize) -> Result<Option<bool>> {
        match self.arg(i) {
            Arg::None => Ok(None),
            Arg::Bool(v) => Ok(Some(*v)),
            Arg::Int(v) => Ok(Some(*v != 0)),
            _ => Err(self.wrong(i, "bool")),
        }
    }

    pub fn bool(&self, i: usize) -> Result<bool> {
        self.opt_bool(i)?.ok_or_else(|| self.wrong(i, "bool"))
    }

    /// Static float argument `i`. An error when the row declared it dynamic: it is then no constant.
    pub fn float(&self, i: usize) -> Result<f64> {
        self.opt_float(i)?.ok_or_else(|| self.wrong(i, "float"))
    }

    pub fn opt_float(&self, i: usize) -> Result<Option<f64>> {
        if self.is_none(i) {
            return Ok(None);
        }
        Ok(Some(match self.scalar_const(i)? {
            Number::Bool(b) => b as u8 as f64,
            Number::Int(v) => v as f64,
            Number::UInt(v) => v as f64,
            Number::Float(v) => v,
            Number::Complex(re, _) => re,
        }))
    }

    /// Static number argument `i`. An error when the row declared it dynamic.
    pub fn scalar_const(&self, i: usize) -> Result<Number> {
        if self.is_dynamic(i) {
            return Err(Error::internal(format!("{}: argument {i} is dynamic and was read as a constant", self.op)));
        }
        match self.arg(i) {
            Arg::HostScalar { .. } => {
                Err(Error::internal(format!("{}: argument {i} is a tensor and was read as a constant", self.op)))
            }
            _ => self.map[i].number(self.args).ok_or_else(|| self.wrong(i, "number")),
        }
    }

    /// Number argument `i`, unless it is an input of the program.
    pub fn fixed_number(&self, i: usize) -> Result<Option<Number>> {
        if self.is_dynamic(i) { Ok(None) } else { self.scalar_const(i).map(Some) }
    }

    /// Whether number argument `i` is the int 1, as `alpha` mostly is. Keys tell this one value of a dynamic number
    /// from all others.
    pub fn scalar_is_one(&self, i: usize) -> bool {
        matches!(self.arg(i), Arg::Scalar(Number::Int(1)))
    }

    pub(super) fn is_dynamic(&self, i: usize) -> bool {
        i < 64 && self.dynamic >> i & 1 == 1
    }

    pub fn ints(&self, i: usize) -> Result<Vec<i64>> {
        self.opt_ints(i)?.ok_or_else(|| self.wrong(i, "int[]"))
    }

    pub fn opt_ints(&self, i: usize) -> Result<Option<Vec<i64>>> {
        match self.arg(i) {
            Arg::None => Ok(None),
            Arg::Ints(v) => Ok(Some(v.to_vec())),
            Arg::Int(v) => Ok(Some(vec![*v])),
            _ => Err(self.wrong(i, "int[]")),
        }
    }

    pub fn opt_floats(&self, i: usize) -> Result<Option<Vec<f64>>> {
        match self.arg(i) {
            Arg::None => Ok(None),
            Arg::Floats(v) => Ok(Some(v.clone())),
            Arg::Float(v) => Ok(Some(vec![*v])),
            _ => Err(self.wrong(i, "float[]")),
        }
    }

    /// `bool[n]` argument `i`.
    pub fn bools(&self, i: usize) -> Result<Vec<bool>> {
        match self.arg(i) {
            Arg::Ints(v) => Ok(v.iter().map(|&x| x != 0).collect()),
            Arg::Bool(v) => Ok(vec![*v]),
            _ => Err(self.wrong(i, "bool[]")),
        }
    }

    pub fn dtype_arg(&self, i: usize) -> Result<Option<DType>> {
        match self.arg(i) {
            Arg::None => Ok(None),
            Arg::DType(d) => Ok(Some(*d)),
            _ => Err(self.wrong(i, "dtype")),
        }
    }

    pub fn str(&self, i: usize) -> Result<&'a str> {
        match self.arg(i) {
            Arg::Str(s) => Ok(s),
            _ => Err(self.wrong(i, "str")),
        }
    }

    pub fn opt_str(&self, i: usize) -> Result<Option<&'a str>> {
        if self.is_none(i) { Ok(None) } else { self.str(i).map(Some) }
    }

    pub fn memory_format(&self, i: usize) -> Option<MemoryFormat> {
        match self.arg(i) {
            Arg::MemoryFormat(m) => Some(*m),
            _ => None,
        }
    }

    /// Sizes of tensor argument `i`.
    pub fn sizes(&self, i: usize) -> Result<Dims> {
        Ok(self.ty(i)?.dims)
    }
}
