//! Element types of tensors.

use std::fmt;

/// The element type of a tensor.
///
/// The names follow StableHLO (`i32` is signed, `ui32` unsigned, `i1` boolean). Sub-byte types are not represented.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum DType {
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
    F8E4M3FN,
    F8E5M2,
}

use DType::*;

impl DType {
    /// Every element type, in declaration order.
    pub const ALL: [DType; 17] =
        [Bool, U8, I8, U16, I16, U32, I32, U64, I64, F16, BF16, F32, F64, C64, C128, F8E4M3FN, F8E5M2];

    /// Bytes of one element in host memory (a boolean takes one byte).
    pub const fn size_of(self) -> usize {
        match self {
            Bool | U8 | I8 | F8E4M3FN | F8E5M2 => 1,
            U16 | I16 | F16 | BF16 => 2,
            U32 | I32 | F32 => 4,
            U64 | I64 | F64 | C64 => 8,
            C128 => 16,
        }
    }

    /// Bits of one element as StableHLO counts them (a boolean has one bit).
    pub const fn bits(self) -> usize {
        match self {
            Bool => 1,
            other => other.size_of() * 8,
        }
    }

    /// The one type of truth values.
    pub const fn is_bool(self) -> bool {
        matches!(self, Bool)
    }

    /// Real floating point (not complex).
    pub const fn is_float(self) -> bool {
        matches!(self, F16 | BF16 | F32 | F64 | F8E4M3FN | F8E5M2)
    }

    /// Pairs of floating-point numbers.
    pub const fn is_complex(self) -> bool {
        matches!(self, C64 | C128)
    }

    /// Integer, signed or unsigned; a boolean is not an integer.
    pub const fn is_int(self) -> bool {
        self.is_signed_int() || self.is_unsigned_int()
    }

    /// Integer with a sign.
    pub const fn is_signed_int(self) -> bool {
        matches!(self, I8 | I16 | I32 | I64)
    }

    /// Integer without a sign; a boolean is none.
    pub const fn is_unsigned_int(self) -> bool {
        matches!(self, U8 | U16 | U32 | U64)
    }

    /// Whether a value can be negative: signed integers, floats and complex numbers.
    pub const fn is_signed(self) -> bool {
        self.is_signed_int() || self.is_float() || self.is_complex()
    }

    /// The part type of a complex type; any other type is returned unchanged.
    pub const fn real_of(self) -> DType {
        match self {
            C64 => F32,
            C128 => F64,
            other => other,
        }
    }

    /// The complex type with this part type; `f64` and `c128` give `c128`, everything else `c64`.
    pub const fn complex_of(self) -> DType {
        match self {
            F64 | C128 => C128,
            _ => C64,
        }
    }

    /// Short name used in messages and cache keys: `f32`, `u8`, `bool`, `c64`.
    pub const fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            U8 => "u8",
            I8 => "i8",
            U16 => "u16",
            I16 => "i16",
            U32 => "u32",
            I32 => "i32",
            U64 => "u64",
            I64 => "i64",
            F16 => "f16",
            BF16 => "bf16",
            F32 => "f32",
            F64 => "f64",
            C64 => "c64",
            C128 => "c128",
            F8E4M3FN => "f8e4m3fn",
            F8E5M2 => "f8e5m2",
        }
    }

    /// The type's spelling in MLIR text: `f32`, `i1`, `ui8`, `complex<f32>`.
    pub const fn mlir(self) -> &'static str {
        match self {
            Bool => "i1",
            U8 => "ui8",
            I8 => "i8",
            U16 => "ui16",
            I16 => "i16",
            U32 => "ui32",
            I32 => "i32",
            U64 => "ui64",
            I64 => "i64",
            F16 => "f16",
            BF16 => "bf16",
            F32 => "f32",
            F64 => "f64",
            C64 => "complex<f32>",
            C128 => "complex<f64>",
            F8E4M3FN => "f8E4M3FN",
            F8E5M2 => "f8E5M2",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_disjoint_and_complete() {
        for d in DType::ALL {
            let n = [d.is_bool(), d.is_int(), d.is_float(), d.is_complex()].iter().filter(|x| **x).count();
            assert_eq!(n, 1, "{d}");
        }
    }

    #[test]
    fn parts_of_complex() {
        assert_eq!(C64.real_of(), F32);
        assert_eq!(C128.real_of(), F64);
        assert_eq!(F32.real_of(), F32);
        assert_eq!(F64.complex_of(), C128);
        assert_eq!(BF16.complex_of(), C64);
    }
}
