//! Buffers: making them from host memory, reading, copying, deleting.

use std::ffi::c_void;

use super::{Extension, PJRT_Client, PJRT_Device, PJRT_Event, PJRT_Memory, opaque, structs};

opaque!(PJRT_Buffer);

pub const PJRT_HostBufferSemantics_kImmutableOnlyDuringCall: i32 = 0;
pub const PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes: i32 = 1;
pub const PJRT_HostBufferSemantics_kImmutableZeroCopy: i32 = 2;
pub const PJRT_HostBufferSemantics_kMutableZeroCopy: i32 = 3;

pub const PJRT_Buffer_MemoryLayout_Type_Tiled: i32 = 0;

/// A layout as an order of dimensions, with optional tiles. Lives inside a union, so it has no spare room.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_MemoryLayout_Tiled {
    pub struct_size: usize,
    pub extension_start: *mut Extension,
    pub minor_to_major: *const i64,
    pub minor_to_major_size: usize,
    pub tile_dims: *const i64,
    pub tile_dim_sizes: *const usize,
    pub num_tiles: usize,
}

structs! {
    /// The union's larger member stands for the union.
    PJRT_Buffer_MemoryLayout { tiled: PJRT_Buffer_MemoryLayout_Tiled, r#type: i32 }
    PJRT_Client_BufferFromHostBuffer_Args => PJRT_Client_BufferFromHostBuffer {
        client: *mut PJRT_Client,
        data: *const c_void,
        r#type: i32,
        dims: *const i64,
        num_dims: usize,
        byte_strides: *const i64,
        num_byte_strides: usize,
        host_buffer_semantics: i32,
        device: *mut PJRT_Device,
        memory: *mut PJRT_Memory,
        device_layout: *mut PJRT_Buffer_MemoryLayout,
        done_with_host_buffer: *mut PJRT_Event,
        buffer: *mut PJRT_Buffer,
    }
    PJRT_Client_CreateViewOfDeviceBuffer_Args => PJRT_Client_CreateViewOfDeviceBuffer {
        client: *mut PJRT_Client,
        device_buffer_ptr: *mut c_void,
        dims: *const i64,
        num_dims: usize,
        element_type: i32,
        layout: *mut PJRT_Buffer_MemoryLayout,
        device: *mut PJRT_Device,
        on_delete_callback: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
        on_delete_callback_arg: *mut c_void,
        stream: isize,
        buffer: *mut PJRT_Buffer,
        memory: *mut PJRT_Memory,
    }
    PJRT_Buffer_Destroy_Args => PJRT_Buffer_Destroy { buffer: *mut PJRT_Buffer }
    PJRT_Buffer_ElementType_Args => PJRT_Buffer_ElementType { buffer: *mut PJRT_Buffer, r#type: i32 }
    PJRT_Buffer_Dimensions_Args => PJRT_Buffer_Dimensions {
        buffer: *mut PJRT_Buffer,
        dims: *const i64,
        num_dims: usize,
    }
    PJRT_Buffer_ToHostBuffer_Args => PJRT_Buffer_ToHostBuffer {
        src: *mut PJRT_Buffer,
        host_layout: *mut PJRT_Buffer_MemoryLayout,
        dst: *mut c_void,
        dst_size: usize,
        event: *mut PJRT_Event,
    }
    PJRT_Buffer_OnDeviceSizeInBytes_Args => PJRT_Buffer_OnDeviceSizeInBytes {
        buffer: *mut PJRT_Buffer,
        on_device_size_in_bytes: usize,
    }
    PJRT_Buffer_Delete_Args => PJRT_Buffer_Delete { buffer: *mut PJRT_Buffer }
    PJRT_Buffer_IsDeleted_Args => PJRT_Buffer_IsDeleted { buffer: *mut PJRT_Buffer, is_deleted: bool }
    PJRT_Buffer_CopyToDevice_Args => PJRT_Buffer_CopyToDevice {
        buffer: *mut PJRT_Buffer,
        dst_device: *mut PJRT_Device,
        dst_buffer: *mut PJRT_Buffer,
    }
    PJRT_Buffer_CopyToMemory_Args => PJRT_Buffer_CopyToMemory {
        buffer: *mut PJRT_Buffer,
        dst_memory: *mut PJRT_Memory,
        dst_buffer: *mut PJRT_Buffer,
    }
    PJRT_Buffer_IsOnCpu_Args => PJRT_Buffer_IsOnCpu { buffer: *mut PJRT_Buffer, is_on_cpu: bool }
    PJRT_Buffer_Device_Args => PJRT_Buffer_Device { buffer: *mut PJRT_Buffer, device: *mut PJRT_Device }
    PJRT_Buffer_Memory_Args => PJRT_Buffer_Memory { buffer: *mut PJRT_Buffer, memory: *mut PJRT_Memory }
    PJRT_Buffer_ReadyEvent_Args => PJRT_Buffer_ReadyEvent { buffer: *mut PJRT_Buffer, event: *mut PJRT_Event }
    PJRT_Buffer_UnsafePointer_Args => PJRT_Buffer_UnsafePointer { buffer: *mut PJRT_Buffer, buffer_pointer: usize }
    PJRT_Buffer_IncreaseExternalReferenceCount_Args => PJRT_Buffer_IncreaseExternalReferenceCount {
        buffer: *mut PJRT_Buffer,
    }
    PJRT_Buffer_DecreaseExternalReferenceCount_Args => PJRT_Buffer_DecreaseExternalReferenceCount {
        buffer: *mut PJRT_Buffer,
    }
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args => PJRT_Buffer_OpaqueDeviceMemoryDataPointer {
        buffer: *mut PJRT_Buffer,
        device_memory_ptr: *mut c_void,
    }
}
