//! A row of the op table: one functional ATen overload and its lowering.

use super::args::Arg;
use super::cx::Cx;
use super::kernel::Kernel;
use crate::{Error, Result};
use primitives::DType;

/// Appends one op to the graph of `cx`: reads arguments by schema position, pushes results with [`Cx::out`].
pub type Lower = fn(&mut Cx<'_, '_>) -> Result<()>;

/// Checks of numbers whose values the program does not hold, made on every call.
pub type Guard = fn(&Numbers<'_>) -> Result<()>;

/// What a [`Guard`] sees of a call: arguments by position in the row's schema.
pub struct Numbers<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) args: &'a [Arg<'a>],
}

impl Numbers<'_> {
    /// Number argument `i`; `None` when it is absent.
    pub fn get(&self, i: usize) -> Option<f64> {
        let pos = self.kernel.positions(self.args, None)[i];
        self.kernel.number(self.args, pos).map(|n| n.as_f64())
    }

    /// Integer argument `i`.
    pub fn int(&self, i: usize) -> Option<i64> {
        let pos = self.kernel.positions(self.args, None)[i];
        self.kernel.number(self.args, pos).map(|n| n.as_i64())
    }

    /// Dtype of the first argument.
    pub fn dtype(&self) -> Option<DType> {
        match self.args.first() {
            Some(Arg::Tensor(t)) => Some(t.dtype),
            _ => None,
        }
    }

    /// What torch raises as RuntimeError.
    pub fn error(&self, message: String) -> Error {
        Error::runtime(&self.kernel.schema.name, message)
    }
}

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
    pub guard: Option<Guard>,
    /// Multiplies matrices: `torch.set_float32_matmul_precision` has a say.
    pub precise: bool,
}

impl Row {
    /// A row whose results are row-major and whose numbers are all part of the program.
    pub const fn new(name: &'static str, lower: Lower) -> Self {
        Self { name, dynamic: &[], layout: Layout::Contiguous, lower, guard: None, precise: false }
    }

    /// A pointwise row: results take the inputs' strides where these agree.
    pub const fn pointwise(name: &'static str, lower: Lower) -> Self {
        Self { name, dynamic: &[], layout: Layout::Pointwise, lower, guard: None, precise: false }
    }

    /// Declares number arguments that are inputs of the program rather than part of it.
    pub const fn dynamic(mut self, names: &'static [&'static str]) -> Self {
        self.dynamic = names;
        self
    }

    /// Declares that `torch.set_float32_matmul_precision` has a say.
    pub const fn precise(mut self) -> Self {
        self.precise = true;
        self
    }

    /// Adds a check of numbers that are inputs of the program.
    pub const fn guarded(mut self, guard: Guard) -> Self {
        self.guard = Some(guard);
        self
    }
}
