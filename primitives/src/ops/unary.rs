//! Element-wise primitives of one operand.

use super::check::{Class, FLOAT, FLOAT_OR_COMPLEX, INT, INT_OR_BOOL, NUMERIC, SIGNED};
use crate::Graph;
use crate::error::Result;
use crate::node::Value;

impl Graph {
    /// Absolute value; the modulus of a complex number.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: signed integers, floats, complex; a complex `x` gives its part type.
    /// Errors: another dtype. Emits `stablehlo.abs`.
    pub fn abs(&mut self, x: Value) -> Result<Value> {
        const OP: &str = "abs";
        self.check_class(OP, "x", x, &SIGNED)?;
        let ty = self.ty(x);
        let ty = ty.with_dtype(ty.dtype.real_of());
        if self.dtype(x).is_complex() {
            return self.push1("stablehlo.abs", &[x], Default::default(), ty);
        }
        self.push_same("stablehlo.abs", &[x], ty)
    }

    /// Cube root.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex.
    /// Errors: another dtype. Emits `stablehlo.cbrt`.
    pub fn cbrt(&mut self, x: Value) -> Result<Value> {
        self.unary("cbrt", "stablehlo.cbrt", x, &FLOAT_OR_COMPLEX)
    }

    /// Smallest integer not less than the element.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats.
    /// Errors: another dtype. Emits `stablehlo.ceil`.
    pub fn ceil(&mut self, x: Value) -> Result<Value> {
        self.unary("ceil", "stablehlo.ceil", x, &FLOAT)
    }

    /// Cosine.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex.
    /// Errors: another dtype. Emits `stablehlo.cosine`.
    pub fn cos(&mut self, x: Value) -> Result<Value> {
        self.unary("cos", "stablehlo.cosine", x, &FLOAT_OR_COMPLEX)
    }

    /// Number of zero bits above the highest set bit.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: integers.
    /// Errors: another dtype. Emits `stablehlo.count_leading_zeros`.
    pub fn count_leading_zeros(&mut self, x: Value) -> Result<Value> {
        self.unary("count_leading_zeros", "stablehlo.count_leading_zeros", x, &INT)
    }

    /// e to the power of the element.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex.
    /// Errors: another dtype. Emits `stablehlo.exponential`.
    pub fn exp(&mut self, x: Value) -> Result<Value> {
        self.unary("exp", "stablehlo.exponential", x, &FLOAT_OR_COMPLEX)
    }

    /// `exp(x) - 1`, exact near 0.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex.
    /// Errors: another dtype. Emits `stablehlo.exponential_minus_one`.
    pub fn expm1(&mut self, x: Value) -> Result<Value> {
        self.unary("expm1", "stablehlo.exponential_minus_one", x, &FLOAT_OR_COMPLEX)
    }

    /// Largest integer not greater than the element.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats.
    /// Errors: another dtype. Emits `stablehlo.floor`.
    pub fn floor(&mut self, x: Value) -> Result<Value> {
        self.unary("floor", "stablehlo.floor", x, &FLOAT)
    }

    /// Natural logarithm.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex.
    /// Errors: another dtype. Emits `stablehlo.log`.
    pub fn log(&mut self, x: Value) -> Result<Value> {
        self.unary("log", "stablehlo.log", x, &FLOAT_OR_COMPLEX)
    }

    /// `log(1 + x)`, exact near 0.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex.
    /// Errors: another dtype. Emits `stablehlo.log_plus_one`.
    pub fn log1p(&mut self, x: Value) -> Result<Value> {
        self.unary("log1p", "stablehlo.log_plus_one", x, &FLOAT_OR_COMPLEX)
    }

    /// `1 / (1 + exp(-x))`.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex.
    /// Errors: another dtype. Emits `stablehlo.logistic`.
    pub fn logistic(&mut self, x: Value) -> Result<Value> {
        self.unary("logistic", "stablehlo.logistic", x, &FLOAT_OR_COMPLEX)
    }

    /// Negation; unsigned integers wrap.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: all but bool.
    /// Errors: another dtype. Emits `stablehlo.negate`.
    pub fn neg(&mut self, x: Value) -> Result<Value> {
        self.unary("neg", "stablehlo.negate", x, &NUMERIC)
    }

    /// Bitwise complement; logical for booleans.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: integers, bool.
    /// Errors: another dtype. Emits `stablehlo.not`.
    pub fn not(&mut self, x: Value) -> Result<Value> {
        self.unary("not", "stablehlo.not", x, &INT_OR_BOOL)
    }

    /// Number of set bits.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: integers.
    /// Errors: another dtype. Emits `stablehlo.popcnt`.
    pub fn popcnt(&mut self, x: Value) -> Result<Value> {
        self.unary("popcnt", "stablehlo.popcnt", x, &INT)
    }

    /// Nearest integer, ties away from zero.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats.
    /// Errors: another dtype. Emits `stablehlo.round_nearest_afz`.
    pub fn round_nearest_afz(&mut self, x: Value) -> Result<Value> {
        self.unary("round_nearest_afz", "stablehlo.round_nearest_afz", x, &FLOAT)
    }

    /// Nearest integer, ties to even.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats.
    /// Errors: another dtype. Emits `stablehlo.round_nearest_even`.
    pub fn round_nearest_even(&mut self, x: Value) -> Result<Value> {
        self.unary("round_nearest_even", "stablehlo.round_nearest_even", x, &FLOAT)
    }

    /// `1 / sqrt(x)`.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex.
    /// Errors: another dtype. Emits `stablehlo.rsqrt`.
    pub fn rsqrt(&mut self, x: Value) -> Result<Value> {
        self.unary("rsqrt", "stablehlo.rsqrt", x, &FLOAT_OR_COMPLEX)
    }

    /// -1, 0 or 1 (NaN stays; -0.0 stays); `x / abs(x)` for complex numbers.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: signed integers, floats, complex.
    /// Errors: another dtype. Emits `stablehlo.sign`.
    pub fn sign(&mut self, x: Value) -> Result<Value> {
        self.unary("sign", "stablehlo.sign", x, &SIGNED)
    }

    /// Sine.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex.
    /// Errors: another dtype. Emits `stablehlo.sine`.
    pub fn sin(&mut self, x: Value) -> Result<Value> {
        self.unary("sin", "stablehlo.sine", x, &FLOAT_OR_COMPLEX)
    }

    /// Square root; NaN below 0.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex.
    /// Errors: another dtype. Emits `stablehlo.sqrt`.
    pub fn sqrt(&mut self, x: Value) -> Result<Value> {
        self.unary("sqrt", "stablehlo.sqrt", x, &FLOAT_OR_COMPLEX)
    }

    /// Tangent.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex.
    /// Errors: another dtype. Emits `stablehlo.tan`.
    pub fn tan(&mut self, x: Value) -> Result<Value> {
        self.unary("tan", "stablehlo.tan", x, &FLOAT_OR_COMPLEX)
    }

    /// Hyperbolic tangent.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats, complex.
    /// Errors: another dtype. Emits `stablehlo.tanh`.
    pub fn tanh(&mut self, x: Value) -> Result<Value> {
        self.unary("tanh", "stablehlo.tanh", x, &FLOAT_OR_COMPLEX)
    }

    fn unary(&mut self, name: &'static str, op: &'static str, x: Value, class: &Class) -> Result<Value> {
        self.check_class(name, "x", x, class)?;
        let ty = self.ty(x);
        let ty = ty.with_dtype(ty.dtype);
        self.push_same(op, &[x], ty)
    }
}
