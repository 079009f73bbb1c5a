//! What plugins must be told through the environment before they are loaded.

/// Plugins print what they also return as errors, and the CPU's print a page for every program loaded from a cache.
const QUIET: [(&str, &str); 1] = [("TF_CPP_MIN_LOG_LEVEL", "3")];

/// Without these, libtpu on a machine without a TPU asks a cloud metadata server that is not there, for minutes, refuses
/// to be loaded by a second process, and warns about the missing description of the machine.
const WITHOUT_TPU: [(&str, &str); 5] = [
    ("TPU_SKIP_MDS_QUERY", "1"),
    ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
    ("TPU_ACCELERATOR_TYPE", "v5litepod-4"),
    ("TPU_WORKER_HOSTNAMES", "localhost"),
    ("TPU_WORKER_ID", "0"),
];

/// Keeps a plugin that is about to be loaded from printing.
pub(super) fn quiet() {
    set(&QUIET);
}

/// Describes a machine without a TPU to libtpu.
pub(super) fn without_tpu() {
    set(&WITHOUT_TPU);
}

/// Sets variables, leaving alone what the user has set.
fn set(variables: &[(&str, &str)]) {
    for (name, value) in variables {
        if std::env::var_os(name).is_none() {
            // SAFETY: plugins read their environment with getenv, so there is no other way to tell them. This runs
            // before a plugin is loaded, once for each; Rust's own readers of the environment share a lock with it.
            unsafe { std::env::set_var(name, value) };
        }
    }
}
