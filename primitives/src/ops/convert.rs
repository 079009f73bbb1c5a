//! Changes of element type, and the test for finite numbers.

use smallvec::smallvec;

use super::check::FLOAT;
use crate::error::{Result, error};
use crate::node::{Attr, Value};
use crate::{DType, Graph, TensorType};

impl Graph {
    /// Converts elements by value: floats to integers truncate, anything to bool asks "not zero", complex to real drops
    /// the imaginary part.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: all to all. Errors: none of its own.
    /// Emits `stablehlo.convert`; nothing for the same dtype, a constant for a splat.
    pub fn convert(&mut self, x: Value, dtype: DType) -> Result<Value> {
        let from = self.dtype(x);
        if from == dtype {
            return Ok(x);
        }
        let ty = self.ty(x).with_dtype(dtype);
        if let Some(n) = self.const_value(x) {
            return self.splat(ty, n.to_bytes(dtype));
        }
        if from.is_complex() && !dtype.is_complex() {
            // StableHLO leaves other complex to real conversions undefined.
            let re = self.real(x)?;
            if dtype.is_bool() {
                let im = self.imag(x)?;
                let zero = self.zeros_like(re)?;
                let a = self.compare(re, zero, super::Direction::Ne)?;
                let b = self.compare(im, zero, super::Direction::Ne)?;
                return self.or(a, b);
            }
            return self.convert(re, dtype);
        }
        self.push1("stablehlo.convert", &[x], smallvec![], ty)
    }

    /// Reads the same bits as another element type.
    ///
    /// Shapes: equal widths keep the shape; a type `k` times narrower appends a dimension of size `k`; a type `k` times
    /// wider removes a last dimension of size `k`. Dtypes: all of whole bytes, complex only to complex; bool only to
    /// bool. Errors: a last dimension of another size; bool or complex mixed with others.
    /// Emits `stablehlo.bitcast_convert`.
    pub fn bitcast_convert(&mut self, x: Value, dtype: DType) -> Result<Value> {
        const OP: &str = "bitcast_convert";
        let ty = self.ty(x).clone();
        if ty.dtype == dtype {
            return Ok(x);
        }
        if ty.dtype.is_bool() || dtype.is_bool() || ty.dtype.is_complex() != dtype.is_complex() {
            return Err(error(
                OP,
                "dtype",
                format_args!("{dtype} for an operand of {}", ty.dtype),
                "both complex, or both integer or floating-point",
                "use convert for bool, real and imag for complex",
            ));
        }
        let (from, to) = (ty.dtype.bits() as i64, dtype.bits() as i64);
        let mut dims = ty.dims.clone();
        if from > to {
            dims.push(from / to);
        } else if from < to && dims.pop() != Some(to / from) {
            return Err(error(
                OP,
                "x",
                &ty,
                format_args!("a last dimension of {} to join into {dtype}", to / from),
                "reshape it first",
            ));
        }
        self.push1("stablehlo.bitcast_convert", &[x], smallvec![], TensorType { dtype, dims, sharding: None })
    }

    /// Rounds to a float format with `exponent_bits` and `mantissa_bits`, and back to the dtype of `x`.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats. Errors: another dtype; `exponent_bits` below 1;
    /// `mantissa_bits` below 0. Emits `stablehlo.reduce_precision`.
    pub fn reduce_precision(&mut self, x: Value, exponent_bits: i32, mantissa_bits: i32) -> Result<Value> {
        const OP: &str = "reduce_precision";
        self.check_class(OP, "x", x, &FLOAT)?;
        if exponent_bits < 1 {
            return Err(error(OP, "exponent_bits", exponent_bits, "at least 1", "bf16 has 8, f16 has 5"));
        }
        if mantissa_bits < 0 {
            return Err(error(OP, "mantissa_bits", mantissa_bits, "at least 0", "bf16 has 7, f16 has 10"));
        }
        let ty = self.ty(x).with_dtype(self.dtype(x));
        let attrs = smallvec![("exponent_bits", Attr::I32(exponent_bits)), ("mantissa_bits", Attr::I32(mantissa_bits))];
        self.push1("stablehlo.reduce_precision", &[x], attrs, ty)
    }

    /// Whether each element is neither infinite nor NaN.
    ///
    /// Shapes: any; result has the shape of `x`. Dtypes: floats; result is bool. Errors: another dtype.
    /// Emits `stablehlo.is_finite`.
    pub fn is_finite(&mut self, x: Value) -> Result<Value> {
        self.check_class("is_finite", "x", x, &FLOAT)?;
        let ty = self.ty(x).with_dtype(DType::Bool);
        self.push1("stablehlo.is_finite", &[x], smallvec![], ty)
    }
}
