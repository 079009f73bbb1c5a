//! Keys with typed values: create options, plugin and device attributes, cost analysis.

use std::ffi::c_void;
use std::fmt;

use super::call::{slice, string};
use super::ffi::{self, NamedValueUnion, PJRT_NamedValue};

/// The value of an option or attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum NamedValue {
    String(String),
    Int(i64),
    Ints(Vec<i64>),
    Float(f32),
    Bool(bool),
}

impl fmt::Display for NamedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Ints(value) => write!(f, "{value:?}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Bool(value) => write!(f, "{value}"),
        }
    }
}

impl NamedValue {
    /// The plugin's form of an option. Borrows both, so they must outlive the call that reads it.
    pub(super) fn to_raw(&self, name: &str) -> PJRT_NamedValue {
        let (r#type, value, value_size) = match self {
            Self::String(value) => {
                (ffi::PJRT_NamedValue_kString, NamedValueUnion { string_value: value.as_ptr() }, value.len())
            }
            Self::Int(value) => (ffi::PJRT_NamedValue_kInt64, NamedValueUnion { int64_value: *value }, 1),
            Self::Ints(value) => {
                (ffi::PJRT_NamedValue_kInt64List, NamedValueUnion { int64_array_value: value.as_ptr() }, value.len())
            }
            Self::Float(value) => (ffi::PJRT_NamedValue_kFloat, NamedValueUnion { float_value: *value }, 1),
            Self::Bool(value) => (ffi::PJRT_NamedValue_kBool, NamedValueUnion { bool_value: *value }, 1),
        };
        PJRT_NamedValue {
            struct_size: size_of::<PJRT_NamedValue>(),
            extension_start: std::ptr::null_mut(),
            name: name.as_ptr(),
            name_size: name.len(),
            r#type,
            value,
            value_size,
        }
    }

    /// Copies a plugin's array of named values. A value of a type added since is left out.
    ///
    /// # Safety
    /// `data` is null or points to `size` named values.
    pub(super) unsafe fn read_all(data: *const PJRT_NamedValue, size: usize) -> Vec<(String, Self)> {
        if data.is_null() || size == 0 {
            return Vec::new();
        }
        let mut all = Vec::with_capacity(size);
        // A newer plugin's elements may be longer than ours: each says its own size, and that is the stride.
        // SAFETY: there is a first element.
        let stride = unsafe { (*data).struct_size }.max(size_of::<PJRT_NamedValue>());
        for i in 0..size {
            // SAFETY: element `i` of the plugin's array.
            let raw = unsafe { &*data.cast::<c_void>().byte_add(i * stride).cast::<PJRT_NamedValue>() };
            // SAFETY: the tag says which member of the union is set, and names and arrays carry their length.
            let (name, value) = unsafe {
                let value = match raw.r#type {
                    ffi::PJRT_NamedValue_kString => Self::String(string(raw.value.string_value, raw.value_size)),
                    ffi::PJRT_NamedValue_kInt64 => Self::Int(raw.value.int64_value),
                    ffi::PJRT_NamedValue_kInt64List => {
                        Self::Ints(slice(raw.value.int64_array_value, raw.value_size).to_vec())
                    }
                    ffi::PJRT_NamedValue_kFloat => Self::Float(raw.value.float_value),
                    ffi::PJRT_NamedValue_kBool => Self::Bool(raw.value.bool_value),
                    _ => continue,
                };
                (string(raw.name, raw.name_size), value)
            };
            all.push((name, value));
        }
        all
    }
}
