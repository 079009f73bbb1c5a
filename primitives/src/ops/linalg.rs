//! Factorizations and solves.

use std::borrow::Cow;

use smallvec::smallvec;

use super::check::FLOAT_OR_COMPLEX;
use crate::Graph;
use crate::error::{Result, error};
use crate::node::{Attr, Value};

/// What is done to the matrix of [`Graph::triangular_solve`] before it is used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transpose {
    No,
    Transpose,
    /// Transpose and complex conjugate.
    Adjoint,
}

impl Graph {
    fn check_square(&self, op: &'static str, arg: &'static str, v: Value) -> Result<()> {
        let ty = self.ty(v);
        let n = ty.rank();
        if n >= 2 && ty.dims[n - 1] == ty.dims[n - 2] {
            return Ok(());
        }
        Err(error(op, arg, ty, "square matrices in the last two dimensions", "slice or pad first"))
    }

    /// Cholesky factors of Hermitian positive definite matrices: `L L^H` (`lower`) or `U^H U`.
    ///
    /// Only that triangle of `a` is read; the other one of the result is unspecified; NaN where `a` is not positive
    /// definite. Shapes: `[.., n, n]`; result the same. Dtypes: floats, complex. Errors: another dtype; not square.
    /// Emits `stablehlo.cholesky`.
    pub fn cholesky(&mut self, a: Value, lower: bool) -> Result<Value> {
        const OP: &str = "cholesky";
        self.check_class(OP, "a", a, &FLOAT_OR_COMPLEX)?;
        self.check_square(OP, "a", a)?;
        let ty = self.ty(a).with_dtype(self.dtype(a));
        self.push1("stablehlo.cholesky", &[a], smallvec![("lower", Attr::Bool(lower))], ty)
    }

    /// Solves `op(a) x = b` (`left`) or `x op(a) = b` for triangular `a`.
    ///
    /// Only the `lower` or upper triangle of `a` is read; `unit` takes its diagonal as ones. Shapes: `a` is
    /// `[batch.., n, n]`, `b` is `[batch.., n, k]` (`left`) or `[batch.., k, n]`; result has the shape of `b`.
    /// Dtypes: floats, complex, the same for both. Errors: other types or sizes. Emits `stablehlo.triangular_solve`.
    pub fn triangular_solve(
        &mut self,
        a: Value,
        b: Value,
        left: bool,
        lower: bool,
        unit: bool,
        transpose: Transpose,
    ) -> Result<Value> {
        const OP: &str = "triangular_solve";
        self.check_class(OP, "a", a, &FLOAT_OR_COMPLEX)?;
        self.check_square(OP, "a", a)?;
        self.check_same_dtype(OP, "b", b, self.dtype(a))?;
        self.check_rank(OP, "b", b, self.rank(a))?;
        let (ta, tb) = (self.ty(a), self.ty(b));
        let n = ta.rank();
        let side = if left { n - 2 } else { n - 1 };
        if ta.dims[..n - 2] != tb.dims[..n - 2] || tb.dims[side] != ta.dims[n - 1] {
            return Err(error(
                OP,
                "b",
                tb,
                format_args!("the batch dimensions of {ta} and size {} at dimension {side}", ta.dims[n - 1]),
                "broadcast the batch dimensions first",
            ));
        }
        let ty = tb.with_dtype(tb.dtype);
        let how = match transpose {
            Transpose::No => "#stablehlo<transpose NO_TRANSPOSE>",
            Transpose::Transpose => "#stablehlo<transpose TRANSPOSE>",
            Transpose::Adjoint => "#stablehlo<transpose ADJOINT>",
        };
        let attrs = smallvec![
            ("left_side", Attr::Bool(left)),
            ("lower", Attr::Bool(lower)),
            ("unit_diagonal", Attr::Bool(unit)),
            ("transpose_a", Attr::Raw(Cow::Borrowed(how))),
        ];
        self.push1("stablehlo.triangular_solve", &[a, b], attrs, ty)
    }
}
