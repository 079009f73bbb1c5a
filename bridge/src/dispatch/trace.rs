//! Traces (under construction): values of a trace live in cells while it runs.

use crate::Error;

/// The error for a traced value that is used after its trace ended.
pub fn leaked(trace: u64, _slot: u32) -> Error {
    Error::runtime("trace", format!("a tensor made inside trace {trace} was used outside of it"))
}
