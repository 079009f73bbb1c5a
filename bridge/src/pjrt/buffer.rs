//! Buffers: arrays in device memory.

use std::ptr::{self, NonNull};

use smallvec::SmallVec;

use super::ffi::{self, PJRT_Buffer};
use super::transfer::check_bytes;
use super::{Client, Device, ElementType, Event, Memory, fork};
use crate::{Error, Result};

/// The plugin's handle of a buffer, as [`super::Executable::launch`] takes and gives it.
pub type RawBuffer = *mut PJRT_Buffer;

/// An array in device memory. Dropping it frees the memory once nothing running reads it any more.
pub struct Buffer {
    raw: NonNull<PJRT_Buffer>,
    client: &'static Client,
}

// SAFETY: PJRT buffers may be used and destroyed on any thread.
unsafe impl Send for Buffer {}
// SAFETY: PJRT buffers may be used by several threads at once.
unsafe impl Sync for Buffer {}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({:?}, {:?})", self.element_type(), self.dims())
    }
}

impl Buffer {
    /// Takes over a buffer that a launch gave.
    ///
    /// # Safety
    /// `raw` is a live buffer of `client` that nobody else destroys.
    #[inline]
    pub unsafe fn from_raw(client: &'static Client, raw: RawBuffer) -> Self {
        Self { raw: NonNull::new(raw).expect("a successful PJRT call gave no buffer"), client }
    }

    /// The handle for [`super::Executable::launch`]; valid while this buffer lives.
    #[inline]
    pub fn raw(&self) -> RawBuffer {
        self.raw.as_ptr()
    }

    /// The client whose devices hold it.
    pub fn client(&self) -> &'static Client {
        self.client
    }

    /// Waits until the array is computed or copied.
    ///
    /// # Errors
    /// Whatever went wrong while computing it.
    pub fn await_ready(&self) -> Result<()> {
        let Some(event) = self.ready_event()? else { return Ok(()) };
        event.wait()
    }

    /// Whether the array is there, or has failed; then [`Buffer::await_ready`] does not block.
    pub fn is_ready(&self) -> Result<bool> {
        match self.ready_event()? {
            Some(event) => event.is_ready(),
            None => Ok(true),
        }
    }

    fn ready_event(&self) -> Result<Option<Event>> {
        let mut args = ffi::PJRT_Buffer_ReadyEvent_Args { buffer: self.raw(), ..Default::default() };
        // SAFETY: the buffer lives, and the event is ours to destroy.
        unsafe {
            self.client.plugin.call(&mut args)?;
            Ok(Event::from_raw(self.client.plugin, args.event))
        }
    }

    /// The type of its elements.
    pub fn element_type(&self) -> Result<ElementType> {
        let mut args = ffi::PJRT_Buffer_ElementType_Args { buffer: self.raw(), ..Default::default() };
        // SAFETY: the buffer lives.
        unsafe { self.client.plugin.call(&mut args)? };
        Ok(ElementType::from_raw(args.r#type))
    }

    /// Its sizes in row-major order; empty for one number.
    pub fn dims(&self) -> Result<SmallVec<[i64; 6]>> {
        let mut args = ffi::PJRT_Buffer_Dimensions_Args { buffer: self.raw(), ..Default::default() };
        // SAFETY: the buffer lives and owns the array, which is copied at once.
        unsafe {
            self.client.plugin.call(&mut args)?;
            Ok(SmallVec::from_slice(super::call::slice(args.dims, args.num_dims)))
        }
    }

    /// Bytes in device memory, padding included.
    pub fn size_bytes(&self) -> Result<usize> {
        let mut args = ffi::PJRT_Buffer_OnDeviceSizeInBytes_Args { buffer: self.raw(), ..Default::default() };
        // SAFETY: the buffer lives.
        unsafe { self.client.plugin.call(&mut args)? };
        Ok(args.on_device_size_in_bytes)
    }

    /// The device that holds it.
    pub fn device(&self) -> Result<&'static Device> {
        let mut args = ffi::PJRT_Buffer_Device_Args { buffer: self.raw(), ..Default::default() };
        // SAFETY: the buffer lives.
        unsafe { self.client.plugin.call(&mut args)? };
        self.client.device_of_raw(args.device).ok_or_else(|| Error::Argument {
            call: "PJRT_Buffer_Device",
            argument: "buffer",
            got: "a device the client does not list".to_owned(),
            expected: "one of the client's devices".to_owned(),
        })
    }

    /// Where the array lies in host memory, if device memory is host memory. Row-major and dense.
    ///
    /// Wait for the buffer first; the address is good while the buffer lives and is not donated or deleted.
    pub fn host_ptr(&self) -> Result<Option<*const u8>> {
        if !self.client.on_host {
            return Ok(None);
        }
        let mut args = ffi::PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args { buffer: self.raw(), ..Default::default() };
        // SAFETY: the buffer lives.
        unsafe { self.client.plugin.call(&mut args)? };
        Ok(Some(args.device_memory_ptr.cast_const().cast()))
    }

    /// Waits, and copies the array to `out`, dense and row-major.
    ///
    /// # Errors
    /// [`Error::ByteCount`] when `out` is not exactly as long as the array; whatever went wrong while computing it.
    pub fn to_host(&self, out: &mut [u8]) -> Result<()> {
        let (ty, dims) = (self.element_type()?, self.dims()?);
        check_bytes("to_host", out.len(), ty, &dims)?;
        if out.is_empty() {
            return self.await_ready();
        }
        if self.client.on_host {
            // Reading in place spares the plugin's transfer thread.
            self.await_ready()?;
            if let Some(data) = self.host_ptr()?.filter(|data| !data.is_null()) {
                // SAFETY: the array is ready and has `out.len()` bytes, and `out` is not device memory.
                unsafe { ptr::copy_nonoverlapping(data, out.as_mut_ptr(), out.len()) };
                return Ok(());
            }
        }
        self.transfer_to_host(out, dims.len())
    }

    fn transfer_to_host(&self, out: &mut [u8], rank: usize) -> Result<()> {
        // Without a layout the plugin would give its own order of dimensions.
        let minor_to_major: SmallVec<[i64; 6]> = (0..rank as i64).rev().collect();
        let mut layout = ffi::PJRT_Buffer_MemoryLayout {
            tiled: ffi::PJRT_Buffer_MemoryLayout_Tiled {
                struct_size: size_of::<ffi::PJRT_Buffer_MemoryLayout_Tiled>(),
                extension_start: ptr::null_mut(),
                minor_to_major: minor_to_major.as_ptr(),
                minor_to_major_size: rank,
                tile_dims: ptr::null(),
                tile_dim_sizes: ptr::null(),
                num_tiles: 0,
            },
            r#type: ffi::PJRT_Buffer_MemoryLayout_Type_Tiled,
            ..Default::default()
        };
        let mut args = ffi::PJRT_Buffer_ToHostBuffer_Args {
            src: self.raw(),
            host_layout: &raw mut layout,
            dst: out.as_mut_ptr().cast(),
            dst_size: out.len(),
            ..Default::default()
        };
        // SAFETY: buffer, layout and destination outlive the transfer, which is waited for here.
        let event = unsafe {
            self.client.plugin.call(&mut args)?;
            Event::from_raw(self.client.plugin, args.event)
        };
        event.map_or(Ok(()), |event| event.wait())
    }

    /// Copies to another device of the same client.
    pub fn copy_to_device(&self, device: &Device) -> Result<Self> {
        let mut args = ffi::PJRT_Buffer_CopyToDevice_Args {
            buffer: self.raw(),
            dst_device: device.raw.as_ptr(),
            ..Default::default()
        };
        // SAFETY: buffer and device live; the copy is ours to destroy.
        unsafe {
            self.client.plugin.call(&mut args)?;
            Ok(Self::from_raw(self.client, args.dst_buffer))
        }
    }

    /// Copies to another memory, such as `pinned_host`.
    pub fn copy_to_memory(&self, memory: &Memory) -> Result<Self> {
        let mut args = ffi::PJRT_Buffer_CopyToMemory_Args {
            buffer: self.raw(),
            dst_memory: memory.raw.as_ptr(),
            ..Default::default()
        };
        // SAFETY: buffer and memory live; the copy is ours to destroy.
        unsafe {
            self.client.plugin.call(&mut args)?;
            Ok(Self::from_raw(self.client, args.dst_buffer))
        }
    }

    /// Frees the device memory now, or when what runs has read it; the handle stays and refuses reading.
    pub fn delete(&self) -> Result<()> {
        let mut args = ffi::PJRT_Buffer_Delete_Args { buffer: self.raw(), ..Default::default() };
        // SAFETY: the buffer lives.
        unsafe { self.client.plugin.call(&mut args) }
    }

    /// Whether its memory is gone: deleted, or donated to an execution.
    pub fn is_deleted(&self) -> Result<bool> {
        let mut args = ffi::PJRT_Buffer_IsDeleted_Args { buffer: self.raw(), ..Default::default() };
        // SAFETY: the buffer lives.
        unsafe { self.client.plugin.call(&mut args)? };
        Ok(args.is_deleted)
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        // In a forked child the plugin's locks may be held by threads that are not there.
        if fork::is_forked_child() {
            return;
        }
        let mut args = ffi::PJRT_Buffer_Destroy_Args { buffer: self.raw(), ..Default::default() };
        // SAFETY: the buffer is ours and is not used again. Destroying fails only for a bad struct size.
        let _ = unsafe { self.client.plugin.call(&mut args) };
    }
}
