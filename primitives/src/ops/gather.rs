//! Gather: slices at computed places.

use std::borrow::Cow;
use std::fmt::Write;

use smallvec::smallvec;

use super::check::{INT, check_len, check_sorted_dims, check_unique_dims};
use crate::error::{Result, error, list};
use crate::node::{Attr, Value};
use crate::{Dims, Graph};

/// Which dimensions of the operand, the indices and the result of [`Graph::gather`] belong together.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct GatherDims {
    /// Dimensions of the result that run inside a slice.
    pub offset_dims: Vec<usize>,
    /// Dimensions of the operand, of slice size at most 1, that the result lacks.
    pub collapsed_slice_dims: Vec<usize>,
    /// Batch dimensions of the operand, paired with `start_indices_batching_dims`.
    pub operand_batching_dims: Vec<usize>,
    pub start_indices_batching_dims: Vec<usize>,
    /// Operand dimension that each entry of an index vector addresses.
    pub start_index_map: Vec<usize>,
    /// Dimension of the indices that holds an index vector; their rank if each index is a 0-d vector of one.
    pub index_vector_dim: usize,
}

/// Checks that gather and scatter share. `window` names the operand dimensions that a slice does not keep.
pub(crate) struct Indexing<'a> {
    pub op: &'static str,
    pub operand: &'a [i64],
    pub indices: &'a [i64],
    pub dropped: (&'static str, &'a [usize]),
    pub operand_batching: (&'static str, &'a [usize]),
    pub indices_batching: (&'static str, &'a [usize]),
    pub index_map: (&'static str, &'a [usize]),
    pub index_vector_dim: usize,
}

impl Indexing<'_> {
    pub(crate) fn check(&self) -> Result<()> {
        let (op, rank, index_rank) = (self.op, self.operand.len(), self.indices.len());
        if self.index_vector_dim > index_rank {
            return Err(error(
                op,
                "index_vector_dim",
                self.index_vector_dim,
                format_args!("at most the rank {index_rank} of the indices"),
                "use the rank itself when every index stands alone",
            ));
        }
        let vector = self.indices.get(self.index_vector_dim).copied().unwrap_or(1);
        if self.index_map.1.len() as i64 != vector {
            return Err(error(
                op,
                self.index_map.0,
                list(self.index_map.1),
                format_args!("{vector} entries, the size of an index vector"),
                "name one operand dimension per entry of an index vector",
            ));
        }
        check_unique_dims(op, self.index_map.0, self.index_map.1, rank)?;
        check_sorted_dims(op, self.dropped.0, self.dropped.1, rank)?;
        check_sorted_dims(op, self.operand_batching.0, self.operand_batching.1, rank)?;
        check_unique_dims(op, self.indices_batching.0, self.indices_batching.1, index_rank)?;
        for d in self.operand_batching.1 {
            for (name, other) in [self.dropped, self.index_map] {
                if other.contains(d) {
                    return Err(error(
                        op,
                        name,
                        list(other),
                        format_args!("without the batch dimension {d}"),
                        "batch dimensions are dropped by themselves",
                    ));
                }
            }
        }
        check_len(op, self.indices_batching.0, self.indices_batching.1.len(), self.operand_batching.1.len())?;
        for (a, b) in self.operand_batching.1.iter().zip(self.indices_batching.1) {
            if *b == self.index_vector_dim || self.operand[*a] != self.indices[*b] {
                return Err(error(
                    op,
                    self.indices_batching.0,
                    list(self.indices_batching.1),
                    "batch dimensions with the operand's sizes, other than index_vector_dim",
                    "broadcast the indices over the batch first",
                ));
            }
        }
        Ok(())
    }

    /// Sizes of the indices without the index vector.
    pub(crate) fn batch(&self) -> Dims {
        self.indices.iter().enumerate().filter(|(i, _)| *i != self.index_vector_dim).map(|(_, d)| *d).collect()
    }

    pub(crate) fn is_dropped(&self, dim: usize) -> bool {
        self.dropped.1.contains(&dim) || self.operand_batching.1.contains(&dim)
    }
}

pub(crate) fn write_dims(out: &mut String, name: &str, dims: &[usize]) {
    // Empty lists are left out: parsers that predate batching dimensions then still read the text.
    if !dims.is_empty() {
        write!(out, "{name} = {}, ", list(dims)).expect("writing to a String cannot fail");
    }
}

impl Graph {
    /// Copies slices of `x` that start where index vectors say; starts are clamped so that slices stay inside.
    ///
    /// Shapes: result has the indices' dimensions (without the index vector) and, at `offset_dims`, the slice's kept
    /// dimensions. Dtypes: `x` all, `indices` integers. Errors: dimension lists that do not fit together; slice sizes
    /// outside the operand, or above 1 where the result lacks the dimension. `sorted` promises sorted indices.
    /// Emits `stablehlo.gather`.
    pub fn gather(
        &mut self,
        x: Value,
        indices: Value,
        dims: &GatherDims,
        slice_sizes: &[i64],
        sorted: bool,
    ) -> Result<Value> {
        const OP: &str = "gather";
        self.check_class(OP, "indices", indices, &INT)?;
        let ty = self.ty(x);
        let index_dims = self.dims(indices);
        let indexing = Indexing {
            op: OP,
            operand: &ty.dims,
            indices: &index_dims,
            dropped: ("collapsed_slice_dims", &dims.collapsed_slice_dims),
            operand_batching: ("operand_batching_dims", &dims.operand_batching_dims),
            indices_batching: ("start_indices_batching_dims", &dims.start_indices_batching_dims),
            index_map: ("start_index_map", &dims.start_index_map),
            index_vector_dim: dims.index_vector_dim,
        };
        indexing.check()?;
        check_len(OP, "slice_sizes", slice_sizes.len(), ty.rank())?;
        for (i, size) in slice_sizes.iter().enumerate() {
            let most = if indexing.is_dropped(i) { ty.dims[i].min(1) } else { ty.dims[i] };
            if *size < 0 || *size > most {
                return Err(error(
                    OP,
                    "slice_sizes",
                    list(slice_sizes),
                    format_args!("between 0 and {most} at dimension {i}"),
                    "collapsed and batching dimensions have slice size 1",
                ));
            }
        }
        let kept: Dims = (0..ty.rank()).filter(|i| !indexing.is_dropped(*i)).map(|i| slice_sizes[i]).collect();
        check_len(OP, "offset_dims", dims.offset_dims.len(), kept.len())?;
        let batch = indexing.batch();
        let rank = kept.len() + batch.len();
        check_sorted_dims(OP, "offset_dims", &dims.offset_dims, rank)?;
        let (mut offset, mut batch) = (kept.iter(), batch.iter());
        let out: Dims =
            (0..rank)
                .map(|i| {
                    if dims.offset_dims.contains(&i) {
                        *offset.next().unwrap_or(&0)
                    } else {
                        *batch.next().unwrap_or(&0)
                    }
                })
                .collect();
        let result = ty.with_dims(out);
        let mut text = String::from("#stablehlo.gather<");
        write_dims(&mut text, "offset_dims", &dims.offset_dims);
        write_dims(&mut text, "collapsed_slice_dims", &dims.collapsed_slice_dims);
        write_dims(&mut text, "operand_batching_dims", &dims.operand_batching_dims);
        write_dims(&mut text, "start_indices_batching_dims", &dims.start_indices_batching_dims);
        write_dims(&mut text, "start_index_map", &dims.start_index_map);
        write!(text, "index_vector_dim = {}>", dims.index_vector_dim).expect("writing to a String cannot fail");
        let attrs = smallvec![
            ("dimension_numbers", Attr::Raw(Cow::Owned(text))),
            ("slice_sizes", Attr::I64s(Dims::from_slice(slice_sizes))),
            ("indices_are_sorted", Attr::Bool(sorted)),
        ];
        self.push1("stablehlo.gather", &[x, indices], attrs, result)
    }
}
