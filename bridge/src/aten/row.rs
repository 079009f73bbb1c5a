//! A row of the op table: one functional ATen overload and its lowering.

use super::args::{Arg, ArgPos};
use super::cx::Cx;
use super::kernel::Kernel;
use crate::{Error, Result};
use primitives::{DType, Number};

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
        let pos = self.kernel.position(i);
        self.kernel.number(self.args, pos).map(|n| n.as_f64())
    }

    /// Number argument `i` as it was given; `None` when it is absent.
    pub fn number(&self, i: usize) -> Option<Number> {
        self.kernel.number(self.args, self.kernel.position(i))
    }

    /// The least number of argument `i`, of a foreach form's list too, that is whole by type.
    pub fn least_whole(&self, i: usize) -> Option<i64> {
        let whole = |n: Number| (!matches!(n, Number::Float(_) | Number::Complex(..))).then(|| n.as_i64());
        let pos = self.kernel.position(i);
        match self.args.get(pos.arg as usize) {
            Some(Arg::List(items)) => {
                (0..items.len()).filter_map(|k| whole(ArgPos::item(pos.arg as usize, k).number(self.args)?)).min()
            }
            _ => self.kernel.number(self.args, pos).and_then(whole),
        }
    }

    /// Whether the first argument is a tensor of integers or bools, or a list with one.
    pub fn of_integers(&self) -> bool {
        let integers = |a: &Arg<'_>| matches!(a, Arg::Tensor(t) if t.dtype.is_int() || t.dtype.is_bool());
        match self.args.first() {
            Some(Arg::List(items)) => items.iter().any(integers),
            Some(arg) => integers(arg),
            None => false,
        }
    }

    /// Integer argument `i`.
    pub fn int(&self, i: usize) -> Option<i64> {
        let pos = self.kernel.position(i);
        self.kernel.number(self.args, pos).map(|n| n.as_i64())
    }

    /// Dtype of the first argument.
    pub fn dtype(&self) -> Option<DType> {
        match self.args.first() {
            Some(Arg::Tensor(t)) => Some(t.dtype),
            _ => None,
        }
    }

    /// Dtype argument `i`; `None` when it is absent.
    pub fn dtype_arg(&self, i: usize) -> Option<DType> {
        match self.args.get(self.kernel.position(i).arg as usize) {
            Some(Arg::DType(d)) => Some(*d),
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
    /// Values of dynamic arguments that have a program of their own.
    pub special: &'static [f64],
    pub layout: Layout,
    pub lower: Lower,
    pub guard: Option<Guard>,
    /// Writes tensors that its schema does not mark, more than one.
    pub writes_several: bool,
    /// Multiplies matrices: `torch.set_float32_matmul_precision` has a say.
    pub precise: bool,
}

impl Row {
    /// A row whose results are row-major and whose numbers are all part of the program.
    pub const fn new(name: &'static str, lower: Lower) -> Self {
        Self {
            name,
            dynamic: &[],
            special: &[],
            layout: Layout::Contiguous,
            lower,
            guard: None,
            writes_several: false,
            precise: false,
        }
    }

    /// A pointwise row: results take the inputs' strides where these agree.
    pub const fn pointwise(name: &'static str, lower: Lower) -> Self {
        Self {
            name,
            dynamic: &[],
            special: &[],
            layout: Layout::Pointwise,
            lower,
            guard: None,
            writes_several: false,
            precise: false,
        }
    }

    /// Declares number arguments that are inputs of the program rather than part of it.
    pub const fn dynamic(mut self, names: &'static [&'static str]) -> Self {
        self.dynamic = names;
        self
    }

    /// Declares values of the dynamic arguments that are part of the program: there it is a better one.
    pub const fn but(mut self, values: &'static [f64]) -> Self {
        self.special = values;
        self
    }

    /// Declares that `torch.set_float32_matmul_precision` has a say.
    pub const fn precise(mut self) -> Self {
        self.precise = true;
        self
    }

    /// Declares that more than one tensor is written although the schema does not say so.
    pub const fn writes_several(mut self) -> Self {
        self.writes_several = true;
        self
    }

    /// Adds a check of numbers that are inputs of the program.
    pub const fn guarded(mut self, guard: Guard) -> Self {
        self.guard = Some(guard);
        self
    }
}
