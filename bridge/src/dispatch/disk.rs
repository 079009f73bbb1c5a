//! Compiled programs on disk, addressed by content.
//!
//! The name of an entry is the hash of all that decides its machine code: program text, compile options, plugin,
//! processor features, our version. Entries are written to a temporary file and renamed, carry their own checksum, and
//! a damaged one is dropped and compiled anew. The folder is bounded; the oldest entries go first.

use super::mappings;
use crate::Result;
use crate::pjrt::{self, CompileOptions, Executable};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const MAGIC: &[u8; 8] = b"TPJRTEX1";
const HEADER: usize = MAGIC.len() + 32;
const DEFAULT_LIMIT: u64 = 2 << 30;

static COMPILES: AtomicU64 = AtomicU64::new(0);
static COMPILE_NANOS: AtomicU64 = AtomicU64::new(0);
static DISK_HITS: AtomicU64 = AtomicU64::new(0);
static DAMAGED: AtomicU64 = AtomicU64::new(0);
static NEXT_TEMP: AtomicU64 = AtomicU64::new(0);

/// Counts of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Programs that the compiler saw.
    pub compiles: u64,
    pub compile_nanos: u64,
    /// Programs loaded from disk instead.
    pub disk_hits: u64,
    /// Entries that were dropped because they were damaged.
    pub damaged: u64,
}

/// Counts since the process began.
pub fn stats() -> Stats {
    Stats {
        compiles: COMPILES.load(Ordering::Relaxed),
        compile_nanos: COMPILE_NANOS.load(Ordering::Relaxed),
        disk_hits: DISK_HITS.load(Ordering::Relaxed),
        damaged: DAMAGED.load(Ordering::Relaxed),
    }
}

/// Where entries go, and how many bytes at most.
struct Folder {
    path: PathBuf,
    limit: u64,
    /// Bytes in the folder, once counted.
    size: Mutex<Option<u64>>,
}

static FOLDER: LazyLock<Option<Folder>> = LazyLock::new(|| {
    if std::env::var("TORCH_PJRT_CACHE").is_ok_and(|v| v == "0" || v.eq_ignore_ascii_case("off")) {
        return None;
    }
    let path = match std::env::var_os("TORCH_PJRT_CACHE_DIR") {
        Some(dir) if dir.is_empty() => return None,
        Some(dir) => PathBuf::from(dir),
        None => match std::env::var_os("XDG_CACHE_HOME").filter(|d| !d.is_empty()) {
            Some(dir) => PathBuf::from(dir).join("torch_pjrt"),
            None => PathBuf::from(std::env::var_os("HOME")?).join(".cache/torch_pjrt"),
        },
    };
    let limit = std::env::var("TORCH_PJRT_CACHE_MAX_BYTES").ok().and_then(|v| v.parse().ok()).unwrap_or(DEFAULT_LIMIT);
    Some(Folder { path, limit, size: Mutex::new(None) })
});

/// The folder in use; `None` when the disk cache is off.
pub fn folder() -> Option<&'static Path> {
    FOLDER.as_ref().map(|f| f.path.as_path())
}

/// The executable of a program for the process's client: from disk if it is there, else compiled and stored.
pub fn executable(text: &str) -> Result<Executable> {
    executable_with(text, &CompileOptions::from_env()?)
}

/// [`executable`] with other compile options.
pub fn executable_with(text: &str, options: &CompileOptions) -> Result<Executable> {
    let client = pjrt::client()?;
    mappings::make_room();
    let path = FOLDER.as_ref().map(|f| f.path.join(Identity::here(text, options, client.plugin().hash()).name()));
    if let Some(path) = &path
        && let Some(exe) = load(client, path, options)
    {
        DISK_HITS.fetch_add(1, Ordering::Relaxed);
        return Ok(exe);
    }
    let start = Instant::now();
    let exe = client.compile(text, options)?;
    COMPILES.fetch_add(1, Ordering::Relaxed);
    COMPILE_NANOS.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    if let (Some(folder), Some(path)) = (FOLDER.as_ref(), &path)
        && let Ok(blob) = exe.serialize()
    {
        // A full disk or a read-only folder costs us the cache, not the result.
        let _ = store(folder, path, &blob);
    }
    Ok(exe)
}

/// All that decides the machine code of a program.
#[derive(Clone, Copy)]
struct Identity<'a> {
    text: &'a str,
    options: &'a CompileOptions,
    plugin: u64,
    processor: &'a str,
    version: &'a str,
}

impl<'a> Identity<'a> {
    /// Of a program that this process compiles.
    fn here(text: &'a str, options: &'a CompileOptions, plugin: u64) -> Self {
        Self { text, options, plugin, processor: cpu_features(), version: VERSION }
    }

    /// The file's name: the hash of all parts, each after its length.
    fn name(self) -> String {
        let Self { text, options, plugin, processor, version } = self;
        let mut h = Sha256::new();
        for part in
            [text.as_bytes(), &options.to_proto(), &plugin.to_le_bytes(), processor.as_bytes(), version.as_bytes()]
        {
            h.update((part.len() as u64).to_le_bytes());
            h.update(part);
        }
        let mut hex = String::with_capacity(68);
        for byte in h.finalize() {
            hex.push_str(&format!("{byte:02x}"));
        }
        hex.push_str(".exe");
        hex
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the processor can do, as the system tells it: machine code of one may not run on another.
fn cpu_features() -> &'static str {
    static FEATURES: LazyLock<String> = LazyLock::new(|| {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let line = info.lines().find(|l| l.starts_with("flags") || l.starts_with("Features"));
        format!("{} {}", std::env::consts::ARCH, line.unwrap_or("unknown"))
    });
    &FEATURES
}

/// Loads an entry. A file that is cut short, altered or refused by the plugin is removed.
fn load(client: &'static pjrt::Client, path: &Path, options: &CompileOptions) -> Option<Executable> {
    let bytes = fs::read(path).ok()?;
    let intact = bytes.len() > HEADER
        && bytes.starts_with(MAGIC)
        && Sha256::digest(&bytes[HEADER..])[..] == bytes[MAGIC.len()..HEADER];
    if intact && let Ok(exe) = client.deserialize(&bytes[HEADER..], Some(options)) {
        return Some(exe);
    }
    DAMAGED.fetch_add(1, Ordering::Relaxed);
    let _ = fs::remove_file(path);
    None
}

fn store(folder: &Folder, path: &Path, blob: &[u8]) -> std::io::Result<()> {
    fs::create_dir_all(&folder.path)?;
    let unique = NEXT_TEMP.fetch_add(1, Ordering::Relaxed);
    let temp = path.with_extension(format!("{}.{unique}.tmp", std::process::id()));
    let mut bytes = Vec::with_capacity(HEADER + blob.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&Sha256::digest(blob));
    bytes.extend_from_slice(blob);
    fs::write(&temp, &bytes)?;
    fs::rename(&temp, path).inspect_err(|_| {
        let _ = fs::remove_file(&temp);
    })?;
    let mut size = folder.size.lock();
    let total = match *size {
        Some(n) => n + bytes.len() as u64,
        None => files(&folder.path)?.iter().map(|f| f.2).sum(),
    };
    *size = Some(if total > folder.limit { prune(folder)? } else { total });
    Ok(())
}

fn files(dir: &Path) -> std::io::Result<Vec<(PathBuf, std::time::SystemTime, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        // Another process may remove files meanwhile.
        if let Ok(meta) = entry.metadata()
            && meta.is_file()
        {
            found.push((entry.path(), meta.modified()?, meta.len()));
        }
    }
    Ok(found)
}

/// Removes the oldest entries until three quarters of the limit are left; returns the bytes that stay.
fn prune(folder: &Folder) -> std::io::Result<u64> {
    let mut all = files(&folder.path)?;
    all.sort_by_key(|f| f.1);
    let mut total: u64 = all.iter().map(|f| f.2).sum();
    for (path, _, n) in all {
        if total <= folder.limit / 4 * 3 {
            break;
        }
        if fs::remove_file(path).is_ok() {
            total -= n;
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pjrt::OptionValue;
    use std::collections::BTreeSet;

    #[test]
    fn each_part_of_an_identity_is_in_the_name() {
        let plain = CompileOptions::default();
        let debug = plain.clone().with("xla_backend_optimization_level", OptionValue::Int(1));
        let other = plain.clone().with("xla_backend_optimization_level", OptionValue::Int(2));
        let (portable, split) =
            (CompileOptions { portable: true, ..plain.clone() }, CompileOptions { num_partitions: 2, ..plain.clone() });
        let base = Identity { text: "module", options: &plain, plugin: 7, processor: "avx2", version: "1.0" };
        let all = [
            base,
            Identity { text: "module2", ..base },
            Identity { options: &debug, ..base },
            Identity { options: &other, ..base },
            Identity { options: &portable, ..base },
            Identity { options: &split, ..base },
            Identity { plugin: 8, ..base },
            Identity { processor: "avx512", ..base },
            Identity { version: "1.1", ..base },
            // The same letters, parted elsewhere.
            Identity { processor: "avx21", version: ".0", ..base },
        ];
        assert_eq!(all.iter().map(|i| i.name()).collect::<BTreeSet<_>>().len(), all.len());
        assert_eq!(base.name(), Identity { plugin: 7, ..base }.name());
    }

    #[test]
    fn a_process_names_its_programs_by_its_processor_and_version() {
        let options = CompileOptions::default();
        let here = Identity::here("module", &options, 7);
        assert!(here.processor.starts_with(std::env::consts::ARCH), "{}", here.processor);
        assert_eq!(here.version, env!("CARGO_PKG_VERSION"));
    }
}
