//! Events: something the device has yet to finish.

use std::ffi::c_void;

use super::{PJRT_Error, opaque, structs};

opaque!(PJRT_Event);

structs! {
    PJRT_Event_Destroy_Args => PJRT_Event_Destroy { event: *mut PJRT_Event }
    PJRT_Event_IsReady_Args => PJRT_Event_IsReady { event: *mut PJRT_Event, is_ready: bool }
    PJRT_Event_Error_Args => PJRT_Event_Error { event: *mut PJRT_Event }
    PJRT_Event_Await_Args => PJRT_Event_Await { event: *mut PJRT_Event }
    PJRT_Event_OnReady_Args => PJRT_Event_OnReady {
        event: *mut PJRT_Event,
        callback: Option<unsafe extern "C" fn(*mut PJRT_Error, *mut c_void)>,
        user_arg: *mut c_void,
    }
}
