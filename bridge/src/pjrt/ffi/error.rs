//! Errors, named values and plugin start-up.

use super::{opaque, structs};

opaque!(PJRT_Error);

/// The union inside [`PJRT_NamedValue`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union NamedValueUnion {
    pub string_value: *const u8,
    pub int64_value: i64,
    pub int64_array_value: *const i64,
    pub float_value: f32,
    pub bool_value: bool,
}

pub const PJRT_NamedValue_kString: i32 = 0;
pub const PJRT_NamedValue_kInt64: i32 = 1;
pub const PJRT_NamedValue_kInt64List: i32 = 2;
pub const PJRT_NamedValue_kFloat: i32 = 3;
pub const PJRT_NamedValue_kBool: i32 = 4;

/// A key and its typed value. Passed in arrays, so it has no spare room.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_NamedValue {
    pub struct_size: usize,
    pub extension_start: *mut super::Extension,
    pub name: *const u8,
    pub name_size: usize,
    pub r#type: i32,
    pub value: NamedValueUnion,
    pub value_size: usize,
}

structs! {
    PJRT_Error_Destroy_Args { error: *mut PJRT_Error }
    PJRT_Error_Message_Args { error: *const PJRT_Error, message: *const u8, message_size: usize }
    PJRT_Error_GetCode_Args => PJRT_Error_GetCode { error: *const PJRT_Error, code: i32 }
    PJRT_Plugin_Initialize_Args => PJRT_Plugin_Initialize {}
    PJRT_Plugin_Attributes_Args => PJRT_Plugin_Attributes {
        attributes: *const PJRT_NamedValue,
        num_attributes: usize,
    }
}
