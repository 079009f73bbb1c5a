//! Every snapshot of the primitives' text compiles: on the installed plugin, and for a TPU that need not be there.

mod on_plugin;

use std::fs;
use std::path::Path;

use bridge::Result;
use bridge::pjrt::{CompileOptions, Plugin, compile_for_topology};

/// A program that is read without complaint but cannot be compiled for a platform, and what the error says.
type Refused = (&'static str, &'static str);

const REFUSED_ON_CPU: [Refused; 2] =
    [("collective_broadcast", "collective-broadcast"), ("custom_calls", "No registered implementation")];

const REFUSED_ON_TPU: [Refused; 2] =
    [("collective_broadcast", "collective-broadcast"), ("custom_calls", "Custom emitter for old not found")];

fn compile_all(refused: &[Refused], most_devices: usize, compile: impl Fn(&str, &CompileOptions) -> Result<()>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../primitives/tests/snapshots");
    let mut failures = Vec::new();
    let mut compiled = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "mlir") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let count = |what: &str| -> i64 {
            let Some((_, rest)) = text.split_once(what) else { return 1 };
            rest.trim_start_matches(" = ").split(' ').next().unwrap().parse().unwrap()
        };
        let options = CompileOptions {
            num_partitions: count("mhlo.num_partitions"),
            num_replicas: count("mhlo.num_replicas"),
            ..CompileOptions::default()
        };
        let devices = (options.num_partitions * options.num_replicas) as usize;
        if devices > most_devices {
            assert!(most_devices < 4, "{name} needs {devices} devices, more than any test has");
            println!("skipped {name}: needs {devices} devices");
            continue;
        }
        let known = refused.iter().find(|(n, _)| *n == name);
        match (compile(&text, &options), known) {
            (Ok(()), None) => compiled += 1,
            (Ok(()), Some(_)) => failures.push(format!("{name} compiles now: take it off the list")),
            (Err(e), Some((_, why))) if e.to_string().contains(why) => println!("{name}: {e}"),
            (Err(e), _) => failures.push(format!("{name}: {e}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(compiled > 20, "only {compiled} snapshots found");
}

#[test]
fn on_the_installed_plugin() {
    let Some(client) = on_plugin::device() else { return };
    let refused = if client.platform_name() == "cpu" { &REFUSED_ON_CPU[..] } else { &[] };
    compile_all(refused, client.num_addressable(), |text, options| client.compile(text, options).map(drop));
}

#[test]
fn for_a_tpu() {
    let Some(path) = on_plugin::common::library("libtpu") else { return };
    let plugin = Plugin::load_for_compiling(&path).unwrap();
    compile_all(&REFUSED_ON_TPU, 4, |text, options| compile_for_topology(plugin, "v5e:2x2", text, options).map(drop));
}
