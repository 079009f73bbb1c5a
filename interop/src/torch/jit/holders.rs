//! Who holds a tensor, and who holds its memory: what somebody else has may not be used for another value.
//!
//! torch tells both counts, the second one only by way of new objects. Where they are in memory is found by comparing,
//! once, what is there with what torch tells; where that does not work out, torch is asked each time.

use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Offsets in bytes, each from the start of what holds it.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// The tensor's address in its Python object.
    tensor: usize,
    /// The storage's address in the tensor.
    storage: usize,
}

/// The count in a tensor and in a storage, behind the pointer to their methods.
const COUNT: usize = 8;

static LAYOUT: PyOnceLock<Option<Layout>> = PyOnceLock::new();

/// Whether a tensor has one holder: no other Python object, no view with it as its base, no graph; and its memory is
/// no other tensor's.
///
/// # Safety
/// `object` is a live tensor, held by a container.
pub unsafe fn known_to_one(py: Python<'_>, object: *mut PyObject) -> PyResult<bool> {
    // SAFETY: by the caller; counts are only read.
    unsafe {
        if ffi::Py_REFCNT(object) > 1 {
            return Ok(false);
        }
        let (tensor, storage) = match *LAYOUT.get_or_try_init(py, || find(py))? {
            Some(layout) => read(layout, object),
            None => ask(&Bound::from_borrowed_ptr(py, object))?,
        };
        // The container's hold and its Python object's; of the memory the tensor's.
        Ok(tensor <= 2 && storage <= 1)
    }
}

/// # Safety
/// `object` is a live tensor, and the layout is torch's.
unsafe fn read(layout: Layout, object: *mut PyObject) -> (u64, u64) {
    // SAFETY: by the caller.
    unsafe {
        let tensor = word(object as usize, layout.tensor);
        let storage = word(tensor, layout.storage);
        (count(tensor), if storage == 0 { 0 } else { count(storage) })
    }
}

/// # Safety
/// There is a word of the process' memory.
unsafe fn word(address: usize, offset: usize) -> usize {
    // SAFETY: by the caller.
    unsafe { *((address + offset) as *const usize) }
}

/// # Safety
/// `address` is that of a live tensor or storage.
unsafe fn count(address: usize) -> u64 {
    // SAFETY: by the caller; another thread may count meanwhile, so the word is read at once.
    unsafe { (*((address + COUNT) as *const std::sync::atomic::AtomicU32)).load(std::sync::atomic::Ordering::Relaxed) }
        .into()
}

/// The counts as torch tells them.
fn ask(tensor: &Bound<'_, PyAny>) -> PyResult<(u64, u64)> {
    static OWN: PyOnceLock<isize> = PyOnceLock::new();
    let py = tensor.py();
    let own = OWN.get_or_try_init(py, || Ok::<_, PyErr>(references(&storage_of(&sample(py)?)?)))?;
    let storage = storage_of(tensor)?;
    // To ask made an object of the storage, unless somebody had one.
    let elsewhere = u64::from(references(&storage) > *own);
    Ok((tensor.call_method0("_use_count")?.extract()?, told(&storage)? - 1 + elsewhere))
}

fn references(object: &Bound<'_, PyAny>) -> isize {
    // SAFETY: a live object.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) }
}

fn storage_of<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    tensor.call_method0("untyped_storage")
}

fn sample(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("torch")?.call_method1("empty", (1,))
}

fn told(storage: &Bound<'_, PyAny>) -> PyResult<u64> {
    let torch = storage.py().import("torch")?.getattr("_C")?;
    torch.getattr("_storage_Use_Count")?.call1((storage.getattr("_cdata")?,))?.extract()
}

/// Looks for the counts in a tensor, with one holder and with more.
fn find(py: Python<'_>) -> PyResult<Option<Layout>> {
    let sample = sample(py)?;
    let storage = storage_of(&sample)?;
    let (tensor_at, storage_at): (usize, usize) =
        (sample.getattr("_cdata")?.extract()?, storage.getattr("_cdata")?.extract()?);
    // SAFETY: both objects are at least as large; the words are only compared.
    let (tensor, storage_offset) = unsafe {
        (
            (16..48).step_by(8).find(|&o| word(sample.as_ptr() as usize, o) == tensor_at),
            (16..96).step_by(8).find(|&o| word(tensor_at, o) == storage_at),
        )
    };
    let (Some(tensor), Some(storage_offset)) = (tensor, storage_offset) else { return Ok(None) };
    let layout = Layout { tensor, storage: storage_offset };
    let mut holders = Vec::new();
    for _ in 0..3 {
        let expected: (u64, u64) = (sample.call_method0("_use_count")?.extract()?, told(&storage)?);
        // SAFETY: the words that were found are the addresses of the two.
        if unsafe { read(layout, sample.as_ptr()) } != expected {
            return Ok(None);
        }
        holders.push((sample.call_method1("view", (1,))?, sample.call_method0("detach")?));
    }
    Ok(Some(layout))
}

/// Both counts of a tensor of the device, as they are read and as torch tells them.
#[pyfunction]
pub fn holders(tensor: &Bound<'_, PyAny>) -> PyResult<((u64, u64), (u64, u64))> {
    let layout = *LAYOUT.get_or_try_init(tensor.py(), || find(tensor.py()))?;
    // SAFETY: a live tensor, by its type; one without a storage makes `ask` raise. To ask makes the storage's object.
    let read = layout.map(|layout| unsafe { read(layout, tensor.as_ptr()) });
    let told = ask(tensor)?;
    Ok((read.unwrap_or(told), told))
}
