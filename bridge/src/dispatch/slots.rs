//! Storage cells. A torch storage's address names a cell; the cell holds the value, and every alias sees it change.
//!
//! Cells are in chunks that never move, so a cell is found without a lock; each has its own short lock. Nothing is done
//! under a cell's lock but reading or replacing what it holds.

use super::queue;
use crate::pjrt::Buffer;
use crate::{Error, Result};
use parking_lot::Mutex;
use primitives::{DType, Dims, TensorType, Value};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A value on devices: one buffer per device of its sharding (one, in the simple case). It may still be pending: then
/// the program that makes it waits in the launch queue.
#[derive(Debug)]
pub struct DeviceArray {
    shards: OnceLock<Result<SmallVec<[Buffer; 1]>>>,
    bytes: u64,
}

impl DeviceArray {
    /// A value on one device, of `bytes` bytes.
    pub fn single(buffer: Buffer, bytes: u64) -> Arc<Self> {
        let made = Self::pending(bytes);
        made.fill(Ok(buffer));
        made
    }

    /// A value of `bytes` bytes that [`DeviceArray::fill`] is to supply.
    pub fn pending(bytes: u64) -> Arc<Self> {
        count(1, bytes);
        Arc::new(Self { shards: OnceLock::new(), bytes })
    }

    /// [`DeviceArray::pending`] for each of `sizes`.
    pub fn pending_all(sizes: &[u64]) -> SmallVec<[Arc<Self>; 32]> {
        count(sizes.len() as i64, sizes.iter().sum());
        sizes.iter().map(|&bytes| Arc::new(Self { shards: OnceLock::new(), bytes })).collect()
    }

    /// Supplies a pending value, or the error that stands for it.
    pub fn fill(&self, value: Result<Buffer>) {
        let _ = self.shards.set(value.map(|b| SmallVec::from_buf([b])));
    }

    /// Whether the program that makes the value still waits in the launch queue.
    pub fn is_pending(&self) -> bool {
        self.shards.get().is_none()
    }

    /// Whether the value is there, or has failed: reading it does not block.
    pub fn is_ready(&self) -> Result<bool> {
        if self.is_pending() { Ok(false) } else { self.buffer()?.is_ready() }
    }

    /// The buffer of a value that lives on one device. Waits while it is pending.
    ///
    /// # Errors
    /// Of the launch that was to make it.
    pub fn buffer(&self) -> Result<&Buffer> {
        if self.is_pending() {
            queue::wait_for(|| !self.is_pending())?;
        }
        match self.shards.get() {
            Some(Ok(shards)) => Ok(&shards[0]),
            Some(Err(e)) => Err(e.clone()),
            None => Err(Error::internal("a value is still pending".into())),
        }
    }
}

fn count(arrays: i64, bytes: u64) {
    LIVE.fetch_add(arrays, Ordering::Relaxed);
    let now = BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
    if now > PEAK.load(Ordering::Relaxed) {
        PEAK.fetch_max(now, Ordering::Relaxed);
    }
}

impl Drop for DeviceArray {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        BYTES.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

static LIVE: AtomicI64 = AtomicI64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

/// Bytes of the device arrays alive, and the most there have been.
pub fn bytes() -> (u64, u64) {
    (BYTES.load(Ordering::Relaxed), PEAK.load(Ordering::Relaxed))
}

/// Starts the peak anew.
pub fn reset_peak() {
    PEAK.store(BYTES.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Device arrays alive in this process.
pub fn live_arrays() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

/// What a cell holds.
#[derive(Clone, Debug)]
pub enum Held {
    /// Memory that nobody wrote yet (`torch.empty`): becomes zeros if it is read.
    Uninit,
    Device(Arc<DeviceArray>),
    /// The value was given to a jit program for good; what a use of it is told.
    Donated(Arc<str>),
    /// A value of the trace with this number.
    Traced {
        trace: u64,
        value: Value,
    },
}

/// A storage: its value, and the natural type that value has.
#[derive(Clone, Debug)]
pub struct Storage {
    pub held: Held,
    pub dtype: DType,
    pub dims: Dims,
}

impl Storage {
    /// The natural type of its value.
    pub fn ty(&self) -> TensorType {
        TensorType::new(self.dtype, &self.dims)
    }

    /// Bytes of the natural value.
    pub fn nbytes(&self) -> u64 {
        self.dims.iter().product::<i64>() as u64 * self.dtype.size_of() as u64
    }
}

const CHUNK: usize = 1 << 12;
const CHUNKS: usize = 1 << 12;

type Cell = Mutex<Option<Storage>>;

static CELLS: [OnceLock<Box<[Cell]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];
/// Cell 0 stands for "no storage".
static FREE: Mutex<(Vec<u32>, u32)> = Mutex::new((Vec::new(), 1));

fn cell(slot: u32) -> Option<&'static Cell> {
    CELLS.get(slot as usize / CHUNK)?.get().map(|c| &c[slot as usize % CHUNK])
}

/// Puts a storage into a free cell and returns the cell's number.
///
/// # Errors
/// When all 2²⁴ cells are taken.
pub fn alloc(storage: Storage) -> Result<u32> {
    let slot = alloc_quietly(storage)?;
    super::trace::note_alloc(slot);
    Ok(slot)
}

/// [`alloc`] by a trace, which takes note itself.
pub(super) fn alloc_quietly(storage: Storage) -> Result<u32> {
    let slot = {
        let mut free = FREE.lock();
        match free.0.pop() {
            Some(s) => s,
            None if (free.1 as usize) < CHUNK * CHUNKS => {
                free.1 += 1;
                free.1 - 1
            }
            None => return Err(Error::internal(format!("all {} storage cells are in use", CHUNK * CHUNKS))),
        }
    };
    let chunk = CELLS[slot as usize / CHUNK].get_or_init(|| (0..CHUNK).map(|_| Mutex::new(None)).collect());
    *chunk[slot as usize % CHUNK].lock() = Some(storage);
    Ok(slot)
}

/// Empties a cell: its torch storage died.
pub fn free(slot: u32) {
    if slot == 0 {
        return;
    }
    if let Some(c) = cell(slot) {
        // The value is dropped after the lock: destroying a buffer may take a while.
        let old = c.lock().take();
        if old.is_some() {
            super::trace::note_free(slot);
            FREE.lock().0.push(slot);
        }
    }
}

/// Reads a cell.
///
/// # Errors
/// When the cell is empty: a tensor that outlived its storage, which is a fault of ours.
pub fn with<R>(slot: u32, f: impl FnOnce(&Storage) -> R) -> Result<R> {
    let c = cell(slot).ok_or_else(|| dead(slot))?;
    c.lock().as_ref().map(f).ok_or_else(|| dead(slot))
}

/// The array that a cell holds, if it holds one.
pub fn array(slot: u32) -> Option<Arc<DeviceArray>> {
    match &cell(slot)?.lock().as_ref()?.held {
        Held::Device(a) => Some(a.clone()),
        _ => None,
    }
}

/// Replaces what a cell holds; returns what it held.
pub fn replace(slot: u32, storage: Storage) -> Result<Storage> {
    let c = cell(slot).ok_or_else(|| dead(slot))?;
    let mut held = c.lock();
    match held.as_mut() {
        Some(s) => Ok(std::mem::replace(s, storage)),
        None => Err(dead(slot)),
    }
}

/// Replaces the value of a cell whose natural type stays.
pub fn set(slot: u32, held: Held) -> Result<Held> {
    let c = cell(slot).ok_or_else(|| dead(slot))?;
    let mut guard = c.lock();
    match guard.as_mut() {
        Some(s) => Ok(std::mem::replace(&mut s.held, held)),
        None => Err(dead(slot)),
    }
}

/// Number of cells in use.
pub fn live() -> usize {
    let free = FREE.lock();
    free.1 as usize - 1 - free.0.len()
}

fn dead(slot: u32) -> Error {
    Error::internal(format!("storage cell {slot} is empty"))
}

/// Waits for the value of every cell. What failed to launch has been told by [`super::checks::settle`].
pub fn await_all() -> Result<()> {
    let end = FREE.lock().1;
    let mut first = Ok(());
    for slot in 1..end {
        let held = cell(slot).and_then(|c| match c.lock().as_ref().map(|s| &s.held) {
            Some(Held::Device(a)) => Some(a.clone()),
            _ => None,
        });
        if let Some(Ok(b)) = held.as_ref().map(|a| a.buffer()) {
            let r = b.await_ready();
            if first.is_ok() {
                first = r;
            }
        }
    }
    first
}
