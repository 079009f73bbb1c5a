//! Where torch keeps what a call of a program looks at in each of its tensors, and what it writes.
//!
//! torch's functions for it take longer than all else that a call does. Where the parts of a tensor are in memory is
//! found by comparing, once, what is there with what torch tells. What cannot be found so is left to those functions.

use super::dlpack;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Offsets in bytes, each from the start of what holds it.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The tensor's address in its Python object.
    tensor: usize,
    /// The storage's address in the tensor: the first word that describes it.
    storage: usize,
    /// The address of autograd's part in the tensor.
    autograd: usize,
    /// The address of the count of versions in the tensor.
    versions: usize,
    /// The dispatch keys in the tensor: the last word that describes it.
    keys: usize,
    /// The address of the memory in the storage.
    memory: usize,
    /// `requires_grad` in autograd's part.
    requires_grad: usize,
}

/// The count of holders in a tensor and in a storage, behind the pointer to their methods.
const COUNT: usize = 8;
/// The version in what counts it, behind the pointer to its methods and the count of its holders.
const VERSION: usize = 16;
/// Bytes of a tensor that are looked through.
const TENSOR: usize = 184;
/// Words that describe a tensor, at most.
const WORDS: usize = TENSOR / 8;

static LAYOUT: PyOnceLock<Option<Layout>> = PyOnceLock::new();

/// Looks for the layout when the package is imported.
pub fn init(torch: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = torch.py();
    // Tensors of inference mode have no versions.
    let ordinary = torch.getattr("inference_mode")?.call1((false,))?;
    ordinary.call_method0("__enter__")?;
    let found = find(torch);
    ordinary.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
    // What torch lacks is what cannot be found.
    let _ = LAYOUT.set(py, found.unwrap_or(None));
    Ok(())
}

/// The layout, where it was found.
#[inline]
pub fn layout(py: Python<'_>) -> Option<Layout> {
    LAYOUT.get(py).copied().flatten().filter(|_| may_look())
}

static ASKS: AtomicBool = AtomicBool::new(false);

/// Whether torch and the interpreter are not to be asked for what is to be seen in memory.
#[inline]
pub fn may_look() -> bool {
    !ASKS.load(Ordering::Relaxed)
}

/// Has torch and the interpreter asked for all, as where nothing was found. For tests. Returns how it was.
#[pyfunction]
pub fn ask_for_all(on: bool) -> bool {
    ASKS.swap(on, Ordering::Relaxed)
}

/// # Safety
/// There is a word of the process' memory.
#[inline]
unsafe fn word(address: usize, offset: usize) -> usize {
    // SAFETY: by the caller.
    unsafe { *((address + offset) as *const usize) }
}

/// # Safety
/// There is a count at that address.
#[inline]
unsafe fn counter<'a>(address: usize, offset: usize) -> &'a AtomicU32 {
    // SAFETY: by the caller; other threads may count meanwhile.
    unsafe { &*((address + offset) as *const AtomicU32) }
}

impl Layout {
    /// Holders of a tensor, and of its storage.
    ///
    /// # Safety
    /// `object` is a live tensor.
    pub unsafe fn holders(&self, object: *mut PyObject) -> (u64, u64) {
        // SAFETY: by the caller.
        unsafe {
            let tensor = word(object as usize, self.tensor);
            let storage = word(tensor, self.storage);
            let count = |address| u64::from(counter(address, COUNT).load(Ordering::Relaxed));
            (count(tensor), if storage == 0 { 0 } else { count(storage) })
        }
    }

    /// Tells autograd that a tensor was written to. False for one that has no versions.
    ///
    /// # Safety
    /// `object` is a live tensor, and the interpreter's lock is held.
    pub unsafe fn written(&self, object: *mut PyObject) -> bool {
        // SAFETY: by the caller.
        unsafe {
            let versions = word(word(object as usize, self.tensor), self.versions);
            if versions != 0 {
                counter(versions, VERSION).fetch_add(1, Ordering::Relaxed);
            }
            versions != 0
        }
    }

    /// `requires_grad` of a tensor; `None` where it depends on more than a flag.
    ///
    /// # Safety
    /// `object` is a live tensor.
    #[inline]
    pub unsafe fn requires_grad(&self, object: *mut PyObject) -> Option<bool> {
        // SAFETY: by the caller.
        unsafe {
            let autograd = word(word(object as usize, self.tensor), self.autograd);
            match autograd {
                0 => Some(false),
                // Without the flag a tensor may still have a graph.
                _ => (*((autograd + self.requires_grad) as *const u8) == 1).then_some(true),
            }
        }
    }

    /// What describes a tensor; `None` where a part of it is elsewhere (more than five dims).
    ///
    /// # Safety
    /// `object` is a live tensor of one of torch's own types, and `borrowed` what was read of it.
    pub unsafe fn describe(&self, object: *mut PyObject, borrowed: &dlpack::DlTensor) -> Option<Description> {
        // SAFETY: by the caller.
        unsafe {
            let tensor = word(object as usize, self.tensor);
            let inside = |p: *mut i64| {
                let at = (p as usize).wrapping_sub(tensor);
                borrowed.ndim == 0 || (self.storage..self.keys).contains(&at)
            };
            let storage = word(tensor, self.storage);
            if !inside(borrowed.shape) || !inside(borrowed.strides) || storage == 0 {
                return None;
            }
            let memory = word(storage, self.memory);
            let kind = ffi::Py_TYPE(object) as usize;
            let mut seen = Description { object: object as usize, kind, tensor, memory, words: [0; WORDS] };
            for (k, w) in seen.words[..self.words()].iter_mut().enumerate() {
                *w = word(tensor, self.storage + 8 * k);
            }
            // The address names the cell in its upper bits.
            let same_cell = (seen.memory ^ borrowed.data as usize) >> dlpack::OFFSET_BITS == 0;
            same_cell.then_some(seen)
        }
    }

    fn words(&self) -> usize {
        (self.keys - self.storage) / 8 + 1
    }

    /// Whether an object is a tensor that was seen, and nothing that describes it has changed.
    ///
    /// # Safety
    /// `object` is alive.
    #[inline]
    pub unsafe fn is_still(&self, object: *mut PyObject, seen: &Description) -> bool {
        // SAFETY: by the caller. An object of that type is a tensor, and whatever is its kind, it has these words.
        unsafe {
            let tensor = seen.tensor;
            seen.object == object as usize
                && seen.kind == ffi::Py_TYPE(object) as usize
                && word(object as usize, self.tensor) == tensor
                && std::slice::from_raw_parts((tensor + self.storage) as *const usize, self.words())
                    == &seen.words[..self.words()]
                && word(word(tensor, self.storage), self.memory) == seen.memory
        }
    }
}

/// What describes a tensor, as it was.
pub struct Description {
    object: usize,
    kind: usize,
    tensor: usize,
    memory: usize,
    words: [usize; WORDS],
}

/// # Safety
/// `tensor` is the address of a live one.
unsafe fn words(tensor: usize) -> [usize; WORDS] {
    // SAFETY: a tensor of either size that torch has had is as large.
    std::array::from_fn(|k| unsafe { word(tensor, 8 * k) })
}

fn find(torch: &Bound<'_, PyAny>) -> PyResult<Option<Layout>> {
    let py = torch.py();
    let on_cpu = PyDict::new(py);
    on_cpu.set_item("device", "cpu")?;
    let new = || torch.call_method("empty", (3, 5, 7), Some(&on_cpu));
    let address = |t: &Bound<'_, PyAny>| t.getattr("_cdata")?.extract::<usize>();
    let (sample, other) = (new()?, new()?);
    let alias = sample.call_method0("detach")?;
    let storage = sample.call_method0("untyped_storage")?;
    let keys: usize =
        torch.getattr("_C")?.call_method1("_dispatch_keys", (&sample,))?.call_method0("raw_repr")?.extract()?;
    let (at, storage_at) = (address(&sample)?, address(&storage)?);
    let memory_at: usize = storage.call_method0("data_ptr")?.extract()?;
    // SAFETY: live objects, at least as large; their words are only compared, and followed where they are addresses.
    unsafe {
        let (here, there, elsewhere) = (words(at), words(address(&alias)?), words(address(&other)?));
        let places = |test: &dyn Fn(usize) -> bool| -> Option<usize> {
            let mut found = (2..WORDS).filter(|&k| test(k));
            found.next().filter(|_| found.next().is_none()).map(|k| 8 * k)
        };
        let tensor = (16..48).step_by(8).find(|&o| word(sample.as_ptr() as usize, o) == at);
        let first = places(&|k| here[k] == storage_at);
        let last = places(&|k| here[k] == keys);
        // A tensor and its detached alias count versions together.
        let shared = |k: usize| here[k] == there[k] && here[k] != elsewhere[k] && here[k] != storage_at;
        let versions = places(&shared);
        let memory = (16..64).step_by(8).find(|&o| word(storage_at, o) == memory_at);
        sample.call_method1("requires_grad_", (true,))?;
        let with = words(at);
        let autograd = places(&|k| here[k] == 0 && with[k] != 0);
        let (Some(tensor), Some(first), Some(last), Some(versions), Some(memory), Some(autograd)) =
            (tensor, first, last, versions, memory, autograd)
        else {
            return Ok(None);
        };
        // The part is as large as this in each torch: its flags are behind its pointers.
        let flags = |tensor: usize| -> Vec<u8> {
            std::slice::from_raw_parts(word(tensor, autograd) as *const u8, FLAGS).to_vec()
        };
        let on = flags(at);
        sample.call_method1("requires_grad_", (false,))?;
        let off = flags(at);
        let mut changed = (0..FLAGS).filter(|&k| on[k] != off[k]);
        let (Some(requires_grad), None) = (changed.next(), changed.next()) else { return Ok(None) };
        let layout = Layout { tensor, storage: first, autograd, versions, keys: last, memory, requires_grad };
        let fits = last > first && first < autograd && autograd < last && on[requires_grad] == 1;
        Ok((fits && layout.tells(&sample)?).then_some(layout))
    }
}

/// Bytes of autograd's part of a tensor that are looked through.
const FLAGS: usize = 152;

impl Layout {
    /// Whether the layout tells what torch tells, of a tensor that nobody else uses.
    fn tells(&self, sample: &Bound<'_, PyAny>) -> PyResult<bool> {
        let object = sample.as_ptr();
        let storage = sample.call_method0("untyped_storage")?;
        let uses = sample.py().import("torch")?.getattr("_C")?.getattr("_storage_Use_Count")?;
        let mut holders = Vec::new();
        for _ in 0..3 {
            let told: (u64, u64) =
                (sample.call_method0("_use_count")?.extract()?, uses.call1((storage.getattr("_cdata")?,))?.extract()?);
            let version: u32 = sample.getattr("_version")?.extract()?;
            // SAFETY: a live tensor.
            unsafe {
                let counted = counter(word(word(object as usize, self.tensor), self.versions), VERSION);
                if self.holders(object) != told || counted.load(Ordering::Relaxed) != version {
                    return Ok(false);
                }
                let borrowed = dlpack::borrow(sample.py(), object)?;
                let Some(seen) = self.describe(object, &borrowed) else { return Ok(false) };
                if !self.is_still(object, &seen) {
                    return Ok(false);
                }
            }
            holders.push((sample.call_method1("view", (-1,))?, sample.call_method0("detach")?));
            sample.call_method0("zero_")?;
        }
        Ok(true)
    }
}

/// Whether the layout was found, for tests.
#[pyfunction]
pub fn layout_found(py: Python<'_>) -> bool {
    layout(py).is_some()
}
