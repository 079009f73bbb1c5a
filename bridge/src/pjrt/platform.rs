//! Kinds of device, as far as choosing a plugin needs them.

use std::fmt;
use std::path::Path;

/// The kind of device that a plugin drives. The order is that of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Platform {
    Tpu,
    Cuda,
    Rocm,
    Neuron,
    Xpu,
    Tenstorrent,
    Metal,
    /// A plugin whose name tells nothing; assumed to be for a device.
    Other,
    Cpu,
}

struct Traits {
    platform: Platform,
    /// The value of `PJRT_DEVICE`.
    name: &'static str,
    /// Parts of package or library names that give it away.
    hints: &'static [&'static str],
    /// Device files, any of which shows that there is a chip. None: cannot tell.
    nodes: &'static [&'static str],
}

/// In the order in which hints are tried: `pjrt_c_api_cpu_plugin` must not be taken for a GPU's.
const TABLE: [Traits; 8] = [
    Traits {
        platform: Platform::Tpu,
        name: "TPU",
        hints: &["tpu"],
        nodes: &["/dev/accel0", "/dev/vfio/0", "/dev/vfio/1", "/dev/vfio/2", "/dev/vfio/3"],
    },
    Traits {
        platform: Platform::Cuda,
        name: "CUDA",
        hints: &["cuda", "gpu"],
        nodes: &["/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"],
    },
    Traits { platform: Platform::Rocm, name: "ROCM", hints: &["rocm"], nodes: &["/dev/kfd"] },
    Traits { platform: Platform::Neuron, name: "NEURON", hints: &["neuron"], nodes: &["/dev/neuron0"] },
    Traits { platform: Platform::Xpu, name: "XPU", hints: &["xpu", "intel", "openxla"], nodes: &["/dev/dri"] },
    Traits {
        platform: Platform::Tenstorrent,
        name: "TT",
        hints: &["plugin_tt", "tenstorrent"],
        nodes: &["/dev/tenstorrent"],
    },
    Traits { platform: Platform::Metal, name: "METAL", hints: &["metal"], nodes: &[] },
    Traits { platform: Platform::Cpu, name: "CPU", hints: &["cpu"], nodes: &[] },
];

/// CPU plugins in order of preference; docs/adr/0003-default-cpu-plugin.md has the measurements.
const CPU_RANK: [&str; 3] = ["lammps_jax_pjrt_cpu", "xla_cpu_pjrt", "fastatomstruct_xla_cpu"];

/// The place of a package among those of its platform; lower is better.
pub(super) fn rank(package: &str) -> usize {
    CPU_RANK.iter().position(|name| *name == package).unwrap_or(CPU_RANK.len())
}

impl Platform {
    /// What a package's and its library's names tell.
    pub(super) fn guess(package: &str, library: &Path) -> Self {
        let library = library.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
        let package = package.to_lowercase();
        let told = |traits: &&Traits| {
            traits.hints.iter().any(|hint| package.contains(hint))
                || traits.hints.iter().any(|hint| library.contains(hint))
        };
        TABLE.iter().find(told).map_or(Self::Other, |traits| traits.platform)
    }

    fn traits(self) -> Option<&'static Traits> {
        TABLE.iter().find(|traits| traits.platform == self)
    }

    /// The name that `PJRT_DEVICE` takes.
    pub fn name(self) -> &'static str {
        self.traits().map_or("OTHER", |traits| traits.name)
    }

    /// Whether a value of `PJRT_DEVICE` means this platform.
    pub(super) fn is_called(self, value: &str) -> bool {
        let gpu = value.eq_ignore_ascii_case("GPU") && matches!(self, Self::Cuda | Self::Rocm);
        self != Self::Other && (gpu || self.name().eq_ignore_ascii_case(value))
    }

    /// Whether this machine seems to have such a chip: `false` only when its device files are known and absent.
    pub fn has_chip(self) -> bool {
        let Some(traits) = self.traits() else { return true };
        traits.nodes.is_empty() || traits.nodes.iter().any(|node| Path::new(node).exists())
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
