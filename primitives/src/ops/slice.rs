//! Slices, updates in place of a slice, and padding.

use smallvec::smallvec;

use super::check::{INT, check_len};
use crate::error::{Result, error, list};
use crate::node::{Attr, Value};
use crate::{Dims, Graph};

fn array(xs: &[i64]) -> Attr {
    Attr::I64s(Dims::from_slice(xs))
}

impl Graph {
    /// Elements `start, start + stride, ..` below `limit` in every dimension.
    ///
    /// Shapes: one entry per dimension; `0 <= start <= limit <= size`, `stride >= 1`; result size is
    /// `ceil((limit - start) / stride)`. Dtypes: all. Errors: bounds outside that. Emits `stablehlo.slice`; nothing for
    /// the whole operand.
    pub fn slice(&mut self, x: Value, start: &[i64], limit: &[i64], strides: &[i64]) -> Result<Value> {
        const OP: &str = "slice";
        let ty = self.ty(x);
        check_len(OP, "start", start.len(), ty.rank())?;
        check_len(OP, "limit", limit.len(), ty.rank())?;
        check_len(OP, "strides", strides.len(), ty.rank())?;
        let mut dims = Dims::new();
        for i in 0..ty.rank() {
            if strides[i] < 1 {
                return Err(error(
                    OP,
                    "strides",
                    list(strides),
                    "strides of at least 1",
                    "use reverse to go backwards",
                ));
            }
            if limit[i] > ty.dims[i] {
                return Err(error(
                    OP,
                    "limit",
                    format_args!("{} at dimension {i}", limit[i]),
                    format_args!("at most its size {}", ty.dims[i]),
                    "clamp the bounds first",
                ));
            }
            if start[i] < 0 || start[i] > limit[i] {
                return Err(error(
                    OP,
                    "start",
                    format_args!("{} at dimension {i}", start[i]),
                    format_args!("between 0 and the limit {}", limit[i]),
                    "clamp the bounds first",
                ));
            }
            dims.push((limit[i] - start[i] + strides[i] - 1) / strides[i]);
        }
        if dims == ty.dims {
            return Ok(x);
        }
        let new = ty.with_dims(dims);
        if let Some(bytes) = self.splat_bytes(x) {
            return self.splat(new, bytes);
        }
        let attrs =
            smallvec![("start_indices", array(start)), ("limit_indices", array(limit)), ("strides", array(strides))];
        self.push1("stablehlo.slice", &[x], attrs, new)
    }

    fn check_start_indices(&self, op: &'static str, indices: &[Value], rank: usize) -> Result<()> {
        check_len(op, "start_indices", indices.len(), rank)?;
        if let Some(&first) = indices.first() {
            self.check_class(op, "start_indices", first, &INT)?;
            for v in indices {
                self.check_scalar(op, "start_indices", *v, self.dtype(first))?;
            }
        }
        Ok(())
    }

    /// A slice of fixed size whose start is computed; starts are clamped so that it stays inside.
    ///
    /// Shapes: one 0-d index and one size per dimension; `0 <= size <=` the operand's. Dtypes: `x` all, indices one
    /// integer type. Errors: counts or sizes outside that. Emits `stablehlo.dynamic_slice`.
    pub fn dynamic_slice(&mut self, x: Value, start_indices: &[Value], sizes: &[i64]) -> Result<Value> {
        const OP: &str = "dynamic_slice";
        let ty = self.ty(x);
        self.check_start_indices(OP, start_indices, ty.rank())?;
        check_len(OP, "sizes", sizes.len(), ty.rank())?;
        if sizes.iter().zip(&ty.dims).any(|(s, d)| *s < 0 || s > d) {
            return Err(error(
                OP,
                "sizes",
                list(sizes),
                format_args!("sizes between 0 and {}", list(&ty.dims)),
                "clamp them first",
            ));
        }
        if ty.dims[..] == *sizes {
            return Ok(x);
        }
        let new = ty.with_dims(Dims::from_slice(sizes));
        let mut operands = vec![x];
        operands.extend_from_slice(start_indices);
        self.push1("stablehlo.dynamic_slice", &operands, smallvec![("slice_sizes", array(sizes))], new)
    }

    /// `x` with a block replaced by `update`, whose start is computed; starts are clamped so that it stays inside.
    ///
    /// Shapes: `update` has the rank of `x` and is nowhere larger; one 0-d index per dimension. Dtypes: `x` and `update`
    /// the same, indices one integer type. Errors: other types or sizes. Emits `stablehlo.dynamic_update_slice`.
    pub fn dynamic_update_slice(&mut self, x: Value, update: Value, start_indices: &[Value]) -> Result<Value> {
        const OP: &str = "dynamic_update_slice";
        let ty = self.ty(x).with_dtype(self.dtype(x));
        self.check_same_dtype(OP, "update", update, ty.dtype)?;
        self.check_rank(OP, "update", update, ty.rank())?;
        let u = self.ty(update);
        if u.dims.iter().zip(&ty.dims).any(|(u, d)| u > d) {
            return Err(error(OP, "update", u, format_args!("nowhere larger than {ty}"), "slice the update first"));
        }
        self.check_start_indices(OP, start_indices, ty.rank())?;
        if u.dims == ty.dims {
            return Ok(update);
        }
        let mut operands = vec![x, update];
        operands.extend_from_slice(start_indices);
        self.push1("stablehlo.dynamic_update_slice", &operands, smallvec![], ty)
    }

    /// Adds `low` and `high` elements at the edges and `interior` between elements; negative edges remove elements.
    ///
    /// Shapes: one entry per dimension; result size is `low + size + max(size - 1, 0) * interior + high`, not negative.
    /// Dtypes: all; `pad_value` is 0-d of the same. Errors: a negative result size or interior.
    /// Emits `stablehlo.pad`; nothing when nothing is added.
    pub fn pad(&mut self, x: Value, pad_value: Value, low: &[i64], high: &[i64], interior: &[i64]) -> Result<Value> {
        const OP: &str = "pad";
        let ty = self.ty(x);
        self.check_scalar(OP, "pad_value", pad_value, ty.dtype)?;
        check_len(OP, "low", low.len(), ty.rank())?;
        check_len(OP, "high", high.len(), ty.rank())?;
        check_len(OP, "interior", interior.len(), ty.rank())?;
        let mut dims = Dims::new();
        for i in 0..ty.rank() {
            if interior[i] < 0 {
                return Err(error(
                    OP,
                    "interior",
                    list(interior),
                    "at least 0",
                    "use slice with strides to drop elements",
                ));
            }
            let size = low[i] + ty.dims[i] + (ty.dims[i] - 1).max(0) * interior[i] + high[i];
            if size < 0 {
                return Err(error(
                    OP,
                    "low and high",
                    format_args!("{} and {} at dimension {i} of {ty}", low[i], high[i]),
                    "a result size of at least 0",
                    "remove no more elements than there are",
                ));
            }
            dims.push(size);
        }
        if low.iter().chain(high).chain(interior).all(|p| *p == 0) {
            return Ok(x);
        }
        let new = ty.with_dims(dims);
        let attrs = smallvec![
            ("edge_padding_low", array(low)),
            ("edge_padding_high", array(high)),
            ("interior_padding", array(interior)),
        ];
        self.push1("stablehlo.pad", &[x, pad_value], attrs, new)
    }
}
