//! Sorting and selection of the largest elements.

use smallvec::smallvec;

use super::check::{REAL, check_dim, first_of};
use crate::error::{Result, error};
use crate::node::{Attr, Parts, Value};
use crate::{DType, Graph, TensorType};

impl Graph {
    /// Sorts along a dimension, moving the elements of all operands together.
    ///
    /// The comparator takes two elements of each operand (a0, b0, a1, b1, ..; 0-d) and returns whether the first comes
    /// before the second (bool); it may not use outer values. Shapes: operands the same; results have that shape.
    /// Dtypes: all. `stable` keeps the order of equal elements. Errors: none or unequal operands; `dim` out of range; a
    /// comparator that does not return one bool. Emits `stablehlo.sort`.
    pub fn sort(
        &mut self,
        operands: &[Value],
        dim: usize,
        stable: bool,
        comparator: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        const OP: &str = "sort";
        let first = *first_of(OP, "operands", operands, "at least one operand", "pass the arrays to sort")?;
        let shape = self.dims(first);
        check_dim(OP, "dim", dim, shape.len())?;
        let (mut results, mut scalars) = (Vec::new(), Vec::new());
        for v in operands {
            let want = TensorType::new(self.dtype(*v), &shape);
            self.check_same_type(OP, "operands", *v, &want)?;
            scalars.extend([TensorType::scalar(want.dtype), TensorType::scalar(want.dtype)]);
            results.push(want);
        }
        let region = self.region(true, &scalars, comparator)?;
        self.check_returns(OP, "comparator", &region, &[TensorType::scalar(DType::Bool)])?;
        let attrs = smallvec![("dimension", Attr::I64(dim as i64)), ("is_stable", Attr::Bool(stable))];
        self.push("stablehlo.sort", operands, &results, Parts { attrs, regions: vec![region], ..Parts::default() })
    }

    /// The `k` largest elements along the last dimension, in descending order, and where they were. Equal elements come
    /// in order of their index; NaN counts as largest.
    ///
    /// Shapes: rank at least 1; the last dimension becomes `k`. Dtypes: `x` integers, floats; indices are i32.
    /// Errors: another dtype; rank 0; `k` outside 0 ..= size. Emits `chlo.top_k`.
    pub fn top_k(&mut self, x: Value, k: i64) -> Result<(Value, Value)> {
        const OP: &str = "top_k";
        self.check_class(OP, "x", x, &REAL)?;
        let mut ty = self.ty(x).with_dtype(self.dtype(x));
        let Some(last) = ty.dims.last_mut() else {
            return Err(error(OP, "x", ty, "rank at least 1", "reshape it to one element first"));
        };
        if k < 0 || k > *last {
            return Err(error(OP, "k", k, format_args!("between 0 and the last size {last}"), "clamp k first"));
        }
        *last = k;
        let indices = ty.with_dtype(DType::I32);
        let parts = Parts { attrs: smallvec![("k", Attr::I64(k))], ..Parts::default() };
        let r = self.push("chlo.top_k", &[x], &[ty, indices], parts)?;
        Ok((r[0], r[1]))
    }
}
