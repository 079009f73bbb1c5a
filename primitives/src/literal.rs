//! Printing of element literals.

use std::fmt::Write;

use crate::{DType, Number};

/// Appends one element as it stands inside `dense<...>`. Exact: the text reads back to the same bits.
pub(crate) fn write_element(out: &mut String, dtype: DType, bytes: &[u8]) {
    match Number::from_bytes(dtype, bytes) {
        Number::Bool(b) => out.push_str(if b { "true" } else { "false" }),
        Number::Int(i) => put(out, format_args!("{i}")),
        Number::UInt(u) => put(out, format_args!("{u}")),
        Number::Float(x) => write_float(out, dtype, x, bytes),
        Number::Complex(re, im) => {
            let part = dtype.real_of();
            out.push('(');
            write_float(out, part, re, bytes);
            out.push_str(", ");
            write_float(out, part, im, &bytes[part.size_of()..]);
            out.push(')');
        }
    }
}

/// Decimal where that reads back exactly, else the bit pattern (infinities, NaN, 8-bit formats).
fn write_float(out: &mut String, dtype: DType, x: f64, bytes: &[u8]) {
    if !x.is_finite() || matches!(dtype, DType::F8E4M3FN | DType::F8E5M2) {
        out.push_str("0x");
        for b in bytes[..dtype.size_of()].iter().rev() {
            put(out, format_args!("{b:02X}"));
        }
        return;
    }
    let start = out.len();
    if dtype != DType::F64 {
        // Narrow formats are exact in f32, whose shortest decimal is the readable one. MLIR reads a decimal as a
        // double and rounds that; fall back to all digits in the rare case that rounding twice gives another number.
        put(out, format_args!("{:?}", x as f32));
        if out[start..].parse::<f64>().is_ok_and(|back| back as f32 as f64 != x) {
            out.truncate(start);
            put(out, format_args!("{x:?}"));
        }
    } else {
        put(out, format_args!("{x:?}"));
    }
    // `1e20` is not a float in MLIR, `1.0e20` is.
    if let Some(e) = out[start..].find('e')
        && !out[start..start + e].contains('.')
    {
        out.insert_str(start + e, ".0");
    }
}

pub(crate) fn put(out: &mut String, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("writing to a String cannot fail");
}

/// Appends nested lists of elements, or the hex form for long ones (never for booleans, whose hex form has changed
/// between MLIR versions; long boolean constants are built from bytes instead).
pub(crate) fn write_dense(out: &mut String, dtype: DType, dims: &[i64], bytes: &[u8]) {
    const LONGEST_LIST: i64 = 64;
    let numel: i64 = dims.iter().product();
    if numel == 0 {
        return;
    }
    if numel > LONGEST_LIST && !dtype.is_bool() {
        out.push_str("\"0x");
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        out.reserve(bytes.len() * 2 + 1);
        for b in bytes {
            out.push(HEX[(b >> 4) as usize] as char);
            out.push(HEX[(b & 15) as usize] as char);
        }
        out.push('"');
        return;
    }
    let mut rest = bytes;
    write_nested(out, dtype, dims, &mut rest);
}

fn write_nested(out: &mut String, dtype: DType, dims: &[i64], rest: &mut &[u8]) {
    let Some((&n, inner)) = dims.split_first() else {
        write_element(out, dtype, rest);
        *rest = &rest[dtype.size_of()..];
        return;
    };
    out.push('[');
    for i in 0..n {
        if i > 0 {
            out.push_str(", ");
        }
        write_nested(out, dtype, inner, rest);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(dtype: DType, n: impl Into<Number>) -> String {
        let mut s = String::new();
        write_element(&mut s, dtype, &n.into().to_bytes(dtype));
        s
    }

    #[test]
    fn floats_are_exact() {
        assert_eq!(text(DType::F32, 0.1), "0.1");
        assert_eq!(text(DType::F32, 1e20), "1.0e20");
        assert_eq!(text(DType::F32, -1.5e-7), "-1.5e-7");
        assert_eq!(text(DType::F32, -0.0), "-0.0");
        assert_eq!(text(DType::F32, f64::INFINITY), "0x7F800000");
        assert_eq!(text(DType::F64, f64::NAN), "0x7FF8000000000000");
        assert_eq!(text(DType::BF16, f64::NEG_INFINITY), "0xFF80");
        assert_eq!(text(DType::F16, 65504.0), "65504.0");
        assert_eq!(text(DType::F8E5M2, 1.0), "0x3C");
        assert_eq!(text(DType::C64, Number::Complex(1.0, f64::NAN)), "(1.0, 0x7FC00000)");
        assert_eq!(text(DType::F64, f64::MAX), "1.7976931348623157e308");
    }

    #[test]
    fn integers_and_booleans() {
        assert_eq!(text(DType::U64, u64::MAX), "18446744073709551615");
        assert_eq!(text(DType::I8, -128), "-128");
        assert_eq!(text(DType::Bool, 2.0), "true");
    }

    #[test]
    fn nested_lists() {
        let mut s = String::new();
        let bytes: Vec<u8> = [1i32, 2, 3, 4, 5, 6].iter().flat_map(|x| x.to_le_bytes()).collect();
        write_dense(&mut s, DType::I32, &[2, 3], &bytes);
        assert_eq!(s, "[[1, 2, 3], [4, 5, 6]]");
    }
}
