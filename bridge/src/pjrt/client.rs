//! Clients: a plugin's connection to its devices.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use parking_lot::Mutex;

use super::call::{slice, string};
use super::executable::Loaded;
use super::ffi::{self, PJRT_Client, PJRT_Device};
use super::{Code, CompileOptions, Device, Executable, NamedValue, OptionValue, Plugin, fork};
use crate::{Error, Result};

/// A client. It lives as long as the process, so handles to it are plain references.
pub struct Client {
    pub(super) raw: NonNull<PJRT_Client>,
    pub(super) plugin: &'static Plugin,
    platform_name: String,
    platform_version: String,
    process_index: i32,
    devices: Vec<Device>,
    /// Positions in `devices` of those that this process can use.
    addressable: Vec<usize>,
    /// Whether device memory is host memory.
    pub(super) on_host: bool,
}

// SAFETY: PJRT clients may be used from any thread, by several at once.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("plugin", &self.plugin.path())
            .field("platform", &self.platform_name)
            .field("devices", &self.addressable.len())
            .finish()
    }
}

impl Client {
    /// Makes a client with the plugin's create options, such as `cpu_device_count`.
    ///
    /// The client is never destroyed: its threads may still be finishing work when the process ends.
    ///
    /// # Errors
    /// [`Error::NoDevice`] when the machine has no chip for the plugin; [`Error::PluginTooOld`]; the plugin's own
    /// error, for instance for an option that it does not know.
    pub fn create(plugin: &'static Plugin, options: &[(&str, NamedValue)]) -> Result<&'static Self> {
        let options: Vec<_> = options.iter().map(|(name, value)| value.to_raw(name)).collect();
        let mut args = ffi::PJRT_Client_Create_Args {
            create_options: options.as_ptr(),
            num_options: options.len(),
            ..Default::default()
        };
        // SAFETY: the options and what they borrow outlive the call.
        unsafe { plugin.call(&mut args) }.map_err(|error| explain_create(plugin, error))?;
        fork::client_was_made();
        let raw = NonNull::new(args.client).expect("PJRT_Client_Create succeeded without a client");

        let client = raw.as_ptr();
        let mut name = ffi::PJRT_Client_PlatformName_Args { client, ..Default::default() };
        let mut version = ffi::PJRT_Client_PlatformVersion_Args { client, ..Default::default() };
        let mut process = ffi::PJRT_Client_ProcessIndex_Args { client, ..Default::default() };
        let mut devices = ffi::PJRT_Client_Devices_Args { client, ..Default::default() };
        // SAFETY: the client was just made and is never destroyed; its strings and arrays live with it.
        let (platform_name, platform_version, devices) = unsafe {
            plugin.call(&mut name)?;
            plugin.call(&mut version)?;
            plugin.call(&mut process)?;
            plugin.call(&mut devices)?;
            let devices = slice(devices.devices, devices.num_devices)
                .iter()
                .filter_map(|&device| NonNull::new(device))
                .map(|device| Device::read(plugin, device))
                .collect::<Result<Vec<_>>>()?;
            (
                string(name.platform_name, name.platform_name_size),
                string(version.platform_version, version.platform_version_size),
                devices,
            )
        };
        // The client's own list fixes the order in which a plugin counts this process's devices.
        let mut local = ffi::PJRT_Client_AddressableDevices_Args { client, ..Default::default() };
        // SAFETY: as above.
        let local = unsafe {
            plugin.call(&mut local)?;
            slice(local.addressable_devices, local.num_addressable_devices)
        };
        let addressable: Vec<_> =
            local.iter().filter_map(|&raw| devices.iter().position(|device| device.raw.as_ptr() == raw)).collect();
        if addressable.is_empty() {
            let message = "the client has no addressable device".to_owned();
            return Err(Error::NoDevice { plugin: plugin.name(), message });
        }
        Ok(Box::leak(Box::new(Self {
            raw,
            plugin,
            on_host: platform_name.eq_ignore_ascii_case("cpu"),
            platform_name,
            platform_version,
            process_index: process.process_index,
            devices,
            addressable,
        })))
    }

    /// The plugin that made it.
    pub fn plugin(&self) -> &'static Plugin {
        self.plugin
    }

    /// `cpu`, `tpu`, `cuda` and so on.
    pub fn platform_name(&self) -> &str {
        &self.platform_name
    }

    /// The plugin's words for its own version.
    pub fn platform_version(&self) -> &str {
        &self.platform_version
    }

    /// This process's number among those that share the devices.
    pub fn process_index(&self) -> i32 {
        self.process_index
    }

    /// All devices, of all processes.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// How many devices this process can use.
    pub fn num_addressable(&self) -> usize {
        self.addressable.len()
    }

    /// The devices that this process can use, in the plugin's order.
    pub fn addressable_devices(&self) -> impl ExactSizeIterator<Item = &Device> {
        self.addressable.iter().map(|&at| &self.devices[at])
    }

    /// Device `index` of those that this process can use.
    ///
    /// # Errors
    /// [`Error::Argument`] when there are not that many.
    pub fn device(&self, index: usize) -> Result<&Device> {
        self.addressable.get(index).map(|&at| &self.devices[at]).ok_or_else(|| Error::Argument {
            call: "pjrt device",
            argument: "index",
            got: index.to_string(),
            expected: format!("less than {}, the number of devices here", self.addressable.len()),
        })
    }

    pub(super) fn device_of_raw(&self, raw: *mut PJRT_Device) -> Option<&Device> {
        self.devices.iter().find(|device| device.raw.as_ptr() == raw)
    }

    /// Whether device memory is host memory, so that reading a buffer needs no transfer.
    pub fn is_on_host(&self) -> bool {
        self.on_host
    }

    /// Compiles StableHLO, as text or bytecode.
    ///
    /// XLA's CPU backend by default drops a NaN in the second operand of `maximum` and `minimum`, against
    /// StableHLO's rules; here it keeps it, unless `options` sets `xla_cpu_enable_fast_min_max`.
    pub fn compile(&'static self, program: impl AsRef<[u8]>, options: &CompileOptions) -> Result<Executable> {
        const FAST_MIN_MAX: &str = "xla_cpu_enable_fast_min_max";
        let mut options = options.clone();
        if self.platform_name() == "cpu" && !options.overrides.contains_key(FAST_MIN_MAX) {
            options = options.with(FAST_MIN_MAX, OptionValue::Bool(false));
        }
        with_program(program.as_ref(), &options, |program, options| {
            let mut args = ffi::PJRT_Client_Compile_Args {
                client: self.raw.as_ptr(),
                program,
                compile_options: options.as_ptr(),
                compile_options_size: options.len(),
                ..Default::default()
            };
            // SAFETY: program and options outlive the call; the result is ours to destroy.
            unsafe {
                self.plugin.call(&mut args)?;
                Executable::new(Loaded::new(self, args.executable))
            }
        })
    }

    /// Loads what [`Executable::serialize`] gave, in this version of this plugin. Nothing in the bytes says which
    /// plugin made them: the caller must know.
    pub fn deserialize(&'static self, bytes: &[u8], options: Option<&CompileOptions>) -> Result<Executable> {
        let options = options.map(CompileOptions::to_proto).unwrap_or_default();
        let mut args = ffi::PJRT_Executable_DeserializeAndLoad_Args {
            client: self.raw.as_ptr(),
            serialized_executable: bytes.as_ptr(),
            serialized_executable_size: bytes.len(),
            overridden_serialized_compile_options: if options.is_empty() { ptr::null() } else { options.as_ptr() },
            overridden_serialized_compile_options_size: options.len(),
            ..Default::default()
        };
        // SAFETY: the bytes outlive the call; the result is ours to destroy.
        unsafe {
            self.plugin.call(&mut args)?;
            Executable::new(Loaded::new(self, args.loaded_executable))
        }
    }
}

/// Hands StableHLO and options to `compile` in the forms that PJRT takes, which live as long as it runs.
pub(super) fn with_program<R>(
    code: &[u8],
    options: &CompileOptions,
    compile: impl FnOnce(*const ffi::PJRT_Program, &[u8]) -> Result<R>,
) -> Result<R> {
    const FORMAT: &str = "mlir";
    // A zero byte beyond the end: MLIR's lexer reads one byte past the text.
    let mut copy = Vec::with_capacity(code.len() + 1);
    copy.extend_from_slice(code);
    copy.push(0);
    let program = ffi::PJRT_Program {
        code: copy.as_ptr().cast_mut(),
        code_size: code.len(),
        format: FORMAT.as_ptr(),
        format_size: FORMAT.len(),
        ..Default::default()
    };
    compile(&raw const program, &options.to_proto())
}

/// A plugin without its chip fails in its own words; say what it means.
fn explain_create(plugin: &Plugin, error: Error) -> Error {
    match error {
        Error::Pjrt {
            code: Code::NotFound | Code::Unavailable | Code::FailedPrecondition | Code::Internal | Code::Unknown,
            message,
            ..
        } => Error::NoDevice { plugin: plugin.name(), message: message.trim_end_matches('.').to_owned() },
        other => other,
    }
}

static PROCESS: AtomicPtr<Client> = AtomicPtr::new(ptr::null_mut());

/// The client of this process, made on first use from the environment.
///
/// # Errors
/// [`Error::Forked`] in a forked child; otherwise whatever keeps a client from being made. A failure is not
/// remembered: the next call tries again.
#[inline]
pub fn client() -> Result<&'static Client> {
    if fork::is_forked_child() {
        return Err(Error::Forked);
    }
    let made = PROCESS.load(Ordering::Acquire);
    // SAFETY: only leaked clients are stored.
    if let Some(client) = unsafe { made.as_ref() } { Ok(client) } else { make_client() }
}

/// The client of this process if there is one already.
pub fn existing_client() -> Option<&'static Client> {
    // SAFETY: only leaked clients are stored.
    unsafe { PROCESS.load(Ordering::Acquire).as_ref() }
}

#[cold]
fn make_client() -> Result<&'static Client> {
    static MAKING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = MAKING.lock();
    if let Some(client) = existing_client() {
        return Ok(client);
    }
    let client = super::select::make()?;
    PROCESS.store(ptr::from_ref(client).cast_mut(), Ordering::Release);
    Ok(client)
}
