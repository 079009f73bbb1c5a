//! The ATen op table: rows, the calls they serve, and their lowering onto a graph.

pub mod args;
pub mod broadcast;
pub mod cast;
pub mod complex_math;
pub mod cx;
pub mod exact;
pub mod expr;
pub mod fits;
pub mod kernel;
pub mod layout;
pub mod lower;
pub mod overlap;
pub mod promote;
pub mod row;
pub mod rows;
pub mod schema;
pub mod threefry;
pub mod view;

pub use args::{Arg, ArgPos, MemoryFormat, TensorArg};
pub use cx::{Check, CheckKind, Cx, Env, Operand, Source};
pub use kernel::{Form, Kernel};
pub use row::{Layout, Row};
pub use schema::Schema;
