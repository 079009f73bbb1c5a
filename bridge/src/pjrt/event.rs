//! Events: waiting for the device, and never losing its errors.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::ffi::{self, PJRT_Error, PJRT_Event};
use super::{Plugin, fork};
use crate::Result;

/// Something the device has yet to finish. Dropping it does not wait.
pub struct Event {
    raw: NonNull<PJRT_Event>,
    plugin: &'static Plugin,
}

// SAFETY: PJRT events may be used and destroyed on any thread.
unsafe impl Send for Event {}
// SAFETY: PJRT events may be waited for by several threads at once.
unsafe impl Sync for Event {}

impl Event {
    /// Takes over an event; null, which some plugins return for "already done", gives none.
    ///
    /// # Safety
    /// `raw` is null or an event of `plugin` that nobody else destroys.
    pub(super) unsafe fn from_raw(plugin: &'static Plugin, raw: *mut PJRT_Event) -> Option<Self> {
        NonNull::new(raw).map(|raw| Self { raw, plugin })
    }

    /// Waits, and returns the error of what was waited for.
    pub fn wait(&self) -> Result<()> {
        let mut args = ffi::PJRT_Event_Await_Args { event: self.raw.as_ptr(), ..Default::default() };
        // SAFETY: the event lives as long as `self`.
        unsafe { self.plugin.call(&mut args) }
    }

    /// Whether it has finished, well or badly.
    pub fn is_ready(&self) -> Result<bool> {
        let mut args = ffi::PJRT_Event_IsReady_Args { event: self.raw.as_ptr(), ..Default::default() };
        // SAFETY: the event lives as long as `self`.
        unsafe { self.plugin.call(&mut args)? };
        Ok(args.is_ready)
    }

    /// The error of an event that has finished. Call only when [`Event::is_ready`].
    pub fn error(&self) -> Result<()> {
        let mut args = ffi::PJRT_Event_Error_Args { event: self.raw.as_ptr(), ..Default::default() };
        // SAFETY: the event lives as long as `self`.
        unsafe { self.plugin.call(&mut args) }
    }

    /// Drops `owner` once the event has happened, on whatever thread that is.
    ///
    /// # Errors
    /// When the callback cannot be set, after waiting, so that `owner` is still dropped in time.
    pub(super) fn keep_until_ready(self, owner: Box<dyn std::any::Any + Send>) -> Result<()> {
        let arg = Box::into_raw(Box::new(Kept { plugin: self.plugin, owner }));
        let mut args = ffi::PJRT_Event_OnReady_Args {
            event: self.raw.as_ptr(),
            callback: Some(drop_kept),
            user_arg: arg.cast(),
            ..Default::default()
        };
        // SAFETY: `drop_kept` takes back the box behind `user_arg`, once.
        let set = unsafe { self.plugin.call(&mut args) };
        if set.is_err() {
            let waited = self.wait();
            // SAFETY: the callback was refused, so the box is still ours.
            drop(unsafe { Box::from_raw(arg) });
            waited?;
        }
        set
    }
}

struct Kept {
    plugin: &'static Plugin,
    #[expect(dead_code, reason = "kept only to be dropped")]
    owner: Box<dyn std::any::Any + Send>,
}

/// The event's error belongs to the buffer too, whose own event reports it; here it is only freed.
unsafe extern "C" fn drop_kept(error: *mut PJRT_Error, user_arg: *mut c_void) {
    // SAFETY: `user_arg` is the box given with this callback, which runs once.
    let kept = unsafe { Box::from_raw(user_arg.cast::<Kept>()) };
    if !error.is_null() {
        drop(kept.plugin.take_error("PJRT_Event_OnReady", error));
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if fork::is_forked_child() {
            return;
        }
        let mut args = ffi::PJRT_Event_Destroy_Args { event: self.raw.as_ptr(), ..Default::default() };
        // SAFETY: the event is ours and is not used again. Destroying fails only for a bad struct size.
        let _ = unsafe { self.plugin.call(&mut args) };
    }
}
