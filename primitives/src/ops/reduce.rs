//! Reductions over dimensions.

use smallvec::smallvec;

use super::check::{INT_OR_BOOL, ORDERED, check_len, check_unique_dims, first_of};
use super::shape::dims_attr;
use crate::error::Result;
use crate::node::{Parts, Value};
use crate::{DType, Graph, Number, TensorType};

/// Smallest number of a real type (-inf where there is one): what `maximum` starts from.
pub(crate) fn lowest(dtype: DType) -> Number {
    match dtype {
        DType::Bool => Number::Bool(false),
        DType::I8 => Number::Int(i8::MIN as i64),
        DType::I16 => Number::Int(i16::MIN as i64),
        DType::I32 => Number::Int(i32::MIN as i64),
        DType::I64 => Number::Int(i64::MIN),
        d if d.is_unsigned_int() => Number::UInt(0),
        DType::F8E4M3FN => Number::Float(-448.0),
        _ => Number::Float(f64::NEG_INFINITY),
    }
}

/// Largest number of a real type (inf where there is one): what `minimum` starts from.
pub(crate) fn highest(dtype: DType) -> Number {
    match dtype {
        DType::Bool => Number::Bool(true),
        DType::I8 => Number::Int(i8::MAX as i64),
        DType::I16 => Number::Int(i16::MAX as i64),
        DType::I32 => Number::Int(i32::MAX as i64),
        DType::I64 => Number::Int(i64::MAX),
        DType::U8 => Number::UInt(u8::MAX as u64),
        DType::U16 => Number::UInt(u16::MAX as u64),
        DType::U32 => Number::UInt(u32::MAX as u64),
        DType::U64 => Number::UInt(u64::MAX),
        DType::F8E4M3FN => Number::Float(448.0),
        _ => Number::Float(f64::INFINITY),
    }
}

impl Graph {
    /// Combines the elements along dimensions with a region, starting from `init`.
    ///
    /// The region takes the accumulators then the elements (0-d, one each per operand), returns new accumulators, and
    /// must be associative. It may not use outer values. Shapes: operands the same; results lack `dims`; `inits` 0-d.
    /// Dtypes: all; each init and region result has its operand's. Errors: none or unequal operands; dimensions repeated
    /// or out of range; region results of another type. Emits `stablehlo.reduce`.
    pub fn reduce(
        &mut self,
        operands: &[Value],
        inits: &[Value],
        dims: &[usize],
        region: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        const OP: &str = "reduce";
        let first = *first_of(OP, "operands", operands, "at least one operand", "pass the arrays to combine")?;
        check_len(OP, "inits", inits.len(), operands.len())?;
        let shape = self.dims(first);
        check_unique_dims(OP, "dims", dims, shape.len())?;
        let mut results = Vec::with_capacity(operands.len());
        for (v, init) in operands.iter().zip(inits) {
            let want = TensorType::new(self.dtype(*v), &shape);
            self.check_same_type(OP, "operands", *v, &want)?;
            self.check_scalar(OP, "inits", *init, want.dtype)?;
            let kept = shape.iter().enumerate().filter(|(i, _)| !dims.contains(i)).map(|(_, d)| *d).collect();
            results.push(want.with_dims(kept));
        }
        let scalars: Vec<TensorType> = results.iter().map(|t| TensorType::scalar(t.dtype)).collect();
        let region = self.region(true, &[&scalars[..], &scalars[..]].concat(), region)?;
        self.check_returns(OP, "region", &region, &scalars)?;
        let mut sorted = dims.to_vec();
        sorted.sort_unstable();
        let attrs = smallvec![("dimensions", dims_attr(&sorted))];
        let all = [operands, inits].concat();
        self.push("stablehlo.reduce", &all, &results, Parts { attrs, regions: vec![region], ..Parts::default() })
    }

    fn reduce_by(
        &mut self,
        x: Value,
        dims: &[usize],
        identity: Number,
        combine: fn(&mut Graph, Value, Value) -> Result<Value>,
    ) -> Result<Value> {
        if dims.is_empty() {
            return Ok(x);
        }
        let init = self.scalar(self.dtype(x), identity)?;
        let results = self.reduce(&[x], &[init], dims, |g, a| Ok(vec![combine(g, a[0], a[1])?]))?;
        Ok(results[0])
    }

    /// Sum over dimensions, in the dtype of `x`; logical or for booleans; 0 for no elements.
    ///
    /// Shapes: result lacks `dims`. Dtypes: all. Errors: dimensions repeated or out of range.
    /// Emits `stablehlo.reduce` with `add`; nothing for no dimensions.
    pub fn reduce_sum(&mut self, x: Value, dims: &[usize]) -> Result<Value> {
        self.reduce_by(x, dims, Number::Int(0), Graph::add)
    }

    /// Product over dimensions, in the dtype of `x`; logical and for booleans; 1 for no elements.
    ///
    /// Shapes: result lacks `dims`. Dtypes: all. Errors: dimensions repeated or out of range.
    /// Emits `stablehlo.reduce` with `multiply`; nothing for no dimensions.
    pub fn reduce_prod(&mut self, x: Value, dims: &[usize]) -> Result<Value> {
        self.reduce_by(x, dims, Number::Int(1), Graph::multiply)
    }

    /// Largest element over dimensions; NaN if there is one; the smallest number of the dtype for no elements.
    ///
    /// Shapes: result lacks `dims`. Dtypes: real, bool. Errors: another dtype; dimensions repeated or out of range.
    /// Emits `stablehlo.reduce` with `maximum`; nothing for no dimensions.
    pub fn reduce_max(&mut self, x: Value, dims: &[usize]) -> Result<Value> {
        self.check_class("reduce_max", "x", x, &ORDERED)?;
        self.reduce_by(x, dims, lowest(self.dtype(x)), Graph::maximum)
    }

    /// Smallest element over dimensions; NaN if there is one; the largest number of the dtype for no elements.
    ///
    /// Shapes: result lacks `dims`. Dtypes: real, bool. Errors: another dtype; dimensions repeated or out of range.
    /// Emits `stablehlo.reduce` with `minimum`; nothing for no dimensions.
    pub fn reduce_min(&mut self, x: Value, dims: &[usize]) -> Result<Value> {
        self.check_class("reduce_min", "x", x, &ORDERED)?;
        self.reduce_by(x, dims, highest(self.dtype(x)), Graph::minimum)
    }

    /// Bitwise (logical for booleans) and over dimensions; all ones for no elements.
    ///
    /// Shapes: result lacks `dims`. Dtypes: integers, bool. Errors: another dtype; dimensions repeated or out of range.
    /// Emits `stablehlo.reduce` with `and`; nothing for no dimensions.
    pub fn reduce_and(&mut self, x: Value, dims: &[usize]) -> Result<Value> {
        self.check_class("reduce_and", "x", x, &INT_OR_BOOL)?;
        self.reduce_by(x, dims, Number::Int(-1), Graph::and)
    }

    /// Bitwise (logical for booleans) or over dimensions; 0 for no elements.
    ///
    /// Shapes: result lacks `dims`. Dtypes: integers, bool. Errors: another dtype; dimensions repeated or out of range.
    /// Emits `stablehlo.reduce` with `or`; nothing for no dimensions.
    pub fn reduce_or(&mut self, x: Value, dims: &[usize]) -> Result<Value> {
        self.check_class("reduce_or", "x", x, &INT_OR_BOOL)?;
        self.reduce_by(x, dims, Number::Int(0), Graph::or)
    }
}
