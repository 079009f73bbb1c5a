//! Memory of the host that a program was traced with. Nobody tells when it is written to through NumPy, a buffer or a
//! pointer, so each call reads it again.

use crate::torch::dlpack;
use ahash::RandomState;
use pyo3::ffi;
use pyo3::prelude::*;
use std::hash::{BuildHasher, Hasher};

fn hasher() -> impl Hasher {
    RandomState::with_seeds(1, 2, 3, 4).build_hasher()
}

/// A CPU tensor as it was: the version that torch counts, and a hash of its bytes and of how they are laid out.
#[derive(Clone, Copy, PartialEq)]
pub struct Seen {
    version: i64,
    hash: u64,
}

impl Seen {
    pub fn of(tensor: &Bound<'_, PyAny>) -> PyResult<Self> {
        // Tensors of inference mode have none.
        let version = tensor.getattr(pyo3::intern!(tensor.py(), "_version")).and_then(|v| v.extract()).unwrap_or(0);
        let mut h = hasher();
        let py = tensor.py();
        if tensor.getattr(pyo3::intern!(py, "is_meta"))?.extract()? {
            let names = [pyo3::intern!(py, "shape"), pyo3::intern!(py, "dtype")];
            for part in names.map(|name| tensor.getattr(name)) {
                h.write_isize(part?.hash()?);
            }
            h.write_isize(tensor.call_method0(pyo3::intern!(py, "stride"))?.hash()?);
            return Ok(Self { version, hash: h.finish() });
        }
        // SAFETY: a live object.
        match unsafe { dlpack::borrow(tensor.py(), tensor.as_ptr()) } {
            Ok(t) => dense(tensor, &t, &mut h)?,
            // Sparse, or with a lazy conjugation: what it is made of is dense.
            Err(_) => {
                for part in tensor.py().import("torch_pjrt._hosts")?.getattr("parts")?.call1((tensor,))?.try_iter()? {
                    let part = part?;
                    // SAFETY: as above.
                    dense(&part, &unsafe { dlpack::borrow(part.py(), part.as_ptr())? }, &mut h)?;
                }
            }
        }
        Ok(Self { version, hash: h.finish() })
    }
}

fn dense(tensor: &Bound<'_, PyAny>, t: &dlpack::DlTensor, h: &mut impl Hasher) -> PyResult<()> {
    h.write_u8(t.dtype.code);
    h.write_u8(t.dtype.bits);
    let mut elements = 1;
    for (&size, &stride) in t.sizes().iter().zip(t.strides()) {
        h.write_i64(size);
        h.write_i64(stride);
        elements = if size == 0 { 0 } else { elements + (size - 1) * stride };
        if size == 0 {
            break;
        }
    }
    if !t.is_cpu() || t.data.is_null() || elements == 0 {
        return Ok(());
    }
    // Its storage may have become too small for it, or have been freed.
    let storage = tensor.call_method0(pyo3::intern!(tensor.py(), "untyped_storage"))?;
    let held: usize = storage.call_method0(pyo3::intern!(tensor.py(), "nbytes"))?.extract()?;
    let start: usize = storage.call_method0(pyo3::intern!(tensor.py(), "data_ptr"))?.extract()?;
    h.write_usize(held);
    let data = t.data as usize + t.byte_offset as usize;
    let bytes = (elements as usize * t.dtype.bits as usize).div_ceil(8);
    if held == 0 || data < start || data - start + bytes > held {
        return Ok(());
    }
    // SAFETY: the elements lie in the live tensor's storage, strides are not negative, and nobody writes while the
    // interpreter's lock is held but threads of the user's, whose bytes are then of one time or another.
    h.write(unsafe { std::slice::from_raw_parts(data as *const u8, bytes) });
    Ok(())
}

/// Whether an object reads a file in memory that is shorter now: to read beyond its end would end the process.
fn is_cut(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    let kind = object.get_type().name()?;
    let map = match kind.to_str()? {
        "mmap" => object.clone(),
        "memmap" => object.getattr(pyo3::intern!(py, "_mmap"))?,
        _ => return Ok(false),
    };
    // Memory without a file tells no size.
    let size = map.call_method0(pyo3::intern!(py, "size")).and_then(|n| n.extract::<usize>());
    Ok(map.is_none() || size.is_ok_and(|n| map.len().is_ok_and(|mapped| n < mapped)))
}

/// A hash of the bytes of an object that lets others read its memory, and of how they are laid out. `None` if it lets
/// nobody read it as one piece.
pub fn hash(object: &Bound<'_, PyAny>) -> Option<u64> {
    if is_cut(object).unwrap_or(true) {
        return None;
    }
    let mut view = ffi::Py_buffer::new();
    // SAFETY: a live object; a view that was got is released.
    unsafe {
        if ffi::PyObject_GetBuffer(object.as_ptr(), &mut view, ffi::PyBUF_FULL_RO) != 0 {
            ffi::PyErr_Clear();
            return None;
        }
        let whole = ffi::PyBuffer_IsContiguous(&view, b'A' as _) != 0;
        let found = whole.then(|| {
            let mut h = hasher();
            let dims = if view.shape.is_null() { 0 } else { view.ndim as usize };
            for i in 0..dims {
                h.write_isize(*view.shape.add(i));
            }
            for i in 0..if view.strides.is_null() { 0 } else { dims } {
                h.write_isize(*view.strides.add(i));
            }
            if !view.format.is_null() {
                h.write(std::ffi::CStr::from_ptr(view.format).to_bytes());
            }
            if view.len > 0 {
                h.write(std::slice::from_raw_parts(view.buf as *const u8, view.len as usize));
            }
            h.finish()
        });
        ffi::PyBuffer_Release(&mut view);
        found
    }
}

/// The version of a CPU tensor and a hash of its memory.
#[pyfunction]
pub fn host_seen(tensor: &Bound<'_, PyAny>) -> PyResult<(i64, u64)> {
    Seen::of(tensor).map(|s| (s.version, s.hash))
}
