//! The arguments of one op call, as the dispatcher sees them: no Python objects, nothing owned that can be borrowed.

use primitives::{DType, Number};
use smallvec::SmallVec;

/// A `pjrt` tensor: a strided view over the storage in cell `slot`.
///
/// `slot` is 0 for a tensor without elements, which needs no storage. `offset` is in bytes from the storage's start.
#[derive(Clone, Copy, Debug)]
pub struct TensorArg<'a> {
    pub slot: u32,
    pub dtype: DType,
    pub sizes: &'a [i64],
    pub strides: &'a [i64],
    pub offset: u64,
}

impl TensorArg<'_> {
    /// Number of elements.
    pub fn numel(&self) -> i64 {
        self.sizes.iter().product()
    }

    /// Whether the tensor is row-major contiguous (dims of size 1 have no say), like `Tensor.is_contiguous()`.
    pub fn is_contiguous(&self) -> bool {
        is_contiguous(self.sizes, self.strides)
    }
}

/// Whether `strides` are those of a row-major array of `sizes`.
pub fn is_contiguous(sizes: &[i64], strides: &[i64]) -> bool {
    if sizes.contains(&0) {
        return true;
    }
    let mut expected = 1;
    for (&n, &s) in sizes.iter().zip(strides).rev() {
        if n != 1 {
            if s != expected {
                return false;
            }
            expected *= n;
        }
    }
    true
}

/// Row-major strides of `sizes`, as torch computes them (a dim of size 0 counts as 1).
pub fn contiguous_strides(sizes: &[i64]) -> SmallVec<[i64; 6]> {
    let mut strides: SmallVec<[i64; 6]> = SmallVec::from_elem(1, sizes.len());
    for i in (0..sizes.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1] * sizes[i + 1].max(1);
    }
    strides
}

/// One argument, by the kinds of ATen's schemas.
#[derive(Clone, Debug)]
pub enum Arg<'a> {
    /// `None`, or an optional argument left out.
    None,
    Tensor(TensorArg<'a>),
    /// A zero-dimensional CPU tensor: its value is an input of the program, never part of it.
    /// `wrapped` tells a Python number that torch wrapped from a tensor the user made (they promote differently).
    HostScalar {
        value: Number,
        dtype: DType,
        wrapped: bool,
    },
    /// `Tensor[]`, `Tensor?[]` and `Scalar[]`.
    List(Vec<Arg<'a>>),
    Bool(bool),
    Int(i64),
    Float(f64),
    Scalar(Number),
    Ints(SmallVec<[i64; 5]>),
    Floats(Vec<f64>),
    DType(DType),
    Str(&'a str),
    MemoryFormat(MemoryFormat),
    /// A generator of the user's: the seed drawn from it for this call.
    Seed(u64),
    /// Layout, device, pin_memory: checked by the face, of no interest to a lowering.
    Ignored,
}

/// `torch.memory_format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MemoryFormat {
    Contiguous,
    Preserve,
    ChannelsLast,
    ChannelsLast3d,
}

/// Position of an argument, or of an item of a list argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArgPos {
    pub arg: u16,
    pub item: Option<u16>,
}

impl ArgPos {
    pub fn arg(arg: usize) -> Self {
        Self { arg: arg as u16, item: None }
    }

    pub fn item(arg: usize, item: usize) -> Self {
        Self { arg: arg as u16, item: Some(item as u16) }
    }

    /// The argument at this position.
    pub fn get<'b, 'a>(self, args: &'b [Arg<'a>]) -> &'b Arg<'a> {
        match (&args[self.arg as usize], self.item) {
            (Arg::List(items), Some(i)) => &items[i as usize],
            (arg, _) => arg,
        }
    }

    /// The numeric value at this position: of a number, of a zero-dimensional CPU tensor, or of an item of a list.
    pub fn number(self, args: &[Arg<'_>]) -> Option<Number> {
        match self.get(args) {
            Arg::HostScalar { value, .. } | Arg::Scalar(value) => Some(*value),
            Arg::Float(v) => Some(Number::Float(*v)),
            Arg::Int(v) => Some(Number::Int(*v)),
            Arg::Bool(v) => Some(Number::Bool(*v)),
            Arg::Floats(v) => v.get(self.item? as usize).map(|&v| Number::Float(v)),
            _ => None,
        }
    }
}
