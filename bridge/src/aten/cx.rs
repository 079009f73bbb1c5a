//! What a lowering sees: the graph, its arguments by schema position, and where results go.

use super::args::{Arg, ArgPos, MemoryFormat, TensorArg};
use super::promote::{self, Class};
use super::schema::Kind;
use super::view::{self, View};
use crate::{Error, Result};
use primitives::{DType, Dims, Graph, Number, TensorType, Value};

/// Where the values behind arguments come from: inputs of a small program (eager), or values of a trace.
pub trait Source {
    /// Natural type of the storage in cell `slot`.
    fn storage_type(&self, slot: u32) -> Result<TensorType>;
    /// The storage of the tensor at `pos`.
    fn base(&mut self, g: &mut Graph, pos: ArgPos, slot: u32) -> Result<Value>;
    /// A number that is an input, as a 0-d value of `dtype`.
    fn number(&mut self, g: &mut Graph, pos: ArgPos, value: Number, dtype: DType) -> Result<Value>;
    /// The random state of this call, `ui32[4]`: two words of key, two of counter. The second use sees the first's result.
    fn rng(&mut self, g: &mut Graph, pos: Option<ArgPos>) -> Result<Value>;
}

/// Global settings that lowerings depend on; part of every key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Env {
    pub default_dtype: DType,
    pub precision: primitives::Precision,
}

impl Default for Env {
    fn default() -> Self {
        Self { default_dtype: DType::F32, precision: primitives::Precision::Highest }
    }
}

/// A check of values that only the device knows, reported when the result is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Exception type that torch raises for this mistake.
    pub kind: CheckKind,
    /// Message; `{}` stands for the offending value.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckKind {
    Index,
    Runtime,
    Value,
    LinAlg,
}

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

/// Everything one op call needs while it is lowered. See [`Row`](super::row::Row).
pub struct Cx<'a, 'g> {
    pub g: &'g mut Graph,
    pub env: Env,
    op: &'a str,
    source: &'g mut dyn Source,
    args: &'a [Arg<'a>],
    /// Position in the call's arguments of each of the row's arguments.
    map: Vec<ArgPos>,
    dynamic: u64,
    tensors: Vec<(ArgPos, Value)>,
    pub(crate) outs: Vec<Option<Value>>,
    pub(crate) mutations: Vec<(ArgPos, Value)>,
    pub(crate) checks: Vec<(Value, Check)>,
    pub(crate) rng_out: Option<(Option<ArgPos>, Value)>,
    /// Dim order of the results in memory, outermost first, when the call decides it.
    pub(crate) order: Option<Vec<usize>>,
}

impl<'a, 'g> Cx<'a, 'g> {
    pub(crate) fn new(
        g: &'g mut Graph,
        source: &'g mut dyn Source,
        op: &'a str,
        args: &'a [Arg<'a>],
        map: Vec<ArgPos>,
        dynamic: u64,
        env: Env,
    ) -> Self {
        Self {
            g,
            env,
            op,
            source,
            args,
            map,
            dynamic,
            tensors: Vec::new(),
            outs: Vec::new(),
            mutations: Vec::new(),
            checks: Vec::new(),
            rng_out: None,
            order: None,
        }
    }

    /// Name of the op being lowered, for messages.
    pub fn op(&self) -> &str {
        self.op
    }

    /// An error of this op: what torch would raise as RuntimeError.
    pub fn error(&self, message: impl Into<String>) -> Error {
        Error::runtime(self.op, message.into())
    }

    /// Number of arguments.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    fn pos(&self, i: usize) -> ArgPos {
        self.map[i]
    }

    /// The raw argument `i`; arguments past the end (a shorter in-place schema) are `None`.
    pub fn arg(&self, i: usize) -> &'a Arg<'a> {
        match self.map.get(i) {
            Some(p) => {
                let args: &'a [Arg<'a>] = self.args;
                p.get(args)
            }
            None => &Arg::None,
        }
    }

    fn wrong(&self, i: usize, expected: &str) -> Error {
        Error::argument(self.op, i, format!("{:?}", self.arg(i)), expected)
    }

    /// Whether argument `i` is absent or `None`.
    pub fn is_none(&self, i: usize) -> bool {
        matches!(self.arg(i), Arg::None)
    }

    fn tensor_at(&mut self, pos: ArgPos, what: usize) -> Result<Value> {
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

    /// Whether number argument `i` is the int 1, as `alpha` mostly is. Keys tell this one value of a dynamic number
    /// from all others.
    pub fn scalar_is_one(&self, i: usize) -> bool {
        matches!(self.arg(i), Arg::Scalar(Number::Int(1)))
    }

    fn is_dynamic(&self, i: usize) -> bool {
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

    /// Lays the results out as `memory_format` argument `i` says; left out or `preserve_format` keeps the row's layout.
    pub fn lay_out_by(&mut self, i: usize, rank: usize) -> Result<()> {
        let order: Option<Vec<usize>> = match self.memory_format(i) {
            None | Some(MemoryFormat::Preserve) => None,
            Some(MemoryFormat::Contiguous) => Some((0..rank).collect()),
            Some(MemoryFormat::ChannelsLast) => Some(vec![0, 2, 3, 1]),
            Some(MemoryFormat::ChannelsLast3d) => Some(vec![0, 2, 3, 4, 1]),
        };
        if let Some(o) = &order
            && o.len() != rank
        {
            return Err(self.error(format!("required rank {} tensor to use channels_last format", o.len())));
        }
        self.order = order;
        Ok(())
    }

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

    /// Pushes a result.
    pub fn out(&mut self, v: Value) {
        self.outs.push(Some(v));
    }

    /// Pushes an undefined result (a gradient nobody asked for).
    pub fn out_none(&mut self) {
        self.outs.push(None);
    }

    /// Stores `v` into tensor argument `i`, converted to its dtype, through its view. Shapes must agree.
    pub fn mutate(&mut self, i: usize, v: Value) {
        let pos = self.pos(i);
        self.mutations.push((pos, v));
    }

    /// Stores `v` into item `k` of tensor list argument `i`.
    pub fn mutate_item(&mut self, i: usize, k: usize, v: Value) {
        let pos = ArgPos::item(self.pos(i).arg as usize, k);
        self.mutations.push((pos, v));
    }

    /// Reports `bad` values of integer type: `offending` is any-shape, checked where `bad` (i1, same shape) holds.
    /// In `message`, `{}` is replaced by the largest offending value.
    pub fn check(&mut self, bad: Value, offending: Value, kind: CheckKind, message: impl Into<String>) -> Result<()> {
        let v = self.g.convert(offending, DType::I64)?;
        let none = self.g.full_like(v, NO_OFFENCE)?;
        let picked = self.g.select(bad, v, none)?;
        let dims: Vec<usize> = (0..self.g.rank(picked)).collect();
        let worst = self.g.reduce_max(picked, &dims)?;
        self.checks.push((worst, Check { kind, message: message.into() }));
        Ok(())
    }

    /// Checks `-size <= index < size` elementwise and returns the indices wrapped into `0..size` (clamped where bad).
    pub fn wrap_index(
        &mut self,
        index: Value,
        size: i64,
        kind: CheckKind,
        message: impl Into<String>,
    ) -> Result<Value> {
        self.index_in(index, -size, size, kind, message)
    }

    /// Checks `0 <= index < size` elementwise; returns the indices clamped into range.
    pub fn check_index(
        &mut self,
        index: Value,
        size: i64,
        kind: CheckKind,
        message: impl Into<String>,
    ) -> Result<Value> {
        self.index_in(index, 0, size, kind, message)
    }

    fn index_in(
        &mut self,
        index: Value,
        low: i64,
        size: i64,
        kind: CheckKind,
        message: impl Into<String>,
    ) -> Result<Value> {
        use primitives::Direction::{Ge, Lt};
        let index = self.g.convert(index, DType::I64)?;
        let (lo, hi) = (self.g.full_like(index, low)?, self.g.full_like(index, size)?);
        let under = self.g.compare(index, lo, Lt)?;
        let over = self.g.compare(index, hi, Ge)?;
        let bad = self.g.or(under, over)?;
        self.check(bad, index, kind, message)?;
        let mut wrapped = index;
        if low < 0 {
            let zero = self.g.zeros_like(index)?;
            let negative = self.g.compare(index, zero, Lt)?;
            let shifted = self.g.add(index, hi)?;
            wrapped = self.g.select(negative, shifted, index)?;
        }
        let (first, last) = (self.g.scalar(DType::I64, 0)?, self.g.scalar(DType::I64, (size - 1).max(0))?);
        Ok(self.g.clamp(first, wrapped, last)?)
    }

    /// The random state of this call, from argument `generator` when the user gave one. See [`Source::rng`].
    pub fn rng_state(&mut self, generator: Option<usize>) -> Result<Value> {
        let pos = generator.filter(|&i| matches!(self.arg(i), Arg::Seed(_))).map(|i| self.pos(i));
        match self.rng_out {
            Some((p, v)) if p == pos => Ok(v),
            _ => self.source.rng(self.g, pos),
        }
    }

    /// Sets the state that follows this call's draws.
    pub fn set_rng_state(&mut self, generator: Option<usize>, state: Value) {
        let pos = generator.filter(|&i| matches!(self.arg(i), Arg::Seed(_))).map(|i| self.pos(i));
        self.rng_out = Some((pos, state));
    }

    /// Sizes of tensor argument `i`.
    pub fn sizes(&self, i: usize) -> Result<Dims> {
        Ok(self.ty(i)?.dims)
    }
}

/// Value of a check's output when nothing was wrong.
pub const NO_OFFENCE: i64 = i64::MIN;

/// Refuses a view (of `as_strided`) that reaches past its storage, with torch's message.
pub fn within(op: &str, t: &TensorArg<'_>, storage: &TensorType) -> Result<()> {
    let size = t.dtype.size_of() as i64;
    let offset = t.offset as i64 / size;
    let reach: i64 = t.sizes.iter().zip(t.strides).map(|(n, s)| (n - 1) * s).sum();
    let (needed, have) = ((offset + reach + 1) * size, storage.size_bytes() as i64);
    if needed <= have {
        return Ok(());
    }
    Err(Error::runtime(
        op,
        format!(
            "setStorage: sizes {:?}, strides {:?}, storage offset {offset}, and itemsize {size} requiring a storage size of \
             {needed} are out of bounds for storage of size {have}",
            t.sizes, t.strides
        ),
    ))
}

/// The view of a tensor argument, offset in elements.
pub fn view_of(t: &TensorArg<'_>) -> View {
    View {
        dtype: t.dtype,
        sizes: Dims::from_slice(t.sizes),
        strides: Dims::from_slice(t.strides),
        offset: (t.offset / t.dtype.size_of() as u64) as i64,
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

/// Whether arguments of this kind can be dynamic.
pub fn can_be_dynamic(kind: Kind) -> bool {
    matches!(kind, Kind::Scalar | Kind::Scalars | Kind::Float | Kind::Int)
}
