//! What a user reads when something is wrong, word for word.

mod common;

use std::path::{Path, PathBuf};

use bridge::Error;
use bridge::pjrt::{
    Client, Code, CompileOptions, ElementType, Installed, NamedValue, Platform, Plugin, Request, make_from, select_from,
};
use common::{CPU_PLUGINS, cpu_clients, library, missing, upload};

fn installed(name: &str, platform: Platform) -> Installed {
    Installed { name: name.to_owned(), path: PathBuf::from(format!("/site/{name}.so")), platform }
}

/// A machine with a TPU plugin, a GPU plugin and two CPU plugins, but no accelerator.
fn machine() -> Vec<Installed> {
    vec![
        installed("libtpu", Platform::Tpu),
        installed("xla_cuda13", Platform::Cuda),
        installed("lammps_jax_pjrt_cpu", Platform::Cpu),
        installed("xla_cpu_pjrt", Platform::Cpu),
    ]
}

fn no_chip(platform: Platform) -> bool {
    platform == Platform::Cpu
}

fn device(value: &str) -> Request {
    Request { device: Some(value.to_owned()), ..Default::default() }
}

#[test]
fn pjrt_device_chooses() {
    let chosen = |value| select_from(&device(value), machine(), no_chip).unwrap();
    assert_eq!(chosen("CPU").plugin.name, "lammps_jax_pjrt_cpu");
    assert_eq!(chosen("cpu").reason, "PJRT_DEVICE=cpu");
    assert_eq!(chosen("TPU").plugin.name, "libtpu");
    assert_eq!(chosen("CUDA").plugin.name, "xla_cuda13");
    assert_eq!(chosen("GPU").plugin.name, "xla_cuda13");
    assert_eq!(chosen("xla_cpu_pjrt").plugin.name, "xla_cpu_pjrt");
}

#[test]
fn unset_means_the_best_that_has_a_chip() {
    let unset = Request::default();
    assert_eq!(select_from(&unset, machine(), no_chip).unwrap().plugin.name, "lammps_jax_pjrt_cpu");
    let gpu = |platform| platform != Platform::Tpu;
    assert_eq!(select_from(&unset, machine(), gpu).unwrap().plugin.name, "xla_cuda13");
    let error = select_from(&unset, vec![installed("libtpu", Platform::Tpu)], no_chip).unwrap_err();
    assert_eq!(
        error.to_string(),
        "PJRT plugin libtpu found no device on this machine: no TPU device file exists, and no CPU plugin is installed. \
         Run on a machine that has one, or set PJRT_DEVICE=CPU"
    );
}

#[test]
fn unknown_device() {
    let error = select_from(&device("NPU"), machine(), no_chip).unwrap_err();
    assert_eq!(
        error.to_string(),
        "PJRT_DEVICE=NPU matches no installed PJRT plugin: got NPU, expected one of TPU, CUDA, CPU, libtpu, xla_cuda13, \
         lammps_jax_pjrt_cpu, xla_cpu_pjrt. Set PJRT_DEVICE to one of those, unset it, or install the plugin"
    );
    let error = select_from(&device("CPU"), Vec::new(), no_chip).unwrap_err();
    assert_eq!(
        error.to_string(),
        "PJRT_DEVICE=CPU matches no installed PJRT plugin: got CPU, expected one of (none is installed). Set PJRT_DEVICE \
         to one of those, unset it, or install the plugin"
    );
}

#[test]
fn no_plugin() {
    assert_eq!(
        Error::NoPlugin { roots: vec![PathBuf::from("/site")] }.to_string(),
        "no PJRT plugin is installed (searched /site). Install one: `pip install 'torch-pjrt[cpu]'` for the CPU, \
         `pip install libtpu` for a TPU, `pip install jax-cuda13-pjrt` for an NVIDIA GPU; or set TORCH_PJRT_PLUGIN to \
         a plugin's .so file"
    );
    assert!(matches!(select_from(&Request::default(), Vec::new(), no_chip), Err(Error::NoPlugin { .. })));
}

#[test]
fn plugin_path_does_not_exist() {
    let expected =
        "no PJRT plugin at /no/such/plugin.so: the file does not exist. Set TORCH_PJRT_PLUGIN to the plugin's .so file";
    let path = PathBuf::from("/no/such/plugin.so");
    assert_eq!(Plugin::load(&path).unwrap_err().to_string(), expected);
    let request = Request { path: Some(path), ..Default::default() };
    assert_eq!(select_from(&request, machine(), no_chip).unwrap_err().to_string(), expected);
}

#[test]
fn file_is_not_a_plugin() {
    let file = std::env::temp_dir().join(format!("torch-pjrt-not-a-plugin-{}.so", std::process::id()));
    std::fs::write(&file, "no library").unwrap();
    let path = file.canonicalize().unwrap();
    let expected = format!("{0} is not a PJRT plugin: {0}: file too short", path.display());
    assert_eq!(Plugin::load(&file).unwrap_err().to_string(), expected);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn library_without_the_entry_point() {
    let Some(libm) = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6"]
        .into_iter()
        .find(|path| Path::new(path).exists())
    else {
        missing("libm.so.6 where it is looked for");
        return;
    };
    let path = Path::new(libm).canonicalize().unwrap();
    let expected = format!("{} is not a PJRT plugin: it does not export GetPjrtApi", path.display());
    assert_eq!(Plugin::load(libm.as_ref()).unwrap_err().to_string(), expected);
}

/// A plugin as of long ago, compiled here: its table ends after the functions for errors.
#[test]
fn plugin_is_too_old() {
    let folder = std::env::temp_dir().join(format!("torch-pjrt-old-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, old) = (folder.join("old.c"), folder.join("old.so"));
    let code = "#include <stddef.h>
static void* init(void* a) { return 0; }
static struct { size_t size; void* e; size_t vsize; void* ve; int major, minor; void* f[5]; } api =
    {sizeof(api), 0, 24, 0, 0, MINOR, {init, init, init, init, init}};
void* GetPjrtApi(void) { return &api; }\n";
    for minor in [9, 60] {
        std::fs::write(&source, code.replace("MINOR", &minor.to_string())).unwrap();
        let library = old.with_file_name(format!("old{minor}.so"));
        let cc = std::process::Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
        if !cc.is_ok_and(|status| status.success()) {
            missing("C compiler named cc to make an old plugin");
            return;
        }
        let path = library.canonicalize().unwrap();
        let error = Plugin::load(&library).and_then(|plugin| Client::create(plugin, &[]).map(drop)).unwrap_err();
        let function = if minor == 9 { "PJRT_Executable_OutputDimensions" } else { "PJRT_Client_Create" };
        let expected = format!(
            "PJRT plugin {} is too old: its C API 0.{minor} has no {function}. Install a newer plugin",
            path.display()
        );
        assert_eq!(error.to_string(), expected);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn client_options_from_the_environment() {
    let options = |text: &str| Request { options: Some(text.to_owned()), ..Default::default() };
    let choice = select_from(&options("a=1, b=true,c=x,d=0.5"), machine(), no_chip).unwrap();
    let expected = [
        ("a", NamedValue::Int(1)),
        ("b", NamedValue::Bool(true)),
        ("c", NamedValue::String("x".to_owned())),
        ("d", NamedValue::Float(0.5)),
    ];
    assert_eq!(choice.options, expected.map(|(name, value)| (name.to_owned(), value)));
    assert_eq!(
        select_from(&options("a"), machine(), no_chip).unwrap_err().to_string(),
        "TORCH_PJRT_CLIENT_OPTIONS: argument `option`: got a, expected name=value, separated by commas"
    );
}

#[test]
fn a_chosen_cpu_plugin_is_one_device() {
    for name in CPU_PLUGINS {
        let Some(path) = library(name) else { continue };
        let choose = |options: &str| {
            let request = Request { path: Some(path.clone()), options: Some(options.to_owned()), ..Default::default() };
            make_from(&select_from(&request, Vec::new(), no_chip).unwrap()).unwrap()
        };
        assert_eq!(choose("").num_addressable(), 1);
        let three = choose("cpu_device_count=3");
        assert_eq!(three.num_addressable(), 3);
        assert_eq!(
            three.device(3).unwrap_err().to_string(),
            "pjrt device: argument `index`: got 3, expected less than 3, the number of devices here"
        );
    }
}

#[test]
fn wrong_number_of_bytes() {
    for client in cpu_clients() {
        let device = client.device(0).unwrap();
        let error = client.buffer_from_host(&[0; 15], ElementType::F32, &[4], device).unwrap_err();
        assert_eq!(error.to_string(), "buffer_from_host: argument `bytes` has 15 bytes, expected 16 for f32[4]");
        let error = upload(client, &[0.; 4]).to_host(&mut [0; 17]).unwrap_err();
        assert_eq!(error.to_string(), "to_host: argument `bytes` has 17 bytes, expected 16 for f32[4]");
    }
}

#[test]
fn device_memory_runs_out() {
    let text = "module @huge { func.func public @main() -> tensor<1099511627776xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1099511627776xf32>
  return %1 : tensor<1099511627776xf32> } }";
    for client in cpu_clients() {
        let huge = client.compile(text, &CompileOptions::default()).unwrap();
        let error = huge.execute(&[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "out of memory on the device (PJRT_LoadedExecutable_Execute): Out of memory allocating 4398046511104 bytes. \
             Free tensors, or use smaller ones"
        );
        assert_eq!(common::download(&upload(client, &[1.; 4])), [1.; 4], "the client goes on");
    }
}

#[test]
fn a_plugins_own_error_keeps_its_code_and_words() {
    for client in cpu_clients() {
        let error = client.device(0).unwrap().memory_stats().unwrap_err();
        let Error::Pjrt { call, code, message } = &error else { panic!("{error}") };
        assert_eq!((*call, *code), ("PJRT_Device_MemoryStats", Code::Unimplemented));
        assert_eq!(error.to_string(), format!("PJRT_Device_MemoryStats failed with UNIMPLEMENTED: {message}"));
        let program = client.compile(common::add(""), &CompileOptions::default()).unwrap();
        let error = program.execute(&[&upload(client, &[1.; 4])]).unwrap_err();
        assert!(matches!(error, Error::Pjrt { code: Code::InvalidArgument, .. }), "{error}");
        assert!(client.compile("no program", &CompileOptions::default()).is_err());
    }
}

#[test]
fn an_option_that_a_plugin_does_not_know() {
    let Some(path) = library("lammps_jax_pjrt_cpu") else { return };
    let error = Client::create(Plugin::load(&path).unwrap(), &[("no_such", NamedValue::Int(1))]).unwrap_err();
    assert!(matches!(error, Error::Pjrt { code: Code::InvalidArgument, .. }), "{error}");
}
