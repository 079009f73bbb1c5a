//! Every variant of the error type, word for word: a variant that is added without its text here does not compile.

use std::path::PathBuf;

use bridge::Error;
use bridge::pjrt::Code;

/// The place of the variant in [`texts`]; without a wildcard, so that a new one has to be put into both.
fn place(error: &Error) -> usize {
    match error {
        Error::Primitive(_) => 0,
        Error::Pjrt { .. } => 1,
        Error::OutOfMemory { .. } => 2,
        Error::PluginNotFound { .. } => 3,
        Error::NotAPlugin { .. } => 4,
        Error::PluginTooOld { .. } => 5,
        Error::NoPlugin { .. } => 6,
        Error::UnknownDevice { .. } => 7,
        Error::NoDevice { .. } => 8,
        Error::Forked => 9,
        Error::ByteCount { .. } => 10,
        Error::Argument { .. } => 11,
        Error::Op { .. } => 12,
        Error::Internal { .. } => 13,
    }
}

fn add_of_other_types() -> primitives::Error {
    use primitives::{DType, Graph, TensorType};
    let mut g = Graph::new("main");
    let (a, b) = (g.parameter(TensorType::new(DType::F32, &[4])), g.parameter(TensorType::new(DType::F32, &[3])));
    g.add(a, b).unwrap_err()
}

fn texts() -> Vec<(Error, &'static str)> {
    let path = || PathBuf::from("/p.so");
    vec![
        (
            add_of_other_types().into(),
            "add: rhs is tensor<3xf32>, expected tensor<4xf32>; broadcast to one shape first",
        ),
        (
            Error::Pjrt { call: "PJRT_Call", code: Code::InvalidArgument, message: "no such thing".to_owned() },
            "PJRT_Call failed with INVALID_ARGUMENT: no such thing",
        ),
        (
            Error::OutOfMemory { call: "PJRT_Call", message: "8 bytes".to_owned() },
            "out of memory on the device (PJRT_Call): 8 bytes. Free tensors, or use smaller ones",
        ),
        (
            Error::PluginNotFound { path: path() },
            "no PJRT plugin at /p.so: the file does not exist. Set TORCH_PJRT_PLUGIN to the plugin's .so file",
        ),
        (Error::NotAPlugin { path: path(), reason: "too short".to_owned() }, "/p.so is not a PJRT plugin: too short"),
        (
            Error::PluginTooOld { path: path(), major: 0, minor: 9, function: "PJRT_Call" },
            "PJRT plugin /p.so is too old: its C API 0.9 has no PJRT_Call. Install a newer plugin",
        ),
        (
            Error::NoPlugin { roots: Vec::new() },
            "no PJRT plugin is installed. Install one: `pip install 'torch-pjrt[cpu]'` for the CPU, `pip install libtpu` \
             for a TPU, `pip install jax-cuda13-pjrt` for an NVIDIA GPU; or set TORCH_PJRT_PLUGIN to a plugin's .so file",
        ),
        (
            Error::UnknownDevice { value: "NPU".to_owned(), found: vec!["CPU".to_owned(), "TPU".to_owned()] },
            "PJRT_DEVICE=NPU matches no installed PJRT plugin: got NPU, expected one of CPU, TPU. Set PJRT_DEVICE to \
             one of those, unset it, or install the plugin",
        ),
        (
            Error::NoDevice { plugin: "libtpu".to_owned(), message: "no chip".to_owned() },
            "PJRT plugin libtpu found no device on this machine: no chip. Run on a machine that has one, or set \
             PJRT_DEVICE=CPU",
        ),
        (
            Error::Forked,
            "the pjrt device cannot be used in a forked child process: the parent made the PJRT client before the fork, \
             and its threads were not copied. Start workers with the \"spawn\" method, or keep tensors on the CPU in \
             workers",
        ),
        (
            Error::ByteCount { call: "to_host", argument: "bytes", got: 17, expected: 16, ty: "f32[4]".to_owned() },
            "to_host: argument `bytes` has 17 bytes, expected 16 for f32[4]",
        ),
        (
            Error::Argument {
                call: "pjrt device",
                argument: "index",
                got: "3".to_owned(),
                expected: "less than 3".to_owned(),
            },
            "pjrt device: argument `index`: got 3, expected less than 3",
        ),
        (Error::runtime("add", "the sizes differ".to_owned()), "add: the sizes differ"),
        (Error::internal("a cell is gone".to_owned()), "torch_pjrt internal error: a cell is gone. Please report it"),
    ]
}

#[test]
fn every_variant_says_what_it_has_to() {
    for (i, (error, text)) in texts().into_iter().enumerate() {
        assert_eq!(place(&error), i, "{error}");
        assert_eq!(error.to_string(), text);
    }
    assert_eq!(texts().len(), 14);
}
