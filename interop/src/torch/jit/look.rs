//! The looks that a guard takes: at a container, at an item.

use super::attribute::GRAD;
use super::bind::bind;
use super::classes::dict_of;
use super::geometry::Geometry;
use super::guard::{Found, Item, Kind, Scratch, Site, SparseItem, Step, in_order};
use super::memory::{self, Seen};
use super::tags;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;

/// Looks at what is in a container.
///
/// # Safety
/// Containers are alive; what is in them is while it is looked at.
pub unsafe fn visit(
    py: Python<'_>,
    site: &mut Site,
    tensors: &mut [Geometry],
    found: &mut Found,
    scratch: &mut Scratch,
) -> PyResult<Step> {
    // SAFETY: by the caller.
    unsafe {
        let now = site.of.map_or(std::ptr::null_mut(), |i| found.objects[i as usize]);
        let owner = Bound::from_borrowed_ptr_or_opt(py, now);
        let attributes = owner.as_ref().filter(|_| site.kind == Kind::Dict).and_then(dict_of);
        let container = match (&attributes, now.is_null() || site.kind == Kind::Dict) {
            (Some(attributes), _) => attributes.as_ptr(),
            (None, true) => site.container.as_ptr(),
            (None, false) => now,
        };
        let told = scratch.tags && matches!(site.kind, Kind::Dict | Kind::Names);
        let tag = if told { tags::tag(container) } else { 0 };
        if tag != 0 && tag == site.tag {
            return again(py, site, container, tensors, found, scratch);
        }
        site.tag = 0;
        site.loose.clear();
        let step = walk(py, site, container, tag, tensors, found, scratch)?;
        if matches!(step, Step::Fine) {
            site.tag = tag;
        }
        Ok(step)
    }
}

/// Looks at all that is in a container; `tag` is that of a dict, 0 where there is none.
///
/// # Safety
/// As for [`visit`].
unsafe fn walk(
    py: Python<'_>,
    site: &mut Site,
    container: *mut PyObject,
    tag: u64,
    tensors: &mut [Geometry],
    found: &mut Found,
    scratch: &mut Scratch,
) -> PyResult<Step> {
    let n = site.items.len();
    let len_changed = |path: &str, now: isize| Step::Broken(format!("{path} has {now} entries, had {n}"));
    // SAFETY: live containers; borrowed items are looked at before any Python code runs.
    unsafe {
        match site.kind {
            Kind::Dict => {
                let now = ffi::PyDict_Size(container);
                if now != n as isize {
                    return Ok(len_changed(&site.path, now));
                }
                let (mut at, mut key, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
                let mut i = 0;
                while i < n && ffi::PyDict_Next(container, &mut at, &mut key, &mut value) != 0 {
                    if key != site.keys[i].as_ptr() && !equal(py, key, site.keys[i].as_ptr()) {
                        return Ok(Step::Broken(format!("{} has other keys", site.path)));
                    }
                    if !is_same(site, i, value)
                        && let Step::Broken(b) = item(py, site, i, value, tensors, found, scratch)?
                    {
                        return Ok(Step::Broken(b));
                    }
                    site.keep(i, value, tag);
                    i += 1;
                }
            }
            Kind::Ordered => {
                let now = ffi::PyDict_Size(container);
                if now != n as isize {
                    return Ok(len_changed(&site.path, now));
                }
                let keys = in_order(site.container.bind(py))?;
                for (i, key) in keys.enumerate() {
                    let key = key?;
                    if i >= n
                        || (key.as_ptr() != site.keys[i].as_ptr() && !equal(py, key.as_ptr(), site.keys[i].as_ptr()))
                    {
                        return Ok(Step::Broken(format!("{} has other keys, or in another order", site.path)));
                    }
                    let value = ffi::PyDict_GetItem(container, key.as_ptr());
                    if value.is_null() {
                        return Ok(Step::Broken(format!("{} lost a key", site.path)));
                    }
                    if let Step::Broken(b) = item(py, site, i, value, tensors, found, scratch)? {
                        return Ok(Step::Broken(b));
                    }
                }
            }
            Kind::List => {
                let now = ffi::PyList_Size(container);
                if now != n as isize {
                    return Ok(len_changed(&site.path, now));
                }
                for i in 0..n {
                    let value = ffi::PyList_GetItem(container, i as isize);
                    if let Step::Broken(b) = item(py, site, i, value, tensors, found, scratch)? {
                        return Ok(Step::Broken(b));
                    }
                }
            }
            // A tuple is looked at through what holds it: it is the same, so its items are.
            Kind::Tuple => {
                for i in 0..n {
                    let value = ffi::PyTuple_GetItem(container, i as isize);
                    if let Step::Broken(b) = item(py, site, i, value, tensors, found, scratch)? {
                        return Ok(Step::Broken(b));
                    }
                }
            }
            Kind::Set => {
                for frozen in &site.items {
                    let Item::Const(frozen) = frozen else { continue };
                    let now = ffi::PySet_Size(container);
                    let same = now == ffi::PySet_Size(frozen.as_ptr())
                        && (now == 0 || Bound::from_borrowed_ptr(py, container).eq(frozen)?);
                    if !same {
                        return Ok(Step::Broken(format!("{} has other contents", site.path)));
                    }
                }
            }
            Kind::Names => {
                for i in 0..n {
                    let value = ffi::PyDict_GetItem(container, site.keys[i].as_ptr());
                    if value.is_null() && matches!(site.items[i], Item::Absent) {
                        continue;
                    }
                    if value.is_null() {
                        return Ok(Step::Broken(format!("{} lost a name", site.path)));
                    }
                    if let Step::Broken(b) = item(py, site, i, value, tensors, found, scratch)? {
                        return Ok(Step::Broken(b));
                    }
                    site.keep(i, value, tag);
                }
            }
            Kind::Memory => {
                let now = memory::hash(&Bound::from_borrowed_ptr(py, container));
                if !matches!((&site.items[0], now), (Item::Bytes(was), Some(now)) if *was == now) {
                    return Ok(Step::Broken(format!("{} has other contents", site.path)));
                }
            }
            Kind::Grad => {
                let value = GRAD.get(py, container)?;
                if let Step::Broken(b) = item(py, site, 0, value.as_ptr(), tensors, found, scratch)? {
                    return Ok(Step::Broken(b));
                }
            }
            Kind::Attr => {
                for i in 0..n {
                    let value = ffi::PyObject_GetAttr(container, site.keys[i].as_ptr());
                    if value.is_null() {
                        ffi::PyErr_Clear();
                        if matches!(site.items[i], Item::Absent) {
                            continue;
                        }
                        return Ok(Step::Broken(format!("{} lost an attribute", site.path)));
                    }
                    let step = item(py, site, i, value, tensors, found, scratch);
                    // A tensor stays alive in what we got it from.
                    ffi::Py_DecRef(value);
                    if let Step::Broken(b) = step? {
                        return Ok(Step::Broken(b));
                    }
                }
            }
        }
    }
    Ok(Step::Fine)
}

/// Looks once more at a dict that has not changed: at those of its items that may have changed in themselves.
///
/// # Safety
/// As for [`visit`]; the dict has the tag that it had when it was walked through.
unsafe fn again(
    py: Python<'_>,
    site: &mut Site,
    container: *mut PyObject,
    tensors: &mut [Geometry],
    found: &mut Found,
    scratch: &mut Scratch,
) -> PyResult<Step> {
    for k in 0..site.loose.len() {
        let (i, value) = site.loose[k];
        // SAFETY: a live dict.
        if unsafe { tags::tag(container) } != site.tag {
            return Ok(Step::Broken(format!("{} changed while it was looked at", site.path)));
        }
        // SAFETY: the dict holds what it held.
        if let Step::Broken(b) = unsafe { item(py, site, i as usize, value as *mut PyObject, tensors, found, scratch)? }
        {
            return Ok(Step::Broken(b));
        }
    }
    Ok(Step::Fine)
}

unsafe fn equal(py: Python<'_>, a: *mut PyObject, b: *mut PyObject) -> bool {
    // SAFETY: live objects. Only strings are compared by value: comparing tensors would run a kernel.
    unsafe {
        if ffi::PyUnicode_Check(a) == 0 || ffi::PyUnicode_Check(b) == 0 {
            return false;
        }
        Bound::from_borrowed_ptr(py, a).eq(Bound::from_borrowed_ptr(py, b)).unwrap_or(false)
    }
}

/// Whether item `i` is the very object that was there, which most are.
#[inline]
fn is_same(site: &Site, i: usize, value: *mut PyObject) -> bool {
    matches!(&site.items[i], Item::Const(expected) if expected.as_ptr() == value)
}

unsafe fn item(
    py: Python<'_>,
    site: &mut Site,
    i: usize,
    value: *mut PyObject,
    tensors: &mut [Geometry],
    found: &mut Found,
    scratch: &mut Scratch,
) -> PyResult<Step> {
    // SAFETY: live objects, by the caller.
    unsafe {
        match &mut site.items[i] {
            Item::Any | Item::Bytes(_) => Ok(Step::Fine),
            Item::Absent => Ok(Step::Broken(format!("{} is there now", name(py, site, i)))),
            Item::Tensor(t) => bind(py, tensors, *t as usize, value, found, scratch),
            Item::Number(k) => {
                if ffi::PyFloat_Check(value) == 0 {
                    return Ok(Step::Broken(format!("{}: a number became something else", name(py, site, i))));
                }
                found.numbers[*k as usize] = ffi::PyFloat_AsDouble(value);
                Ok(Step::Fine)
            }
            Item::Count(k) => {
                // Beyond this doubles have gaps.
                let exact = |v: f64| v.abs() < 9_007_199_254_740_992.0;
                let v = if ffi::PyLong_CheckExact(value) != 0 { ffi::PyLong_AsDouble(value) } else { f64::NAN };
                if !exact(v) {
                    ffi::PyErr_Clear();
                    return Ok(Step::Broken(format!("{}: a whole number became something else", name(py, site, i))));
                }
                found.numbers[*k as usize] = v;
                Ok(Step::Fine)
            }
            Item::Numbers(first, count) => {
                if ffi::PyTuple_Check(value) == 0 || ffi::PyTuple_Size(value) != *count as isize {
                    return Ok(Step::Broken(format!("{}: numbers became something else", name(py, site, i))));
                }
                for k in 0..*count {
                    let x = ffi::PyTuple_GetItem(value, k as isize);
                    if ffi::PyFloat_Check(x) == 0 {
                        return Ok(Step::Broken(format!("{}: a number became something else", name(py, site, i))));
                    }
                    found.numbers[(*first + k) as usize] = ffi::PyFloat_AsDouble(x);
                }
                Ok(Step::Fine)
            }
            Item::Pack(parts) => {
                if ffi::PyTuple_CheckExact(value) == 0 || ffi::PyTuple_Size(value) != parts.len() as isize {
                    return Ok(Step::Broken(format!(
                        "{}: a tuple of tensors became something else",
                        name(py, site, i)
                    )));
                }
                for (k, t) in parts.iter().enumerate() {
                    let part = ffi::PyTuple_GetItem(value, k as isize);
                    if let Step::Broken(b) = bind(py, tensors, *t as usize, part, found, scratch)? {
                        return Ok(Step::Broken(b));
                    }
                }
                Ok(Step::Fine)
            }
            Item::Sparse(sparse) => {
                let SparseItem { parts, kind, path } = &**sparse;
                let value = Bound::from_borrowed_ptr(py, value);
                let now = py.import("torch_pjrt._sparse_jit")?.getattr("parts")?.call1((value,))?;
                if now.is_none() {
                    return Ok(Step::Broken(format!("{path} is no sparse tensor any more")));
                }
                if !now.get_item(0)?.eq(kind.bind(py))? {
                    return Ok(Step::Broken(format!("{path}: another shape, dtype, or kind of sparse tensor")));
                }
                let Some((indices, values)) = *parts else { return Ok(Step::Fine) };
                for (at, i) in [(1, indices), (2, values)] {
                    let part = now.get_item(at)?;
                    if let Step::Broken(b) = bind(py, tensors, i as usize, part.as_ptr(), found, scratch)? {
                        return Ok(Step::Broken(b));
                    }
                    found.held.push(part.unbind());
                }
                Ok(Step::Fine)
            }
            Item::Host(host) => {
                let (expected, seen) = &**host;
                if value != expected.as_ptr() {
                    return Ok(Step::Broken(format!("{} is another CPU tensor", name(py, site, i))));
                }
                if Seen::of(expected.bind(py))? != *seen {
                    return Ok(Step::Broken(format!("{}: the CPU tensor was written to", name(py, site, i))));
                }
                Ok(Step::Fine)
            }
            Item::Const(expected) => {
                if value == expected.as_ptr() {
                    return Ok(Step::Fine);
                }
                let now = Bound::from_borrowed_ptr(py, value);
                let same = py.import("torch_pjrt._state")?.getattr("same")?.call1((expected.bind(py), &now))?;
                if same.is_truthy()? {
                    site.items[i] = Item::Const(now.unbind());
                    return Ok(Step::Fine);
                }
                let was = py.import("torch_pjrt._state")?.getattr("brief")?;
                let (was, is) = (was.call1((expected.bind(py),))?.to_string(), was.call1((&now,))?.to_string());
                let was = if was == is { "another" } else { &was[..] };
                Ok(Step::Broken(format!("{} is {is}, was {was}", name(py, site, i))))
            }
        }
    }
}

fn name(py: Python<'_>, site: &Site, i: usize) -> String {
    let key = site.keys.get(i).map(|k| k.bind(py).str().map(|s| s.to_string()).unwrap_or_default());
    match (site.kind, key) {
        (Kind::Attr, Some(k)) if k == "cell_contents" => site.path.to_string(),
        (Kind::Attr | Kind::Grad, Some(k)) => format!("{}.{k}", site.path),
        (Kind::Names, Some(k)) => k,
        (_, Some(k)) if site.path.ends_with(".__dict__") => format!("{}.{k}", site.path.trim_end_matches(".__dict__")),
        (_, Some(k)) => format!("{}[{}]", site.path, written(py, site, i).unwrap_or(k)),
        (_, None) => format!("{}[{i}]", site.path),
    }
}

/// A key as Python code would write it.
fn written(py: Python<'_>, site: &Site, i: usize) -> Option<String> {
    Some(site.keys[i].bind(py).repr().ok()?.to_string())
}
