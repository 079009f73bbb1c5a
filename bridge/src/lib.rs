//! ATen op table over StableHLO primitives, the PJRT runtime, and dispatch.

pub mod error;
pub mod pjrt;

pub use error::{Error, Result};
