//! Element types of buffers, with PJRT's numbers.

use std::fmt;

use primitives::DType;

/// What a buffer holds. The numbers are those of `PJRT_Buffer_Type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum ElementType {
    Bool = 1,
    I8 = 2,
    I16 = 3,
    I32 = 4,
    I64 = 5,
    U8 = 6,
    U16 = 7,
    U32 = 8,
    U64 = 9,
    F16 = 10,
    F32 = 11,
    F64 = 12,
    BF16 = 13,
    C64 = 14,
    C128 = 15,
    F8E5M2 = 16,
    F8E4M3FN = 17,
    /// A type this runtime has no name for; buffers of it can be passed on but not read.
    Other = 0,
}

impl ElementType {
    const ALL: [Self; 17] = [
        Self::Bool,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::BF16,
        Self::C64,
        Self::C128,
        Self::F8E5M2,
        Self::F8E4M3FN,
    ];

    /// By PJRT's number; [`Other`](Self::Other) for one that this crate does not know.
    pub fn from_raw(raw: i32) -> Self {
        usize::try_from(raw - 1).ok().and_then(|i| Self::ALL.get(i)).copied().unwrap_or(Self::Other)
    }

    /// Bytes of one element in host memory.
    pub fn size_of(self) -> usize {
        match self {
            Self::Other => 0,
            Self::Bool | Self::I8 | Self::U8 | Self::F8E5M2 | Self::F8E4M3FN => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::C64 => 8,
            Self::C128 => 16,
        }
    }
}

impl From<DType> for ElementType {
    #[inline]
    fn from(dtype: DType) -> Self {
        match dtype {
            DType::Bool => Self::Bool,
            DType::I8 => Self::I8,
            DType::I16 => Self::I16,
            DType::I32 => Self::I32,
            DType::I64 => Self::I64,
            DType::U8 => Self::U8,
            DType::U16 => Self::U16,
            DType::U32 => Self::U32,
            DType::U64 => Self::U64,
            DType::F16 => Self::F16,
            DType::F32 => Self::F32,
            DType::F64 => Self::F64,
            DType::BF16 => Self::BF16,
            DType::C64 => Self::C64,
            DType::C128 => Self::C128,
            DType::F8E5M2 => Self::F8E5M2,
            DType::F8E4M3FN => Self::F8E4M3FN,
        }
    }
}

impl ElementType {
    /// The dtype of programs, unless it is one that programs here cannot have.
    pub fn dtype(self) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| Self::from(*dtype) == self)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", format!("{self:?}").to_lowercase())
    }
}
