//! Plugins: shared libraries that export `GetPjrtApi`.

use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::OnceLock;

use libloading::Library;
use parking_lot::Mutex;

use super::NamedValue;
use super::ffi::{self, PJRT_Api};
use crate::{Error, Result};

/// The oldest C API this runtime works with: the first whose executables tell their output dimensions.
const OLDEST_MINOR: i32 = 40;

/// A loaded plugin. Loaded once per path and never unloaded.
pub struct Plugin {
    path: PathBuf,
    api: NonNull<PJRT_Api>,
    version: (i32, i32),
    hash: OnceLock<u64>,
}

// SAFETY: the table is constant, and PJRT functions may be called from any thread.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin").field("path", &self.path).field("version", &self.version).finish_non_exhaustive()
    }
}

/// Plugins loaded so far: a second initialization of one library would be an error.
static LOADED: Mutex<Vec<&'static Plugin>> = Mutex::new(Vec::new());

impl Plugin {
    /// Loads the plugin at `path`, or returns it if it is loaded already.
    ///
    /// # Errors
    /// [`Error::PluginNotFound`], [`Error::NotAPlugin`], [`Error::PluginTooOld`], or the plugin's own start-up error.
    pub fn load(path: &Path) -> Result<&'static Self> {
        let path = path.canonicalize().map_err(|_| Error::PluginNotFound { path: path.to_owned() })?;
        let mut loaded = LOADED.lock();
        if let Some(plugin) = loaded.iter().find(|plugin| plugin.path == path) {
            return Ok(plugin);
        }
        let plugin = Self::open(path)?;
        // SAFETY: the arguments hold nothing but their size.
        unsafe { plugin.call(&mut ffi::PJRT_Plugin_Initialize_Args::default())? };
        let plugin: &'static Self = Box::leak(Box::new(plugin));
        loaded.push(plugin);
        Ok(plugin)
    }

    fn open(path: PathBuf) -> Result<Self> {
        let not_a_plugin = |reason: String| Error::NotAPlugin { path: path.clone(), reason };
        super::environment::quiet();
        // SAFETY: loading runs the library's initializers; the user chose the library.
        let library = unsafe { Library::new(&path) }.map_err(|error| not_a_plugin(error.to_string()))?;
        // SAFETY: this is the signature that PJRT gives the symbol.
        let get_api = unsafe { library.get::<unsafe extern "C" fn() -> *mut PJRT_Api>(b"GetPjrtApi\0") }
            .map_err(|_| not_a_plugin("it does not export GetPjrtApi".to_owned()))?;
        // SAFETY: the function takes nothing and returns a table that lives as long as the library.
        let api = NonNull::new(unsafe { get_api() })
            .ok_or_else(|| not_a_plugin("GetPjrtApi returned no function table".to_owned()))?;
        // Plugins start threads, which unloading would pull the code from under.
        std::mem::forget(library);

        // SAFETY: the table starts with its size.
        let reach = unsafe { (&raw const (*api.as_ptr()).struct_size).read() };
        if reach < std::mem::offset_of!(PJRT_Api, PJRT_Plugin_Initialize) {
            return Err(not_a_plugin(format!("its function table has only {reach} bytes")));
        }
        // SAFETY: the check above puts the version inside the table.
        let version = unsafe { &(*api.as_ptr()).pjrt_api_version };
        let version = (version.major_version, version.minor_version);
        if version < (0, OLDEST_MINOR) {
            let (major, minor) = version;
            return Err(Error::PluginTooOld { path, major, minor, function: "PJRT_Executable_OutputDimensions" });
        }
        Ok(Self { path, api, version, hash: OnceLock::new() })
    }

    pub(super) fn api(&self) -> NonNull<PJRT_Api> {
        self.api
    }

    /// The library's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name for messages: the file name without `.so`.
    pub fn name(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Major and minor version of the plugin's C API.
    pub fn api_version(&self) -> (i32, i32) {
        self.version
    }

    /// A number that changes when the library changes: over its path, size, time of change and both ends of its bytes.
    pub fn hash(&self) -> u64 {
        *self.hash.get_or_init(|| fingerprint(&self.path))
    }

    /// What the plugin says about itself, such as `xla_version` and `stablehlo_current_version`.
    pub fn attributes(&self) -> Result<Vec<(String, NamedValue)>> {
        let mut args = ffi::PJRT_Plugin_Attributes_Args::default();
        // SAFETY: the arguments are only written to; the attributes live as long as the process.
        unsafe {
            self.call(&mut args)?;
            Ok(NamedValue::read_all(args.attributes, args.num_attributes))
        }
    }
}

/// FNV-1a, which is the same in every process, over what identifies the file.
fn fingerprint(path: &Path) -> u64 {
    use std::io::{Read, Seek, SeekFrom};
    const EDGE: usize = 1 << 16;

    let mut bytes = path.to_string_lossy().into_owned().into_bytes();
    if let Ok(mut file) = std::fs::File::open(path) {
        let mut head = vec![0; EDGE];
        let read = file.read(&mut head).unwrap_or(0);
        bytes.extend_from_slice(&head[..read]);
        if let Ok(meta) = file.metadata() {
            bytes.extend_from_slice(&meta.len().to_le_bytes());
            if let Some(age) = meta.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok()) {
                bytes.extend_from_slice(&age.as_nanos().to_le_bytes());
            }
            if file.seek(SeekFrom::Start(meta.len().saturating_sub(EDGE as u64))).is_ok() {
                let mut tail = Vec::new();
                if file.read_to_end(&mut tail).is_ok() {
                    bytes.extend_from_slice(&tail);
                }
            }
        }
    }
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
