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
    /// A view of the storage that result `k` of the program fills.
    New { k: usize, sizes: Dims, strides: Dims, offset: i64 },
    /// The tensor that the call found.
    Known(usize),
    /// Another view of a tensor that the call found, `offset` elements further on than that.
    View { of: usize, sizes: Dims, strides: Dims, offset: i64 },
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
        let dims = |i: usize| -> PyResult<Dims> { Ok(Dims::from_vec(spec.get_item(i)?.extract::<Vec<i64>>()?)) };
        Ok(match spec.get_item(0)?.extract::<&str>()? {
            "new" => Made::New {
                k: spec.get_item(1)?.extract()?,
                sizes: dims(2)?,
                strides: dims(3)?,
                offset: spec.get_item(4)?.extract()?,
            },
            "known" => Made::Known(spec.get_item(1)?.extract()?),
            "view" => Made::View {
                of: spec.get_item(1)?.extract()?,
                sizes: dims(2)?,
                strides: dims(3)?,
                offset: spec.get_item(4)?.extract()?,
            },
            "empty" => {
                let dtype = crate::torch::types::dtype_at(spec.get_item(1)?.as_ptr() as usize);
                let dtype = dtype.ok_or_else(|| PyValueError::new_err("jit: a dtype that pjrt lacks"))?;
                Made::Empty { dtype, sizes: dims(2)?, strides: dims(3)? }
            }
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
            Made::Known(i) | Made::View { of: i, .. } => smallvec![*i],
            Made::Sparse { indices, values, .. } => indices.needs().into_iter().chain(values.needs()).collect(),
            Made::Pack(parts) => parts.iter().flat_map(Made::needs).collect(),
            _ => SmallVec::new(),
        }
    }

    /// Which result of the program this tensor holds.
    pub fn result(&self) -> Option<usize> {
        match self {
            Made::New { k, .. } => Some(*k),
            _ => None,
        }
    }
}

/// The new tensors of one call: each storage is wrapped once, further tensors over it are views.
pub struct Fresh<'a> {
    types: &'a [TensorType],
    values: &'a [Arc<DeviceArray>],
    slots: Vec<u32>,
    wrapped: Vec<Option<Py<PyAny>>>,
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
            Made::Empty { dtype, sizes, strides } => dlpack::wrap(py, 0, *dtype, sizes, strides),
            Made::View { of, sizes, strides, offset } => {
                // SAFETY: as above.
                unsafe {
                    let v = views::alias(py, found.objects[*of], sizes, strides, *offset)?;
                    Ok(Bound::from_owned_ptr(py, v))
                }
            }
            Made::New { k, sizes, strides, offset } => {
                if let Some(base) = &self.wrapped[*k] {
                    let at: i64 = base.bind(py).call_method0("storage_offset")?.extract()?;
                    // SAFETY: a live tensor.
                    unsafe {
                        let v = views::alias(py, base.as_ptr(), sizes, strides, *offset - at)?;
                        return Ok(Bound::from_owned_ptr(py, v));
                    }
                }
                let slot = self.cell(*k)?;
                let ty = &self.types[*k];
                let first = if *offset == 0 {
                    dlpack::wrap(py, slot, ty.dtype, sizes, strides)?
                } else {
                    let whole = bridge::aten::args::contiguous_strides(&ty.dims);
                    let base = dlpack::wrap(py, slot, ty.dtype, &ty.dims, &whole)?;
                    // SAFETY: a live tensor.
                    unsafe { Bound::from_owned_ptr(py, views::alias(py, base.as_ptr(), sizes, strides, *offset)?) }
                };
                self.wrapped[*k] = Some(first.clone().unbind());
                Ok(first)
            }
        }
    }
}
