//! Classes: what methods do. Their attributes are guarded where they are; here it is whose they are, that none is new,
//! and that those are the same which give something else each time they are read: class methods, descriptors.

use super::guard::Step;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyType};
use pyo3::{PyTraverseError, PyVisit};

/// An object that was found, and its class.
struct Typed {
    object: Py<PyAny>,
    class: *mut ffi::PyTypeObject,
    path: Box<str>,
}

/// A class of the user's: its bases, how many attributes it defines, and those that reading does not show as they are.
struct Defined {
    class: Py<PyType>,
    bases: Py<PyAny>,
    attributes: usize,
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

fn attributes<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    class.getattr(pyo3::intern!(class.py(), "__dict__"))
}

impl Classes {
    /// Takes note of objects, given as `(object, path)`, and of classes.
    pub fn new(objects: &Bound<'_, PyList>, classes: Vec<Given<'_>>) -> PyResult<Self> {
        let mut made = Self::default();
        for o in objects.iter() {
            let (object, path): (Bound<'_, PyAny>, String) = o.extract()?;
            let class = object.get_type_ptr();
            made.objects.push(Typed { object: object.unbind(), class, path: path.into() });
        }
        for (class, raw) in classes {
            let bases = class.bases().into_any().unbind();
            let raw = raw.into_iter().map(|(name, v)| (name.unbind(), v.unbind())).collect();
            made.defined.push(Defined { bases, attributes: attributes(&class)?.len()?, raw, class: class.unbind() });
        }
        Ok(made)
    }

    pub fn check(&self, py: Python<'_>) -> PyResult<Step> {
        for o in &self.objects {
            let object = o.object.bind(py);
            if object.get_type_ptr() != o.class {
                return Ok(Step::Broken(format!("{} is a {} now", o.path, object.get_type().qualname()?)));
            }
        }
        for d in &self.defined {
            let class = d.class.bind(py);
            if !class.bases().is(&d.bases) {
                return Ok(Step::Broken(format!("class {} has other bases", class.qualname()?)));
            }
            let now = attributes(class)?;
            if now.len()? != d.attributes {
                return Ok(Step::Broken(format!("class {} has other attributes", class.qualname()?)));
            }
            for (name, was) in &d.raw {
                if !now.get_item(name).is_ok_and(|v| v.is(was)) {
                    return Ok(Step::Broken(format!("{}.{} was replaced", class.qualname()?, name.bind(py))));
                }
            }
        }
        Ok(Step::Fine)
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        for o in &self.objects {
            visit.call(&o.object)?;
        }
        for d in &self.defined {
            visit.call(&d.class)?;
            for (_, v) in &d.raw {
                visit.call(v)?;
            }
        }
        Ok(())
    }
}
