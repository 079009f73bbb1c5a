//! Topologies: compiling for devices that are not here.

use std::ptr::NonNull;

use super::call::{slice, string};
use super::client::with_program;
use super::device::Description;
use super::ffi::{self, PJRT_TopologyDescription};
use super::{Client, CompileOptions, Compiled, NamedValue, Platform, Plugin, environment};
use crate::Result;

/// A description of devices by name, such as `v5e:2x2`, that a plugin can compile for without having them.
pub struct Topology {
    raw: NonNull<PJRT_TopologyDescription>,
    plugin: &'static Plugin,
    /// Whether it is a client's own, which the client frees.
    borrowed: bool,
}

// SAFETY: topologies are constant.
unsafe impl Send for Topology {}
// SAFETY: as above.
unsafe impl Sync for Topology {}

/// A device of a topology.
#[derive(Debug, Clone, PartialEq)]
pub struct TopologyDevice {
    pub id: i32,
    pub process_index: i32,
    pub kind: String,
    pub name: String,
    pub attributes: Vec<(String, NamedValue)>,
}

impl Plugin {
    /// Loads the plugin at `path` for compiling only: a TPU plugin is told not to look for a chip when there is none.
    ///
    /// # Errors
    /// As for [`Plugin::load`].
    pub fn load_for_compiling(path: &std::path::Path) -> Result<&'static Self> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if Platform::guess(&name, path) == Platform::Tpu && !Platform::Tpu.has_chip() {
            environment::without_tpu();
        }
        Self::load(path)
    }
}

impl Topology {
    /// The topology that the plugin knows by this name; `options` are the plugin's, such as `num_slices`.
    ///
    /// libtpu takes `v2:2x2`, `v4:2x2x1`, `v5e:1x1` to `v5e:16x16`, `v5p:2x2x1`, `v6e:2x2`, `tpu7x:2x2x1` and so on.
    ///
    /// # Errors
    /// The plugin's own for a name that it does not know, or when it has no topologies by name.
    pub fn by_name(plugin: &'static Plugin, name: &str, options: &[(&str, NamedValue)]) -> Result<Self> {
        let options: Vec<_> = options.iter().map(|(name, value)| value.to_raw(name)).collect();
        let mut args = ffi::PJRT_TopologyDescription_Create_Args {
            topology_name: name.as_ptr(),
            topology_name_size: name.len(),
            create_options: options.as_ptr(),
            num_options: options.len(),
            ..Default::default()
        };
        // SAFETY: name and options outlive the call; the topology is ours to destroy.
        unsafe { plugin.call(&mut args)? };
        let raw = NonNull::new(args.topology).expect("a successful PJRT call gave no topology");
        Ok(Self { raw, plugin, borrowed: false })
    }

    /// The topology of a client's own devices.
    ///
    /// # Errors
    /// The plugin's own when it does not tell.
    pub fn of_client(client: &'static Client) -> Result<Self> {
        let mut args = ffi::PJRT_Client_TopologyDescription_Args { client: client.raw.as_ptr(), ..Default::default() };
        // SAFETY: the client lives as long as the process, and the topology with it.
        unsafe { client.plugin.call(&mut args)? };
        let raw = NonNull::new(args.topology).expect("a successful PJRT call gave no topology");
        Ok(Self { raw, plugin: client.plugin, borrowed: true })
    }

    /// `cpu`, `tpu`, `cuda` and so on.
    pub fn platform_name(&self) -> Result<String> {
        let mut args =
            ffi::PJRT_TopologyDescription_PlatformName_Args { topology: self.raw.as_ptr(), ..Default::default() };
        // SAFETY: the topology lives, and the name is copied at once.
        unsafe {
            self.plugin.call(&mut args)?;
            Ok(string(args.platform_name, args.platform_name_size))
        }
    }

    /// The plugin's words for its own version.
    pub fn platform_version(&self) -> Result<String> {
        let mut args =
            ffi::PJRT_TopologyDescription_PlatformVersion_Args { topology: self.raw.as_ptr(), ..Default::default() };
        // SAFETY: the topology lives, and the text is copied at once.
        unsafe {
            self.plugin.call(&mut args)?;
            Ok(string(args.platform_version, args.platform_version_size))
        }
    }

    /// Its devices.
    pub fn devices(&self) -> Result<Vec<TopologyDevice>> {
        let mut args = ffi::PJRT_TopologyDescription_GetDeviceDescriptions_Args {
            topology: self.raw.as_ptr(),
            ..Default::default()
        };
        // SAFETY: the topology lives and owns the descriptions, which are copied at once.
        unsafe {
            self.plugin.call(&mut args)?;
            let read = |&raw: &_| {
                let Description { id, process_index, kind, name, attributes } = Description::read(self.plugin, raw)?;
                Ok(TopologyDevice { id, process_index, kind, name, attributes })
            };
            slice(args.descriptions, args.num_descriptions).iter().map(read).collect()
        }
    }

    /// Compiles StableHLO for these devices. The result can be analysed and serialized, and run where they are.
    pub fn compile(&self, program: impl AsRef<[u8]>, options: &CompileOptions) -> Result<Compiled> {
        with_program(program.as_ref(), options, |program, options| {
            let mut args = ffi::PJRT_Compile_Args {
                topology: self.raw.as_ptr(),
                program,
                compile_options: options.as_ptr(),
                compile_options_size: options.len(),
                ..Default::default()
            };
            // SAFETY: topology, program and options outlive the call; the result is ours to destroy.
            unsafe {
                self.plugin.call(&mut args)?;
                Ok(Compiled::new(self.plugin, args.executable))
            }
        })
    }
}

/// Compiles StableHLO for the topology that `plugin` knows as `topology`, on a machine that need not have it.
///
/// # Errors
/// As for [`Topology::by_name`] and [`Topology::compile`].
pub fn compile_for_topology(
    plugin: &'static Plugin,
    topology: &str,
    program: impl AsRef<[u8]>,
    options: &CompileOptions,
) -> Result<Compiled> {
    Topology::by_name(plugin, topology, &[])?.compile(program, options)
}

impl Drop for Topology {
    fn drop(&mut self) {
        if self.borrowed || super::fork::is_forked_child() {
            return;
        }
        let mut args = ffi::PJRT_TopologyDescription_Destroy_Args { topology: self.raw.as_ptr(), ..Default::default() };
        // SAFETY: the topology is ours and is not used again; what was compiled for it stands alone.
        let _ = unsafe { self.plugin.call(&mut args) };
    }
}
