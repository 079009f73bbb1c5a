//! Lending a buffer's memory to somebody outside, such as another array library.

use std::ptr;
use std::sync::Arc;

use super::Buffer;
use super::ffi;
use crate::Result;

/// A buffer's own memory, lent to somebody outside. While it lives, the memory is neither freed nor overwritten: a program
/// to which the buffer is donated works on a copy.
#[derive(Debug)]
pub struct HostView {
    buffer: Arc<Buffer>,
    data: *const u8,
    size: usize,
}

// SAFETY: a view is a buffer and an address in it.
unsafe impl Send for HostView {}
// SAFETY: as above; the memory is only read.
unsafe impl Sync for HostView {}

impl HostView {
    /// Waits for the buffer and lends its memory; `None` when device memory is not host memory.
    ///
    /// # Errors
    /// Whatever went wrong while computing the array, or that it was donated or deleted.
    pub fn new(buffer: Arc<Buffer>) -> Result<Option<Self>> {
        if !buffer.client().is_on_host() {
            return Ok(None);
        }
        buffer.await_ready()?;
        let mut args =
            ffi::PJRT_Buffer_IncreaseExternalReferenceCount_Args { buffer: buffer.raw(), ..Default::default() };
        // SAFETY: the buffer lives.
        unsafe { buffer.client().plugin.call(&mut args)? };
        let mut view = Self { buffer, data: ptr::null(), size: 0 };
        view.size = view.buffer.size_bytes()?;
        view.data = view.buffer.host_ptr()?.unwrap_or(ptr::null());
        Ok(Some(view))
    }

    /// The array's bytes, dense and row-major.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the array is ready and its memory is held by the external reference.
        unsafe { super::call::slice(self.data, self.size) }
    }

    /// The buffer whose memory this is.
    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }
}

impl Drop for HostView {
    fn drop(&mut self) {
        let buffer = self.buffer.raw();
        let mut args = ffi::PJRT_Buffer_DecreaseExternalReferenceCount_Args { buffer, ..Default::default() };
        // SAFETY: the buffer lives, and this gives back the one reference that `new` took. A forked child, where the
        // call is refused, has only a copy.
        let _ = unsafe { self.buffer.client().plugin.call(&mut args) };
    }
}
