//! The tensors that a program was traced with: what they were like, and which of them an object is.

use super::classes::dict_of;
use super::guard::Guard;
use super::hooks;
use crate::torch::dlpack;
use crate::torch::errors::to_py;
use crate::torch::layout::Description;
use bridge::dispatch::slots;
use primitives::{DType, Dims, TensorType};
use pyo3::exceptions::PyValueError;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;

/// What a tensor must be like.
pub struct Geometry {
    pub path: String,
    pub dtype: DType,
    pub sizes: Dims,
    pub strides: Dims,
    pub offset: u64,
    pub(super) natural: (DType, Dims),
    pub(super) requires_grad: bool,
    /// Which of the program's cells is behind it; `None` for a tensor without elements.
    pub place: Option<u32>,
    /// Whether it is a leaf, whose `requires_grad` the user may turn on and off.
    pub(super) is_leaf: bool,
    /// Whether it is conjugated, and negated, when it is read.
    pub(super) bits: (bool, bool),
    pub(super) class: usize,
    /// Whether it has attributes of its own, which are a container.
    pub(super) attributes: bool,
    /// The object itself, where its hooks are looked at.
    pub(super) only: Option<usize>,
    /// Others over its cell, and whether they are this very object.
    pub(super) peers: Vec<(u32, bool)>,
    /// The object that was last found in its place.
    pub(super) last: usize,
    /// Whether it has tables of hooks, which are containers of their own.
    pub(super) hooked: bool,
    /// The tensor that was last seen to be so, and its cell.
    pub(super) seen: Option<(Description, u32)>,
}

impl Geometry {
    /// Whether the storage behind the tensor holds a value of this type.
    pub fn fills_its_storage_with(&self, ty: &TensorType) -> bool {
        self.natural.0 == ty.dtype && self.natural.1 == ty.dims
    }
}

/// Whether a tensor is conjugated, and negated, when it is read.
pub(super) fn bits(tensor: &Bound<'_, PyAny>, dtype: DType) -> PyResult<(bool, bool)> {
    let py = tensor.py();
    let conj = dtype.is_complex() && tensor.call_method0(pyo3::intern!(py, "is_conj"))?.extract()?;
    let may_be_negated = dtype.is_float() || dtype.is_complex();
    Ok((conj, may_be_negated && tensor.call_method0(pyo3::intern!(py, "is_neg"))?.extract()?))
}

impl Guard {
    /// Adds a tensor: whether it had attributes, whether no other will do, and whether it required a gradient.
    pub fn add_tensor(
        &mut self,
        py: Python<'_>,
        tensor: &Bound<'_, PyAny>,
        path: String,
        place: Option<u32>,
        is_leaf: bool,
        (attributes, only, requires_grad): (bool, bool, bool),
    ) -> PyResult<()> {
        // SAFETY: a live tensor.
        let dl = unsafe { dlpack::borrow(py, tensor.as_ptr())? };
        let t = dl.arg().ok_or_else(|| PyValueError::new_err("jit: a dtype that pjrt lacks"))?;
        let natural = if t.slot == 0 {
            (t.dtype, Dims::new())
        } else {
            slots::with(t.slot, |s| (s.dtype, s.dims.clone())).map_err(to_py)?
        };
        let object = tensor.as_ptr() as usize;
        let over_its_cell = |(_, t): &(usize, &Geometry)| place.is_some() && t.place == place;
        let others = self.tensors.iter().enumerate().filter(over_its_cell);
        let peers = others.map(|(k, t)| (k as u32, t.last == object)).collect();
        self.tensors.push(Geometry {
            path,
            dtype: t.dtype,
            sizes: Dims::from_slice(t.sizes),
            strides: Dims::from_slice(t.strides),
            offset: t.offset,
            natural,
            requires_grad,
            place,
            is_leaf,
            bits: bits(tensor, t.dtype)?,
            class: tensor.get_type_ptr() as usize,
            attributes,
            only: only.then_some(object),
            peers,
            last: object,
            hooked: hooks::has_tables(tensor)?,
            seen: None,
        });
        Ok(())
    }

    /// Which of the tensors an object is.
    pub fn index_of(&self, object: *mut PyObject) -> Option<u32> {
        self.tensors.iter().position(|t| t.last == object as usize).map(|i| i as u32)
    }

    /// Which of the tensors a dict is the attributes of.
    pub fn index_of_owner(&self, py: Python<'_>, dict: *mut PyObject) -> Option<u32> {
        let owns = |t: &Geometry| {
            // SAFETY: the tensors that a guard is made with are alive.
            let tensor = unsafe { Bound::from_borrowed_ptr(py, t.last as *mut PyObject) };
            t.attributes && dict_of(&tensor).is_some_and(|found| found.as_ptr() == dict)
        };
        self.tensors.iter().position(owns).map(|i| i as u32)
    }
}
