//! The PJRT runtime: plugins, clients, buffers, executables.
//!
//! Every call into a plugin goes through [`Plugin::call`] in `call.rs`. The runtime never unloads a plugin and never
//! destroys a client, because plugins own threads that outlive any orderly end; both live as long as the process, so
//! buffers and executables hold plain `&'static` references to them.

mod buffer;
mod call;
mod client;
mod code;
mod device;
mod element_type;
mod event;
mod executable;
#[doc(hidden)]
pub mod ffi;
mod fork;
mod named_value;
mod options;
mod plugin;
mod select;

pub use buffer::{Buffer, RawBuffer};
pub use client::{Client, client, existing_client};
pub use code::Code;
pub use device::{Device, Memory, MemoryStats};
pub use element_type::ElementType;
pub use event::Event;
pub use executable::{Compiled, Executable, MemoryAnalysis, OutputType};
pub use named_value::NamedValue;
pub use options::{CompileOptions, OptionValue};
pub use plugin::Plugin;
