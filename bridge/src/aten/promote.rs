//! Type promotion, by torch's rules: dims beat zero-dimensional tensors, which beat Python numbers, within a category.

use primitives::DType;

/// How much an operand's dtype weighs in promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A tensor with at least one dim.
    Dim,
    /// A zero-dimensional tensor.
    Zero,
    /// A Python number.
    Wrapped,
}

/// `torch.promote_types(a, b)`.
///
/// # Examples
/// `promote_types(U8, I8) == I16`, `promote_types(I64, F16) == F16`, `promote_types(F16, BF16) == F32`.
pub fn promote_types(a: DType, b: DType) -> DType {
    use DType::*;
    if a == b {
        return a;
    }
    let (lo, hi) = if category(a) <= category(b) { (a, b) } else { (b, a) };
    match (category(lo), category(hi)) {
        (0, _) => hi,
        (1, 1) => integers(a, b),
        (1, _) => hi,
        (2, 2) => match (a, b) {
            (F64, _) | (_, F64) => F64,
            (F8E4M3FN | F8E5M2, other) | (other, F8E4M3FN | F8E5M2) if !matches!(other, F8E4M3FN | F8E5M2) => other,
            _ => F32,
        },
        (2, 3) => match (lo, hi) {
            (F64, C64) => C128,
            _ => hi,
        },
        _ => C128,
    }
}

fn integers(a: DType, b: DType) -> DType {
    use DType::*;
    let (small, large) = if a.size_of() <= b.size_of() { (a, b) } else { (b, a) };
    match (small.is_signed(), large.is_signed()) {
        (x, y) if x == y => large,
        (false, true) if large.size_of() > small.size_of() => large,
        // An unsigned type with a signed one of no larger size: the next signed size up.
        _ => match large.size_of() {
            1 => I16,
            2 => I32,
            _ => I64,
        },
    }
}

/// 0 bool, 1 integer, 2 floating, 3 complex.
pub fn category(d: DType) -> u8 {
    if d.is_bool() {
        0
    } else if d.is_int() {
        1
    } else if d.is_float() {
        2
    } else {
        3
    }
}

/// Promotes operands of several classes, like `torch.result_type`. `default` is torch's default dtype.
pub fn result_type(operands: impl IntoIterator<Item = (DType, Class)>, default: DType) -> DType {
    let mut by_class: [Option<DType>; 3] = [None; 3];
    for (mut dtype, class) in operands {
        if class == Class::Wrapped {
            match category(dtype) {
                3 => dtype = default.complex_of(),
                2 => dtype = default,
                _ => {}
            }
        }
        let slot = &mut by_class[class as usize];
        *slot = Some(slot.map_or(dtype, |d| promote_types(d, dtype)));
    }
    let lower = combine(by_class[1], by_class[2]);
    combine(by_class[0], lower).unwrap_or(default)
}

fn combine(higher: Option<DType>, lower: Option<DType>) -> Option<DType> {
    let (Some(h), Some(l)) = (higher, lower) else { return higher.or(lower) };
    Some(match (category(h), category(l)) {
        (3, _) => h,
        (2, 3) => h.complex_of(),
        (2, _) => h,
        (0, _) | (_, 2 | 3) => promote_types(h, l),
        _ => h,
    })
}

/// Dtype in which a result of `integers / integers` style ops comes: the default dtype for bool and integers.
pub fn to_float(d: DType, default: DType) -> DType {
    if category(d) < 2 { default } else { d }
}

/// Dtype in which torch's CPU kernels compute: f32 for f16 and bf16, the dtype itself otherwise.
pub fn compute_type(d: DType) -> DType {
    match d {
        DType::F16 | DType::BF16 | DType::F8E4M3FN | DType::F8E5M2 => DType::F32,
        d => d,
    }
}

/// Whether torch lets a result of dtype `from` be stored in a tensor of dtype `to` (`torch.can_cast`).
pub fn can_cast(from: DType, to: DType) -> bool {
    category(from) <= category(to) || (category(from) == 1 && category(to) == 1)
}

/// The C++ name of a dtype, which some of torch's error messages have.
pub fn c_name(d: DType) -> &'static str {
    match d {
        DType::Bool => "bool",
        DType::U8 => "unsigned char",
        DType::I8 => "signed char",
        DType::I16 => "short int",
        DType::I32 => "int",
        DType::I64 => "long int",
        DType::F16 => "c10::Half",
        DType::BF16 => "c10::BFloat16",
        DType::F32 => "float",
        DType::F64 => "double",
        DType::C64 => "c10::complex<float>",
        DType::C128 => "c10::complex<double>",
        d => d.name(),
    }
}

/// torch's name of a dtype in error messages (`Float`, `Long`).
pub fn torch_name(d: DType) -> &'static str {
    use DType::*;
    match d {
        Bool => "Bool",
        U8 => "Byte",
        I8 => "Char",
        I16 => "Short",
        I32 => "Int",
        I64 => "Long",
        U16 => "UInt16",
        U32 => "UInt32",
        U64 => "UInt64",
        F16 => "Half",
        BF16 => "BFloat16",
        F32 => "Float",
        F64 => "Double",
        C64 => "ComplexFloat",
        C128 => "ComplexDouble",
        F8E4M3FN => "Float8_e4m3fn",
        F8E5M2 => "Float8_e5m2",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DType::*;

    #[test]
    fn promotes_like_torch() {
        assert_eq!(promote_types(U8, I8), I16);
        assert_eq!(promote_types(I64, F16), F16);
        assert_eq!(promote_types(F16, BF16), F32);
        assert_eq!(promote_types(F64, C64), C128);
        assert_eq!(result_type([(F32, Class::Dim), (F64, Class::Zero)], F32), F32);
        assert_eq!(result_type([(I32, Class::Dim), (F64, Class::Wrapped)], F32), F32);
        assert_eq!(result_type([(I32, Class::Dim), (F64, Class::Zero)], F32), F64);
        assert_eq!(result_type([(F64, Class::Dim), (C128, Class::Wrapped)], F32), C128);
        assert_eq!(result_type([(U8, Class::Dim), (I64, Class::Wrapped)], F32), U8);
        assert_eq!(result_type([(Bool, Class::Dim), (I64, Class::Wrapped)], F32), I64);
    }
}
