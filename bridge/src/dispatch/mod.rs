//! Running calls: eagerly, one program each, or onto a trace.
//!
//! What takes a cell fails when nothing lives at it; what compiles or waits fails as [`pjrt`](crate::pjrt) does.

pub mod cache;
pub mod checks;
pub mod disk;
pub mod eager;
pub mod key;
mod mappings;
pub mod metrics;
mod nan;
pub mod program;
pub mod queue;
pub mod rng;
mod scalars;
pub mod slots;
pub mod trace;

pub use scalars::clear as clear_scalars;
