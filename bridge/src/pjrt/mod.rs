//! The PJRT runtime: plugins, clients, buffers, executables.
//!
//! Every call into a plugin goes through [`Plugin::call`] in `call.rs`. The runtime never unloads a plugin and never
//! destroys a client, because plugins own threads that outlive any orderly end; both live as long as the process, so
//! buffers and executables hold plain `&'static` references to them.
//!
//! What returns a `Result` and says nothing of its errors fails as every call into a plugin can: with the plugin's own
//! [`Error::Pjrt`](crate::Error::Pjrt), with [`Error::PluginTooOld`](crate::Error::PluginTooOld) when the plugin lacks the
//! function, and with [`Error::Forked`](crate::Error::Forked) in a forked child. Sizes are in bytes where they are not
//! numbers of elements.

mod buffer;
mod call;
mod client;
mod code;
mod compiled;
mod device;
mod discover;
mod element_type;
mod environment;
mod event;
mod executable;
#[doc(hidden)]
pub mod ffi;
mod fork;
mod hlo;
mod host_view;
mod named_value;
mod options;
mod platform;
mod plugin;
mod run;
mod select;
mod topology;
mod transfer;

pub use buffer::{Buffer, RawBuffer};
pub use client::{Client, client, existing_client};
pub use code::Code;
pub use compiled::{Compiled, MemoryAnalysis, OutputType};
pub use device::{Device, Memory, MemoryStats};
pub use discover::{Installed, discover, discover_in, search_roots, set_search_roots};
pub use element_type::ElementType;
pub use event::Event;
pub use executable::Executable;
pub use fork::is_forked_child;
pub use host_view::HostView;
pub use named_value::NamedValue;
pub use options::{CompileOptions, OptionValue};
pub use platform::Platform;
pub use plugin::Plugin;
pub use select::{Choice, Request, make_from, select, select_from, set_client_options};
pub use topology::{Topology, TopologyDevice, compile_for_topology};
