//! Clients: creation, what they have, compilation.

use std::ffi::c_void;

use super::{
    PJRT_Device, PJRT_LoadedExecutable, PJRT_Memory, PJRT_NamedValue, PJRT_TopologyDescription, opaque, structs,
};

opaque!(PJRT_Client);

structs! {
    PJRT_Client_Create_Args => PJRT_Client_Create {
        create_options: *const PJRT_NamedValue,
        num_options: usize,
        kv_get_callback: *const c_void,
        kv_get_user_arg: *mut c_void,
        kv_put_callback: *const c_void,
        kv_put_user_arg: *mut c_void,
        client: *mut PJRT_Client,
        kv_try_get_callback: *const c_void,
        kv_try_get_user_arg: *mut c_void,
    }
    PJRT_Client_Destroy_Args => PJRT_Client_Destroy { client: *mut PJRT_Client }
    PJRT_Client_PlatformName_Args => PJRT_Client_PlatformName {
        client: *mut PJRT_Client,
        platform_name: *const u8,
        platform_name_size: usize,
    }
    PJRT_Client_PlatformVersion_Args => PJRT_Client_PlatformVersion {
        client: *mut PJRT_Client,
        platform_version: *const u8,
        platform_version_size: usize,
    }
    PJRT_Client_ProcessIndex_Args => PJRT_Client_ProcessIndex { client: *mut PJRT_Client, process_index: i32 }
    PJRT_Client_TopologyDescription_Args => PJRT_Client_TopologyDescription {
        client: *mut PJRT_Client,
        topology: *mut PJRT_TopologyDescription,
    }
    PJRT_Client_Devices_Args => PJRT_Client_Devices {
        client: *mut PJRT_Client,
        devices: *const *mut PJRT_Device,
        num_devices: usize,
    }
    PJRT_Client_AddressableDevices_Args => PJRT_Client_AddressableDevices {
        client: *mut PJRT_Client,
        addressable_devices: *const *mut PJRT_Device,
        num_addressable_devices: usize,
    }
    PJRT_Client_AddressableMemories_Args => PJRT_Client_AddressableMemories {
        client: *mut PJRT_Client,
        addressable_memories: *const *mut PJRT_Memory,
        num_addressable_memories: usize,
    }
    /// Code in the format `format`; the caller owns both strings.
    PJRT_Program {
        code: *mut u8,
        code_size: usize,
        format: *const u8,
        format_size: usize,
    }
    PJRT_Client_Compile_Args => PJRT_Client_Compile {
        client: *mut PJRT_Client,
        program: *const PJRT_Program,
        compile_options: *const u8,
        compile_options_size: usize,
        executable: *mut PJRT_LoadedExecutable,
    }
}
