//! The look that a guard takes at a tensor.

use super::attribute::{IS_LEAF, REQUIRES_GRAD};
use super::classes::dict_of;
use super::geometry::{Geometry, bits};
use super::guard::{Broken, Found, Scratch, Step};
use super::hooks;
use crate::torch::errors::to_py;
use crate::torch::layout::{Description, Layout};
use crate::torch::{dlpack, types};
use bridge::dispatch::slots;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;

fn true_() -> *mut PyObject {
    // SAFETY: a constant of the interpreter.
    unsafe { ffi::Py_True() }
}

/// Looks at a tensor that stands where number `i` stood.
///
/// # Safety
/// `object` is alive.
pub unsafe fn bind(
    py: Python<'_>,
    tensors: &mut [Geometry],
    i: usize,
    object: *mut PyObject,
    found: &mut Found,
    scratch: &mut Scratch,
) -> PyResult<Step> {
    if found.objects[i] == object {
        return Ok(Step::Fine);
    }
    let want = &mut tensors[i];
    let layout = scratch.layout;
    // SAFETY: a live object.
    let still = |(seen, slot): &(Description, u32)| unsafe { layout?.is_still(object, seen).then_some(*slot) };
    let slot = match want.seen.as_ref().and_then(still) {
        Some(slot) => slot,
        // SAFETY: by the caller.
        None => match unsafe { geometry(py, want, object, layout)? } {
            Ok(slot) => slot,
            Err(broken) => return Ok(Step::Broken(broken)),
        },
    };
    // SAFETY: a live tensor.
    let tensor = unsafe { Bound::from_borrowed_ptr(py, object) };
    if let Some(broken) = belongings(want, &tensor, layout)? {
        return Ok(Step::Broken(broken));
    }
    if let Some(place) = want.place {
        let cell = &mut found.cells[place as usize];
        if *cell == u32::MAX {
            let natural = slots::with(slot, |s| s.dtype == want.natural.0 && s.dims == want.natural.1);
            if !natural.map_err(to_py)? {
                return Ok(Step::Broken(format!("{}: its storage has another layout", want.path)));
            }
            *cell = slot;
            if !scratch.claim(slot, place) {
                return Ok(Step::Broken(format!("{} shares its memory with another tensor now", want.path)));
            }
        } else if *cell != slot {
            return Ok(Step::Broken(format!("{} no longer shares its memory with its alias", want.path)));
        }
    }
    for &(other, same) in &want.peers {
        let other = found.objects[other as usize];
        if !other.is_null() && (other == object) != same {
            return Ok(Step::Broken(format!("{}: two names of one tensor, or two tensors, changed", want.path)));
        }
    }
    want.last = object as usize;
    if found.objects[i].is_null() {
        found.objects[i] = object;
        found.held.push(tensor.unbind());
    }
    Ok(Step::Fine)
}

/// Looks at what belongs to the tensor beside its geometry, or says what has changed.
fn belongings(want: &Geometry, tensor: &Bound<'_, PyAny>, layout: Option<Layout>) -> PyResult<Option<Broken>> {
    let (py, object) = (tensor.py(), tensor.as_ptr());
    let path = &want.path;
    // SAFETY: a live tensor.
    let flag = unsafe { layout.filter(|_| want.seen.is_some()).and_then(|layout| layout.requires_grad(object)) };
    let (on, is_leaf) = match flag {
        Some(on) => (on, true),
        // SAFETY: a live tensor.
        None => unsafe {
            (REQUIRES_GRAD.get(py, object)?.as_ptr() == true_(), IS_LEAF.get(py, object)?.as_ptr() == true_())
        },
    };
    if is_leaf != want.is_leaf {
        return Ok(Some(format!("{path} {} a leaf of the graph now", if is_leaf { "is" } else { "is not" })));
    }
    if is_leaf && on != want.requires_grad {
        return Ok(Some(format!("{path}: requires_grad {on}, was {}", want.requires_grad)));
    }
    if !want.attributes && dict_of(tensor).is_some_and(|attributes| attributes.len().is_ok_and(|n| n > 0)) {
        return Ok(Some(format!("{path} has got attributes")));
    }
    if object as usize == want.last {
        return Ok(None);
    }
    if want.only.is_some() {
        return Ok(Some(format!("{path} is another tensor, and attributes or hooks of it were traced")));
    }
    if on && !want.hooked && hooks::has_tables(tensor)? {
        return Ok(Some(format!("{path} is another tensor, which has hooks")));
    }
    Ok(None)
}

/// Looks at the dtype, sizes, strides and offset of a tensor, as torch tells them; its cell, or what has changed.
///
/// # Safety
/// `object` is alive.
unsafe fn geometry(
    py: Python<'_>,
    want: &mut Geometry,
    object: *mut PyObject,
    layout: Option<Layout>,
) -> PyResult<Result<u32, Broken>> {
    want.seen = None;
    // SAFETY: a live object; anything but a tensor raises.
    let dl = match unsafe { dlpack::borrow(py, object) } {
        Ok(dl) => dl,
        Err(_) => return Ok(Err(format!("{} is no tensor any more", want.path))),
    };
    let Some(t) = dl.arg().filter(|_| dl.is_pjrt()) else {
        return Ok(Err(format!("{} is no longer on the pjrt device", want.path)));
    };
    if t.dtype != want.dtype {
        return Ok(Err(format!("{}: dtype {}, was {}", want.path, t.dtype.name(), want.dtype.name())));
    }
    if *t.sizes != want.sizes[..] {
        return Ok(Err(format!("{}: shape {:?}, was {:?}", want.path, t.sizes, &want.sizes[..])));
    }
    if *t.strides != want.strides[..] || t.offset != want.offset {
        return Ok(Err(format!("{}: strides or offset changed", want.path)));
    }
    // SAFETY: a live tensor, as was just seen.
    let tensor = unsafe { Bound::from_borrowed_ptr(py, object) };
    if tensor.get_type_ptr() as usize != want.class {
        return Ok(Err(format!("{} is a {} now", want.path, tensor.get_type().name()?)));
    }
    if bits(&tensor, t.dtype)? != want.bits {
        return Ok(Err(format!("{}: conjugated or negated otherwise", want.path)));
    }
    // SAFETY: a live tensor, as was just seen; of other types than torch's own the object may be another thing.
    let seen = unsafe {
        let known = types::is_tensor_type(ffi::Py_TYPE(object) as usize);
        layout.filter(|_| known).and_then(|layout| layout.describe(object, &dl))
    };
    want.seen = seen.map(|seen| (seen, t.slot));
    Ok(Ok(t.slot))
}
