//! Storage made, filled from the host and read back.

use super::call::{Gil, builtin, enter};
use super::errors::to_py;
use super::{dlpack, types};
use bridge::Error;
use bridge::aten::args::contiguous_strides;
use bridge::aten::{TensorArg, cx, view};
use bridge::dispatch::eager::{self, Host};
use bridge::dispatch::slots::{self, DeviceArray, Held, Storage};
use bridge::dispatch::{checks, disk, metrics};
use primitives::{DType, Dims, Number, TensorType};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyComplex;
use std::sync::Arc;

fn dtype_arg(dtype: &Bound<'_, PyAny>) -> PyResult<DType> {
    types::dtype_at(dtype.as_ptr() as usize)
        .ok_or_else(|| PyTypeError::new_err(format!("the pjrt device has no tensors of dtype {dtype}")))
}

/// A tensor over fresh memory whose dims, from the outermost stride to the innermost, are `natural`.
fn fresh<'py>(
    py: Python<'py>,
    held: Held,
    dtype: DType,
    natural: Dims,
    sizes: &[i64],
    strides: &[i64],
) -> PyResult<Bound<'py, PyAny>> {
    let slot =
        if natural.contains(&0) { 0 } else { slots::alloc(Storage { held, dtype, dims: natural }).map_err(to_py)? };
    dlpack::wrap(py, slot, dtype, sizes, strides)
}

/// Unwritten memory for a tensor of these sizes and strides. Strides that are dense in some order keep dims as they
/// lie in memory; others get flat storage long enough.
#[pyfunction]
pub fn empty<'py>(
    py: Python<'py>,
    sizes: Vec<i64>,
    strides: Option<Vec<i64>>,
    dtype: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = dtype_arg(dtype)?;
    if let Some(&n) = sizes.iter().find(|&&n| n < 0) {
        return Err(to_py(Error::runtime(
            "empty",
            format!("Trying to create tensor with negative dimension {n}: {sizes:?}"),
        )));
    }
    let strides = strides.unwrap_or_else(|| contiguous_strides(&sizes).to_vec());
    let refuse = |message: String| Err(to_py(Error::runtime("empty_strided", message)));
    if sizes.len() != strides.len() {
        return refuse(format!(
            "dimensionality of sizes ({}) must match dimensionality of strides ({})",
            sizes.len(),
            strides.len()
        ));
    }
    if strides.iter().any(|&s| s < 0) {
        return refuse(format!("Negative strides are not supported at the moment, got strides: {strides:?}"));
    }
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&d| std::cmp::Reverse((strides[d], sizes[d])));
    let natural: Dims = order.iter().map(|&d| sizes[d]).collect();
    let dense: Dims = order.iter().map(|&d| strides[d]).collect();
    let natural = if bridge::aten::args::is_contiguous(&natural, &dense) {
        if bridge::aten::args::is_contiguous(&sizes, &strides) { Dims::from_slice(&sizes) } else { natural }
    } else {
        let last: i64 = sizes.iter().zip(&strides).map(|(n, s)| (n - 1) * s).sum();
        Dims::from_slice(&[last + 1])
    };
    fresh(py, Held::Uninit, dtype, natural, &sizes, &strides)
}

/// Unwritten flat memory of `n` elements.
#[pyfunction]
pub fn empty_flat<'py>(py: Python<'py>, n: i64, dtype: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let dtype = dtype_arg(dtype)?;
    fresh(py, Held::Uninit, dtype, Dims::from_slice(&[n]), &[n], &[1])
}

/// Bytes of a contiguous CPU tensor.
///
/// # Safety
/// `t` lives and is not resized while the bytes are used.
unsafe fn host_bytes<'a>(py: Python<'_>, t: &Bound<'_, PyAny>, op: &str) -> PyResult<(&'a mut [u8], DType, &'a [i64])> {
    // SAFETY: a live object.
    let dl = unsafe { dlpack::borrow(py, t.as_ptr())? };
    let dtype = dlpack::dtype_of(dl.dtype)
        .ok_or_else(|| PyTypeError::new_err(format!("{op}: the pjrt device has no tensors of this dtype")))?;
    if !dl.is_cpu() || !bridge::aten::args::is_contiguous(dl.sizes(), dl.strides()) {
        return Err(to_py(Error::internal(format!("{op}: expected a contiguous CPU tensor"))));
    }
    let n = dl.sizes().iter().product::<i64>() as usize * dtype.size_of();
    if n == 0 {
        return Ok((&mut [], dtype, dl.sizes()));
    }
    // SAFETY: a contiguous CPU tensor has its elements from its data address on.
    let bytes = unsafe { std::slice::from_raw_parts_mut(dl.data.cast::<u8>().add(dl.byte_offset as usize), n) };
    Ok((bytes, dtype, dl.sizes()))
}

fn upload_array(py: Python<'_>, bytes: &[u8], ty: &TensorType) -> PyResult<Arc<DeviceArray>> {
    let mut made = None;
    if bytes.len() < 1 << 16 {
        made = Some(eager::upload(bytes, ty));
    } else {
        Gil(py).unlocked(&mut || made = Some(eager::upload(bytes, ty)));
    }
    made.ok_or_else(|| to_py(Error::internal("the upload did not run".into())))?.map_err(to_py)
}

/// A new tensor with the values of a contiguous CPU tensor.
#[pyfunction]
pub fn upload<'py>(py: Python<'py>, source: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the caller holds the tensor.
    let (bytes, dtype, sizes) = unsafe { host_bytes(py, source, "to(\"pjrt\")")? };
    if bytes.is_empty() {
        return dlpack::wrap(py, 0, dtype, sizes, &contiguous_strides(sizes));
    }
    let ty = TensorType::new(dtype, sizes);
    if bridge::dispatch::trace::active() {
        return super::jit::constant(py, bytes, &ty);
    }
    let array = upload_array(py, bytes, &ty)?;
    fresh(py, Held::Device(array), dtype, Dims::from_slice(sizes), sizes, &contiguous_strides(sizes))
}

/// Replaces all of the storage of `target` with a contiguous CPU tensor of its dtype and sizes. False when `target` is
/// only a part of its storage: then nothing is done.
#[pyfunction]
pub fn upload_into(py: Python<'_>, target: &Bound<'_, PyAny>, source: &Bound<'_, PyAny>) -> PyResult<bool> {
    let t = dlpack::pjrt_arg("copy_", target)?;
    if t.numel() == 0 {
        return Ok(true);
    }
    let ty = slots::with(t.slot, |s| s.ty()).map_err(to_py)?;
    if !cx::view_of(&t).is_identity(&ty) || bridge::dispatch::trace::active() {
        return Ok(false);
    }
    // SAFETY: the caller holds the tensor.
    let (bytes, dtype, sizes) = unsafe { host_bytes(py, source, "copy_")? };
    if dtype != ty.dtype || *sizes != ty.dims[..] {
        return Ok(false);
    }
    let array = upload_array(py, bytes, &ty)?;
    slots::set(t.slot, Held::Device(array)).map_err(to_py)?;
    Ok(true)
}

/// Whether a tensor is all of its storage in natural order, so that its storage can be read as it is.
#[pyfunction]
pub fn is_whole(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    let t = dlpack::pjrt_arg("is_whole", tensor)?;
    if t.slot == 0 {
        return Ok(true);
    }
    whole(&t).map_err(to_py)
}

fn whole(t: &TensorArg<'_>) -> bridge::Result<bool> {
    let ty = slots::with(t.slot, |s| s.ty())?;
    Ok(cx::view_of(t).is_identity(&ty))
}

/// Copies a tensor that is all of its storage into a contiguous CPU tensor of the same dtype and sizes. Errors of
/// everything that ran before surface here.
#[pyfunction]
pub fn download(py: Python<'_>, source: &Bound<'_, PyAny>, target: &Bound<'_, PyAny>) -> PyResult<()> {
    let t = dlpack::pjrt_arg("cpu", source)?;
    if bridge::dispatch::trace::active() {
        return Err(super::jit::refuse(py, "cpu"));
    }
    checks::settle(&Gil(py)).map_err(to_py)?;
    if t.numel() == 0 {
        return Ok(());
    }
    if !whole(&t).map_err(to_py)? {
        return Err(to_py(Error::internal("download of a view".into())));
    }
    read_storage(py, t.slot, target)
}

/// Copies the storage behind `slot`, all of it, into a contiguous CPU tensor of as many bytes.
fn read_storage(py: Python<'_>, slot: u32, target: &Bound<'_, PyAny>) -> PyResult<()> {
    let array = eager::array(slot).map_err(to_py)?;
    // SAFETY: the caller holds the tensor.
    let (bytes, ..) = unsafe { host_bytes(py, target, "cpu")? };
    let mut done = None;
    Gil(py).unlocked(&mut || done = Some(metrics::FROM_DEVICE.time(bytes.len(), || array.buffer()?.to_host(bytes))));
    done.ok_or_else(|| to_py(Error::internal("the download did not run".into())))?.map_err(to_py)
}

/// Bytes of the storage that `tensor` views.
#[pyfunction]
pub fn storage_bytes(tensor: &Bound<'_, PyAny>) -> PyResult<u64> {
    let t = dlpack::pjrt_arg("cpu", tensor)?;
    if t.slot == 0 { Ok(0) } else { slots::with(t.slot, |s| s.nbytes()).map_err(to_py) }
}

/// Copies all of the storage that `source` views into a contiguous CPU tensor of as many bytes, in the order in which
/// strides count. Errors of everything that ran before surface here.
#[pyfunction]
pub fn download_storage(py: Python<'_>, source: &Bound<'_, PyAny>, target: &Bound<'_, PyAny>) -> PyResult<()> {
    let t = dlpack::pjrt_arg("cpu", source)?;
    if bridge::dispatch::trace::active() {
        return Err(super::jit::refuse(py, "cpu"));
    }
    checks::settle(&Gil(py)).map_err(to_py)?;
    if storage_bytes(source)? != target.getattr("nbytes")?.extract::<u64>()? {
        return Err(to_py(Error::internal("download of a storage into a tensor of another size".into())));
    }
    read_storage(py, t.slot, target)
}

/// `_local_scalar_dense`: the one element of a tensor as a Python number.
unsafe extern "C" fn item(_: *mut PyObject, args: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: Python calls us with its lock held and a tuple.
    let py = unsafe { Python::assume_attached() };
    enter(py, || {
        // SAFETY: as above.
        let tensor = unsafe { Bound::from_borrowed_ptr_or_err(py, ffi::PyTuple_GetItem(args, 0))? };
        let t = dlpack::pjrt_arg("item", &tensor)?;
        if bridge::dispatch::trace::active() {
            return Err(super::jit::refuse(py, "item"));
        }
        let n = read_one(py, &t)?;
        Ok(match n {
            Number::Bool(b) => b.into_pyobject(py)?.to_owned().into_any().into_ptr(),
            Number::Int(v) => v.into_pyobject(py)?.into_any().into_ptr(),
            Number::UInt(v) => v.into_pyobject(py)?.into_any().into_ptr(),
            Number::Float(v) => v.into_pyobject(py)?.into_any().into_ptr(),
            Number::Complex(re, im) => PyComplex::from_doubles(py, re, im).into_any().into_ptr(),
        })
    })
}

fn read_one(py: Python<'_>, t: &TensorArg<'_>) -> PyResult<Number> {
    checks::settle(&Gil(py)).map_err(to_py)?;
    let array = eager::array(t.slot).map_err(to_py)?;
    let ty = slots::with(t.slot, |s| s.ty()).map_err(to_py)?;
    cx::within("item", t, &ty).map_err(to_py)?;
    let size = t.dtype.size_of();
    if t.dtype == ty.dtype {
        let element = (t.offset / size as u64) as usize;
        let bytes_total = ty.size_bytes();
        let mut bytes = vec![0u8; bytes_total];
        if bytes_total <= 1 << 12 {
            let mut done = None;
            if array.is_ready().map_err(to_py)? {
                done = Some(metrics::FROM_DEVICE.time(bytes_total, || array.buffer()?.to_host(&mut bytes)));
            } else {
                Gil(py).unlocked(&mut || {
                    done = Some(metrics::FROM_DEVICE.time(bytes_total, || array.buffer()?.to_host(&mut bytes)));
                });
            }
            done.ok_or_else(|| to_py(Error::internal("the read did not run".into())))?.map_err(to_py)?;
            return Ok(Number::from_bytes(t.dtype, &bytes[element * size..(element + 1) * size]));
        }
    }
    // One element of a large storage: sliced out on the device.
    let bytes = slice_out(t, &array, &ty).map_err(to_py)?;
    Ok(Number::from_bytes(t.dtype, &bytes))
}

fn slice_out(t: &TensorArg<'_>, array: &DeviceArray, ty: &TensorType) -> bridge::Result<Vec<u8>> {
    let mut g = primitives::Graph::new("item");
    let base = g.parameter(ty.clone());
    let v = view::read(&mut g, base, &cx::view_of(t))?;
    g.set_outputs(&[v])?;
    let exe = disk::executable(&g.to_text())?;
    let out = exe.run(std::iter::once(array.buffer()?), &[])?;
    let mut bytes = vec![0u8; t.dtype.size_of()];
    out[0].to_host(&mut bytes)?;
    Ok(bytes)
}

/// The builtin for `_local_scalar_dense`.
#[pyfunction]
pub fn item_kernel(py: Python<'_>) -> PyResult<Py<PyAny>> {
    builtin(py, c"_local_scalar_dense", std::ptr::from_ref(&()).cast_mut().cast(), item)
}
