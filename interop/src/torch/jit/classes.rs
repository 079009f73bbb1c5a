//! Classes: what methods do. Their attributes are guarded where they are; here it is whose they are, that none is new,
//! and that those are the same which give something else each time they are read: class methods, descriptors.

use super::guard::Step;
use super::tags;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyType};
use pyo3::{PyTraverseError, PyVisit};

/// An object that was found, its class, and the dict of its attributes if it has one.
struct Typed {
    object: Py<PyAny>,
    class: *mut ffi::PyTypeObject,
    dict: Option<Py<PyAny>>,
    path: Box<str>,
}

/// A class of the user's: its bases, the dict of what it defines with the names that were in it, and those of its
/// attributes that reading does not show as they are.
struct Defined {
    class: Py<PyType>,
    bases: Py<PyAny>,
    dict: Py<PyDict>,
    /// The tag of that dict when it was last seen to be as it was; 0 where there is none.
    tag: u64,
    names: Box<[Py<PyAny>]>,
    raw: Vec<(Py<PyString>, Py<PyAny>)>,
}

/// A class, with attributes as they are in it.
pub type Given<'py> = (Bound<'py, PyType>, Vec<(Bound<'py, PyString>, Bound<'py, PyAny>)>);

#[derive(Default)]
pub struct Classes {
    objects: Vec<Typed>,
    defined: Vec<Defined>,
}

// SAFETY: the pointers to classes are only compared, with the interpreter's lock held.
unsafe impl Send for Classes {}
// SAFETY: as above.
unsafe impl Sync for Classes {}

/// The dict behind the `__dict__` of a class, which only shows it.
fn attributes<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyDict>> {
    let py = class.py();
    let shown = class.getattr(pyo3::intern!(py, "__dict__"))?;
    let behind = py.import("gc")?.getattr("get_referents")?.call1((shown,))?.get_item(0)?;
    Ok(behind.cast_into::<PyDict>()?)
}

/// The dict of an object's attributes, past properties of that name.
#[pyfunction]
pub fn dict_of<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    // SAFETY: a live object; one without a dict raises.
    unsafe {
        let found = ffi::PyObject_GenericGetDict(object.as_ptr(), std::ptr::null_mut());
        if found.is_null() {
            ffi::PyErr_Clear();
        }
        Bound::from_owned_ptr_or_opt(object.py(), found)
    }
}

impl Classes {
    /// Takes note of objects, given as `(object, path, dict or None)`, and of classes.
    pub fn new(objects: &Bound<'_, PyList>, classes: Vec<Given<'_>>) -> PyResult<Self> {
        let mut made = Self::default();
        for o in objects.iter() {
            let (object, path, dict): (Bound<'_, PyAny>, String, Option<Py<PyAny>>) = o.extract()?;
            let class = object.get_type_ptr();
            made.objects.push(Typed { object: object.unbind(), class, dict, path: path.into() });
        }
        for (class, raw) in classes {
            let bases = class.bases().into_any().unbind();
            let raw = raw.into_iter().map(|(name, v)| (name.unbind(), v.unbind())).collect();
            let dict = attributes(&class)?;
            let names = dict.keys().iter().map(Bound::unbind).collect();
            made.defined.push(Defined { bases, dict: dict.unbind(), tag: 0, names, raw, class: class.unbind() });
        }
        Ok(made)
    }

    /// Looks at all of them; `told` says whether dicts have tags.
    pub fn check(&mut self, py: Python<'_>, told: bool) -> PyResult<Step> {
        for o in &self.objects {
            let object = o.object.bind(py);
            if object.get_type_ptr() != o.class {
                return Ok(Step::Broken(format!("{} is a {} now", o.path, object.get_type().qualname()?)));
            }
            if let Some(was) = &o.dict
                && !dict_of(object).is_some_and(|now| now.is(was))
            {
                return Ok(Step::Broken(format!("{} has another __dict__", o.path)));
            }
        }
        for d in &mut self.defined {
            let class = d.class.bind(py);
            if !class.bases().is(&d.bases) {
                return Ok(Step::Broken(format!("class {} has other bases", class.qualname()?)));
            }
            let now = d.dict.bind(py);
            // SAFETY: the class is alive, and its dict with it.
            let tag = if told { unsafe { tags::tag(now.as_ptr()) } } else { 0 };
            if tag != 0 && tag == d.tag {
                continue;
            }
            if now.len() != d.names.len() || !d.names.iter().all(|name| now.contains(name).unwrap_or(false)) {
                return Ok(Step::Broken(format!("class {} has other attributes", class.qualname()?)));
            }
            for (name, was) in &d.raw {
                if !now.get_item(name)?.is_some_and(|v| v.is(was)) {
                    return Ok(Step::Broken(format!("{}.{} was replaced", class.qualname()?, name.bind(py))));
                }
            }
            d.tag = tag;
        }
        Ok(Step::Fine)
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        for o in &self.objects {
            visit.call(&o.object)?;
            visit.call(&o.dict)?;
        }
        for d in &self.defined {
            visit.call(&d.class)?;
            visit.call(&d.dict)?;
            for (_, v) in &d.raw {
                visit.call(v)?;
            }
        }
        Ok(())
    }
}
