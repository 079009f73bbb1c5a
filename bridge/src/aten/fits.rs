//! Numbers that an op stores as they are: one that its tensor's dtype cannot hold is an error, not another number.

use super::row::Numbers;
use super::rows::largest_finite;
use crate::Result;
use primitives::{DType, Number};

impl Numbers<'_> {
    /// Number argument `i` has a value in the dtype of the first argument.
    pub fn fits(&self, i: usize) -> Result<()> {
        self.fits_in(i, self.dtype())
    }

    /// Number argument `i` has a value in the dtype of argument `dtype`, else in that of the first argument.
    pub fn fits_dtype_at(&self, i: usize, dtype: usize) -> Result<()> {
        self.fits_in(i, self.dtype_arg(dtype).or(self.dtype()))
    }

    /// Number argument `i` is real where the first argument is, and has a value in its dtype.
    pub fn fits_real(&self, i: usize) -> Result<()> {
        match (self.number(i), self.dtype()) {
            (Some(Number::Complex(..)), Some(d)) if !d.is_complex() => {
                Err(self.error("Converting complex Scalar to non-complex type is not supported".into()))
            }
            _ => self.fits(i),
        }
    }

    fn fits_in(&self, i: usize, dtype: Option<DType>) -> Result<()> {
        match (self.number(i), dtype) {
            (Some(n), Some(dtype)) if !fits(n, dtype) => {
                Err(self.error(format!("value cannot be converted to type {} without overflow", c_name(dtype))))
            }
            _ => Ok(()),
        }
    }

    /// Bounds `low` and `high` leave something of the first argument's dtype between them and its ends.
    pub fn bounds(&self, low: Option<usize>, high: Option<usize>) -> Result<()> {
        let Some(dtype) = self.dtype() else { return Ok(()) };
        let outside = |what: &str, n: i128| {
            let name = super::promote::torch_name(dtype);
            Err(self.error(format!("Clamp {what} value {n} is outside the representable range of {name}")))
        };
        for (what, i) in [("min", low), ("max", high)] {
            let Some((i, given)) = i.and_then(|i| self.number(i).map(|n| (i, n))) else { continue };
            match range(dtype) {
                None if dtype.is_float() => self.fits(i)?,
                // A float bound makes the result a float.
                Some((least, most)) if !matches!(given, Number::Float(_) | Number::Complex(..)) => {
                    let n = whole(given);
                    if (what == "min" && n > most) || (what == "max" && n < least) {
                        return outside(what, n);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The least and the greatest number of an integer dtype.
pub fn range(dtype: DType) -> Option<(i128, i128)> {
    let bits = 8 * dtype.size_of() as u32;
    match dtype {
        d if !d.is_int() => None,
        d if d.is_signed() => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
        _ => Some((0, (1 << bits) - 1)),
    }
}

fn whole(n: Number) -> i128 {
    match n {
        Number::UInt(u) => i128::from(u),
        n => i128::from(n.as_i64()),
    }
}

/// Whether torch converts `n` to `dtype`. Infinities fit in floats, NaN does; negative integers wrap in unsigned ones.
pub fn fits(n: Number, dtype: DType) -> bool {
    if let Number::Complex(re, im) = n {
        let parts = dtype.is_complex() && fits(Number::Float(im), dtype.real_of());
        return dtype.is_bool() || (parts || im == 0.0) && fits(Number::Float(re), dtype.real_of());
    }
    if let Some((least, most)) = range(dtype) {
        return match n {
            // As a float, the greatest of 64 bits is one more than it is.
            Number::Float(x) => {
                x >= least as f64 && if dtype.size_of() < 8 { x <= most as f64 } else { x < most as f64 }
            }
            n => (if least == 0 { -most } else { least }..=most).contains(&whole(n)),
        };
    }
    let x = n.as_f64();
    dtype.is_bool() || x.is_infinite() || x.is_nan() || x.abs() <= largest_finite(dtype.real_of())
}

/// The C++ type behind a dtype, by which torch's errors of numbers call it: some of integers by their aliases.
pub fn c_name(d: DType) -> &'static str {
    match d {
        DType::U8 => "uint8_t",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I64 => "int64_t",
        d => super::promote::c_name(d),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_as_torch_says() {
        let cases = [
            (Number::Int(300), DType::I8, false),
            (Number::Int(-128), DType::I8, true),
            (Number::Int(-1), DType::U8, true),
            (Number::Int(-300), DType::U8, false),
            (Number::Float(-1.0), DType::U8, false),
            (Number::Float(255.5), DType::U8, false),
            (Number::Float(127.0), DType::I8, true),
            (Number::Float(f64::NAN), DType::I64, false),
            (Number::Float(9_223_372_036_854_775_808.0), DType::I64, false),
            (Number::Int(i64::MAX), DType::I64, true),
            (Number::Float(f64::INFINITY), DType::F16, true),
            (Number::Float(1e6), DType::F16, false),
            (Number::Float(1e39), DType::F32, false),
            (Number::Float(1e39), DType::Bool, true),
            (Number::Complex(1.0, 1.0), DType::F32, false),
            (Number::Complex(1.0, 0.0), DType::I32, true),
            (Number::Complex(0.0, 1e39), DType::C64, false),
        ];
        for (n, dtype, expected) in cases {
            assert_eq!(fits(n, dtype), expected, "{n:?} {dtype}");
        }
    }
}
