//! Devices and their memories.

use std::ptr::NonNull;

use super::call::{slice, string};
use super::ffi::{self, PJRT_Device, PJRT_DeviceDescription, PJRT_Memory};
use super::{NamedValue, Plugin};
use crate::Result;

/// One device of a client, described when the client is made.
#[derive(Debug)]
pub struct Device {
    pub(super) raw: NonNull<PJRT_Device>,
    plugin: &'static Plugin,
    /// The device's number among all devices of all processes.
    pub id: i32,
    /// The device's number on this host; -1 for a device of another process.
    pub local_hardware_id: i32,
    /// The process that owns it.
    pub process_index: i32,
    /// Whether this process can use it.
    pub addressable: bool,
    /// The vendor's name for the model, such as `cpu` or `TPU v5 lite`.
    pub kind: String,
    /// The vendor's short name for this very device, such as `TFRT_CPU_0`.
    pub name: String,
    /// What else the vendor tells, such as coordinates.
    pub attributes: Vec<(String, NamedValue)>,
    /// The memories it reaches, its default one first.
    pub memories: Vec<Memory>,
}

/// One memory of a device, such as `device` or `pinned_host`.
#[derive(Debug, Clone)]
pub struct Memory {
    pub(super) raw: NonNull<PJRT_Memory>,
    pub id: i32,
    pub kind: String,
}

// SAFETY: devices and memories are constant and owned by the client, which lives as long as the process.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}
// SAFETY: as above.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// What a device says of its memory now, in bytes (`num_allocs` is a count). `None` is "not told".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryStats {
    pub bytes_in_use: i64,
    pub peak_bytes_in_use: Option<i64>,
    pub num_allocs: Option<i64>,
    pub largest_alloc_size: Option<i64>,
    pub bytes_limit: Option<i64>,
    pub bytes_reserved: Option<i64>,
    pub peak_bytes_reserved: Option<i64>,
    pub bytes_reservable_limit: Option<i64>,
    pub largest_free_block_bytes: Option<i64>,
    pub pool_bytes: Option<i64>,
    pub peak_pool_bytes: Option<i64>,
}

/// The parts of a device that a topology has too.
pub(super) struct Description {
    pub id: i32,
    pub process_index: i32,
    pub kind: String,
    pub name: String,
    pub attributes: Vec<(String, NamedValue)>,
}

impl Description {
    /// # Safety
    /// `raw` is a live description of `plugin`.
    pub(super) unsafe fn read(plugin: &Plugin, raw: *mut PJRT_DeviceDescription) -> Result<Self> {
        let mut id = ffi::PJRT_DeviceDescription_Id_Args { device_description: raw, ..Default::default() };
        let mut process =
            ffi::PJRT_DeviceDescription_ProcessIndex_Args { device_description: raw, ..Default::default() };
        let mut kind = ffi::PJRT_DeviceDescription_Kind_Args { device_description: raw, ..Default::default() };
        let mut name = ffi::PJRT_DeviceDescription_ToString_Args { device_description: raw, ..Default::default() };
        let mut attributes =
            ffi::PJRT_DeviceDescription_Attributes_Args { device_description: raw, ..Default::default() };
        // SAFETY: the caller's promise; the strings are copied before anything else happens.
        unsafe {
            plugin.call(&mut id)?;
            plugin.call(&mut process)?;
            plugin.call(&mut kind)?;
            plugin.call(&mut name)?;
            plugin.call(&mut attributes)?;
            Ok(Self {
                id: id.id,
                process_index: process.process_index,
                kind: string(kind.device_kind, kind.device_kind_size),
                name: string(name.to_string, name.to_string_size),
                attributes: NamedValue::read_all(attributes.attributes, attributes.num_attributes),
            })
        }
    }
}

impl Device {
    /// # Safety
    /// `raw` is a device of a client of `plugin`.
    pub(super) unsafe fn read(plugin: &'static Plugin, raw: NonNull<PJRT_Device>) -> Result<Self> {
        let device = raw.as_ptr();
        let mut get = ffi::PJRT_Device_GetDescription_Args { device, ..Default::default() };
        let mut here = ffi::PJRT_Device_IsAddressable_Args { device, ..Default::default() };
        // SAFETY: the caller's promise.
        let description = unsafe {
            plugin.call(&mut get)?;
            plugin.call(&mut here)?;
            Description::read(plugin, get.device_description)?
        };
        let mut local_hardware_id = -1;
        let mut memories = Vec::new();
        if here.is_addressable {
            let mut local = ffi::PJRT_Device_LocalHardwareId_Args { device, ..Default::default() };
            // SAFETY: the caller's promise.
            unsafe { plugin.call(&mut local)? };
            local_hardware_id = local.local_hardware_id;
            // SAFETY: the caller's promise.
            memories = unsafe { Memory::of_device(plugin, device)? };
        }
        Ok(Self {
            raw,
            plugin,
            id: description.id,
            local_hardware_id,
            process_index: description.process_index,
            addressable: here.is_addressable,
            kind: description.kind,
            name: description.name,
            attributes: description.attributes,
            memories,
        })
    }

    /// How much memory is in use now.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` from plugins that do not count (the CPU's).
    pub fn memory_stats(&self) -> Result<MemoryStats> {
        let mut args = ffi::PJRT_Device_MemoryStats_Args { device: self.raw.as_ptr(), ..Default::default() };
        // SAFETY: the device lives as long as the process.
        unsafe { self.plugin.call(&mut args)? };
        let told = |set: bool, value: i64| set.then_some(value);
        Ok(MemoryStats {
            bytes_in_use: args.bytes_in_use,
            peak_bytes_in_use: told(args.peak_bytes_in_use_is_set, args.peak_bytes_in_use),
            num_allocs: told(args.num_allocs_is_set, args.num_allocs),
            largest_alloc_size: told(args.largest_alloc_size_is_set, args.largest_alloc_size),
            bytes_limit: told(args.bytes_limit_is_set, args.bytes_limit),
            bytes_reserved: told(args.bytes_reserved_is_set, args.bytes_reserved),
            peak_bytes_reserved: told(args.peak_bytes_reserved_is_set, args.peak_bytes_reserved),
            bytes_reservable_limit: told(args.bytes_reservable_limit_is_set, args.bytes_reservable_limit),
            largest_free_block_bytes: told(args.largest_free_block_bytes_is_set, args.largest_free_block_bytes),
            pool_bytes: told(args.pool_bytes_is_set, args.pool_bytes),
            peak_pool_bytes: told(args.peak_pool_bytes_is_set, args.peak_pool_bytes),
        })
    }
}

impl Memory {
    /// The memories of an addressable device, default first.
    ///
    /// # Safety
    /// `device` is an addressable device of a client of `plugin`.
    unsafe fn of_device(plugin: &Plugin, device: *mut PJRT_Device) -> Result<Vec<Self>> {
        let mut all = ffi::PJRT_Device_AddressableMemories_Args { device, ..Default::default() };
        let mut default = ffi::PJRT_Device_DefaultMemory_Args { device, ..Default::default() };
        // SAFETY: the caller's promise.
        unsafe {
            plugin.call(&mut all)?;
            plugin.call(&mut default)?;
        }
        let mut memories = Vec::with_capacity(all.num_memories);
        // SAFETY: the client owns the array.
        for &memory in unsafe { slice(all.memories, all.num_memories) } {
            let Some(raw) = NonNull::new(memory) else { continue };
            let mut id = ffi::PJRT_Memory_Id_Args { memory, ..Default::default() };
            let mut kind = ffi::PJRT_Memory_Kind_Args { memory, ..Default::default() };
            // SAFETY: the memory belongs to the client, and its name is copied at once.
            let kind = unsafe {
                plugin.call(&mut id)?;
                plugin.call(&mut kind)?;
                string(kind.kind, kind.kind_size)
            };
            let memory = Self { raw, id: id.id, kind };
            if raw.as_ptr() == default.memory { memories.insert(0, memory) } else { memories.push(memory) }
        }
        Ok(memories)
    }
}
