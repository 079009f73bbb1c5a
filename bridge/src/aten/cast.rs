//! Conversion between dtypes with the results that torch CPU has where C leaves them undefined.

use super::expr::{Ex, formula};
use primitives::{DType, Graph, Result, Value};

/// `v` converted to `dtype`. A float that a signed integer cannot hold becomes its smallest value, like the x86
/// instruction; narrow and unsigned integers take the low bits of a wider conversion.
pub fn cast(g: &mut Graph, v: Value, dtype: DType) -> Result<Value> {
    let from = g.dtype(v);
    let to_int = dtype.is_int() && (from.is_float() || from.is_complex());
    if !to_int || g.const_value(v).is_some() {
        return g.convert(v, dtype);
    }
    let real = if from.is_complex() { g.real(v)? } else { v };
    let real = if from == DType::F64 || from == DType::C128 { real } else { g.convert(real, DType::F32)? };
    // The conversion that the processor makes, before the low bits are taken.
    let (wide, limit) = match dtype {
        DType::I8 | DType::I16 | DType::I32 => (DType::I32, 2f64.powi(31)),
        _ => (DType::I64, 2f64.powi(63)),
    };
    let smallest = if wide == DType::I32 { i64::from(i32::MIN) } else { i64::MIN };
    let whole = formula(g, [real], |[x]: [Ex<'_>; 1]| {
        // Also for NaN.
        let holds = x.ge(-limit) & x.lt(limit);
        holds.pick(x.to(wide), x.to(wide).constant(smallest))
    })?;
    g.convert(whole, dtype)
}
