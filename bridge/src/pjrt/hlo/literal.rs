//! Values of constants.

use super::wire::{Message, Read};
use primitives::{DType, Number};

/// More elements than these are left out, as XLA leaves them out.
const SHOWN: i64 = 10;

/// A `LiteralProto`: `1.5`, `{1, 2, 3}`, `{ { 1, 2 }, { 3, 4 } }`, or `{...}` where it is large.
pub(super) fn text(literal: &Message) -> Read<String> {
    let shape = literal.message(1)?.unwrap_or_default();
    let (kind, dims) = (shape.int(2)?, shape.ints(3)?);
    let mut count: i64 = 1;
    for &size in &dims {
        count = count.checked_mul(size).filter(|n| *n >= 0).ok_or("a constant of impossible size")?;
    }
    let Some((dtype, bytes)) = elements(literal, kind)?.filter(|_| count <= SHOWN) else {
        return Ok("{...}".to_owned());
    };
    if bytes.len() as i64 != count * dtype.size_of() as i64 {
        return Err(format!("a constant of {count} elements has {} bytes", bytes.len()));
    }
    let numbers: Vec<String> = bytes
        .chunks_exact(dtype.size_of())
        .map(|bytes| number(dtype, Number::from_bytes(dtype, bytes), &dims))
        .collect();
    Ok(nested(&numbers, &dims, true))
}

fn nested(numbers: &[String], dims: &[i64], outer: bool) -> String {
    match dims {
        [] => numbers.concat(),
        [_] if outer || numbers.len() == 1 => format!("{{{}}}", numbers.join(", ")),
        [_] => format!("{{ {} }}", numbers.join(", ")),
        [0, ..] => "{}".to_owned(),
        [size, rest @ ..] => {
            let each = numbers.len() / *size as usize;
            let rows = (0..*size as usize).map(|i| nested(&numbers[i * each..(i + 1) * each], rest, false));
            format!("{{ {} }}", rows.collect::<Vec<_>>().join(", "))
        }
    }
}

/// The elements as they lie in memory; `None` for types that torch does not have.
fn elements(literal: &Message, kind: i64) -> Read<Option<(DType, Vec<u8>)>> {
    let narrow = |number, width: usize| -> Read<Vec<u8>> {
        Ok(literal.ints(number)?.iter().flat_map(|value| value.to_le_bytes()[..width].to_vec()).collect())
    };
    Ok(Some(match kind {
        1 => (DType::Bool, narrow(2, 1)?),
        2 => (DType::I8, literal.bytes(15)?.to_vec()),
        3 => (DType::I16, literal.bytes(17)?.to_vec()),
        4 => (DType::I32, narrow(4, 4)?),
        5 => (DType::I64, narrow(5, 8)?),
        6 => (DType::U8, literal.bytes(3)?.to_vec()),
        7 => (DType::U16, literal.bytes(16)?.to_vec()),
        8 => (DType::U32, narrow(6, 4)?),
        9 => (DType::U64, narrow(7, 8)?),
        10 => (DType::F16, literal.bytes(11)?.to_vec()),
        11 => (DType::F32, literal.fixed(8, 4)?),
        12 => (DType::F64, literal.fixed(9, 8)?),
        15 => (DType::C64, literal.fixed(12, 4)?),
        16 => (DType::BF16, literal.bytes(13)?.to_vec()),
        18 => (DType::C128, literal.fixed(18, 8)?),
        19 => (DType::F8E5M2, literal.bytes(19)?.to_vec()),
        20 => (DType::F8E4M3FN, literal.bytes(20)?.to_vec()),
        _ => return Ok(None),
    }))
}

fn number(dtype: DType, number: Number, dims: &[i64]) -> String {
    match number {
        Number::Bool(value) if !dims.is_empty() => u8::from(value).to_string(),
        Number::Bool(value) => value.to_string(),
        Number::Int(value) => value.to_string(),
        Number::UInt(value) => value.to_string(),
        Number::Float(value) => float(dtype, value),
        Number::Complex(re, im) => format!("({}, {})", float(dtype, re), float(dtype, im)),
    }
}

/// The shortest decimal that reads back as the same number of its type.
fn float(dtype: DType, value: f64) -> String {
    if !value.is_finite() {
        return value.to_string().to_lowercase();
    }
    let part = match dtype {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        real => real,
    };
    let same = |text: &str| {
        text.parse().is_ok_and(|read: f64| Number::Float(read).to_bytes(part) == Number::Float(value).to_bytes(part))
    };
    // 17 digits tell any two doubles apart.
    let digits = (0..17).find(|&n| same(&format!("{value:.n$e}"))).unwrap_or(16);
    let scientific = format!("{value:.digits$e}");
    match scientific.split_once('e').map(|(digits, exponent)| (digits, exponent.parse::<i32>())) {
        Some((digits, Ok(e))) if !(-4..16).contains(&e) => {
            format!("{digits}e{}{:02}", if e < 0 { '-' } else { '+' }, e.abs())
        }
        Some((_, Ok(e))) => format!("{value:.0$}", (digits as i32 - e).max(0) as usize),
        _ => scientific,
    }
}
