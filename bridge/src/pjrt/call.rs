//! The one door through which every call into a plugin goes.

use super::ffi::{self, Args, PJRT_Error};
use super::{Code, Plugin, fork};
use crate::{Error, Result};

/// A function of a plugin's table, already found.
type Entry<A> = unsafe extern "C" fn(*mut A) -> *mut PJRT_Error;

impl Plugin {
    /// Finds the function that takes `A`.
    ///
    /// # Errors
    /// [`Error::PluginTooOld`] when the plugin's table ends before it or leaves it empty.
    #[inline]
    fn entry<A: Args>(&self) -> Result<Entry<A>> {
        let too_old = || {
            let (major, minor) = self.api_version();
            Error::PluginTooOld { path: self.path().to_owned(), major, minor, function: A::NAME }
        };
        let api = self.api().as_ptr();
        // SAFETY: every table starts with its size, and lives as long as the process.
        let reach = unsafe { (&raw const (*api).struct_size).read() };
        if A::OFFSET + size_of::<ffi::Slot>() > reach {
            return Err(too_old());
        }
        // SAFETY: the check above puts the slot inside the plugin's table, which is a row of pointers.
        let slot = unsafe { api.cast::<u8>().add(A::OFFSET).cast::<Option<Entry<A>>>().read() };
        slot.ok_or_else(too_old)
    }

    /// Calls the function that takes `A`, and turns its error into ours.
    ///
    /// # Safety
    /// What `args` points to must be what that function asks for, for as long as it asks.
    #[inline]
    pub(super) unsafe fn call<A: Args>(&self, args: &mut A) -> Result<()> {
        let entry = self.entry::<A>()?;
        if fork::is_forked_child() {
            return Err(Error::Forked);
        }
        args.set_struct_size();
        // SAFETY: `entry` is the plugin's function for `A`, and the caller vouches for the arguments.
        let error = unsafe { entry(args) };
        if error.is_null() { Ok(()) } else { Err(self.take_error(A::NAME, error)) }
    }

    /// Reads and frees a plugin's error.
    #[cold]
    pub(super) fn take_error(&self, call: &'static str, error: *mut PJRT_Error) -> Error {
        let api = self.api().as_ptr();
        let mut code = ffi::PJRT_Error_GetCode_Args { error, ..Default::default() };
        let mut text = ffi::PJRT_Error_Message_Args { error, ..Default::default() };
        let mut free = ffi::PJRT_Error_Destroy_Args { error, ..Default::default() };
        // SAFETY: the three error functions are the first of every table ever published (`Plugin::load` checks that
        // they are there); message and destroy return nothing. `error` is live until the last of them.
        let message = unsafe {
            let message: unsafe extern "C" fn(*mut ffi::PJRT_Error_Message_Args) =
                std::mem::transmute((*api).PJRT_Error_Message);
            let destroy: unsafe extern "C" fn(*mut ffi::PJRT_Error_Destroy_Args) =
                std::mem::transmute((*api).PJRT_Error_Destroy);
            let get_code: Entry<ffi::PJRT_Error_GetCode_Args> = std::mem::transmute((*api).PJRT_Error_GetCode);
            let failed = get_code(&mut code);
            if !failed.is_null() {
                destroy(&mut ffi::PJRT_Error_Destroy_Args { error: failed, ..Default::default() });
                code.code = Code::Unknown as i32;
            }
            message(&mut text);
            let message = string(text.message, text.message_size);
            destroy(&mut free);
            message
        };
        match Code::from_raw(code.code) {
            // Its message goes on after this one, so a full stop would be in the middle.
            Code::ResourceExhausted => Error::OutOfMemory { call, message: message.trim_end_matches('.').to_owned() },
            code => Error::Pjrt { call, code, message },
        }
    }
}

/// Copies a C string with a length.
///
/// # Safety
/// `data` is null or points to `size` bytes.
pub(super) unsafe fn string(data: *const u8, size: usize) -> String {
    // SAFETY: the caller's promise.
    String::from_utf8_lossy(unsafe { slice(data, size) }).into_owned()
}

/// A C array as a slice; null is empty.
///
/// # Safety
/// `data` is null or points to `size` values that live for `'a`.
pub(super) unsafe fn slice<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if data.is_null() || size == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data, size) }
}
