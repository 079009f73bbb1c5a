//! The one error type of this crate.

use std::path::PathBuf;

use crate::op_error::OpErrorKind;
use crate::pjrt::Code;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong, each with what is needed to put it right.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A program could not be built.
    #[error(transparent)]
    Primitive(#[from] primitives::Error),

    /// A PJRT call failed.
    #[error("{call} failed with {code}: {message}")]
    Pjrt { call: &'static str, code: Code, message: String },

    /// The device has no room for what a call needs.
    #[error("out of memory on the device ({call}): {message}. Free tensors, or use smaller ones")]
    OutOfMemory { call: &'static str, message: String },

    /// `TORCH_PJRT_PLUGIN`, or a path given to the loader, does not exist.
    #[error("no PJRT plugin at {}: the file does not exist. Set TORCH_PJRT_PLUGIN to the plugin's .so file", .path.display())]
    PluginNotFound { path: PathBuf },

    /// The file exists but is no PJRT plugin.
    #[error("{} is not a PJRT plugin: {reason}", .path.display())]
    NotAPlugin { path: PathBuf, reason: String },

    /// The plugin's function table does not reach the function.
    #[error(
        "PJRT plugin {} is too old: its C API {major}.{minor} has no {function}. Install a newer plugin",
        .path.display()
    )]
    PluginTooOld { path: PathBuf, major: i32, minor: i32, function: &'static str },

    /// Nothing to run on.
    #[error(
        "no PJRT plugin is installed{}. Install one: `pip install 'torch-pjrt[cpu]'` for the CPU, `pip install libtpu` \
         for a TPU, `pip install jax-cuda13-pjrt` for an NVIDIA GPU; or set TORCH_PJRT_PLUGIN to a plugin's .so file",
        searched(.roots)
    )]
    NoPlugin { roots: Vec<PathBuf> },

    /// `PJRT_DEVICE` names nothing that is installed.
    #[error(
        "PJRT_DEVICE={value} matches no installed PJRT plugin: got {value}, expected one of {}. Set PJRT_DEVICE to \
         one of those, unset it, or install the plugin",
        names(.found)
    )]
    UnknownDevice { value: String, found: Vec<String> },

    /// The plugin loaded, but the machine has no chip for it.
    #[error(
        "PJRT plugin {plugin} found no device on this machine: {message}. Run on a machine that has one, or set \
         PJRT_DEVICE=CPU"
    )]
    NoDevice { plugin: String, message: String },

    /// The process was forked after a client was made; its threads do not exist here.
    #[error(
        "the pjrt device cannot be used in a forked child process: the parent made the PJRT client before the fork, and \
         its threads were not copied. Start workers with the \"spawn\" method, or keep tensors on the CPU in workers"
    )]
    Forked,

    /// A host array does not have as many bytes as its type says.
    #[error("{call}: argument `{argument}` has {got} bytes, expected {expected} for {ty}")]
    ByteCount { call: &'static str, argument: &'static str, got: usize, expected: usize, ty: String },

    /// An argument that the runtime cannot take.
    #[error("{call}: argument `{argument}`: got {got}, expected {expected}")]
    Argument { call: &'static str, argument: &'static str, got: String, expected: String },

    /// A call of an op with arguments that it cannot take.
    #[error("{op}: {message}")]
    Op { kind: OpErrorKind, op: String, message: String },

    /// A fault of this library.
    #[error("torch_pjrt internal error: {message}. Please report it")]
    Internal { message: String },
}

fn searched(roots: &[PathBuf]) -> String {
    if roots.is_empty() {
        return String::new();
    }
    let list: Vec<_> = roots.iter().map(|root| root.display().to_string()).collect();
    format!(" (searched {})", list.join(", "))
}

fn names(names: &[String]) -> String {
    if names.is_empty() { "(none is installed)".to_owned() } else { names.join(", ") }
}
