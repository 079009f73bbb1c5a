//! What a traced program takes for granted about the objects that it was traced with, checked before each of its runs.
//!
//! A site is a container that tracing could see: the `__dict__` of a module, a list, a closure's cell, the `grad` of a
//! parameter. It lists what was in it. A tensor there may be another one at the next call, as long as it has the same
//! geometry: the program then reads that one. Anything else must be the same, or equal.

use crate::torch::dlpack;
use crate::torch::errors::to_py;
use bridge::dispatch::slots;
use primitives::{DType, Dims, TensorType};
use pyo3::exceptions::PyValueError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

/// What a tensor must be like.
pub struct Geometry {
    pub path: String,
    pub dtype: DType,
    pub sizes: Dims,
    pub strides: Dims,
    pub offset: u64,
    natural: (DType, Dims),
    requires_grad: bool,
    /// Which of the program's cells is behind it; `None` for a tensor without elements.
    pub place: Option<u32>,
    /// Whether the user may turn `requires_grad` on and off.
    check_grad: bool,
}

impl Geometry {
    /// Whether the storage behind the tensor holds a value of this type.
    pub fn fills_its_storage_with(&self, ty: &TensorType) -> bool {
        self.natural.0 == ty.dtype && self.natural.1 == ty.dims
    }
}

pub enum Item {
    Tensor(u32),
    Const(Py<PyAny>),
    /// A CPU tensor, with its version.
    Host(Py<PyAny>, i64),
    Number(u32),
    /// A tuple of numbers: the first, and how many.
    Numbers(u32, u32),
    Any,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// All of a dict.
    Dict,
    /// Some names of a dict.
    Names,
    List,
    Tuple,
    Attr,
}

pub struct Site {
    kind: Kind,
    pub container: Py<PyAny>,
    keys: Vec<Py<PyAny>>,
    items: Vec<Item>,
    path: String,
}

/// Sites and tensors of one program.
#[derive(Default)]
pub struct Guard {
    pub sites: Vec<Site>,
    pub tensors: Vec<Geometry>,
    pub places: usize,
}

/// What a call found.
pub struct Found {
    pub cells: Vec<u32>,
    pub objects: Vec<*mut PyObject>,
    pub numbers: Vec<f64>,
}

/// A condition that does not hold, in words.
pub type Broken = String;

enum Step {
    Fine,
    Broken(Broken),
}

impl Guard {
    pub fn add_tensor(
        &mut self,
        py: Python<'_>,
        tensor: &Bound<'_, PyAny>,
        path: String,
        place: Option<u32>,
        check_grad: bool,
    ) -> PyResult<()> {
        // SAFETY: a live tensor.
        let dl = unsafe { dlpack::borrow(py, tensor.as_ptr())? };
        let t = dl.arg().ok_or_else(|| PyValueError::new_err("jit: a dtype that pjrt lacks"))?;
        let natural = if t.slot == 0 {
            (t.dtype, Dims::new())
        } else {
            slots::with(t.slot, |s| (s.dtype, s.dims.clone())).map_err(to_py)?
        };
        self.tensors.push(Geometry {
            path,
            dtype: t.dtype,
            sizes: Dims::from_slice(t.sizes),
            strides: Dims::from_slice(t.strides),
            offset: t.offset,
            natural,
            requires_grad: tensor.getattr(pyo3::intern!(py, "requires_grad"))?.extract()?,
            place,
            check_grad,
        });
        Ok(())
    }

    /// Adds a site: `kind`, the container, its keys, and an item for each: an int for a tensor, else `(tag, ...)`.
    pub fn add_site(&mut self, site: &Bound<'_, PyTuple>) -> PyResult<()> {
        let kind = match site.get_item(0)?.extract::<&str>()? {
            "dict" => Kind::Dict,
            "names" => Kind::Names,
            "list" => Kind::List,
            "tuple" => Kind::Tuple,
            "attr" => Kind::Attr,
            other => return Err(PyValueError::new_err(format!("no site is called {other}"))),
        };
        let mut items = Vec::new();
        for item in site.get_item(3)?.try_iter()? {
            let item = item?;
            items.push(if item.is_none() {
                Item::Any
            } else if let Ok(i) = item.extract::<u32>() {
                Item::Tensor(i)
            } else {
                let tag: String = item.get_item(0)?.extract()?;
                match &tag[..] {
                    "const" => Item::Const(item.get_item(1)?.unbind()),
                    "number" => Item::Number(item.get_item(1)?.extract()?),
                    "numbers" => Item::Numbers(item.get_item(1)?.extract()?, item.get_item(2)?.extract()?),
                    _ => Item::Host(item.get_item(1)?.unbind(), item.get_item(2)?.extract()?),
                }
            });
        }
        let keys = site.get_item(2)?.try_iter()?.map(|k| k.map(Bound::unbind)).collect::<PyResult<Vec<_>>>()?;
        self.sites.push(Site {
            kind,
            container: site.get_item(1)?.unbind(),
            keys,
            items,
            path: site.get_item(4)?.extract()?,
        });
        Ok(())
    }

    /// Looks at everything. `args` are the tensors that were passed, `floats` the numbers.
    ///
    /// # Safety
    /// The objects of `args` are live; those of the result are while nobody else runs Python code.
    pub unsafe fn check(
        &mut self,
        py: Python<'_>,
        args: &[*mut PyObject],
        floats: &[f64],
        numbers: usize,
        scratch: &mut Scratch,
    ) -> PyResult<Result<Found, Broken>> {
        let mut found = Found {
            cells: vec![u32::MAX; self.places],
            objects: vec![std::ptr::null_mut(); self.tensors.len()],
            numbers: Vec::with_capacity(numbers),
        };
        found.numbers.extend_from_slice(floats);
        found.numbers.resize(numbers, 0.0);
        scratch.next();
        let Guard { sites, tensors, .. } = self;
        for (i, &object) in args.iter().enumerate() {
            // SAFETY: by the caller.
            if let Step::Broken(b) = unsafe { bind(py, tensors, i, object, &mut found, scratch)? } {
                return Ok(Err(b));
            }
        }
        for site in sites {
            // SAFETY: containers are alive; what is in them is while it is looked at.
            if let Step::Broken(b) = unsafe { visit(py, site, tensors, &mut found, scratch)? } {
                return Ok(Err(b));
            }
        }
        Ok(Ok(found))
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        for site in &self.sites {
            visit.call(&site.container)?;
            for k in &site.keys {
                visit.call(k)?;
            }
            for item in &site.items {
                if let Item::Const(o) | Item::Host(o, _) = item {
                    visit.call(o)?;
                }
            }
        }
        Ok(())
    }
}

/// Which place of the program a cell is at in this call: two places must not share one.
#[derive(Default)]
pub struct Scratch {
    stamp: u32,
    seen: Vec<(u32, u32)>,
}

impl Scratch {
    fn next(&mut self) {
        self.stamp = self.stamp.wrapping_add(1);
    }

    fn claim(&mut self, slot: u32, place: u32) -> bool {
        let i = slot as usize;
        if i >= self.seen.len() {
            self.seen.resize((i + 1).next_power_of_two(), (0, 0));
        }
        if self.seen[i].0 == self.stamp && self.seen[i].1 != place {
            return false;
        }
        self.seen[i] = (self.stamp, place);
        true
    }
}

unsafe fn bind(
    py: Python<'_>,
    tensors: &[Geometry],
    i: usize,
    object: *mut PyObject,
    found: &mut Found,
    scratch: &mut Scratch,
) -> PyResult<Step> {
    if found.objects[i] == object {
        return Ok(Step::Fine);
    }
    let want = &tensors[i];
    // SAFETY: a live object; anything but a tensor raises.
    let dl = match unsafe { dlpack::borrow(py, object) } {
        Ok(dl) => dl,
        Err(_) => return Ok(Step::Broken(format!("{} is no tensor any more", want.path))),
    };
    let Some(t) = dl.arg().filter(|_| dl.is_pjrt()) else {
        return Ok(Step::Broken(format!("{} is no longer on the pjrt device", want.path)));
    };
    if t.dtype != want.dtype {
        return Ok(Step::Broken(format!("{}: dtype {}, was {}", want.path, t.dtype.name(), want.dtype.name())));
    }
    if *t.sizes != want.sizes[..] {
        return Ok(Step::Broken(format!("{}: shape {:?}, was {:?}", want.path, t.sizes, &want.sizes[..])));
    }
    if *t.strides != want.strides[..] || t.offset != want.offset {
        return Ok(Step::Broken(format!("{}: strides or offset changed", want.path)));
    }
    if want.check_grad {
        // SAFETY: a live tensor.
        let flag = unsafe { ffi::PyObject_GetAttr(object, pyo3::intern!(py, "requires_grad").as_ptr()) };
        // SAFETY: as above; True and False are immortal.
        let on = unsafe {
            ffi::Py_XDECREF(flag);
            flag == ffi::Py_True()
        };
        if on != want.requires_grad {
            return Ok(Step::Broken(format!("{}: requires_grad {on}, was {}", want.path, want.requires_grad)));
        }
    }
    if let Some(place) = want.place {
        let cell = &mut found.cells[place as usize];
        if *cell == u32::MAX {
            let natural = slots::with(t.slot, |s| s.dtype == want.natural.0 && s.dims == want.natural.1);
            if !natural.map_err(to_py)? {
                return Ok(Step::Broken(format!("{}: its storage has another layout", want.path)));
            }
            *cell = t.slot;
            if !scratch.claim(t.slot, place) {
                return Ok(Step::Broken(format!("{} shares its memory with another tensor now", want.path)));
            }
        } else if *cell != t.slot {
            return Ok(Step::Broken(format!("{} no longer shares its memory with its alias", want.path)));
        }
    }
    if found.objects[i].is_null() {
        found.objects[i] = object;
    }
    Ok(Step::Fine)
}

unsafe fn visit(
    py: Python<'_>,
    site: &mut Site,
    tensors: &[Geometry],
    found: &mut Found,
    scratch: &mut Scratch,
) -> PyResult<Step> {
    let container = site.container.as_ptr();
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
                    if let Step::Broken(b) = item(py, site, i, value, tensors, found, scratch)? {
                        return Ok(Step::Broken(b));
                    }
                    i += 1;
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
            Kind::Names => {
                for i in 0..n {
                    let value = ffi::PyDict_GetItem(container, site.keys[i].as_ptr());
                    if value.is_null() {
                        return Ok(Step::Broken(format!("{} lost a name", site.path)));
                    }
                    if let Step::Broken(b) = item(py, site, i, value, tensors, found, scratch)? {
                        return Ok(Step::Broken(b));
                    }
                }
            }
            Kind::Attr => {
                for i in 0..n {
                    let value = ffi::PyObject_GetAttr(container, site.keys[i].as_ptr());
                    if value.is_null() {
                        ffi::PyErr_Clear();
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

unsafe fn equal(py: Python<'_>, a: *mut PyObject, b: *mut PyObject) -> bool {
    // SAFETY: live objects. Only strings are compared by value: comparing tensors would run a kernel.
    unsafe {
        if ffi::PyUnicode_Check(a) == 0 || ffi::PyUnicode_Check(b) == 0 {
            return false;
        }
        Bound::from_borrowed_ptr(py, a).eq(Bound::from_borrowed_ptr(py, b)).unwrap_or(false)
    }
}

unsafe fn item(
    py: Python<'_>,
    site: &mut Site,
    i: usize,
    value: *mut PyObject,
    tensors: &[Geometry],
    found: &mut Found,
    scratch: &mut Scratch,
) -> PyResult<Step> {
    // SAFETY: live objects, by the caller.
    unsafe {
        match &mut site.items[i] {
            Item::Any => Ok(Step::Fine),
            Item::Tensor(t) => bind(py, tensors, *t as usize, value, found, scratch),
            Item::Number(k) => {
                if ffi::PyFloat_Check(value) == 0 {
                    return Ok(Step::Broken(format!("{}: a number became something else", name(py, site, i))));
                }
                found.numbers[*k as usize] = ffi::PyFloat_AsDouble(value);
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
            Item::Host(expected, version) => {
                if value != expected.as_ptr() {
                    return Ok(Step::Broken(format!("{} is another CPU tensor", name(py, site, i))));
                }
                let now: i64 = expected.bind(py).getattr(pyo3::intern!(py, "_version"))?.extract()?;
                let was = *version;
                if now != was {
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
                let (was, is) = (was.call1((expected.bind(py),))?, was.call1((&now,))?);
                Ok(Step::Broken(format!("{} is {is}, was {was}", name(py, site, i))))
            }
        }
    }
}

fn name(py: Python<'_>, site: &Site, i: usize) -> String {
    let key = site.keys.get(i).map(|k| k.bind(py).str().map(|s| s.to_string()).unwrap_or_default());
    match (site.kind, key) {
        (Kind::Attr, Some(k)) if k == "cell_contents" => site.path.clone(),
        (Kind::Attr, Some(k)) => format!("{}.{k}", site.path),
        (Kind::Names, Some(k)) => k,
        (_, Some(k)) if site.path.ends_with(".__dict__") => format!("{}.{k}", site.path.trim_end_matches(".__dict__")),
        (_, Some(k)) => format!("{}[{k:?}]", site.path),
        (_, None) => format!("{}[{i}]", site.path),
    }
}

/// The sites of a Python list.
pub fn sites_of(guard: &mut Guard, sites: &Bound<'_, PyList>) -> PyResult<()> {
    for site in sites.iter() {
        guard.add_site(site.cast::<PyTuple>()?)?;
    }
    Ok(())
}
