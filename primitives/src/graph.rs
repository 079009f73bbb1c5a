//! The program under construction.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::error::{Result, error};
use crate::node::{Attr, Def, Region, Value};
use crate::{DType, Dims, Number, TensorType};

#[derive(Clone)]
pub(crate) struct ValueInfo {
    pub ty: TensorType,
    /// The block the value belongs to.
    pub block: u32,
    pub def: Def,
}

/// A block that is still being filled.
pub(crate) struct OpenBlock {
    pub id: u32,
    /// Values of outer blocks may not be used inside.
    pub isolated: bool,
    pub region: Region,
    /// Value numbering: hash of a pure operation to its place in `region.nodes`.
    pub numbering: HashMap<u64, u32, BuildHasherDefault<AlreadyHashed>>,
}

/// What a parameter's memory may be used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Donation {
    /// The buffer of output `n`.
    Output(usize),
    /// Any output.
    Any,
}

/// An SSA program under construction: one `main` function whose operations are StableHLO.
///
/// Primitives are methods that check types, append an operation and return its result. Pure operations that are
/// the same as an earlier one of their block return the earlier value; operations that change nothing (a reshape to
/// the same dimensions) return their operand; operations nobody uses are not printed.
pub struct Graph {
    pub(crate) name: String,
    pub(crate) values: Vec<ValueInfo>,
    /// Innermost last; the first is the body of `main`.
    pub(crate) blocks: Vec<OpenBlock>,
    pub(crate) next_block: u32,
    pub(crate) parameter_names: Vec<Option<Arc<str>>>,
    pub(crate) donations: Vec<Option<Donation>>,
    pub(crate) location: Option<Arc<str>>,
    pub(crate) partitions: Option<(i64, i64)>,
    pub(crate) meshes: Vec<(String, Vec<(String, i64)>)>,
    pub(crate) ops: usize,
    pub(crate) next_channel: i64,
}

impl Graph {
    /// An empty program. The name becomes the module's name; characters that MLIR does not allow become `_`.
    pub fn new(name: &str) -> Graph {
        let mut clean: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '-') { c } else { '_' })
            .collect();
        if !clean.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            clean.insert(0, '_');
        }
        Graph {
            name: clean,
            values: Vec::with_capacity(64),
            blocks: vec![OpenBlock::new(0, true)],
            next_block: 1,
            parameter_names: Vec::new(),
            donations: Vec::new(),
            location: None,
            partitions: None,
            meshes: Vec::new(),
            ops: 0,
            next_channel: 1,
        }
    }

    /// Appends a parameter of `main`.
    pub fn parameter(&mut self, ty: TensorType) -> Value {
        let v = self.new_value(ty, 0, Def::Argument);
        self.blocks[0].region.args.push(v);
        self.parameter_names.push(None);
        self.donations.push(None);
        v
    }

    /// Appends a parameter whose name is recorded in the text's locations.
    pub fn parameter_named(&mut self, ty: TensorType, name: &str) -> Value {
        let v = self.parameter(ty);
        *self.parameter_names.last_mut().expect("just pushed") = Some(name.into());
        v
    }

    /// Gives a parameter a name, which the text's locations show. Does nothing for other values.
    pub fn name_parameter(&mut self, v: Value, name: &str) {
        if let Some(i) = self.params().iter().position(|p| *p == v) {
            self.parameter_names[i] = Some(name.into());
        }
    }

    /// Sets what `main` returns, in order. The same value may be returned twice, parameters too.
    ///
    /// Errors: a value that belongs to a region.
    pub fn set_outputs(&mut self, outputs: &[Value]) -> Result<()> {
        for v in outputs {
            if self.values.get(v.0 as usize).is_none_or(|i| i.block != 0) {
                return Err(error(
                    "set_outputs",
                    "outputs",
                    format_args!("value {} of a region or of another graph", v.0),
                    "values of main",
                    "return the value from its region first",
                ));
            }
        }
        self.blocks[0].region.returns = outputs.to_vec();
        Ok(())
    }

    /// Lets the compiled program reuse a parameter's memory: for one output (`tf.aliasing_output`) or for any
    /// (`jax.buffer_donor`). The caller's buffer is deleted by the run.
    ///
    /// Errors: no such parameter or output; output of another type; output already given to another parameter.
    /// Call it after [`set_outputs`](Self::set_outputs) when naming an output.
    pub fn donate(&mut self, param_index: usize, output_index: Option<usize>) -> Result<()> {
        let params = &self.blocks[0].region.args;
        let Some(&param) = params.get(param_index) else {
            return Err(error(
                "donate",
                "param_index",
                param_index,
                format_args!("less than {}", params.len()),
                "declare the parameter first",
            ));
        };
        let donation = match output_index {
            None => Donation::Any,
            Some(out) => {
                let Some(&output) = self.outputs().get(out) else {
                    return Err(error(
                        "donate",
                        "output_index",
                        out,
                        format_args!("less than {}", self.outputs().len()),
                        "call set_outputs first",
                    ));
                };
                if !self.ty(output).same_shape_and_dtype(self.ty(param)) {
                    return Err(error(
                        "donate",
                        "output_index",
                        format_args!("an output of {}", self.ty(output)),
                        format_args!("{}, the parameter's type", self.ty(param)),
                        "pass None to donate to any output",
                    ));
                }
                let taken = self.donations.iter().position(|d| *d == Some(Donation::Output(out)));
                if let Some(other) = taken.filter(|p| *p != param_index) {
                    return Err(error(
                        "donate",
                        "output_index",
                        format_args!("{out}, which parameter {other} aliases"),
                        "an output no other parameter aliases",
                        "pass None to donate to any output",
                    ));
                }
                Donation::Output(out)
            }
        };
        self.donations[param_index] = Some(donation);
        Ok(())
    }

    /// Sets the source location (`file.py:12`) of the operations appended from now on; empty means none.
    /// It does not take part in value numbering: a merged operation keeps its first location.
    pub fn set_location(&mut self, location: &str) {
        if self.location.as_deref() != Some(location) {
            self.location = (!location.is_empty()).then(|| location.into());
        }
    }

    /// Declares how many partitions and replicas the program is compiled for (module attributes).
    pub fn set_partitions(&mut self, partitions: i64, replicas: i64) {
        self.partitions = Some((partitions, replicas));
    }

    /// Declares a Shardy mesh, for example `add_mesh("mesh", &[("x", 2), ("y", 4)])`.
    pub fn add_mesh(&mut self, name: &str, axes: &[(&str, i64)]) {
        let axes = axes.iter().map(|(axis, size)| (axis.to_string(), *size)).collect();
        self.meshes.push((name.to_string(), axes));
    }

    /// The type of a value. Panics on a value of another graph.
    #[inline]
    pub fn ty(&self, v: Value) -> &TensorType {
        &self.values[v.0 as usize].ty
    }

    /// The element type of a value.
    #[inline]
    pub fn dtype(&self, v: Value) -> DType {
        self.ty(v).dtype
    }

    /// The sizes of a value; empty for one number.
    pub fn dims(&self, v: Value) -> Dims {
        self.ty(v).dims.clone()
    }

    /// The number of dimensions of a value.
    pub fn rank(&self, v: Value) -> usize {
        self.ty(v).dims.len()
    }

    /// The number of elements of a value; 1 for one number.
    pub fn numel(&self, v: Value) -> i64 {
        self.ty(v).numel()
    }

    /// What `main` returns.
    pub fn outputs(&self) -> &[Value] {
        &self.blocks[0].region.returns
    }

    /// The parameters of `main`.
    pub fn params(&self) -> &[Value] {
        &self.blocks[0].region.args
    }

    /// The module's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of operations appended so far, those in regions included.
    pub fn len(&self) -> usize {
        self.ops
    }

    /// Whether no operation was appended yet.
    pub fn is_empty(&self) -> bool {
        self.ops == 0
    }

    /// The number every element has, when the value is a constant with equal elements (also through reshapes,
    /// broadcasts, transposes, slices and conversions, which fold when they are built).
    pub fn const_value(&self, v: Value) -> Option<Number> {
        let bytes = self.splat_bytes(v)?;
        Some(Number::from_bytes(self.dtype(v), &bytes))
    }

    /// Full name and operands of the operation that a value is a result of, as long as its block is open; `None` for a
    /// parameter.
    pub fn source(&self, v: Value) -> Option<(&'static str, &[Value])> {
        let info = self.values.get(v.0 as usize)?;
        let Def::Node(at) = info.def else { return None };
        let block = self.blocks.iter().rev().find(|b| b.id == info.block)?;
        let node = &block.region.nodes[at as usize];
        Some((node.op, &node.operands))
    }

    /// The body of `main`.
    pub(crate) fn main(&self) -> &Region {
        &self.blocks[0].region
    }

    pub(crate) fn splat_bytes(&self, v: Value) -> Option<[u8; 16]> {
        let info = self.values.get(v.0 as usize)?;
        let Def::Node(at) = info.def else { return None };
        let block = self.blocks.iter().rev().find(|b| b.id == info.block)?;
        match block.region.nodes[at as usize].attrs.first() {
            Some((_, Attr::Splat(bytes))) => Some(*bytes),
            _ => None,
        }
    }

    pub(crate) fn new_value(&mut self, ty: TensorType, block: u32, def: Def) -> Value {
        self.values.push(ValueInfo { ty, block, def });
        Value(self.values.len() as u32 - 1)
    }
}

impl OpenBlock {
    pub fn new(id: u32, isolated: bool) -> OpenBlock {
        OpenBlock { id, isolated, region: Region::default(), numbering: HashMap::default() }
    }
}

/// The map's keys are hashes already.
#[derive(Default)]
pub(crate) struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64")
    }

    fn write_u64(&mut self, x: u64) {
        self.0 = x;
    }
}
