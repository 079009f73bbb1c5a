//! The torch face: kernels that torch's dispatcher calls, and the helpers of the Python package.

pub mod call;
pub mod device;
pub mod dlpack;
pub mod errors;
pub mod guard;
pub mod jit;
pub mod parse;
pub mod storage;
pub mod types;
pub mod views;
mod views_stable;
