//! Tensor types.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::DType;

/// Dimension sizes; six dimensions fit without an allocation.
pub type Dims = SmallVec<[i64; 6]>;

/// The type of a value: element type, static dimension sizes, optional sharding.
///
/// A sharding that starts with `#sdy.` is a Shardy attribute, any other text is an HLO sharding (`{devices=[2,1]<=[2]}`).
/// It is emitted on parameters and outputs of the program; inside a program use
/// [`Graph::sharding_constraint`](crate::Graph::sharding_constraint).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    pub dtype: DType,
    pub dims: Dims,
    pub sharding: Option<Arc<str>>,
}

impl TensorType {
    /// `dims` in row-major order, each at least 0; no sharding.
    pub fn new(dtype: DType, dims: &[i64]) -> Self {
        TensorType { dtype, dims: Dims::from_slice(dims), sharding: None }
    }

    /// The type of one number.
    pub fn scalar(dtype: DType) -> Self {
        TensorType { dtype, dims: Dims::new(), sharding: None }
    }

    /// The same dimensions with another element type, without sharding.
    pub fn with_dtype(&self, dtype: DType) -> Self {
        TensorType { dtype, dims: self.dims.clone(), sharding: None }
    }

    /// The same element type with other dimensions, without sharding.
    pub fn with_dims(&self, dims: Dims) -> Self {
        TensorType { dtype: self.dtype, dims, sharding: None }
    }

    /// The same type laid out over devices by this text; see the type's own description.
    pub fn with_sharding(mut self, sharding: impl Into<Arc<str>>) -> Self {
        self.sharding = Some(sharding.into());
        self
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements; 1 for a scalar.
    pub fn numel(&self) -> i64 {
        self.dims.iter().product()
    }

    /// Bytes in host memory.
    pub fn size_bytes(&self) -> usize {
        self.numel() as usize * self.dtype.size_of()
    }

    /// Same element type and dimensions; the sharding is not compared.
    pub fn same_shape_and_dtype(&self, other: &TensorType) -> bool {
        self.dtype == other.dtype && self.dims == other.dims
    }
}

impl fmt::Display for TensorType {
    /// MLIR spelling: `tensor<2x3xf32>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for d in &self.dims {
            write!(f, "{d}x")?;
        }
        f.write_str(self.dtype.mlir())?;
        f.write_str(">")
    }
}
