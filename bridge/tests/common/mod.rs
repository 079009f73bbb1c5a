//! Finding the plugins that the tests run against, and small programs.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::{Path, PathBuf};

use bridge::pjrt::{Buffer, Client, ElementType, NamedValue, Plugin, discover_in};

/// The two CPU plugins, of different C API versions, that everything is tested against.
pub const CPU_PLUGINS: [&str; 2] = ["xla_cpu_pjrt", "lammps_jax_pjrt_cpu"];

/// The `site-packages` folders to test with: of `TORCH_PJRT_TEST_SITE`, of the Python in `TORCH_PJRT_PYTHON`, of `.venv`.
pub fn roots() -> Vec<PathBuf> {
    if let Some(site) = std::env::var_os("TORCH_PJRT_TEST_SITE") {
        return vec![PathBuf::from(site)];
    }
    let venv = std::env::var_os("TORCH_PJRT_PYTHON").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv"),
        // The interpreter may be a link: its environment is where it is called, not where it lies.
        |python| Path::new(&python).ancestors().nth(2).unwrap_or(Path::new("")).to_owned(),
    );
    let pythons = std::fs::read_dir(venv.join("lib")).into_iter().flatten().flatten();
    pythons.map(|python| python.path().join("site-packages")).filter(|root| root.is_dir()).collect()
}

/// Something that a test needs is not there: the caller skips. Under `make test-rust`, which sets everything up and
/// says so by `TORCH_PJRT_PYTHON`, it fails, because a skip would look like a success.
pub fn missing(what: &str) {
    assert!(std::env::var_os("TORCH_PJRT_PYTHON").is_none(), "TORCH_PJRT_PYTHON is set, but there is no {what}");
    println!("skipped: no {what}");
}

/// The library of an installed plugin; says so when it is not there, and the caller skips.
pub fn library(name: &str) -> Option<PathBuf> {
    let found = discover_in(&roots()).into_iter().find(|plugin| plugin.name == name);
    if found.is_none() {
        missing(&format!("{name} in {:?}; set TORCH_PJRT_TEST_SITE to a site-packages folder that has it", roots()));
    }
    found.map(|plugin| plugin.path)
}

/// A client with two devices on each CPU plugin that is installed, which are all where [`missing`] fails.
pub fn cpu_clients() -> Vec<&'static Client> {
    CPU_PLUGINS
        .iter()
        .filter_map(|name| library(name))
        .map(|path| {
            let plugin = Plugin::load(&path).unwrap();
            let options = [("cpu_device_count", NamedValue::Int(2)), ("asynchronous", NamedValue::Bool(false))];
            Client::create(plugin, &options).unwrap()
        })
        .collect()
}

pub fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub fn upload(client: &'static Client, values: &[f32]) -> Buffer {
    let device = client.device(0).unwrap();
    client.buffer_from_host(&bytes(values), ElementType::F32, &[values.len() as i64], device).unwrap()
}

pub fn download(buffer: &Buffer) -> Vec<f32> {
    let mut out = vec![0; buffer.dims().unwrap().iter().product::<i64>() as usize * 4];
    buffer.to_host(&mut out).unwrap();
    out.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

/// `a + b` on four floats; `attributes` decorates `a`.
pub fn add(attributes: &str) -> String {
    format!(
        "module @add {{ func.func public @main(%a: tensor<4xf32> {attributes}, %b: tensor<4xf32>) -> tensor<4xf32> {{
  %0 = stablehlo.add %a, %b : tensor<4xf32>
  return %0 : tensor<4xf32> }} }}"
    )
}
