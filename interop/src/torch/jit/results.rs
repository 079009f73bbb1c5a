//! Tensors that a call of a program makes or hands back.

use super::guard::Found;
use crate::torch::errors::to_py;
use crate::torch::{dlpack, views};
use bridge::dispatch::slots::{self, DeviceArray, Held, Storage};
use primitives::{DType, Dims, TensorType};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// A tensor that a call makes or hands back.
pub enum Made {
    /// A view of the storage that result `k` of the program fills, perhaps of another dtype than that.
    New { k: usize, sizes: Dims, strides: Dims, offset: i64, dtype: DType, torch: Py<PyAny> },
    /// The tensor that the call found.
    Known(usize),
    /// Another view of a tensor that the call found, `offset` elements further on than that.
    View { of: usize, sizes: Dims, strides: Dims, offset: i64 },
    /// A view of another dtype, `offset` of its elements from where the memory of a tensor that the call found begins.
    Cast { of: usize, sizes: Dims, strides: Dims, offset: i64, torch: Py<PyAny> },
    /// A tensor that reads the memory of another one conjugated, or negated.
    Bits { of: Box<Made>, conj: bool, neg: bool },
    /// A parameter, a leaf, a kind of the user's, over the memory of a plain tensor; `about` is for `_dressed.py`.
    Dressed { of: Box<Made>, about: Py<PyAny>, grad: Option<Box<Made>> },
    /// A copy of a tensor of another device; `about` is for `_dressed.py`.
    Copy { of: Py<PyAny>, about: Py<PyAny> },
    /// A tensor without elements.
    Empty { dtype: DType, sizes: Dims, strides: Dims },
    /// A sparse tensor of indices and values; `about` is for `_sparse_jit.py`, which puts it together.
    Sparse { indices: Box<Made>, values: Box<Made>, about: Py<PyAny> },
    /// A tuple of tensors.
    Pack(Vec<Made>),
    /// An object that is always the same.
    Object(Py<PyAny>),
}

impl Made {
    /// From `(kind, ...)`, as `_specs.py` writes it.
    pub fn parse(spec: &Bound<'_, PyAny>) -> PyResult<Self> {
        let spec = spec.cast::<PyTuple>()?;
        let dtype = |i: usize| -> PyResult<DType> {
            let dtype = crate::torch::types::dtype_at(spec.get_item(i)?.as_ptr() as usize);
            dtype.ok_or_else(|| PyValueError::new_err("jit: a dtype that pjrt lacks"))
        };
        let dims = |i: usize| -> PyResult<Dims> { Ok(Dims::from_vec(spec.get_item(i)?.extract::<Vec<i64>>()?)) };
        Ok(match spec.get_item(0)?.extract::<&str>()? {
            "new" => Made::New {
                k: spec.get_item(1)?.extract()?,
                sizes: dims(2)?,
                strides: dims(3)?,
                offset: spec.get_item(4)?.extract()?,
                dtype: dtype(5)?,
                torch: spec.get_item(5)?.unbind(),
            },
            "known" => Made::Known(spec.get_item(1)?.extract()?),
            "view" => Made::View {
                of: spec.get_item(1)?.extract()?,
                sizes: dims(2)?,
                strides: dims(3)?,
                offset: spec.get_item(4)?.extract()?,
            },
            "cast" => Made::Cast {
                of: spec.get_item(1)?.extract()?,
                sizes: dims(2)?,
                strides: dims(3)?,
                offset: spec.get_item(4)?.extract()?,
                torch: spec.get_item(5)?.unbind(),
            },
            "bits" => Made::Bits {
                of: Box::new(Made::parse(&spec.get_item(1)?)?),
                conj: spec.get_item(2)?.extract()?,
                neg: spec.get_item(3)?.extract()?,
            },
            "dressed" => {
                let grad = spec.get_item(3)?;
                Made::Dressed {
                    of: Box::new(Made::parse(&spec.get_item(1)?)?),
                    about: spec.get_item(2)?.unbind(),
                    grad: if grad.is_none() { None } else { Some(Box::new(Made::parse(&grad)?)) },
                }
            }
            "copy" => Made::Copy { of: spec.get_item(1)?.unbind(), about: spec.get_item(2)?.unbind() },
            "empty" => Made::Empty { dtype: dtype(1)?, sizes: dims(2)?, strides: dims(3)? },
            "sparse" => Made::Sparse {
                indices: Box::new(Made::parse(&spec.get_item(1)?)?),
                values: Box::new(Made::parse(&spec.get_item(2)?)?),
                about: spec.get_item(3)?.unbind(),
            },
            "pack" => {
                let parts = spec.get_item(1)?.try_iter()?;
                Made::Pack(parts.map(|part| Made::parse(&part?)).collect::<PyResult<_>>()?)
            }
            _ => Made::Object(spec.get_item(1)?.unbind()),
        })
    }

    /// Which of the tensors that the call found are needed to make this one.
    pub fn needs(&self) -> SmallVec<[usize; 2]> {
        match self {
            Made::Known(i) | Made::View { of: i, .. } | Made::Cast { of: i, .. } => smallvec![*i],
            Made::Sparse { indices, values, .. } => indices.needs().into_iter().chain(values.needs()).collect(),
            Made::Pack(parts) => parts.iter().flat_map(Made::needs).collect(),
            Made::Bits { of, .. } => of.needs(),
            Made::Dressed { of, grad, .. } => {
                of.needs().into_iter().chain(grad.iter().flat_map(|g| g.needs())).collect()
            }
            _ => SmallVec::new(),
        }
    }

    /// Which result of the program this tensor holds.
    pub fn result(&self) -> Option<usize> {
        match self {
            Made::New { k, .. } => Some(*k),
            Made::Dressed { of, .. } => of.result(),
            _ => None,
        }
    }
}

/// The new tensors of one call: each storage is wrapped once, further tensors over it are views.
pub struct Fresh<'a> {
    types: &'a [TensorType],
    values: &'a [Arc<DeviceArray>],
    slots: Vec<u32>,
    /// The first tensor over each storage, and its dtype.
    wrapped: Vec<Option<(Py<PyAny>, DType)>>,
}

impl<'a> Fresh<'a> {
    pub fn new(types: &'a [TensorType], values: &'a [Arc<DeviceArray>]) -> Self {
        Self { types, values, slots: vec![0; types.len()], wrapped: (0..types.len()).map(|_| None).collect() }
    }

    /// Whether result `k` has a cell.
    pub fn has_cell(&self, k: usize) -> bool {
        self.slots[k] != 0
    }

    /// The cell of result `k`, made when somebody needs it.
    fn cell(&mut self, k: usize) -> PyResult<u32> {
        if self.slots[k] == 0 {
            let ty = &self.types[k];
            let held = Held::Device(self.values[k].clone());
            self.slots[k] = slots::alloc(Storage { held, dtype: ty.dtype, dims: ty.dims.clone() }).map_err(to_py)?;
        }
        Ok(self.slots[k])
    }

    /// The tensor that `spec` describes. What the call found must be alive still.
    pub fn object<'py>(&mut self, py: Python<'py>, spec: &Made, found: &Found) -> PyResult<Bound<'py, PyAny>> {
        match spec {
            Made::Known(i) => {
                // SAFETY: the caller keeps it alive.
                Ok(unsafe { Bound::from_borrowed_ptr(py, found.objects[*i]) })
            }
            Made::Object(o) => Ok(o.bind(py).clone()),
            Made::Pack(parts) => {
                let parts = parts.iter().map(|part| self.object(py, part, found)).collect::<PyResult<Vec<_>>>()?;
                Ok(PyTuple::new(py, parts)?.into_any())
            }
            Made::Sparse { indices, values, about } => {
                let (indices, values) = (self.object(py, indices, found)?, self.object(py, values, found)?);
                py.import("torch_pjrt._sparse_jit")?.getattr("assemble")?.call1((indices, values, about))
            }
            Made::Bits { of, conj, neg } => {
                let stored = self.object(py, of, found)?;
                py.import("torch_pjrt._lazy_bits")?.getattr("marked")?.call1((stored, conj, neg))
            }
            Made::Dressed { of, about, grad } => {
                let plain = self.object(py, of, found)?;
                let grad = grad.as_ref().map(|grad| self.object(py, grad, found)).transpose()?;
                py.import("torch_pjrt._dressed")?.getattr("dress")?.call1((plain, about, grad))
            }
            Made::Copy { of, about } => py.import("torch_pjrt._dressed")?.getattr("copy")?.call1((of, about)),
            Made::Empty { dtype, sizes, strides } => dlpack::wrap(py, 0, *dtype, sizes, strides),
            Made::View { of, sizes, strides, offset } => {
                // SAFETY: as above.
                let of = unsafe { Bound::from_borrowed_ptr(py, found.objects[*of]) };
                part(&of, sizes, strides, *offset)
            }
            Made::Cast { of, sizes, strides, offset, torch } => {
                // SAFETY: as above.
                let of = unsafe { Bound::from_borrowed_ptr(py, found.objects[*of]) };
                cast(&of, torch, sizes, strides, *offset)
            }
            Made::New { k, sizes, strides, offset, dtype, torch } => {
                if let Some((base, of)) = &self.wrapped[*k] {
                    let base = base.bind(py);
                    if of != dtype {
                        return cast(base, torch, sizes, strides, *offset);
                    }
                    let at: i64 = base.call_method0("storage_offset")?.extract()?;
                    return part(base, sizes, strides, *offset - at);
                }
                let slot = self.cell(*k)?;
                let ty = &self.types[*k];
                let first = if *offset == 0 && ty.dtype == *dtype {
                    dlpack::wrap(py, slot, ty.dtype, sizes, strides)?
                } else {
                    let whole = bridge::aten::args::contiguous_strides(&ty.dims);
                    let base = dlpack::wrap(py, slot, ty.dtype, &ty.dims, &whole)?;
                    if ty.dtype == *dtype {
                        // SAFETY: a live tensor.
                        unsafe { Bound::from_owned_ptr(py, views::alias(py, base.as_ptr(), sizes, strides, *offset)?) }
                    } else {
                        cast(&base, torch, sizes, strides, *offset)?
                    }
                };
                self.wrapped[*k] = Some((first.clone().unbind(), *dtype));
                Ok(first)
            }
        }
    }
}

/// A view of a tensor, `offset` elements further on, as autograd knows it.
fn part<'py>(base: &Bound<'py, PyAny>, sizes: &Dims, strides: &Dims, offset: i64) -> PyResult<Bound<'py, PyAny>> {
    let part = base.py().import("torch_pjrt._views")?.getattr("part")?;
    part.call1((base, sizes.to_vec(), strides.to_vec(), offset))
}

/// A view of a tensor's memory as another dtype.
fn cast<'py>(
    base: &Bound<'py, PyAny>,
    dtype: &Py<PyAny>,
    sizes: &Dims,
    strides: &Dims,
    offset: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let cast = base.py().import("torch_pjrt._views")?.getattr("cast")?;
    cast.call1((base, dtype, sizes.to_vec(), strides.to_vec(), offset))
}
