//! Special functions. They are CHLO operations, which every plugin's compiler expands into StableHLO.

use super::check::{Class, FLOAT, FLOAT_OR_COMPLEX};
use crate::Graph;
use crate::error::Result;
use crate::node::Value;

impl Graph {
    /// Error function.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats. Errors: another dtype. Emits `chlo.erf`.
    pub fn erf(&mut self, x: Value) -> Result<Value> {
        self.special("erf", "chlo.erf", x, &FLOAT)
    }

    /// `1 - erf(x)`, exact for large x.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats. Errors: another dtype. Emits `chlo.erfc`.
    pub fn erfc(&mut self, x: Value) -> Result<Value> {
        self.special("erfc", "chlo.erfc", x, &FLOAT)
    }

    /// Inverse of the error function.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats. Errors: another dtype. Emits `chlo.erf_inv`.
    pub fn erf_inv(&mut self, x: Value) -> Result<Value> {
        self.special("erf_inv", "chlo.erf_inv", x, &FLOAT)
    }

    /// Logarithm of the absolute value of the gamma function.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats. Errors: another dtype. Emits `chlo.lgamma`.
    pub fn lgamma(&mut self, x: Value) -> Result<Value> {
        self.special("lgamma", "chlo.lgamma", x, &FLOAT)
    }

    /// Derivative of `lgamma`.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats. Errors: another dtype. Emits `chlo.digamma`.
    pub fn digamma(&mut self, x: Value) -> Result<Value> {
        self.special("digamma", "chlo.digamma", x, &FLOAT)
    }

    /// Arc sine.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex. Errors: another dtype. Emits `chlo.asin`.
    pub fn asin(&mut self, x: Value) -> Result<Value> {
        self.special("asin", "chlo.asin", x, &FLOAT_OR_COMPLEX)
    }

    /// Arc cosine.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex. Errors: another dtype. Emits `chlo.acos`.
    pub fn acos(&mut self, x: Value) -> Result<Value> {
        self.special("acos", "chlo.acos", x, &FLOAT_OR_COMPLEX)
    }

    /// Arc tangent.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex. Errors: another dtype. Emits `chlo.atan`.
    pub fn atan(&mut self, x: Value) -> Result<Value> {
        self.special("atan", "chlo.atan", x, &FLOAT_OR_COMPLEX)
    }

    /// Hyperbolic sine.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex. Errors: another dtype. Emits `chlo.sinh`.
    pub fn sinh(&mut self, x: Value) -> Result<Value> {
        self.special("sinh", "chlo.sinh", x, &FLOAT_OR_COMPLEX)
    }

    /// Hyperbolic cosine.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex. Errors: another dtype. Emits `chlo.cosh`.
    pub fn cosh(&mut self, x: Value) -> Result<Value> {
        self.special("cosh", "chlo.cosh", x, &FLOAT_OR_COMPLEX)
    }

    /// Inverse hyperbolic sine.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex. Errors: another dtype. Emits `chlo.asinh`.
    pub fn asinh(&mut self, x: Value) -> Result<Value> {
        self.special("asinh", "chlo.asinh", x, &FLOAT_OR_COMPLEX)
    }

    /// Inverse hyperbolic cosine; NaN below 1.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex. Errors: another dtype. Emits `chlo.acosh`.
    pub fn acosh(&mut self, x: Value) -> Result<Value> {
        self.special("acosh", "chlo.acosh", x, &FLOAT_OR_COMPLEX)
    }

    /// Inverse hyperbolic tangent; NaN outside [-1, 1].
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex. Errors: another dtype. Emits `chlo.atanh`.
    pub fn atanh(&mut self, x: Value) -> Result<Value> {
        self.special("atanh", "chlo.atanh", x, &FLOAT_OR_COMPLEX)
    }

    /// Exponentially scaled modified Bessel function of order 1.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats. Errors: another dtype. Emits `chlo.bessel_i1e`.
    pub fn bessel_i1e(&mut self, x: Value) -> Result<Value> {
        self.special("bessel_i1e", "chlo.bessel_i1e", x, &FLOAT)
    }

    /// The `n`-th derivative of `digamma` at `x`.
    ///
    /// Shapes: any, the same for both. Dtypes: floats, the same for both. Errors: other or different types. Emits `chlo.polygamma`.
    pub fn polygamma(&mut self, n: Value, x: Value) -> Result<Value> {
        self.special2("polygamma", "chlo.polygamma", ["n", "x"], n, x)
    }

    /// Hurwitz zeta function, the sum of `(q + k)^-x` over k from 0.
    ///
    /// Shapes: any, the same for both. Dtypes: floats, the same for both. Errors: other or different types. Emits `chlo.zeta`.
    pub fn zeta(&mut self, x: Value, q: Value) -> Result<Value> {
        self.special2("zeta", "chlo.zeta", ["x", "q"], x, q)
    }

    /// The next representable number after `x` in the direction of `y`.
    ///
    /// Shapes: any, the same for both. Dtypes: floats, the same for both. Errors: other or different types. Emits `chlo.next_after`.
    pub fn next_after(&mut self, x: Value, y: Value) -> Result<Value> {
        self.special2("next_after", "chlo.next_after", ["x", "y"], x, y)
    }

    fn special(&mut self, name: &'static str, op: &'static str, x: Value, class: &Class) -> Result<Value> {
        self.check_class(name, "x", x, class)?;
        let ty = self.ty(x);
        let ty = ty.with_dtype(ty.dtype);
        self.push1(op, &[x], Default::default(), ty)
    }

    fn special2(
        &mut self,
        name: &'static str,
        op: &'static str,
        args: [&'static str; 2],
        a: Value,
        b: Value,
    ) -> Result<Value> {
        self.check_class(name, args[0], a, &FLOAT)?;
        let ty = self.ty(a);
        let ty = ty.with_dtype(ty.dtype);
        self.check_same_type(name, args[1], b, &ty)?;
        self.push1(op, &[a, b], Default::default(), ty)
    }
}
