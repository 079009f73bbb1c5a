//! Host numbers and their element encodings.

use crate::DType;

/// A number on the host, before it is given an element type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(f64),
    Complex(f64, f64),
}

macro_rules! from_number {
    ($($t:ty => $variant:ident as $as:ty),*) => {
        $(impl From<$t> for Number {
            fn from(x: $t) -> Number {
                Number::$variant(x as $as)
            }
        })*
    };
}

from_number!(bool => Bool as bool, i8 => Int as i64, i16 => Int as i64, i32 => Int as i64, i64 => Int as i64,
    usize => UInt as u64, u8 => UInt as u64, u16 => UInt as u64, u32 => UInt as u64, u64 => UInt as u64,
    f32 => Float as f64, f64 => Float as f64);

impl Number {
    /// The value as a real double; the imaginary part of a complex number is dropped.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Bool(b) => b as u8 as f64,
            Number::Int(i) => i as f64,
            Number::UInt(u) => u as f64,
            Number::Float(f) | Number::Complex(f, _) => f,
        }
    }

    /// The value as a signed integer: floats truncate towards zero and saturate, NaN is 0, unsigned values wrap.
    pub fn as_i64(self) -> i64 {
        match self {
            Number::Bool(b) => b as i64,
            Number::Int(i) => i,
            Number::UInt(u) => u as i64,
            Number::Float(f) | Number::Complex(f, _) => f as i64,
        }
    }

    /// The value as an unsigned integer: negative integers wrap, floats truncate and saturate.
    pub fn as_u64(self) -> u64 {
        match self {
            Number::Bool(b) => b as u64,
            Number::Int(i) => i as u64,
            Number::UInt(u) => u,
            Number::Float(f) | Number::Complex(f, _) => f as u64,
        }
    }

    /// Whether it differs from zero; a NaN does.
    pub fn as_bool(self) -> bool {
        match self {
            Number::Bool(b) => b,
            Number::Int(i) => i != 0,
            Number::UInt(u) => u != 0,
            Number::Float(f) => f != 0.0,
            Number::Complex(re, im) => re != 0.0 || im != 0.0,
        }
    }

    fn imaginary(self) -> f64 {
        match self {
            Number::Complex(_, im) => im,
            _ => 0.0,
        }
    }

    /// The element's bytes, little endian, in the first `dtype.size_of()` places. Converts like a C cast,
    /// except that a float out of an integer's range saturates and NaN becomes 0 (C leaves both undefined).
    pub fn to_bytes(self, dtype: DType) -> [u8; 16] {
        let mut out = [0u8; 16];
        let mut put = |bytes: &[u8]| out[..bytes.len()].copy_from_slice(bytes);
        match dtype {
            DType::Bool => put(&[self.as_bool() as u8]),
            DType::I8 => put(&saturate(self, i8::MIN as i64, i8::MAX as i64).to_le_bytes()[..1]),
            DType::I16 => put(&saturate(self, i16::MIN as i64, i16::MAX as i64).to_le_bytes()[..2]),
            DType::I32 => put(&saturate(self, i32::MIN as i64, i32::MAX as i64).to_le_bytes()[..4]),
            DType::I64 => put(&self.as_i64().to_le_bytes()),
            DType::U8 => put(&saturate_unsigned(self, u8::MAX as u64).to_le_bytes()[..1]),
            DType::U16 => put(&saturate_unsigned(self, u16::MAX as u64).to_le_bytes()[..2]),
            DType::U32 => put(&saturate_unsigned(self, u32::MAX as u64).to_le_bytes()[..4]),
            DType::U64 => put(&self.as_u64().to_le_bytes()),
            DType::F32 => put(&self.single().to_le_bytes()),
            DType::F64 => put(&self.as_f64().to_le_bytes()),
            DType::F16 => put(&(F16.encode(self.as_f64()) as u16).to_le_bytes()),
            DType::BF16 => put(&(BF16.encode(self.as_f64()) as u16).to_le_bytes()),
            DType::F8E4M3FN => put(&[F8E4M3FN.encode(self.as_f64()) as u8]),
            DType::F8E5M2 => put(&[F8E5M2.encode(self.as_f64()) as u8]),
            DType::C64 => {
                put(&self.single().to_le_bytes());
                out[4..8].copy_from_slice(&(self.imaginary() as f32).to_le_bytes());
            }
            DType::C128 => {
                put(&self.as_f64().to_le_bytes());
                out[8..16].copy_from_slice(&self.imaginary().to_le_bytes());
            }
        }
        out
    }

    /// Integers go to `f32` directly, not through `f64`, so that they are rounded once.
    fn single(self) -> f32 {
        match self {
            Number::Int(i) => i as f32,
            Number::UInt(u) => u as f32,
            other => other.as_f64() as f32,
        }
    }

    /// Reads one element; `bytes` holds at least `dtype.size_of()` bytes.
    pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Number {
        fn take<const N: usize>(bytes: &[u8]) -> [u8; N] {
            let mut out = [0; N];
            out.copy_from_slice(&bytes[..N]);
            out
        }
        match dtype {
            DType::Bool => Number::Bool(bytes[0] != 0),
            DType::U8 => Number::UInt(bytes[0] as u64),
            DType::I8 => Number::Int(bytes[0] as i8 as i64),
            DType::U16 => Number::UInt(u16::from_le_bytes(take(bytes)) as u64),
            DType::I16 => Number::Int(i16::from_le_bytes(take(bytes)) as i64),
            DType::U32 => Number::UInt(u32::from_le_bytes(take(bytes)) as u64),
            DType::I32 => Number::Int(i32::from_le_bytes(take(bytes)) as i64),
            DType::U64 => Number::UInt(u64::from_le_bytes(take(bytes))),
            DType::I64 => Number::Int(i64::from_le_bytes(take(bytes))),
            DType::F16 => Number::Float(F16.decode(u16::from_le_bytes(take(bytes)) as u32)),
            DType::BF16 => Number::Float(BF16.decode(u16::from_le_bytes(take(bytes)) as u32)),
            DType::F8E4M3FN => Number::Float(F8E4M3FN.decode(bytes[0] as u32)),
            DType::F8E5M2 => Number::Float(F8E5M2.decode(bytes[0] as u32)),
            DType::F32 => Number::Float(f32::from_le_bytes(take(bytes)) as f64),
            DType::F64 => Number::Float(f64::from_le_bytes(take(bytes))),
            DType::C64 => {
                Number::Complex(f32::from_le_bytes(take(bytes)) as f64, f32::from_le_bytes(take(&bytes[4..])) as f64)
            }
            DType::C128 => Number::Complex(f64::from_le_bytes(take(bytes)), f64::from_le_bytes(take(&bytes[8..]))),
        }
    }
}

/// Integers wrap when narrowed (C does), floats saturate.
fn saturate(n: Number, low: i64, high: i64) -> i64 {
    match n {
        Number::Float(f) | Number::Complex(f, _) => (f as i64).clamp(low, high),
        other => other.as_i64(),
    }
}

fn saturate_unsigned(n: Number, high: u64) -> u64 {
    match n {
        Number::Float(f) | Number::Complex(f, _) => (f as u64).min(high),
        other => other.as_u64(),
    }
}

/// A binary float format narrower than 32 bits.
pub(crate) struct SmallFloat {
    exponent_bits: u32,
    mantissa_bits: u32,
    /// The format has no infinity: the all-ones exponent holds numbers, and only all-ones is NaN.
    finite: bool,
}

pub(crate) const F16: SmallFloat = SmallFloat { exponent_bits: 5, mantissa_bits: 10, finite: false };
pub(crate) const BF16: SmallFloat = SmallFloat { exponent_bits: 8, mantissa_bits: 7, finite: false };
pub(crate) const F8E4M3FN: SmallFloat = SmallFloat { exponent_bits: 4, mantissa_bits: 3, finite: true };
pub(crate) const F8E5M2: SmallFloat = SmallFloat { exponent_bits: 5, mantissa_bits: 2, finite: false };

impl SmallFloat {
    fn bias(&self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    fn exponent_mask(&self) -> u32 {
        (1 << self.exponent_bits) - 1
    }

    fn nan(&self) -> u32 {
        let exponent = self.exponent_mask() << self.mantissa_bits;
        if self.finite { exponent | ((1 << self.mantissa_bits) - 1) } else { exponent | 1 << (self.mantissa_bits - 1) }
    }

    /// Rounds to nearest even; too large becomes infinity, or NaN where the format has none.
    pub(crate) fn encode(&self, x: f64) -> u32 {
        let sign = (x.is_sign_negative() as u32) << (self.exponent_bits + self.mantissa_bits);
        if x.is_nan() {
            return sign | self.nan();
        }
        let overflow = sign | if self.finite { self.nan() } else { self.exponent_mask() << self.mantissa_bits };
        if x.is_infinite() {
            return overflow;
        }
        let a = x.abs();
        if a == 0.0 {
            return sign;
        }
        // Exponent of the unit in the last place at this magnitude (subnormals share the smallest).
        let exponent = (((a.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(1 - self.bias());
        let ulp = exponent - self.mantissa_bits as i32;
        let units = (a * 2f64.powi(-ulp)).round_ties_even() as u32;
        // A carry out of the mantissa moves into the exponent by plain addition.
        let bits = (((exponent + self.bias()) as u32 - 1) << self.mantissa_bits) + units;
        let largest = if self.finite { self.nan() - 1 } else { (self.exponent_mask() << self.mantissa_bits) - 1 };
        if bits > largest { overflow } else { sign | bits }
    }

    pub(crate) fn decode(&self, bits: u32) -> f64 {
        let sign = if bits >> (self.exponent_bits + self.mantissa_bits) & 1 == 1 { -1.0 } else { 1.0 };
        let exponent = (bits >> self.mantissa_bits) & self.exponent_mask();
        let mantissa = bits & ((1 << self.mantissa_bits) - 1);
        if exponent == self.exponent_mask() {
            if self.finite {
                if mantissa == (1 << self.mantissa_bits) - 1 {
                    return f64::NAN;
                }
            } else {
                return if mantissa == 0 { sign * f64::INFINITY } else { f64::NAN };
            }
        }
        let (exponent, units) = if exponent == 0 {
            (1, mantissa as f64)
        } else {
            (exponent as i32, (mantissa | 1 << self.mantissa_bits) as f64)
        };
        sign * units * 2f64.powi(exponent - self.bias() - self.mantissa_bits as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_float_round_trips() {
        for (format, bits) in [(&F16, 16), (&BF16, 16), (&F8E4M3FN, 8), (&F8E5M2, 8)] {
            for b in 0..1u32 << bits {
                let x = format.decode(b);
                if !x.is_nan() {
                    assert_eq!(format.encode(x), b, "{x}");
                } else {
                    assert!(format.decode(format.encode(x)).is_nan());
                }
            }
        }
    }

    #[test]
    fn rounding_and_overflow() {
        assert_eq!(F16.encode(65519.0), 0x7bff);
        assert_eq!(F16.encode(65520.0), 0x7c00);
        assert_eq!(F16.encode(2f64.powi(-25)), 0);
        assert_eq!(F16.encode(2f64.powi(-25) * 1.0001), 1);
        assert_eq!(BF16.encode(1.0 + 1.0 / 256.0), 0x3f80);
        assert_eq!(F8E4M3FN.encode(448.0), 0x7e);
        assert_eq!(F8E4M3FN.encode(500.0), 0x7f);
        assert_eq!(F8E5M2.encode(1e9), 0x7c);
    }

    #[test]
    fn casts_follow_c() {
        let read = |n: Number, d| Number::from_bytes(d, &n.to_bytes(d));
        assert_eq!(read(Number::Int(-1), DType::U8), Number::UInt(255));
        assert_eq!(read(Number::Int(300), DType::I8), Number::Int(44));
        assert_eq!(read(Number::Float(-2.9), DType::I32), Number::Int(-2));
        assert_eq!(read(Number::Float(1e20), DType::I32), Number::Int(i32::MAX as i64));
        assert_eq!(read(Number::Float(f64::NAN), DType::I64), Number::Int(0));
        assert_eq!(read(Number::Float(0.5), DType::Bool), Number::Bool(true));
        assert_eq!(read(Number::Complex(1.0, -2.0), DType::C64), Number::Complex(1.0, -2.0));
        assert_eq!(read(Number::UInt(u64::MAX), DType::U64), Number::UInt(u64::MAX));
    }
}
