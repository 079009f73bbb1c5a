//! Storages that torch made as bytes and then gave a dtype.

use super::dlpack::{self, OFFSET_BITS};
use super::errors::to_py;
use bridge::Result;
use bridge::aten::TensorArg;
use bridge::aten::args::contiguous_strides;
use bridge::aten::view::{self, View};
use bridge::dispatch::disk;
use bridge::dispatch::slots::{self, DeviceArray, Held, Storage};
use primitives::{DType, Dims, Graph};
use pyo3::prelude::*;

/// Gives the bytes under `tensor` its dtype as their natural one. Does nothing to a storage that has a dtype already.
///
/// A storage that is loaded from a file or copied whole arrives as bytes; every reader would reinterpret them in its own
/// program if they stayed so.
#[pyfunction]
pub fn retype(tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    retype_cell(&dlpack::pjrt_arg("set_", tensor)?).map_err(to_py)
}

fn retype_cell(t: &TensorArg<'_>) -> Result<()> {
    if t.slot == 0 || t.dtype == DType::U8 {
        return Ok(());
    }
    let (held, ty) = slots::with(t.slot, |s| (s.held.clone(), s.ty()))?;
    let size = t.dtype.size_of() as i64;
    let bytes: i64 = ty.dims.iter().product();
    if ty.dtype != DType::U8 || bytes % size != 0 {
        return Ok(());
    }
    let whole = t.offset == 0 && t.is_contiguous() && t.numel() == bytes / size;
    let dims = if whole { Dims::from_slice(t.sizes) } else { Dims::from_slice(&[bytes / size]) };
    let held = match held {
        Held::Uninit => Held::Uninit,
        Held::Device(array) => {
            let mut g = Graph::new("retype");
            let base = g.parameter(ty);
            let strides = contiguous_strides(&dims);
            let v = view::read(&mut g, base, &View { dtype: t.dtype, sizes: dims.clone(), strides, offset: 0 })?;
            g.set_outputs(&[v])?;
            let mut out = disk::executable(&g.to_text())?.run([array.buffer()?].into_iter(), &[])?;
            Held::Device(DeviceArray::single(out.swap_remove(0), bytes as u64))
        }
        // A trace reads it as it is; nobody reads what was given away.
        Held::Traced { .. } | Held::Donated(_) => return Ok(()),
    };
    slots::replace(t.slot, Storage { held, dtype: t.dtype, dims }).map(drop)
}

/// A tensor of bytes over a new storage that equals the one at `address`. The two share the device value until one of
/// them is written, so nothing is copied.
#[pyfunction]
pub fn clone_storage(py: Python<'_>, address: u64) -> PyResult<Bound<'_, PyAny>> {
    if bridge::dispatch::trace::active() {
        return Err(super::jit::refuse(py, "storage"));
    }
    let storage = slots::with((address >> OFFSET_BITS) as u32, |s| s.clone()).map_err(to_py)?;
    let bytes = storage.nbytes() as i64;
    let slot = slots::alloc(storage).map_err(to_py)?;
    dlpack::wrap(py, slot, DType::U8, &[bytes], &[1])
}
