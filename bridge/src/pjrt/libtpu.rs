//! What libtpu must be told before it is loaded on a machine without a TPU.

/// Without these, libtpu asks a cloud metadata server that is not there, for minutes, refuses to be loaded by a second
/// process, and warns about the missing description of the machine.
const WITHOUT_CHIP: [(&str, &str); 5] = [
    ("TPU_SKIP_MDS_QUERY", "1"),
    ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
    ("TPU_ACCELERATOR_TYPE", "v5litepod-4"),
    ("TPU_WORKER_HOSTNAMES", "localhost"),
    ("TPU_WORKER_ID", "0"),
];

/// Sets the environment of a machine without a TPU, leaving alone what the user has set.
pub(super) fn without_chip() {
    for (name, value) in WITHOUT_CHIP {
        if std::env::var_os(name).is_none() {
            // SAFETY: libtpu reads its environment with getenv, so there is no other way to tell it. This runs once,
            // before the first use of a device, under the lock that makes the process's client or loads a topology;
            // Rust's own readers of the environment share a lock with this.
            unsafe { std::env::set_var(name, value) };
        }
    }
}
