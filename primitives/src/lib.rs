//! StableHLO programs as data.
//!
//! A [`Graph`] is an SSA program under construction. Every primitive is a method on it that checks the types of its
//! arguments, appends one operation and returns its result; [`Graph::to_text`] prints the program as StableHLO.
//! No device, no Python, no global state.
//!
//! ```
//! use primitives::{DType, Graph, TensorType};
//! let mut g = Graph::new("add");
//! let x = g.parameter(TensorType::new(DType::F32, &[4]));
//! let y = g.parameter(TensorType::new(DType::F32, &[4]));
//! let z = g.add(x, y)?;
//! g.set_outputs(&[z])?;
//! assert!(g.to_text().contains("stablehlo.add %arg0, %arg1 : tensor<4xf32>"));
//! # Ok::<(), primitives::Error>(())
//! ```
#![forbid(unsafe_code)]

mod attribute;
mod build;
mod dtype;
mod emit;
mod error;
mod graph;
mod literal;
mod node;
mod number;
mod ops;
mod subgraph;
mod types;

pub use dtype::DType;
pub use error::{Error, Result};
pub use graph::Graph;
pub use node::Value;
pub use number::Number;
pub use ops::*;
pub use types::{Dims, TensorType};
