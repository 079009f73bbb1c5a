//! Traces (under construction): values of a trace live in cells while it runs.

use crate::Error;

/// The error for a traced value that is used after its trace ended.
pub fn leaked(trace: u64, _slot: u32) -> Error {
    Error::runtime("trace", format!("a tensor made inside trace {trace} was used outside of it"))
}

/// Whether this thread is tracing.
pub fn active() -> bool {
    false
}

/// The error for a value that Python asks for inside a trace.
pub fn forbid_read(_op: &str, _slot: u32) -> Result<(), Error> {
    Ok(())
}
