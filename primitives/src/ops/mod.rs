//! The primitives, one file per family. Each is a method on [`Graph`](crate::Graph).

mod binary;
mod check;
mod collective;
mod compare;
mod complex;
mod constant;
mod control;
mod conv;
mod convert;
mod custom;
mod dot;
mod fft;
mod gather;
mod linalg;
mod random;
mod reduce;
mod scatter;
mod shape;
mod slice;
mod sort;
mod special;
mod unary;
mod window;

pub use collective::Groups;
pub use compare::Direction;
pub use control::{Branch, branch};
pub use conv::{ConvDims, ConvWindow};
pub use custom::{ApiVersion, BackendConfig, CustomCall};
pub use dot::{DotDims, Precision};
pub use fft::FftKind;
pub use gather::GatherDims;
pub use linalg::Transpose;
pub use random::RngAlgorithm;
pub use scatter::ScatterDims;
pub use window::Window;
