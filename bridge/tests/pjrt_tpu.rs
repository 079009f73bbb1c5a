//! libtpu on a machine without a TPU: it is found, compiles, and says that there is no chip.

mod common;

use bridge::Error;
use bridge::pjrt::{CompileOptions, Installed, Platform, Plugin, Request, Topology, compile_for_topology, discover_in};
use bridge::pjrt::{make_from, select_from};
use common::{add, library, roots};

#[test]
fn libtpu_is_discovered_before_the_cpu() {
    if library("libtpu").is_none() {
        return;
    }
    let found = discover_in(&roots());
    assert_eq!(found[0].name, "libtpu");
    assert_eq!(found[0].platform, Platform::Tpu);
    assert!(found[0].path.ends_with("libtpu/libtpu.so"));
}

#[test]
fn libtpu_compiles_without_a_tpu() {
    let Some(path) = library("libtpu") else { return };
    let plugin = Plugin::load_for_compiling(&path).unwrap();
    let topology = Topology::by_name(plugin, "v5e:2x2", &[]).unwrap();
    assert_eq!(topology.platform_name().unwrap(), "tpu");
    assert!(!topology.platform_version().unwrap().is_empty());
    let devices = topology.devices().unwrap();
    assert_eq!(devices.len(), 4);
    assert_eq!(devices[0].kind, "TPU v5 lite");

    let program = compile_for_topology(plugin, "v5e:2x2", add(""), &CompileOptions::default()).unwrap();
    assert_eq!(program.name().unwrap(), "add");
    assert_eq!(program.output_types().unwrap()[0].dims.as_slice(), [4]);
    assert_eq!(program.cost_analysis().unwrap()["flops"], 4.);
    let memory = program.memory_analysis().unwrap();
    assert!(memory.generated_code > 0 && memory.arguments >= 32);
    assert!(!program.serialize().unwrap().is_empty());
    assert_eq!(program.optimized_program().unwrap().0, "hlo_with_config");

    let sharded = CompileOptions { num_partitions: 4, ..Default::default() };
    compile_for_topology(plugin, "v5e:2x2", add(""), &sharded).unwrap();
    let error = Topology::by_name(plugin, "v9:2x2", &[]).err().unwrap();
    let expected = "PJRT_TopologyDescription_Create failed with INVALID_ARGUMENT: Invalid TPU external name: TPU v9";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn no_chip_is_a_clear_error() {
    let Some(path) = library("libtpu") else { return };
    if Platform::Tpu.has_chip() {
        println!("skipped: this machine has a TPU");
        return;
    }
    let installed = vec![Installed { name: "libtpu".to_owned(), path, platform: Platform::Tpu }];
    let request = Request { device: Some("TPU".to_owned()), ..Default::default() };
    let choice = select_from(&request, installed, |_| false).unwrap();
    let error = make_from(&choice).unwrap_err();
    assert!(matches!(error, Error::NoDevice { .. }));
    assert_eq!(
        error.to_string(),
        "PJRT plugin libtpu found no device on this machine: TPU initialization failed: No jellyfish device found. Run \
         on a machine that has one, or set PJRT_DEVICE=CPU"
    );
}
