//! Executables: what was compiled, how to run it, how to store it.

use std::ffi::{c_char, c_void};

use super::{PJRT_Buffer, PJRT_Client, PJRT_Device, PJRT_Event, PJRT_NamedValue, PJRT_Program, opaque, structs};

opaque!(PJRT_Executable, PJRT_LoadedExecutable, PJRT_ExecuteContext, PJRT_SerializedExecutable);

structs! {
    PJRT_Executable_Destroy_Args => PJRT_Executable_Destroy { executable: *mut PJRT_Executable }
    PJRT_LoadedExecutable_Destroy_Args => PJRT_LoadedExecutable_Destroy { executable: *mut PJRT_LoadedExecutable }
    PJRT_LoadedExecutable_GetExecutable_Args => PJRT_LoadedExecutable_GetExecutable {
        loaded_executable: *mut PJRT_LoadedExecutable,
        executable: *mut PJRT_Executable,
    }
    PJRT_LoadedExecutable_AddressableDevices_Args => PJRT_LoadedExecutable_AddressableDevices {
        executable: *mut PJRT_LoadedExecutable,
        addressable_devices: *const *mut PJRT_Device,
        num_addressable_devices: usize,
    }
    PJRT_Executable_Name_Args => PJRT_Executable_Name {
        executable: *mut PJRT_Executable,
        executable_name: *const u8,
        executable_name_size: usize,
    }
    PJRT_Executable_NumReplicas_Args => PJRT_Executable_NumReplicas {
        executable: *mut PJRT_Executable,
        num_replicas: usize,
    }
    PJRT_Executable_NumPartitions_Args => PJRT_Executable_NumPartitions {
        executable: *mut PJRT_Executable,
        num_partitions: usize,
    }
    PJRT_Executable_NumOutputs_Args => PJRT_Executable_NumOutputs {
        executable: *mut PJRT_Executable,
        num_outputs: usize,
    }
    PJRT_Executable_SizeOfGeneratedCodeInBytes_Args => PJRT_Executable_SizeOfGeneratedCodeInBytes {
        executable: *mut PJRT_Executable,
        size_in_bytes: i64,
    }
    PJRT_Executable_Fingerprint_Args => PJRT_Executable_Fingerprint {
        executable: *mut PJRT_Executable,
        executable_fingerprint: *const u8,
        executable_fingerprint_size: usize,
    }
    PJRT_Executable_OptimizedProgram_Args => PJRT_Executable_OptimizedProgram {
        executable: *mut PJRT_Executable,
        program: *mut PJRT_Program,
    }
    PJRT_Executable_GetCostAnalysis_Args => PJRT_Executable_GetCostAnalysis {
        executable: *mut PJRT_Executable,
        num_properties: usize,
        properties: *const PJRT_NamedValue,
    }
    PJRT_Executable_GetCompiledMemoryStats_Args => PJRT_Executable_GetCompiledMemoryStats {
        executable: *mut PJRT_Executable,
        generated_code_size_in_bytes: i64,
        argument_size_in_bytes: i64,
        output_size_in_bytes: i64,
        alias_size_in_bytes: i64,
        temp_size_in_bytes: i64,
        host_generated_code_size_in_bytes: i64,
        host_argument_size_in_bytes: i64,
        host_output_size_in_bytes: i64,
        host_alias_size_in_bytes: i64,
        host_temp_size_in_bytes: i64,
        peak_memory_in_bytes: i64,
    }
    PJRT_Executable_OutputElementTypes_Args => PJRT_Executable_OutputElementTypes {
        executable: *mut PJRT_Executable,
        output_types: *mut i32,
        num_output_types: usize,
    }
    PJRT_Executable_OutputDimensions_Args => PJRT_Executable_OutputDimensions {
        executable: *mut PJRT_Executable,
        num_outputs: usize,
        dims: *const i64,
        dim_sizes: *const usize,
    }
    PJRT_Executable_OutputMemoryKinds_Args => PJRT_Executable_OutputMemoryKinds {
        executable: *mut PJRT_Executable,
        num_outputs: usize,
        memory_kinds: *const *const u8,
        memory_kind_sizes: *const usize,
    }
    PJRT_Executable_Serialize_Args => PJRT_Executable_Serialize {
        executable: *const PJRT_Executable,
        serialized_bytes: *const u8,
        serialized_bytes_size: usize,
        serialized_executable: *mut PJRT_SerializedExecutable,
        serialized_executable_deleter: Option<unsafe extern "C" fn(*mut PJRT_SerializedExecutable)>,
    }
    PJRT_Executable_DeserializeAndLoad_Args => PJRT_Executable_DeserializeAndLoad {
        client: *mut PJRT_Client,
        serialized_executable: *const u8,
        serialized_executable_size: usize,
        loaded_executable: *mut PJRT_LoadedExecutable,
        overridden_serialized_compile_options: *const u8,
        overridden_serialized_compile_options_size: usize,
    }
    PJRT_ExecuteOptions {
        send_callbacks: *mut c_void,
        recv_callbacks: *mut c_void,
        num_send_ops: usize,
        num_recv_ops: usize,
        launch_id: i32,
        non_donatable_input_indices: *const i64,
        num_non_donatable_input_indices: usize,
        context: *mut PJRT_ExecuteContext,
        call_location: *const c_char,
        num_tasks: usize,
        task_ids: *mut i32,
        incarnation_ids: *mut i64,
    }
    PJRT_LoadedExecutable_Execute_Args => PJRT_LoadedExecutable_Execute {
        executable: *mut PJRT_LoadedExecutable,
        options: *mut PJRT_ExecuteOptions,
        argument_lists: *const *const *mut PJRT_Buffer,
        num_devices: usize,
        num_args: usize,
        output_lists: *const *mut *mut PJRT_Buffer,
        device_complete_events: *mut *mut PJRT_Event,
        execute_device: *mut PJRT_Device,
    }
}
