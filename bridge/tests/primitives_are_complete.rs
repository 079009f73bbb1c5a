//! Every primitive is documented in the fixed order and run against a reference on a plugin.

use std::fs;
use std::path::Path;

/// (name, documentation) of every public method that appends operations.
fn primitives() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../primitives/src/ops")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut docs = String::new();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (i, line) in lines.iter().enumerate() {
            if let Some(doc) = line.strip_prefix("///") {
                docs.push_str(doc);
            } else if let Some(rest) = line.strip_prefix("pub fn ") {
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let takes_graph = rest.contains("&mut self") || lines[i + 1].starts_with("&mut self");
                if takes_graph {
                    found.push((name, std::mem::take(&mut docs)));
                }
                docs.clear();
            } else if !line.starts_with("#[") {
                docs.clear();
            }
        }
    }
    found
}

#[test]
fn documented_in_order() {
    let found = primitives();
    assert!(found.len() > 100, "only {} primitives found", found.len());
    for (name, docs) in found {
        // Shorthands refer to the primitive they shorten.
        if docs.contains("See [`full`]") || matches!(&name[..], "scalar" | "zeros_like" | "ones_like") {
            continue;
        }
        let at = |word: &str| docs.find(word);
        let errors = at("Errors").unwrap_or_else(|| panic!("{name} says nothing about errors: {docs}"));
        let emits = at("Emits").unwrap_or_else(|| panic!("{name} does not say what it emits: {docs}"));
        assert!(errors < emits, "{name}: errors come before the operation emitted");
        if !docs.contains("0-d u32") {
            let shapes = at("Shapes").unwrap_or_else(|| panic!("{name} says nothing about shapes: {docs}"));
            let dtypes =
                at("Dtypes").or(at("Shapes and dtypes")).unwrap_or_else(|| panic!("{name}: no dtypes: {docs}"));
            assert!(shapes <= dtypes && dtypes < errors, "{name}: shapes, dtypes, errors, operation");
        }
    }
}

#[test]
fn run_against_a_reference() {
    /// Primitives that no CPU plugin can run.
    const NOT_RUN: [&str; 1] = ["collective_broadcast"];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let tests: String = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("primitives_on_plugin_")))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let is_run = |name: &str| tests.contains(&format!(".{name}(")) || tests.contains(&format!("Graph::{name},"));
    let missing: Vec<String> = primitives()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| is_run(name) == NOT_RUN.contains(&&name[..]))
        .collect();
    assert!(missing.is_empty(), "not run against a reference (or run, and still listed as not): {missing:?}");
}
