//! Topologies: describing devices that are not here, and compiling for them.

use super::{PJRT_Client, PJRT_DeviceDescription, PJRT_Executable, PJRT_NamedValue, PJRT_Program, opaque, structs};

opaque!(PJRT_TopologyDescription);

structs! {
    PJRT_TopologyDescription_Create_Args => PJRT_TopologyDescription_Create {
        topology_name: *const u8,
        topology_name_size: usize,
        create_options: *const PJRT_NamedValue,
        num_options: usize,
        topology: *mut PJRT_TopologyDescription,
    }
    PJRT_TopologyDescription_Destroy_Args => PJRT_TopologyDescription_Destroy {
        topology: *mut PJRT_TopologyDescription,
    }
    PJRT_TopologyDescription_PlatformVersion_Args => PJRT_TopologyDescription_PlatformVersion {
        topology: *mut PJRT_TopologyDescription,
        platform_version: *const u8,
        platform_version_size: usize,
    }
    PJRT_TopologyDescription_PlatformName_Args => PJRT_TopologyDescription_PlatformName {
        topology: *const PJRT_TopologyDescription,
        platform_name: *const u8,
        platform_name_size: usize,
    }
    PJRT_TopologyDescription_GetDeviceDescriptions_Args => PJRT_TopologyDescription_GetDeviceDescriptions {
        topology: *const PJRT_TopologyDescription,
        descriptions: *const *mut PJRT_DeviceDescription,
        num_descriptions: usize,
    }
    PJRT_Compile_Args => PJRT_Compile {
        topology: *const PJRT_TopologyDescription,
        program: *const PJRT_Program,
        compile_options: *const u8,
        compile_options_size: usize,
        client: *mut PJRT_Client,
        executable: *mut PJRT_Executable,
    }
}
