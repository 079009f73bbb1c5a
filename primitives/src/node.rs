//! The parts of a program: values, attributes, operations, regions.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::{DType, Dims};

/// A value of a [`Graph`](crate::Graph): a parameter, or a result of an operation. Only a number: cheap to copy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Value(pub(crate) u32);

/// An attribute value in printable form.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Attr {
    /// `3 : i64`
    I64(i64),
    /// `3 : i32`
    I32(i32),
    /// `true`
    Bool(bool),
    /// `array<i64: 1, 2>`
    I64s(Dims),
    /// `array<i1: true, false>`
    Bools(Box<[bool]>),
    /// `dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>`, row by row
    Table { cols: usize, data: Box<[i64]> },
    /// A quoted string.
    Str(Arc<str>),
    /// Text copied as it is.
    Raw(Cow<'static, str>),
    /// A name without a value.
    Unit,
    /// `dense<x>` where every element has these bytes; the type is the result's.
    Splat([u8; 16]),
    /// `dense<[..]>` with row-major little-endian elements; the type is the result's.
    Dense(Arc<[u8]>),
}

pub(crate) type Attrs = SmallVec<[(&'static str, Attr); 1]>;

/// How an operation may be treated by value numbering and removal of unused operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    Pure,
    /// Kept even when unused, and never merged.
    Impure,
}

/// One operation.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Full name, `stablehlo.add`.
    pub op: &'static str,
    pub operands: SmallVec<[Value; 3]>,
    /// Results are the values `first_result .. first_result + results`.
    pub first_result: u32,
    pub results: u32,
    /// Inherent attributes, printed in `<{...}>`.
    pub attrs: Attrs,
    /// Another attribute, printed in `{...}`; boxed because it is rare and programs have many operations.
    pub extra: Option<Box<(&'static str, Attr)>>,
    pub regions: Vec<Region>,
    pub effect: Effect,
    /// Printed as `op operands : type`, which needs all operand and result types to be the same.
    pub pretty: bool,
    pub location: Option<Arc<str>>,
}

/// The less common parts of an operation about to be appended.
#[derive(Default)]
pub(crate) struct Parts {
    pub attrs: Attrs,
    pub extra: Option<Box<(&'static str, Attr)>>,
    pub regions: Vec<Region>,
    pub impure: bool,
}

/// A block with its arguments, its operations and what it returns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    pub args: Vec<Value>,
    pub nodes: Vec<Node>,
    pub returns: Vec<Value>,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Def {
    /// An argument of a block.
    Argument,
    /// Result of the node at this place of its block.
    Node(u32),
}

/// A fixed-seed hash (FNV over words) of what makes two pure operations the same; the seed is fixed so that the
/// program text never depends on the process.
pub(crate) fn node_hash(op: &'static str, operands: &[Value], attrs: &Attrs, dtype: DType, dims: &[i64]) -> u64 {
    let mut h = WordHasher(0xcbf2_9ce4_8422_2325);
    h.write_usize(op.len());
    h.write(op.as_bytes());
    for v in operands {
        h.write_u32(v.0);
    }
    attrs.hash(&mut h);
    h.write_u8(dtype as u8);
    dims.hash(&mut h);
    h.finish()
}

struct WordHasher(u64);

impl WordHasher {
    fn word(&mut self, w: u64) {
        self.0 = (self.0.rotate_left(5) ^ w).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut w = [0u8; 8];
            w[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(w));
        }
    }

    fn write_u8(&mut self, x: u8) {
        self.word(x as u64);
    }

    fn write_u32(&mut self, x: u32) {
        self.word(x as u64);
    }

    fn write_u64(&mut self, x: u64) {
        self.word(x);
    }

    fn write_i64(&mut self, x: i64) {
        self.word(x as u64);
    }

    fn write_usize(&mut self, x: usize) {
        self.word(x as u64);
    }
}
