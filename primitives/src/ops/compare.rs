//! Comparison, selection and clamping.

use std::borrow::Cow;

use smallvec::smallvec;

use super::check::{FLOAT, ORDERED};
use crate::error::{Result, error};
use crate::node::{Attr, Value};
use crate::{DType, Graph, TensorType};

/// What a comparison asks: is `lhs` equal to, not equal to, less than ... `rhs`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Direction {
    fn attr(self) -> Attr {
        Attr::Raw(Cow::Borrowed(match self {
            Direction::Eq => "#stablehlo<comparison_direction EQ>",
            Direction::Ne => "#stablehlo<comparison_direction NE>",
            Direction::Lt => "#stablehlo<comparison_direction LT>",
            Direction::Le => "#stablehlo<comparison_direction LE>",
            Direction::Gt => "#stablehlo<comparison_direction GT>",
            Direction::Ge => "#stablehlo<comparison_direction GE>",
        }))
    }
}

impl Graph {
    /// Compares element by element. NaN is not equal to anything and unordered (IEEE 754).
    ///
    /// Shapes: any, the same for both; result has that shape. Dtypes: all, the same for both; complex numbers only with
    /// `Eq` and `Ne`; result is bool. Errors: different types, an order of complex numbers.
    /// Emits `stablehlo.compare`.
    pub fn compare(&mut self, lhs: Value, rhs: Value, direction: Direction) -> Result<Value> {
        let d = self.dtype(lhs);
        let kind = if d.is_float() || d.is_complex() {
            "#stablehlo<comparison_type FLOAT>"
        } else if d.is_signed_int() {
            "#stablehlo<comparison_type SIGNED>"
        } else {
            "#stablehlo<comparison_type UNSIGNED>"
        };
        if !matches!(direction, Direction::Eq | Direction::Ne) {
            self.check_class("compare", "lhs", lhs, &ORDERED)?;
        }
        self.compare_as("compare", lhs, rhs, direction, kind)
    }

    /// Compares floats in IEEE 754 total order: -NaN < -inf < .. < -0.0 < 0.0 < .. < inf < NaN.
    ///
    /// Shapes: any, the same for both. Dtypes: floats, the same for both; result is bool. Errors: other or different
    /// types. Emits `stablehlo.compare` with `TOTALORDER`.
    pub fn compare_total_order(&mut self, lhs: Value, rhs: Value, direction: Direction) -> Result<Value> {
        self.check_class("compare_total_order", "lhs", lhs, &FLOAT)?;
        self.compare_as("compare_total_order", lhs, rhs, direction, "#stablehlo<comparison_type TOTALORDER>")
    }

    fn compare_as(
        &mut self,
        name: &'static str,
        lhs: Value,
        rhs: Value,
        direction: Direction,
        kind: &'static str,
    ) -> Result<Value> {
        self.check_same_type(name, "rhs", rhs, self.ty(lhs))?;
        let ty = self.ty(lhs).with_dtype(DType::Bool);
        let attrs =
            smallvec![("comparison_direction", direction.attr()), ("compare_type", Attr::Raw(Cow::Borrowed(kind)))];
        self.push1("stablehlo.compare", &[lhs, rhs], attrs, ty)
    }

    /// `on_true` where `pred` is true, else `on_false`.
    ///
    /// Shapes: `on_true` and `on_false` the same; `pred` that shape or 0-d. Dtypes: `pred` bool, the others all, the
    /// same for both. Errors: other or different types. Emits `stablehlo.select`.
    pub fn select(&mut self, pred: Value, on_true: Value, on_false: Value) -> Result<Value> {
        const OP: &str = "select";
        self.check_same_type(OP, "on_false", on_false, self.ty(on_true))?;
        let ty = self.ty(on_true).with_dtype(self.dtype(on_true));
        let p = self.ty(pred);
        if !p.dtype.is_bool() || !(p.dims.is_empty() || p.dims == ty.dims) {
            let want = TensorType::new(DType::Bool, &ty.dims);
            return Err(error(OP, "pred", p, format_args!("{want} or tensor<i1>"), "compare or broadcast it first"));
        }
        if on_true == on_false {
            return Ok(on_true);
        }
        self.push1("stablehlo.select", &[pred, on_true, on_false], smallvec![], ty)
    }

    /// Moves elements into `[low, high]`: `minimum(maximum(low, x), high)`; NaN stays NaN.
    ///
    /// Shapes: `low` and `high` have the shape of `x` or are 0-d. Dtypes: real or bool, the same for all.
    /// Errors: other or different types. Emits `stablehlo.clamp`.
    pub fn clamp(&mut self, low: Value, x: Value, high: Value) -> Result<Value> {
        const OP: &str = "clamp";
        self.check_class(OP, "x", x, &ORDERED)?;
        let ty = self.ty(x).with_dtype(self.dtype(x));
        for (arg, v) in [("low", low), ("high", high)] {
            let bound = self.ty(v);
            if bound.dtype != ty.dtype || !(bound.dims.is_empty() || bound.dims == ty.dims) {
                return Err(error(
                    OP,
                    arg,
                    bound,
                    format_args!("{ty} or {}", TensorType::scalar(ty.dtype)),
                    "convert or broadcast it first",
                ));
            }
        }
        self.push1("stablehlo.clamp", &[low, x, high], smallvec![], ty)
    }
}
