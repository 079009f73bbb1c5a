//! ATen op table over StableHLO primitives, the PJRT runtime, and dispatch.

pub mod aten;
pub mod dispatch;
pub mod error;
pub mod op_error;
pub mod pjrt;

pub use error::{Error, Result};
