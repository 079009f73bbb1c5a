//! The opt-in NaN check of debug mode.

use super::slots::DeviceArray;
use crate::{Error, Result};
use primitives::{DType, TensorType};

/// Raises when a floating result has a NaN.
pub fn check(op: &str, value: &DeviceArray, ty: &TensorType) -> Result<()> {
    let real = if ty.dtype.is_complex() { ty.dtype.real_of() } else { ty.dtype };
    if !real.is_float() {
        return Ok(());
    }
    let n = ty.dims.iter().product::<i64>() as usize * ty.dtype.size_of();
    let mut bytes = vec![0u8; n];
    value.buffer()?.to_host(&mut bytes)?;
    let found = match real {
        DType::F64 => bytes.chunks_exact(8).any(|b| f64::from_le_bytes(b.try_into().unwrap_or([0; 8])).is_nan()),
        DType::F32 => bytes.chunks_exact(4).any(|b| f32::from_le_bytes(b.try_into().unwrap_or([0; 4])).is_nan()),
        DType::BF16 => any_nan16(&bytes, 0x7f80),
        DType::F16 => any_nan16(&bytes, 0x7c00),
        _ => false,
    };
    if found {
        return Err(Error::runtime(op, format!("a NaN in its result of type {} {:?}", ty.dtype.name(), &ty.dims[..])));
    }
    Ok(())
}

/// A 16-bit float is NaN when it is past the bits of infinity.
fn any_nan16(bytes: &[u8], infinity: u16) -> bool {
    bytes.chunks_exact(2).any(|b| u16::from_le_bytes([b[0], b[1]]) & 0x7fff > infinity)
}
