//! What a traced program takes for granted about the objects that it was traced with, checked before each of its runs.
//!
//! A site is a container that tracing could see: the `__dict__` of a module, a list, a closure's cell, the `grad` of a
//! parameter. It lists what was in it. A tensor there may be another one at the next call, as long as it has the same
//! geometry: the program then reads that one. Anything else must be the same, or equal.

use super::bind::bind;
use super::classes::Classes;
use super::geometry::Geometry;
use super::hooks;
use super::look::visit;
use super::memory::{self, Seen};
use super::tags;
use crate::torch::layout::{Layout, layout, may_look};
use crate::torch::types;
use pyo3::exceptions::PyValueError;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyIterator, PyList, PyTuple, PyType};
use pyo3::{PyTraverseError, PyVisit};

/// What was found at a key. A call reads thousands of these, so what is rare is behind a pointer.
pub enum Item {
    Tensor(u32),
    Const(Py<PyAny>),
    /// A CPU tensor, with what was seen of it.
    Host(Box<(Py<PyAny>, Seen)>),
    /// A hash of memory.
    Bytes(u64),
    Number(u32),
    /// A whole number.
    Count(u32),
    /// A tuple of numbers: the first, and how many.
    Numbers(u32, u32),
    Sparse(Box<SparseItem>),
    /// A tuple of tensors, which another may replace.
    Pack(Box<[u32]>),
    /// Nothing: the name or attribute is not there.
    Absent,
    Any,
}

/// A sparse tensor: what else it must be like, and its indices and values if the program reads them.
pub struct SparseItem {
    pub parts: Option<(u32, u32)>,
    pub kind: Py<PyAny>,
    pub path: String,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// All of a dict.
    Dict,
    /// All of an `OrderedDict`, whose order is its own.
    Ordered,
    /// Some names of a dict.
    Names,
    List,
    Tuple,
    Attr,
    /// All of a set, beside a frozen copy of it.
    Set,
    /// The bytes of something that lets others read its memory.
    Memory,
    /// The `grad` of a tensor.
    Grad,
}

pub struct Site {
    pub kind: Kind,
    pub container: Py<PyAny>,
    /// The tensor whose `grad` or attributes it is: that of the tensor which is found in its place.
    pub(super) of: Option<u32>,
    pub keys: Box<[Py<PyAny>]>,
    pub items: Box<[Item]>,
    pub path: Box<str>,
    /// The tag of a dict when all of it was last seen to be as it was; 0 where there is none.
    pub(super) tag: u64,
    /// What it held then that may change in itself, with its place among the items.
    pub(super) loose: Vec<(u32, usize)>,
}

impl Site {
    /// Keeps an item of a dict with this tag, to look at it again.
    pub(super) fn keep(&mut self, i: usize, value: *mut PyObject, tag: u64) {
        if tag != 0 && !matches!(self.items[i], Item::Const(_) | Item::Any) {
            self.loose.push((i as u32, value as usize));
        }
    }
}

/// Sites and tensors of one program.
#[derive(Default)]
pub struct Guard {
    pub sites: Vec<Site>,
    /// Tables of hooks that are empty: they get their first hook from torch, which counts it.
    pub no_hooks: Vec<Site>,
    /// What belongs to tensors: to those that are found in their places, so these come last.
    pub belongings: Vec<Site>,
    pub tensors: Vec<Geometry>,
    pub classes: Classes,
    pub places: usize,
    /// torch's count of hooks, when it was last seen that no tensor and no empty table has got its first one.
    pub(super) hooks: i64,
}

/// What a call found.
#[derive(Default)]
pub struct Found {
    pub cells: Vec<u32>,
    pub objects: Vec<*mut PyObject>,
    pub numbers: Vec<f64>,
    /// What was found, which other threads may replace in its places.
    pub held: Vec<Py<PyAny>>,
}

/// A condition that does not hold, in words.
pub type Broken = String;

pub enum Step {
    Fine,
    Broken(Broken),
}

impl Guard {
    /// Adds a site: `kind`, the container, its keys, and an item for each: an int for a tensor, else `(tag, ...)`.
    pub fn add_site(&mut self, site: &Bound<'_, PyTuple>) -> PyResult<()> {
        let py = site.py();
        let kind = match site.get_item(0)?.extract::<&str>()? {
            "dict" => Kind::Dict,
            "names" => Kind::Names,
            "list" => Kind::List,
            "tuple" => Kind::Tuple,
            "attr" => Kind::Attr,
            "set" => Kind::Set,
            "memory" => Kind::Memory,
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
                    "absent" => Item::Absent,
                    "number" => Item::Number(item.get_item(1)?.extract()?),
                    "count" => Item::Count(item.get_item(1)?.extract()?),
                    "numbers" => Item::Numbers(item.get_item(1)?.extract()?, item.get_item(2)?.extract()?),
                    "pack" => Item::Pack(item.get_item(1)?.extract::<Vec<u32>>()?.into()),
                    "sparse" => {
                        let indices: Option<u32> = item.get_item(1)?.extract()?;
                        let values: Option<u32> = item.get_item(2)?.extract()?;
                        Item::Sparse(Box::new(SparseItem {
                            parts: indices.zip(values),
                            kind: item.get_item(3)?.unbind(),
                            path: item.get_item(4)?.extract()?,
                        }))
                    }
                    "bytes" => Item::Bytes(memory::hash(&site.get_item(1)?).ok_or_else(unreadable)?),
                    _ => {
                        let host = item.get_item(1)?;
                        let seen = Seen::of(&host)?;
                        Item::Host(Box::new((host.unbind(), seen)))
                    }
                }
            });
        }
        let keys = site.get_item(2)?.try_iter()?.map(|k| k.map(Bound::unbind)).collect::<PyResult<Box<[_]>>>()?;
        let container = site.get_item(1)?;
        let is_grad = |k: &Py<PyAny>| k.bind(py).eq("grad").unwrap_or(false);
        let of_tensor = types::is_tensor_type(container.get_type().as_ptr() as usize);
        let kind = match kind {
            Kind::Attr if of_tensor && keys.len() == 1 && is_grad(&keys[0]) => Kind::Grad,
            Kind::Dict if keys.len() > 1 && container.is_instance(ordered(py)?)? => Kind::Ordered,
            kind => kind,
        };
        let path = site.get_item(4)?.extract::<String>()?.into();
        let of = match kind {
            Kind::Grad => self.index_of(container.as_ptr()),
            Kind::Dict => self.index_of_owner(py, container.as_ptr()),
            _ => None,
        };
        let site = Site {
            kind,
            of,
            container: container.unbind(),
            keys,
            items: items.into(),
            path,
            tag: 0,
            loose: Vec::new(),
        };
        let sites = if site.of.is_some() {
            &mut self.belongings
        } else if hooks::is_empty_table(&site) {
            &mut self.no_hooks
        } else {
            &mut self.sites
        };
        sites.push(site);
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
        let mut found = std::mem::take(&mut scratch.spare);
        found.cells.resize(self.places, u32::MAX);
        found.objects.resize(self.tensors.len(), std::ptr::null_mut());
        found.numbers.extend_from_slice(floats);
        found.numbers.resize(numbers, 0.0);
        scratch.next(py);
        let Guard { sites, no_hooks, belongings, tensors, classes, hooks, .. } = self;
        if let Step::Broken(b) = classes.check(py, scratch.tags)? {
            return Ok(Err(b));
        }
        for (i, &object) in args.iter().enumerate() {
            // SAFETY: by the caller.
            if let Step::Broken(b) = unsafe { bind(py, tensors, i, object, &mut found, scratch)? } {
                return Ok(Err(b));
            }
        }
        let count = hooks::count(py)?;
        let unseen = if count == *hooks { &mut [] } else { &mut no_hooks[..] };
        for site in sites.iter_mut().chain(unseen).chain(belongings) {
            // SAFETY: containers are alive; what is in them is while it is looked at.
            if let Step::Broken(b) = unsafe { visit(py, site, tensors, &mut found, scratch)? } {
                return Ok(Err(b));
            }
        }
        if count != *hooks {
            // SAFETY: what was found is alive, as above.
            if let Step::Broken(b) = unsafe { hooks::first_ones(py, tensors, &found)? } {
                return Ok(Err(b));
            }
            *hooks = count;
        }
        Ok(Ok(found))
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.classes.traverse(visit)?;
        for site in self.sites.iter().chain(&self.no_hooks).chain(&self.belongings) {
            visit.call(&site.container)?;
            for k in &site.keys {
                visit.call(k)?;
            }
            for item in &site.items {
                match item {
                    Item::Const(o) => visit.call(o)?,
                    Item::Host(host) => visit.call(&host.0)?,
                    Item::Sparse(sparse) => visit.call(&sparse.kind)?,
                    Item::Tensor(_)
                    | Item::Number(_)
                    | Item::Count(_)
                    | Item::Bytes(_)
                    | Item::Numbers(..)
                    | Item::Pack(_)
                    | Item::Absent
                    | Item::Any => {}
                }
            }
        }
        Ok(())
    }
}

/// What calls of a thread use one after the other.
#[derive(Default)]
pub struct Scratch {
    /// Which place of the program a cell is at in this call: two places must not share one.
    seen: Vec<(u32, u32)>,
    stamp: u32,
    spare: Found,
    pub(super) layout: Option<Layout>,
    /// Whether dicts tell that they have changed.
    pub(super) tags: bool,
}

impl Scratch {
    fn next(&mut self, py: Python<'_>) {
        self.stamp = self.stamp.wrapping_add(1);
        self.layout = layout(py);
        self.tags = may_look() && tags::are_told(py);
    }

    /// Takes back what a call found, for the memory; what it held has been let go.
    pub fn take_back(&mut self, mut found: Found) {
        found.cells.clear();
        found.objects.clear();
        found.numbers.clear();
        self.spare = found;
    }

    pub fn claim(&mut self, slot: u32, place: u32) -> bool {
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

fn unreadable() -> PyErr {
    PyValueError::new_err("jit: memory that cannot be read as one piece")
}

/// `collections.OrderedDict`.
fn ordered(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    Ok(TYPE.import(py, "collections", "OrderedDict")?.as_any())
}

/// The keys of an `OrderedDict` in its order.
pub fn in_order<'py>(container: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    let py = container.py();
    ordered(py)?.getattr(pyo3::intern!(py, "__iter__"))?.call1((container,))?.try_iter()
}

/// The sites of a Python list.
pub fn sites_of(guard: &mut Guard, sites: &Bound<'_, PyList>) -> PyResult<()> {
    for site in sites.iter() {
        guard.add_site(site.cast::<PyTuple>()?)?;
    }
    Ok(())
}
