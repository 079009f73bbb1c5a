//! The parts of the PJRT C API that the runtime uses, written by hand.
//!
//! Names of structs and fields are those of `pjrt_c_api.h`, so that the layout test can compare each with a
//! real header. Every argument struct ends in [`ROOM`] spare words, always zero and counted in `struct_size`:
//! a plugin rejects a struct shorter than the one it was built with, and reads zero as "not set" in any field
//! added later, so one set of structs serves older and newer plugins alike.
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

mod api;
mod buffer;
mod client;
mod device;
mod error;
mod event;
mod executable;
mod topology;

pub use api::*;
pub use buffer::*;
pub use client::*;
pub use device::*;
pub use error::*;
pub use event::*;
pub use executable::*;
pub use topology::*;

/// Spare zero words at the end of each argument struct.
pub const ROOM: usize = 8;

/// Head of the chain of optional extensions that plugins hang on the function table.
#[repr(C)]
pub struct Extension {
    pub struct_size: usize,
    pub r#type: i32,
    pub next: *mut Extension,
}

/// Name, unpadded size and field offsets of one struct, for the layout test.
pub struct Layout {
    pub name: &'static str,
    pub size: usize,
    pub fields: &'static [(&'static str, usize)],
}

/// The argument struct of one function of the table.
///
/// # Safety
/// `OFFSET` must be the offset in [`PJRT_Api`] of a function that takes a pointer to `Self` and returns a
/// `PJRT_Error*`, and all-zero bytes must be a valid `Self`.
pub unsafe trait Args: Sized {
    const NAME: &'static str;
    const OFFSET: usize;
    fn set_struct_size(&mut self);
}

/// A handle that only the plugin looks into.
macro_rules! opaque {
    ($($name:ident),* $(,)?) => {$(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}
pub(crate) use opaque;

/// Structs that begin with `struct_size` and `extension_start`. `Name => Function { fields }` also ties the struct
/// to its function in the table.
macro_rules! structs {
    ($($(#[$meta:meta])* $name:ident $(=> $entry:ident)? { $($field:ident: $ty:ty),* $(,)? })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            pub struct $name {
                pub struct_size: usize,
                pub extension_start: *mut super::Extension,
                $(pub $field: $ty,)*
                #[doc(hidden)]
                pub room: [usize; super::ROOM],
            }

            impl Default for $name {
                fn default() -> Self {
                    // SAFETY: every field is an integer, a bool, a raw pointer, an optional function or a struct of
                    // those, for all of which zero is a valid value.
                    let mut zero: Self = unsafe { std::mem::zeroed() };
                    zero.struct_size = size_of::<Self>();
                    zero
                }
            }

            $(
                // SAFETY: the header pairs this struct with this function; the layout test checks names and offsets.
                unsafe impl super::Args for $name {
                    const NAME: &'static str = stringify!($entry);
                    const OFFSET: usize = std::mem::offset_of!(super::PJRT_Api, $entry);
                    #[inline]
                    fn set_struct_size(&mut self) {
                        self.struct_size = size_of::<Self>();
                    }
                }
            )?
        )*

        /// Layouts of this file's structs, for the layout test.
        pub(super) const LAYOUTS: &[super::Layout] = &[$(super::Layout {
            name: stringify!($name),
            size: {
                #[allow(unused_mut, unused_assignments)]
                let mut end = 2 * size_of::<usize>();
                $(end = std::mem::offset_of!($name, $field) + size_of::<$ty>();)*
                end
            },
            fields: &[$((stringify!($field), std::mem::offset_of!($name, $field)),)*],
        }),*];
    };
}
pub(crate) use structs;

/// Every hand-written struct, for the layout test.
pub fn layouts() -> impl Iterator<Item = &'static Layout> {
    [
        buffer::LAYOUTS,
        client::LAYOUTS,
        device::LAYOUTS,
        error::LAYOUTS,
        event::LAYOUTS,
        executable::LAYOUTS,
        topology::LAYOUTS,
    ]
    .into_iter()
    .flatten()
}
