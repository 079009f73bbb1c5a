//! Scatter: updates of slices at computed places.

use std::borrow::Cow;
use std::fmt::Write;

use smallvec::smallvec;

use super::check::{INT, check_len, check_sorted_dims, first_of};
use super::gather::{Indexing, write_dims};
use crate::error::{Result, error, list};
use crate::node::{Attr, Parts, Value};
use crate::{Dims, Graph, TensorType};

/// Which dimensions of the operand, the indices and the updates of [`Graph::scatter`] belong together.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ScatterDims {
    /// Dimensions of the updates that run inside a slice.
    pub update_window_dims: Vec<usize>,
    /// Dimensions of the operand that the updates lack (slice size 1).
    pub inserted_window_dims: Vec<usize>,
    /// Batch dimensions of the operand, paired with `scatter_indices_batching_dims`.
    pub input_batching_dims: Vec<usize>,
    pub scatter_indices_batching_dims: Vec<usize>,
    /// Operand dimension that each entry of an index vector addresses.
    pub scatter_dims_to_operand_dims: Vec<usize>,
    /// Dimension of the indices that holds an index vector; their rank if each index is a 0-d vector of one.
    pub index_vector_dim: usize,
}

impl Graph {
    /// Operands with slices combined with updates where index vectors say; slices that reach outside are skipped.
    ///
    /// The region takes the present elements then the updates (0-d, one each per operand) and returns what to store; it
    /// may not use outer values. Shapes: operands the same, updates the same: the indices' dimensions (without the index
    /// vector) and, at `update_window_dims`, sizes at most the operand's. Dtypes: all; each update and region result has
    /// its operand's; `indices` integers. `sorted` promises sorted indices, `unique` that no two meet.
    /// Errors: dimension lists that do not fit together; other types. Emits `stablehlo.scatter`.
    #[allow(clippy::too_many_arguments)]
    pub fn scatter(
        &mut self,
        operands: &[Value],
        indices: Value,
        updates: &[Value],
        dims: &ScatterDims,
        sorted: bool,
        unique: bool,
        region: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        const OP: &str = "scatter";
        const EXPECTED: &str = "at least one operand with an update";
        let first = *first_of(OP, "operands", operands, EXPECTED, "pass the arrays to update")?;
        let first_update = *first_of(OP, "operands", updates, EXPECTED, "pass the arrays to update")?;
        check_len(OP, "updates", updates.len(), operands.len())?;
        self.check_class(OP, "indices", indices, &INT)?;
        let (shape, index_dims, update_dims) = (self.dims(first), self.dims(indices), self.dims(first_update));
        let indexing = Indexing {
            op: OP,
            operand: &shape,
            indices: &index_dims,
            dropped: ("inserted_window_dims", &dims.inserted_window_dims),
            operand_batching: ("input_batching_dims", &dims.input_batching_dims),
            indices_batching: ("scatter_indices_batching_dims", &dims.scatter_indices_batching_dims),
            index_map: ("scatter_dims_to_operand_dims", &dims.scatter_dims_to_operand_dims),
            index_vector_dim: dims.index_vector_dim,
        };
        indexing.check()?;
        check_sorted_dims(OP, "update_window_dims", &dims.update_window_dims, update_dims.len())?;
        let kept: Dims = (0..shape.len()).filter(|i| !indexing.is_dropped(*i)).map(|i| shape[i]).collect();
        check_len(OP, "update_window_dims", dims.update_window_dims.len(), kept.len())?;
        let batch = indexing.batch();
        let (mut window, mut rest) = (kept.iter(), batch.iter());
        let fits = update_dims.len() == kept.len() + batch.len()
            && update_dims.iter().enumerate().all(|(i, d)| {
                if dims.update_window_dims.contains(&i) {
                    window.next().is_some_and(|most| d <= most)
                } else {
                    rest.next() == Some(d)
                }
            });
        if !fits {
            return Err(error(
                OP,
                "updates",
                list(&update_dims),
                format_args!("{} at the window dimensions (or less) and {} at the others", list(&kept), list(&batch)),
                "reshape or broadcast the updates first",
            ));
        }
        let mut results = Vec::with_capacity(operands.len());
        for (v, update) in operands.iter().zip(updates) {
            let want = TensorType::new(self.dtype(*v), &shape);
            self.check_same_type(OP, "operands", *v, &want)?;
            self.check_same_type(OP, "updates", *update, &want.with_dims(update_dims.clone()))?;
            results.push(want);
        }
        let scalars: Vec<TensorType> = results.iter().map(|t| TensorType::scalar(t.dtype)).collect();
        let region = self.region(true, &[&scalars[..], &scalars[..]].concat(), region)?;
        self.check_returns(OP, "region", &region, &scalars)?;
        let mut text = String::from("#stablehlo.scatter<");
        write_dims(&mut text, "update_window_dims", &dims.update_window_dims);
        write_dims(&mut text, "inserted_window_dims", &dims.inserted_window_dims);
        write_dims(&mut text, "input_batching_dims", &dims.input_batching_dims);
        write_dims(&mut text, "scatter_indices_batching_dims", &dims.scatter_indices_batching_dims);
        write_dims(&mut text, "scatter_dims_to_operand_dims", &dims.scatter_dims_to_operand_dims);
        write!(text, "index_vector_dim = {}>", dims.index_vector_dim).expect("writing to a String cannot fail");
        let attrs = smallvec![
            ("scatter_dimension_numbers", Attr::Raw(Cow::Owned(text))),
            ("indices_are_sorted", Attr::Bool(sorted)),
            ("unique_indices", Attr::Bool(unique)),
        ];
        let all = [operands, &[indices], updates].concat();
        self.push("stablehlo.scatter", &all, &results, Parts { attrs, regions: vec![region], ..Parts::default() })
    }
}
