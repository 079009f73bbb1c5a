//! Random state: `ui32[4]`, two words of key and two of a 64-bit counter, in a cell like any tensor's. The numbers are
//! functions of key and counter alone (see `aten/threefry.rs`), so one seed gives one sequence in every mode and on
//! every plugin.

use super::eager;
use super::slots::{self, DeviceArray, Held, Storage};
use crate::{Error, Result};
use parking_lot::Mutex;
use primitives::{DType, TensorType};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Torch's default seed.
const DEFAULT_SEED: u64 = 67280421310721;

static INITIAL: AtomicU64 = AtomicU64::new(DEFAULT_SEED);

/// The seed that the state started from.
pub fn initial_seed() -> u64 {
    INITIAL.load(Ordering::Relaxed)
}

/// The cell, once made, and a seed that is still to be put into it.
static STATE: Mutex<(u32, Option<[u32; 4]>)> = Mutex::new((0, None));

fn words(seed: u64) -> [u32; 4] {
    [seed as u32, (seed >> 32) as u32, 0, 0]
}

fn ty() -> TensorType {
    TensorType::new(DType::U32, &[4])
}

fn upload(words: [u32; 4]) -> Result<Arc<DeviceArray>> {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    eager::upload(&bytes, &ty())
}

/// Seeds the process's state. Makes no client: the state is uploaded when it is first used.
pub fn seed(seed: u64) {
    INITIAL.store(seed, Ordering::Relaxed);
    STATE.lock().1 = Some(words(seed));
}

/// The cell that holds the state, made on first use.
pub fn slot() -> Result<u32> {
    let (slot, pending) = {
        let mut s = STATE.lock();
        let pending = s.1.take();
        (s.0, pending)
    };
    if slot == 0 {
        let value = upload(pending.unwrap_or(words(DEFAULT_SEED)))?;
        let made = slots::alloc(Storage { held: Held::Device(value), dtype: DType::U32, dims: ty().dims })?;
        STATE.lock().0 = made;
        return Ok(made);
    }
    if let Some(w) = pending {
        slots::set(slot, Held::Device(upload(w)?))?;
    }
    Ok(slot)
}

/// The current state's value.
pub fn state() -> Result<Arc<DeviceArray>> {
    eager::array(slot()?)
}

/// Replaces the state.
pub fn set_state(value: Arc<DeviceArray>) -> Result<()> {
    slots::set(slot()?, Held::Device(value)).map(drop)
}

/// A fresh state with this seed.
pub fn seeded(seed: u64) -> Result<Arc<DeviceArray>> {
    upload(words(seed))
}

/// The state as 16 bytes, for `get_rng_state`.
pub fn get_bytes() -> Result<[u8; 16]> {
    if let (0, pending) = *STATE.lock() {
        // No client yet: what the state will be.
        let mut bytes = [0u8; 16];
        for (b, w) in bytes.chunks_exact_mut(4).zip(pending.unwrap_or(words(DEFAULT_SEED))) {
            b.copy_from_slice(&w.to_le_bytes());
        }
        return Ok(bytes);
    }
    let mut bytes = [0u8; 16];
    state()?.buffer()?.to_host(&mut bytes)?;
    Ok(bytes)
}

/// Sets the state from 16 bytes, for `set_rng_state`.
pub fn set_bytes(bytes: &[u8]) -> Result<()> {
    let bytes: [u8; 16] = bytes
        .try_into()
        .map_err(|_| Error::value("set_rng_state", format!("got {} bytes, expected 16", bytes.len())))?;
    let mut w = [0u32; 4];
    for (w, b) in w.iter_mut().zip(bytes.chunks_exact(4)) {
        *w = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    }
    STATE.lock().1 = Some(w);
    Ok(())
}
