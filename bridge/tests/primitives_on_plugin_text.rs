//! Every snapshot of the primitives' text compiles on the installed plugin.

mod on_plugin;

use std::fs;
use std::path::Path;

use bridge::pjrt::CompileOptions;

/// Programs that are read without complaint but cannot be compiled for the CPU, and what the error says.
const REFUSED_ON_CPU: [(&str, &str); 2] =
    [("collective_broadcast", "collective-broadcast"), ("custom_calls", "No registered implementation")];

#[test]
fn every_snapshot_compiles() {
    let Some(client) = on_plugin::device() else { return };
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
        if devices > client.num_addressable() {
            println!("skipped {name}: needs {devices} devices");
            continue;
        }
        let known = REFUSED_ON_CPU.iter().find(|(n, _)| *n == name).filter(|_| client.platform_name() == "cpu");
        match (client.compile(&text, &options), known) {
            (Ok(_), None) => compiled += 1,
            (Ok(_), Some(_)) => failures.push(format!("{name} compiles now: take it off the list")),
            (Err(e), Some((_, why))) if e.to_string().contains(why) => println!("{name}: {e}"),
            (Err(e), _) => failures.push(format!("{name}: {e}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(compiled > 20, "only {compiled} snapshots found");
}
