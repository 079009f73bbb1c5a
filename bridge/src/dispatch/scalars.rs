//! Device copies of Python numbers. A number that varies is a 0-d input of its program; most numbers recur, so their
//! tiny buffers are kept.

use super::eager;
use super::slots::DeviceArray;
use crate::Result;
use ahash::AHashMap;
use parking_lot::Mutex;
use primitives::{DType, Number, TensorType};
use std::sync::{Arc, LazyLock};

/// Buffers kept; past that the table starts anew.
const CAPACITY: usize = 4096;

type Table = AHashMap<(DType, [u8; 16]), Arc<DeviceArray>>;

static CACHE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

/// The 0-d buffer of `value` as `dtype`.
pub fn buffer(value: Number, dtype: DType) -> Result<Arc<DeviceArray>> {
    let bytes = value.to_bytes(dtype);
    let key = (dtype, bytes);
    if let Some(found) = CACHE.lock().get(&key) {
        return Ok(found.clone());
    }
    let made = eager::upload(&bytes[..dtype.size_of()], &TensorType::scalar(dtype))?;
    let mut cache = CACHE.lock();
    if cache.len() >= CAPACITY {
        cache.clear();
    }
    cache.insert(key, made.clone());
    Ok(made)
}

/// Drops the kept buffers.
pub fn clear() {
    CACHE.lock().clear();
}
