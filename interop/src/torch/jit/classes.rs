//! Classes: what methods do. Their attributes are guarded where they are; here it is whose they are, and that none is new.

use super::guard::Step;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};
use pyo3::{PyTraverseError, PyVisit};

/// An object that was found, and its class.
struct Typed {
    object: Py<PyAny>,
    class: *mut ffi::PyTypeObject,
    path: Box<str>,
}

/// A class of the user's: its bases, and how many attributes it defines.
struct Defined {
    class: Py<PyType>,
    bases: Py<PyAny>,
    attributes: usize,
}

#[derive(Default)]
pub struct Classes {
    objects: Vec<Typed>,
    defined: Vec<Defined>,
}

// SAFETY: the pointers to classes are only compared, with the interpreter's lock held.
unsafe impl Send for Classes {}
// SAFETY: as above.
unsafe impl Sync for Classes {}

fn attributes(class: &Bound<'_, PyType>) -> PyResult<usize> {
    class.getattr(pyo3::intern!(class.py(), "__dict__"))?.len()
}

impl Classes {
    /// Takes note of objects, given as `(object, path)`, and of classes.
    pub fn new(objects: &Bound<'_, PyList>, classes: Vec<Bound<'_, PyType>>) -> PyResult<Self> {
        let mut made = Self::default();
        for o in objects.iter() {
            let (object, path): (Bound<'_, PyAny>, String) = o.extract()?;
            let class = object.get_type_ptr();
            made.objects.push(Typed { object: object.unbind(), class, path: path.into() });
        }
        for class in classes {
            let bases = class.bases().into_any().unbind();
            made.defined.push(Defined { bases, attributes: attributes(&class)?, class: class.unbind() });
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
            if attributes(class)? != d.attributes {
                return Ok(Step::Broken(format!("class {} has other attributes", class.qualname()?)));
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
        }
        Ok(())
    }
}
