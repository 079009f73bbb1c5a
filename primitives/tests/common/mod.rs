//! Helpers of the tests.
#![allow(dead_code)]

use std::fs;
use std::path::PathBuf;

use primitives::{DType, Graph, Result, TensorType, Value};

pub fn ty(dtype: DType, dims: &[i64]) -> TensorType {
    TensorType::new(dtype, dims)
}

/// Compares a program with `tests/snapshots/NAME.mlir`.
pub fn snapshot(name: &str, text: &str) {
    compare(&format!("{name}.mlir"), text);
}

/// Compares a text with a file of `tests/snapshots`; with UPDATE=1 in the environment, writes that file.
pub fn compare(file: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(file);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, text).unwrap();
        return;
    }
    let want =
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}; run with UPDATE=1 to create it", path.display()));
    assert_eq!(text, want, "{} differs; run with UPDATE=1 if that is right", path.display());
}

/// Builds a program, takes all values that `build` returns as outputs, and compares its text.
pub fn program(name: &str, build: impl FnOnce(&mut Graph) -> Result<Vec<Value>>) {
    let mut g = Graph::new(name);
    let outputs = build(&mut g).unwrap();
    g.set_outputs(&outputs).unwrap();
    snapshot(name, &g.to_text());
}
