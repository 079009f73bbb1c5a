//! Element-wise primitives of two operands. Both have one type: nothing is broadcast or promoted here.

use super::check::{Class, FLOAT_OR_COMPLEX, INT, INT_OR_BOOL, NUMERIC, REAL};
use crate::Graph;
use crate::error::Result;
use crate::node::Value;

const ANY: Class = Class { accepts: |_| true, name: "any type", hint: "" };

impl Graph {
    /// Sum; logical or for booleans.
    ///
    /// Shapes: any, the same for both. Dtypes: all; the same for both. Errors: other or different types.
    /// Emits `stablehlo.add`, for booleans `stablehlo.or`: compilers fold the sum of boolean constants modulo two.
    pub fn add(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        if self.ty(lhs).dtype.is_bool() && self.ty(rhs).dtype.is_bool() {
            return self.binary("add", "stablehlo.or", lhs, rhs, &ANY);
        }
        self.binary("add", "stablehlo.add", lhs, rhs, &ANY)
    }

    /// Difference; integers wrap.
    ///
    /// Shapes: any, the same for both. Dtypes: all but bool; the same for both. Errors: other or different types.
    /// Emits `stablehlo.subtract`.
    pub fn subtract(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        self.binary("subtract", "stablehlo.subtract", lhs, rhs, &NUMERIC)
    }

    /// Product; logical and for booleans.
    ///
    /// Shapes: any, the same for both. Dtypes: all; the same for both. Errors: other or different types.
    /// Emits `stablehlo.multiply`.
    pub fn multiply(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        self.binary("multiply", "stablehlo.multiply", lhs, rhs, &ANY)
    }

    /// Quotient; integers round towards zero, and division by zero is up to the device.
    ///
    /// Shapes: any, the same for both. Dtypes: all but bool; the same for both. Errors: other or different types.
    /// Emits `stablehlo.divide`.
    pub fn divide(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        self.binary("divide", "stablehlo.divide", lhs, rhs, &NUMERIC)
    }

    /// Remainder with the sign of `lhs` (like C's `%` and `fmod`).
    ///
    /// Shapes: any, the same for both. Dtypes: integers, floats; the same for both. Errors: other or different types.
    /// Emits `stablehlo.remainder`.
    pub fn remainder(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        self.binary("remainder", "stablehlo.remainder", lhs, rhs, &REAL)
    }

    /// `lhs` to the power of `rhs`.
    ///
    /// Shapes: any, the same for both. Dtypes: all but bool; the same for both. Errors: other or different types.
    /// Emits `stablehlo.power`.
    pub fn power(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        self.binary("power", "stablehlo.power", lhs, rhs, &NUMERIC)
    }

    /// Larger of the two; NaN if either is; logical or for booleans; complex by real, then imaginary part.
    ///
    /// Shapes: any, the same for both. Dtypes: all; the same for both. Errors: other or different types.
    /// Emits `stablehlo.maximum`.
    pub fn maximum(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        self.binary("maximum", "stablehlo.maximum", lhs, rhs, &ANY)
    }

    /// Smaller of the two; NaN if either is; logical and for booleans; complex by real, then imaginary part.
    ///
    /// Shapes: any, the same for both. Dtypes: all; the same for both. Errors: other or different types.
    /// Emits `stablehlo.minimum`.
    pub fn minimum(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        self.binary("minimum", "stablehlo.minimum", lhs, rhs, &ANY)
    }

    /// Bitwise and; logical for booleans.
    ///
    /// Shapes: any, the same for both. Dtypes: integers, bool; the same for both. Errors: other or different types.
    /// Emits `stablehlo.and`.
    pub fn and(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        self.binary("and", "stablehlo.and", lhs, rhs, &INT_OR_BOOL)
    }

    /// Bitwise or; logical for booleans.
    ///
    /// Shapes: any, the same for both. Dtypes: integers, bool; the same for both. Errors: other or different types.
    /// Emits `stablehlo.or`.
    pub fn or(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        self.binary("or", "stablehlo.or", lhs, rhs, &INT_OR_BOOL)
    }

    /// Bitwise exclusive or; logical for booleans.
    ///
    /// Shapes: any, the same for both. Dtypes: integers, bool; the same for both. Errors: other or different types.
    /// Emits `stablehlo.xor`.
    pub fn xor(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        self.binary("xor", "stablehlo.xor", lhs, rhs, &INT_OR_BOOL)
    }

    /// `lhs` shifted left by `rhs` bits; 0 if `rhs` is not below the width.
    ///
    /// Shapes: any, the same for both. Dtypes: integers; the same for both. Errors: other or different types.
    /// Emits `stablehlo.shift_left`.
    pub fn shift_left(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        self.binary("shift_left", "stablehlo.shift_left", lhs, rhs, &INT)
    }

    /// `lhs` shifted right, filled with the sign bit.
    ///
    /// Shapes: any, the same for both. Dtypes: integers; the same for both. Errors: other or different types.
    /// Emits `stablehlo.shift_right_arithmetic`.
    pub fn shift_right_arithmetic(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        self.binary("shift_right_arithmetic", "stablehlo.shift_right_arithmetic", lhs, rhs, &INT)
    }

    /// `lhs` shifted right, filled with zeros.
    ///
    /// Shapes: any, the same for both. Dtypes: integers; the same for both. Errors: other or different types.
    /// Emits `stablehlo.shift_right_logical`.
    pub fn shift_right_logical(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        self.binary("shift_right_logical", "stablehlo.shift_right_logical", lhs, rhs, &INT)
    }

    /// Angle of the point with height `lhs` and width `rhs`, in (-pi, pi].
    ///
    /// Shapes: any, the same for both. Dtypes: floats, complex; the same for both. Errors: other or different types.
    /// Emits `stablehlo.atan2`.
    pub fn atan2(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        self.binary("atan2", "stablehlo.atan2", lhs, rhs, &FLOAT_OR_COMPLEX)
    }

    fn binary(&mut self, name: &'static str, op: &'static str, lhs: Value, rhs: Value, class: &Class) -> Result<Value> {
        self.check_class(name, "lhs", lhs, class)?;
        let ty = self.ty(lhs);
        let ty = ty.with_dtype(ty.dtype);
        self.check_same_type(name, "rhs", rhs, &ty)?;
        self.push_same(op, &[lhs, rhs], ty)
    }
}
