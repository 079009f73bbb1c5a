//! Knowing that this process is a forked child of one that had a client.
//!
//! Asking for the process id on each call would be a system call, so a handler that runs in the child sets a flag.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static HAS_CLIENT: AtomicBool = AtomicBool::new(false);
static FORKED: AtomicBool = AtomicBool::new(false);

/// True in a child that was forked after a client was made.
#[inline]
pub fn is_forked_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Called once a client exists: from now on a forked child is refused.
pub fn client_was_made() {
    static WATCH: Once = Once::new();
    WATCH.call_once(watch);
    HAS_CLIENT.store(true, Ordering::Release);
}

#[cfg(unix)]
fn watch() {
    unsafe extern "C" fn in_child() {
        if HAS_CLIENT.load(Ordering::Acquire) {
            FORKED.store(true, Ordering::Release);
        }
    }
    // SAFETY: the handler only touches atomics, which is allowed between fork and exec.
    let status = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    debug_assert_eq!(status, 0, "pthread_atfork fails only for lack of memory");
}

#[cfg(not(unix))]
fn watch() {}
