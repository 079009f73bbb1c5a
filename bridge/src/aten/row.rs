//! A row of the op table: one functional ATen overload and its lowering.

use super::cx::Cx;
use crate::Result;

/// Appends one op to the graph of `cx`: reads arguments by schema position, pushes results with [`Cx::out`].
pub type Lower = fn(&mut Cx<'_, '_>) -> Result<()>;

/// Strides of an op's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Row-major.
    Contiguous,
    /// Those of the inputs where these agree (torch's TensorIterator), else row-major.
    Pointwise,
}

/// One functional ATen overload. In-place, `out=` and foreach forms are derived from it.
#[derive(Debug)]
pub struct Row {
    /// Name and overload: `add.Tensor`, `relu`.
    pub name: &'static str,
    /// Names of `Scalar` and `float` arguments that enter the program as 0-d inputs, so a new value never recompiles.
    pub dynamic: &'static [&'static str],
    pub layout: Layout,
    pub lower: Lower,
}

impl Row {
    /// A row whose results are row-major and whose numbers are all part of the program.
    pub const fn new(name: &'static str, lower: Lower) -> Self {
        Self { name, dynamic: &[], layout: Layout::Contiguous, lower }
    }

    /// A pointwise row: results take the inputs' strides where these agree.
    pub const fn pointwise(name: &'static str, lower: Lower) -> Self {
        Self { name, dynamic: &[], layout: Layout::Pointwise, lower }
    }

    /// Declares number arguments that are inputs of the program rather than part of it.
    pub const fn dynamic(mut self, names: &'static [&'static str]) -> Self {
        self.dynamic = names;
        self
    }
}
