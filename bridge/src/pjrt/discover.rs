//! Finding installed plugins, by folders and entry points. Nothing is imported or loaded to find them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::platform::Platform;

/// A plugin that is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The package's name, such as `xla_cuda13` or `libtpu`; `PJRT_DEVICE` accepts it.
    pub name: String,
    /// The library.
    pub path: PathBuf,
    pub platform: Platform,
}

/// Packages that are a plugin themselves, outside the shared folders.
const PACKAGES: [&str; 4] = ["libtpu", "libneuronxla", "lammps_jax_pjrt_cpu", "fastatomstruct_xla_cpu"];

/// Folders whose sub-folders are plugins, and also the names of the entry-point groups for plugins elsewhere.
const NAMESPACES: [&str; 2] = ["jax_plugins", "xla_plugins"];

static ROOTS: Mutex<Option<Vec<PathBuf>>> = Mutex::new(None);

/// Sets the `site-packages` folders to search. Without this, those of the active virtual environment are searched.
pub fn set_search_roots(roots: Vec<PathBuf>) {
    *ROOTS.lock() = Some(roots);
}

/// The folders that [`discover`] searches.
pub fn search_roots() -> Vec<PathBuf> {
    if let Some(roots) = ROOTS.lock().clone() {
        return roots;
    }
    ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .iter()
        .filter_map(std::env::var_os)
        .flat_map(|prefix| folders(&Path::new(&prefix).join("lib")))
        .map(|python| python.join("site-packages"))
        .filter(|root| root.is_dir())
        .collect()
}

/// All installed plugins, best first: accelerators before CPUs, then as [`Platform`] and its table of names rank them.
pub fn discover() -> Vec<Installed> {
    discover_in(&search_roots())
}

/// All plugins installed under `roots`, best first.
pub fn discover_in(roots: &[PathBuf]) -> Vec<Installed> {
    let mut found: Vec<Installed> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut add = |name: &str, folder: &Path| {
        let Some(path) = library_in(folder) else { return };
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        if seen.insert(real) {
            let platform = Platform::guess(name, &path);
            found.push(Installed { name: name.to_owned(), path, platform });
        }
    };
    for root in roots {
        for namespace in NAMESPACES {
            for folder in folders(&root.join(namespace)) {
                add(&file_name(&folder), &folder);
            }
        }
        for package in PACKAGES {
            add(package, &root.join(package));
        }
        for (name, module) in entry_points(root) {
            add(&name, &root.join(module.replace('.', "/")));
        }
    }
    // Stable, and later versions first among equals: `xla_cuda13` before `xla_cuda12`.
    found.sort_by(|a, b| {
        let rank = |plugin: &Installed| (plugin.platform, super::platform::rank(&plugin.name));
        rank(a).cmp(&rank(b)).then_with(|| b.name.cmp(&a.name))
    });
    found
}

/// The plugin's library among a package's files: the one whose name says so, at most one folder down.
fn library_in(folder: &Path) -> Option<PathBuf> {
    let mut libraries = libraries(folder);
    if libraries.is_empty() {
        libraries = folders(folder).iter().flat_map(|inner| self::libraries(inner)).collect();
    }
    let says_plugin = |path: &PathBuf| {
        let name = file_name(path);
        match name.as_str() {
            "libtpu.so" | "libneuronpjrt.so" => 0,
            _ if name.contains("pjrt") => 1,
            _ if name.contains("plugin") => 2,
            _ => 3,
        }
    };
    libraries.sort_by_key(says_plugin);
    libraries.into_iter().next().filter(|path| says_plugin(path) < 3)
}

fn libraries(folder: &Path) -> Vec<PathBuf> {
    let is_library =
        |path: &PathBuf| path.is_file() && path.extension().is_some_and(|end| end == "so" || end == "dylib");
    entries(folder).into_iter().filter(is_library).collect()
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    entries(folder).into_iter().filter(|path| path.is_dir() && !file_name(path).starts_with("__")).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Name and module of each entry point in the plugin groups of the packages installed in `root`.
fn entry_points(root: &Path) -> Vec<(String, String)> {
    entries(root)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "dist-info"))
        .filter_map(|info| std::fs::read_to_string(info.join("entry_points.txt")).ok())
        .flat_map(|text| plugin_entries(&text))
        .collect()
}

fn plugin_entries(text: &str) -> Vec<(String, String)> {
    let mut ours = false;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(group) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            ours = NAMESPACES.contains(&group.trim());
        } else if ours && let Some((name, target)) = line.split_once('=') {
            let module = target.split([':', '[']).next().unwrap_or_default();
            found.push((name.trim().to_owned(), module.trim().to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_points_of_other_groups_are_ignored() {
        let text = "[console_scripts]\na = b:c\n\n[jax_plugins]\nxla_cuda13 = jax_plugins.xla_cuda13\n[xla_plugins]\nx = y.z:init\n";
        let expected = [("xla_cuda13", "jax_plugins.xla_cuda13"), ("x", "y.z")];
        assert_eq!(plugin_entries(text), expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }

    #[test]
    fn accelerators_come_before_cpus() {
        let root = std::env::temp_dir().join(format!("torch-pjrt-discover-{}", std::process::id()));
        for file in [
            "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
            "jax_plugins/xla_cuda12/xla_cuda_plugin.so",
            "jax_plugins/xla_cuda13/xla_cuda_plugin.so",
            "libtpu/libtpu.so",
            "libtpu/sdk.so",
            "elsewhere/lib/pjrt_plugin_tt.so",
            "jax_plugins/no_library/__init__.py",
        ] {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let info = root.join("tt-1.0.dist-info");
        std::fs::create_dir_all(&info).unwrap();
        std::fs::write(info.join("entry_points.txt"), "[jax_plugins]\npjrt_plugin_tt = elsewhere\n").unwrap();

        let found = discover_in(std::slice::from_ref(&root));
        let names: Vec<_> = found.iter().map(|plugin| (plugin.name.as_str(), plugin.platform)).collect();
        assert_eq!(
            names,
            [
                ("libtpu", Platform::Tpu),
                ("xla_cuda13", Platform::Cuda),
                ("xla_cuda12", Platform::Cuda),
                ("pjrt_plugin_tt", Platform::Tenstorrent),
                ("xla_cpu_pjrt", Platform::Cpu),
            ]
        );
        assert!(found[0].path.ends_with("libtpu/libtpu.so"));
        std::fs::remove_dir_all(root).unwrap();
    }
}
