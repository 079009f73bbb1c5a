//! Executables: compiled programs and how to run them.

use std::collections::BTreeMap;
use std::ptr::{self, NonNull};

use super::ffi::{self, PJRT_Event, PJRT_LoadedExecutable};
use super::{Buffer, Client, Compiled, Device, Event, MemoryAnalysis, OutputType, RawBuffer, fork};
use crate::{Error, Result};

/// A program compiled and loaded on its devices, with all that a launch needs found beforehand.
pub struct Executable {
    loaded: Loaded,
    compiled: Compiled,
    outputs: Vec<OutputType>,
    num_devices: usize,
}

/// Owns a `PJRT_LoadedExecutable`.
pub(super) struct Loaded {
    raw: NonNull<PJRT_LoadedExecutable>,
    client: &'static Client,
}

// SAFETY: executables are constant once made and may be run from several threads at once.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Loaded {
    /// # Safety
    /// `raw` is a loaded executable of `client` that nobody else destroys.
    pub(super) unsafe fn new(client: &'static Client, raw: *mut PJRT_LoadedExecutable) -> Self {
        Self { raw: NonNull::new(raw).expect("a successful PJRT call gave no executable"), client }
    }
}

impl Executable {
    pub(super) fn new(loaded: Loaded) -> Result<Self> {
        let plugin = loaded.client.plugin;
        let mut get = ffi::PJRT_LoadedExecutable_GetExecutable_Args {
            loaded_executable: loaded.raw.as_ptr(),
            ..Default::default()
        };
        let mut devices = ffi::PJRT_LoadedExecutable_AddressableDevices_Args {
            executable: loaded.raw.as_ptr(),
            ..Default::default()
        };
        // SAFETY: the loaded executable lives; what it gives is ours to destroy.
        let compiled = unsafe {
            plugin.call(&mut get)?;
            let compiled = Compiled::new(plugin, get.executable);
            plugin.call(&mut devices)?;
            compiled
        };
        let outputs = compiled.output_types()?;
        // A portable executable has no devices of its own and runs on one at a time.
        let num_devices = devices.num_addressable_devices.max(1);
        Ok(Self { loaded, compiled, outputs, num_devices })
    }

    /// The client on whose devices it runs.
    pub fn client(&self) -> &'static Client {
        self.loaded.client
    }

    /// How many buffers a run gives for each device.
    pub fn num_outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Type and dims of each output, per device.
    pub fn output_types(&self) -> &[OutputType] {
        &self.outputs
    }

    /// How many devices of this process a launch runs on.
    pub fn num_devices(&self) -> usize {
        self.num_devices
    }

    /// The compiled program: analyses, serialization.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// Starts a one-device program: the hot door. Returns when the work is queued (small programs have run by then);
    /// an error of the work itself comes out of the outputs, by [`Buffer::await_ready`].
    ///
    /// Inputs whose position is in `non_donatable` are kept although the program donates them. Nothing is allocated
    /// here, and no completion event is asked for.
    ///
    /// # Errors
    /// What the plugin finds wrong before it starts; then no output is written.
    ///
    /// # Safety
    /// `inputs` are live buffers of this client with the types that the program takes; `outputs` has
    /// [`Executable::num_outputs`] places. After success each place holds a buffer that the caller must take over
    /// with [`Buffer::from_raw`], and donated inputs may only be dropped.
    #[inline]
    pub unsafe fn launch(&self, inputs: &[RawBuffer], non_donatable: &[i64], outputs: &mut [RawBuffer]) -> Result<()> {
        // SAFETY: the caller's promise; no event is asked for.
        unsafe { self.start_one(inputs, non_donatable, outputs, ptr::null_mut()) }
    }

    /// # Safety
    /// As for [`Executable::launch`]; `event` is null or a place for an event that the caller must destroy.
    #[inline]
    unsafe fn start_one(
        &self,
        inputs: &[RawBuffer],
        non_donatable: &[i64],
        outputs: &mut [RawBuffer],
        event: *mut *mut PJRT_Event,
    ) -> Result<()> {
        debug_assert_eq!(outputs.len(), self.outputs.len());
        debug_assert_eq!(self.num_devices, 1);
        let (given, made) = ([inputs.as_ptr()], [outputs.as_mut_ptr()]);
        // SAFETY: by the caller.
        unsafe { self.start(&given, inputs.len(), non_donatable, &made, event, ptr::null_mut()) }
    }

    /// Like [`Executable::launch`], with an event that happens when the program has run. For programs without
    /// outputs, and for those who want to wait for all outputs at once.
    ///
    /// # Safety
    /// As for [`Executable::launch`].
    pub unsafe fn launch_with_event(
        &self,
        inputs: &[RawBuffer],
        non_donatable: &[i64],
        outputs: &mut [RawBuffer],
    ) -> Result<Option<Event>> {
        let mut event: *mut PJRT_Event = ptr::null_mut();
        // SAFETY: the caller's promise; the event is ours to destroy.
        unsafe {
            self.start_one(inputs, non_donatable, outputs, &raw mut event)?;
            Ok(Event::from_raw(self.loaded.client.plugin, event))
        }
    }

    /// Runs the program on its devices, one list of inputs and of outputs per device. With `on`, runs a portable
    /// executable on that device alone.
    ///
    /// # Errors
    /// [`Error::Argument`] when the lists do not fit; else as for [`Executable::launch`].
    pub fn execute_sharded(
        &self,
        inputs: &[&[&Buffer]],
        non_donatable: &[i64],
        on: Option<&Device>,
    ) -> Result<Vec<Vec<Buffer>>> {
        let num_args = inputs.first().map_or(0, |list| list.len());
        if inputs.len() != self.num_devices || inputs.iter().any(|list| list.len() != num_args) {
            return Err(Error::Argument {
                call: "execute",
                argument: "inputs",
                got: format!("lists of {:?} buffers", inputs.iter().map(|list| list.len()).collect::<Vec<_>>()),
                expected: format!("{} lists of one length", self.num_devices),
            });
        }
        let raw: Vec<Vec<RawBuffer>> =
            inputs.iter().map(|list| list.iter().map(|buffer| buffer.raw()).collect()).collect();
        let lists: Vec<_> = raw.iter().map(|list| list.as_ptr()).collect();
        let mut outputs = vec![vec![ptr::null_mut(); self.outputs.len()]; self.num_devices];
        let out_lists: Vec<_> = outputs.iter_mut().map(|list| list.as_mut_ptr()).collect();
        let device = on.map_or(ptr::null_mut(), |device| device.raw.as_ptr());
        // SAFETY: the buffers are borrowed for the call; PJRT keeps what an execution reads. The plugin checks types.
        unsafe {
            self.start(&lists, num_args, non_donatable, &out_lists, ptr::null_mut(), device)?;
            let take = |raw| Buffer::from_raw(self.loaded.client, raw);
            Ok(outputs.into_iter().map(|list| list.into_iter().map(take).collect()).collect())
        }
    }

    /// Runs a one-device program.
    ///
    /// # Errors
    /// As for [`Executable::execute_sharded`].
    pub fn execute(&self, inputs: &[&Buffer]) -> Result<Vec<Buffer>> {
        Ok(self.execute_sharded(&[inputs], &[], None)?.swap_remove(0))
    }

    /// # Safety
    /// As for [`Executable::launch`], for every device's lists; `events` is null or has a place per device.
    #[inline]
    unsafe fn start(
        &self,
        inputs: &[*const RawBuffer],
        num_args: usize,
        non_donatable: &[i64],
        outputs: &[*mut RawBuffer],
        events: *mut *mut PJRT_Event,
        device: *mut ffi::PJRT_Device,
    ) -> Result<()> {
        let client = self.loaded.client;
        let mut options = ffi::PJRT_ExecuteOptions {
            non_donatable_input_indices: non_donatable.as_ptr(),
            num_non_donatable_input_indices: non_donatable.len(),
            ..Default::default()
        };
        let mut args = ffi::PJRT_LoadedExecutable_Execute_Args {
            executable: self.loaded.raw.as_ptr(),
            options: &raw mut options,
            argument_lists: inputs.as_ptr(),
            num_devices: inputs.len(),
            num_args,
            output_lists: outputs.as_ptr(),
            device_complete_events: events,
            execute_device: device,
            ..Default::default()
        };
        // SAFETY: the caller's promise; options and lists outlive the call, which does not keep them.
        unsafe { client.plugin.call(&mut args) }
    }

    /// The compiled program as bytes for [`Client::deserialize`].
    pub fn serialize(&self) -> Result<Vec<u8>> {
        self.compiled.serialize()
    }

    /// XLA's count of work: `flops`, `bytes accessed` and so on.
    pub fn cost_analysis(&self) -> Result<BTreeMap<String, f64>> {
        self.compiled.cost_analysis()
    }

    /// Bytes that the program needs.
    pub fn memory_analysis(&self) -> Result<MemoryAnalysis> {
        self.compiled.memory_analysis()
    }

    /// The program after optimization, with its format (`hlo`, `hlo_with_config` or `mlir`).
    pub fn optimized_program(&self) -> Result<(String, Vec<u8>)> {
        self.compiled.optimized_program()
    }

    /// The program after optimization as people read it; see [`Compiled::optimized_text`].
    pub fn optimized_text(&self) -> Result<String> {
        self.compiled.optimized_text()
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if fork::is_forked_child() {
            return;
        }
        let mut args = ffi::PJRT_LoadedExecutable_Destroy_Args { executable: self.raw.as_ptr(), ..Default::default() };
        // SAFETY: the executable is ours and is not used again; what it still runs keeps its code alive.
        let _ = unsafe { self.client.plugin.call(&mut args) };
    }
}
