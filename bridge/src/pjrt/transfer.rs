//! Making buffers of memory that is there already.

use std::any::Any;
use std::ffi::c_void;

use super::ffi;
use super::{Buffer, Client, Device, ElementType, Event};
use crate::{Error, Result};

/// What a transfer from host memory is told about the array.
struct HostArray<'a> {
    data: *const c_void,
    ty: ElementType,
    dims: &'a [i64],
    semantics: i32,
}

impl Client {
    /// Copies a dense row-major array of host memory to a device. The bytes may be changed once this returns.
    ///
    /// # Errors
    /// [`Error::ByteCount`] when `bytes` does not fit type and dims; [`Error::OutOfMemory`].
    pub fn buffer_from_host(
        &'static self,
        bytes: &[u8],
        ty: impl Into<ElementType>,
        dims: &[i64],
        device: &Device,
    ) -> Result<Buffer> {
        let ty = ty.into();
        check_bytes("buffer_from_host", bytes.len(), ty, dims)?;
        let semantics = ffi::PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
        let array = HostArray { data: bytes.as_ptr().cast(), ty, dims, semantics };
        // SAFETY: `bytes` has the array's size, and the plugin does not look at it after the call.
        let (buffer, done) = unsafe { self.send(&array, device)? };
        if let Some(done) = done {
            done.wait()?;
        }
        Ok(buffer)
    }

    /// Lends host memory to a device: on the CPU the buffer uses the very bytes, elsewhere they are copied while this
    /// returns. `owner` is dropped when the plugin has finished with the memory, on any thread.
    ///
    /// The CPU uses memory in place when it is aligned to 64 bytes, and copies otherwise.
    ///
    /// # Errors
    /// As for [`Client::buffer_from_host`]; `owner` is dropped then.
    ///
    /// # Safety
    /// `data` points to `len` bytes that stay as they are until `owner` is dropped.
    pub unsafe fn buffer_from_host_zero_copy(
        &'static self,
        owner: Box<dyn Any + Send>,
        data: *const u8,
        len: usize,
        ty: impl Into<ElementType>,
        dims: &[i64],
        device: &Device,
    ) -> Result<Buffer> {
        let ty = ty.into();
        check_bytes("buffer_from_host_zero_copy", len, ty, dims)?;
        let semantics = ffi::PJRT_HostBufferSemantics_kImmutableZeroCopy;
        let array = HostArray { data: data.cast(), ty, dims, semantics };
        // SAFETY: the caller keeps the memory until `owner` is dropped, which `keep_until_ready` delays for long enough.
        let (buffer, done) = unsafe { self.send(&array, device)? };
        if let Some(done) = done {
            done.keep_until_ready(owner)?;
        }
        Ok(buffer)
    }

    /// Makes a buffer of memory that is on `device` already, without copying; `owner` is dropped when the buffer is gone,
    /// on any thread.
    ///
    /// # Errors
    /// The plugin's own, for instance when a CPU's memory is not aligned to 64 bytes; `owner` is dropped then.
    ///
    /// # Safety
    /// `data` is memory of `device` that holds a dense row-major array of this type, is complete now (no stream is waited
    /// for), and stays as it is until `owner` is dropped.
    pub unsafe fn view_of_device_memory(
        &'static self,
        owner: Box<dyn Any + Send>,
        data: *mut c_void,
        ty: impl Into<ElementType>,
        dims: &[i64],
        device: &Device,
    ) -> Result<Buffer> {
        unsafe extern "C" fn drop_owner(_data: *mut c_void, owner: *mut c_void) {
            // SAFETY: the address is that of the box given with this callback, which runs once.
            drop(unsafe { Box::from_raw(owner.cast::<Box<dyn Any + Send>>()) });
        }
        let owner = Box::into_raw(Box::new(owner));
        let mut args = ffi::PJRT_Client_CreateViewOfDeviceBuffer_Args {
            client: self.raw.as_ptr(),
            device_buffer_ptr: data,
            dims: dims.as_ptr(),
            num_dims: dims.len(),
            element_type: ty.into() as i32,
            device: device.raw.as_ptr(),
            on_delete_callback: Some(drop_owner),
            on_delete_callback_arg: owner.cast(),
            ..Default::default()
        };
        // SAFETY: the caller's promise; the result is ours to destroy.
        unsafe {
            if let Err(error) = self.plugin.call(&mut args) {
                drop(Box::from_raw(owner));
                return Err(error);
            }
            Ok(Buffer::from_raw(self, args.buffer))
        }
    }

    /// # Safety
    /// `array.data` holds the array, and is left alone for as long as the semantics ask.
    #[inline]
    unsafe fn send(&'static self, array: &HostArray<'_>, device: &Device) -> Result<(Buffer, Option<Event>)> {
        let mut args = ffi::PJRT_Client_BufferFromHostBuffer_Args {
            client: self.raw.as_ptr(),
            data: array.data,
            r#type: array.ty as i32,
            dims: array.dims.as_ptr(),
            num_dims: array.dims.len(),
            host_buffer_semantics: array.semantics,
            device: device.raw.as_ptr(),
            ..Default::default()
        };
        // SAFETY: the caller's promise; the results are ours to destroy.
        unsafe {
            self.plugin.call(&mut args)?;
            Ok((Buffer::from_raw(self, args.buffer), Event::from_raw(self.plugin, args.done_with_host_buffer)))
        }
    }
}

/// Checks that an array of this type has `got` bytes.
pub(super) fn check_bytes(call: &'static str, got: usize, ty: ElementType, dims: &[i64]) -> Result<()> {
    let expected = dims.iter().try_fold(ty.size_of(), |size, &dim| size.checked_mul(usize::try_from(dim).ok()?));
    match expected {
        Some(expected) if expected == got && ty != ElementType::Other => Ok(()),
        _ => Err(Error::ByteCount {
            call,
            argument: "bytes",
            got,
            expected: expected.unwrap_or(usize::MAX),
            ty: format!("{ty}{dims:?}"),
        }),
    }
}
