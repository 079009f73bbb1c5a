//! Complex numbers: building them and taking them apart.

use smallvec::smallvec;

use super::check::{COMPLEX, FLOAT};
use crate::error::{Result, error};
use crate::node::Value;
use crate::{DType, Graph};

impl Graph {
    /// `re + i * im`.
    ///
    /// Shapes: any, the same for both. Dtypes: f32 or f64, the same for both; result is the complex type with that part.
    /// Errors: other or different types. Emits `stablehlo.complex`.
    pub fn complex(&mut self, re: Value, im: Value) -> Result<Value> {
        const OP: &str = "complex";
        let ty = self.ty(re);
        if !matches!(ty.dtype, DType::F32 | DType::F64) {
            return Err(error(OP, "re", ty.dtype, "f32 or f64", "convert it first"));
        }
        self.check_same_type(OP, "im", im, ty)?;
        let ty = ty.with_dtype(ty.dtype.complex_of());
        self.push1("stablehlo.complex", &[re, im], smallvec![], ty)
    }

    /// Real part.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: complex gives its part type; a float is returned as it is.
    /// Errors: another dtype. Emits `stablehlo.real`.
    pub fn real(&mut self, x: Value) -> Result<Value> {
        if self.dtype(x).is_float() {
            return Ok(x);
        }
        self.check_class("real", "x", x, &COMPLEX)?;
        let ty = self.ty(x).with_dtype(self.dtype(x).real_of());
        self.push1("stablehlo.real", &[x], smallvec![], ty)
    }

    /// Imaginary part; zeros for a float.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: complex gives its part type, a float its own.
    /// Errors: another dtype. Emits `stablehlo.imag`.
    pub fn imag(&mut self, x: Value) -> Result<Value> {
        if self.dtype(x).is_float() {
            return self.zeros_like(x);
        }
        self.check_class("imag", "x", x, &COMPLEX)?;
        let ty = self.ty(x).with_dtype(self.dtype(x).real_of());
        self.push1("stablehlo.imag", &[x], smallvec![], ty)
    }

    /// Complex conjugate; a float is returned as it is.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: complex, floats. Errors: another dtype.
    /// Emits `stablehlo.real`, `stablehlo.imag`, `stablehlo.negate`, `stablehlo.complex`.
    pub fn conj(&mut self, x: Value) -> Result<Value> {
        if self.dtype(x).is_complex() {
            let re = self.real(x)?;
            let im = self.imag(x)?;
            let im = self.neg(im)?;
            return self.complex(re, im);
        }
        self.check_class("conj", "x", x, &FLOAT)?;
        Ok(x)
    }
}
