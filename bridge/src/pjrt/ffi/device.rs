//! Devices, their descriptions and memories.

use super::{PJRT_NamedValue, opaque, structs};

opaque!(PJRT_Device, PJRT_DeviceDescription, PJRT_Memory);

structs! {
    PJRT_DeviceDescription_Id_Args => PJRT_DeviceDescription_Id {
        device_description: *mut PJRT_DeviceDescription,
        id: i32,
    }
    PJRT_DeviceDescription_ProcessIndex_Args => PJRT_DeviceDescription_ProcessIndex {
        device_description: *mut PJRT_DeviceDescription,
        process_index: i32,
    }
    PJRT_DeviceDescription_Attributes_Args => PJRT_DeviceDescription_Attributes {
        device_description: *mut PJRT_DeviceDescription,
        num_attributes: usize,
        attributes: *const PJRT_NamedValue,
    }
    PJRT_DeviceDescription_Kind_Args => PJRT_DeviceDescription_Kind {
        device_description: *mut PJRT_DeviceDescription,
        device_kind: *const u8,
        device_kind_size: usize,
    }
    PJRT_DeviceDescription_ToString_Args => PJRT_DeviceDescription_ToString {
        device_description: *mut PJRT_DeviceDescription,
        to_string: *const u8,
        to_string_size: usize,
    }
    PJRT_Device_GetDescription_Args => PJRT_Device_GetDescription {
        device: *mut PJRT_Device,
        device_description: *mut PJRT_DeviceDescription,
    }
    PJRT_Device_IsAddressable_Args => PJRT_Device_IsAddressable { device: *mut PJRT_Device, is_addressable: bool }
    PJRT_Device_LocalHardwareId_Args => PJRT_Device_LocalHardwareId {
        device: *mut PJRT_Device,
        local_hardware_id: i32,
    }
    PJRT_Device_AddressableMemories_Args => PJRT_Device_AddressableMemories {
        device: *mut PJRT_Device,
        memories: *const *mut PJRT_Memory,
        num_memories: usize,
    }
    PJRT_Device_DefaultMemory_Args => PJRT_Device_DefaultMemory {
        device: *mut PJRT_Device,
        memory: *mut PJRT_Memory,
    }
    PJRT_Device_MemoryStats_Args => PJRT_Device_MemoryStats {
        device: *mut PJRT_Device,
        bytes_in_use: i64,
        peak_bytes_in_use: i64,
        peak_bytes_in_use_is_set: bool,
        num_allocs: i64,
        num_allocs_is_set: bool,
        largest_alloc_size: i64,
        largest_alloc_size_is_set: bool,
        bytes_limit: i64,
        bytes_limit_is_set: bool,
        bytes_reserved: i64,
        bytes_reserved_is_set: bool,
        peak_bytes_reserved: i64,
        peak_bytes_reserved_is_set: bool,
        bytes_reservable_limit: i64,
        bytes_reservable_limit_is_set: bool,
        largest_free_block_bytes: i64,
        largest_free_block_bytes_is_set: bool,
        pool_bytes: i64,
        pool_bytes_is_set: bool,
        peak_pool_bytes: i64,
        peak_pool_bytes_is_set: bool,
    }
    PJRT_Memory_Id_Args => PJRT_Memory_Id { memory: *mut PJRT_Memory, id: i32 }
    PJRT_Memory_Kind_Args => PJRT_Memory_Kind { memory: *mut PJRT_Memory, kind: *const u8, kind_size: usize }
}
