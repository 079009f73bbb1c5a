//! What a lowering sees: the graph, its arguments by schema position, and where results go.
//!
//! What reads an argument fails when the argument is not of the kind that its name says; what appends to the graph fails
//! as the primitives do.

mod arguments;
mod checks;
mod operands;

pub use checks::{Check, CheckKind, NO_OFFENCE, all_content};
pub use operands::{Operand, number_dtype};

use super::args::{Arg, ArgPos, MemoryFormat, TensorArg};
use super::schema::Kind;
use super::view::View;
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
    /// Which of the results lie in memory column after column.
    pub(crate) by_columns: Vec<usize>,
    pub(crate) mutations: Vec<(ArgPos, Value)>,
    pub(crate) checks: Vec<(Value, Check)>,
    /// How many checks there were when [`guarded`](Self::guarded) saw to it that an offence of theirs changes nothing.
    pub(crate) guards: Option<usize>,
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
            by_columns: Vec::new(),
            mutations: Vec::new(),
            checks: Vec::new(),
            guards: None,
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

    /// Pushes a result.
    pub fn out(&mut self, v: Value) {
        self.outs.push(Some(v));
    }

    /// Pushes matrices whose columns lie in memory one after the other, as LAPACK has them and torch hands them out.
    pub fn out_columns(&mut self, v: Value) {
        self.by_columns.push(self.outs.len());
        self.out(v);
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
}

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

/// Whether arguments of this kind can be dynamic.
pub fn can_be_dynamic(kind: Kind) -> bool {
    matches!(kind, Kind::Scalar | Kind::Scalars | Kind::Float | Kind::Int)
}
