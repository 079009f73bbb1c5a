//! A forked child is told, and the parent goes on. Alone in its binary: forking beside other tests' threads is a risk.

mod common;

use bridge::Error;
use common::{cpu_clients, download, upload};

#[test]
fn a_forked_child_gets_a_clear_error() {
    let Some(client) = cpu_clients().into_iter().next() else { return };
    let buffer = upload(client, &[1.; 4]);
    // SAFETY: the child only calls into this crate, which refuses before any lock, and leaves with _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = matches!(bridge::pjrt::client(), Err(Error::Forked))
            && matches!(buffer.await_ready(), Err(Error::Forked))
            && matches!(buffer.to_host(&mut [0; 16]), Err(Error::Forked));
        drop(buffer);
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(if refused { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child was not refused");
    assert_eq!(download(&buffer), [1.; 4], "the parent goes on");
    assert_eq!(
        Error::Forked.to_string(),
        "the pjrt device cannot be used in a forked child process: the parent made the PJRT client before the fork, and \
         its threads were not copied. Start workers with the \"spawn\" method, or keep tensors on the CPU in workers"
    );
}
