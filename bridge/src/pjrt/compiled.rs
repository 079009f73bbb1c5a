//! Compiled programs apart from any device: analyses, serialization.

use std::collections::BTreeMap;
use std::ptr::NonNull;

use smallvec::SmallVec;

use super::call::{slice, string};
use super::ffi::{self, PJRT_Executable};
use super::{Code, ElementType, NamedValue, Plugin, fork, hlo};
use crate::{Error, Result};

/// Type and dims of one output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputType {
    pub element_type: ElementType,
    pub dims: SmallVec<[i64; 6]>,
}

/// Owns a `PJRT_Executable`: the compiled program, which needs no device.
pub struct Compiled {
    raw: NonNull<PJRT_Executable>,
    plugin: &'static Plugin,
}

// SAFETY: compiled programs are constant and may be asked by several threads at once.
unsafe impl Send for Compiled {}
// SAFETY: as above.
unsafe impl Sync for Compiled {}

/// Bytes that a program needs, by purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryAnalysis {
    pub generated_code: i64,
    pub arguments: i64,
    pub outputs: i64,
    /// Outputs that reuse donated arguments.
    pub aliased: i64,
    pub temporaries: i64,
    /// The most that is live at once; 0 from plugins that do not tell.
    pub peak: i64,
    pub host_generated_code: i64,
    pub host_arguments: i64,
    pub host_outputs: i64,
    pub host_aliased: i64,
    pub host_temporaries: i64,
}

impl Compiled {
    /// # Safety
    /// `raw` is an executable of `plugin` that nobody else destroys.
    pub(super) unsafe fn new(plugin: &'static Plugin, raw: *mut PJRT_Executable) -> Self {
        Self { raw: NonNull::new(raw).expect("a successful PJRT call gave no executable"), plugin }
    }

    /// The module's name.
    pub fn name(&self) -> Result<String> {
        let mut args = ffi::PJRT_Executable_Name_Args { executable: self.raw.as_ptr(), ..Default::default() };
        // SAFETY: the executable lives, and the name is copied at once.
        unsafe {
            self.plugin.call(&mut args)?;
            Ok(string(args.executable_name, args.executable_name_size))
        }
    }

    /// Type and dims of each output, per device.
    pub fn output_types(&self) -> Result<Vec<OutputType>> {
        let executable = self.raw.as_ptr();
        let mut count = ffi::PJRT_Executable_NumOutputs_Args { executable, ..Default::default() };
        let mut types = ffi::PJRT_Executable_OutputElementTypes_Args { executable, ..Default::default() };
        // SAFETY: the executable lives.
        unsafe { self.plugin.call(&mut count)? };
        if count.num_outputs == 0 {
            return Ok(Vec::new());
        }
        let mut dims = ffi::PJRT_Executable_OutputDimensions_Args {
            executable,
            num_outputs: count.num_outputs,
            ..Default::default()
        };
        // SAFETY: the executable lives and owns the arrays, which are copied at once.
        unsafe {
            self.plugin.call(&mut types)?;
            self.plugin.call(&mut dims)?;
            let types = slice(types.output_types, count.num_outputs.min(types.num_output_types));
            let ranks = slice(dims.dim_sizes, count.num_outputs);
            let mut rest = slice(dims.dims, ranks.iter().sum());
            let one = |(&ty, &rank): (&i32, &usize)| {
                let (dims, after) = rest.split_at(rank);
                rest = after;
                OutputType { element_type: ElementType::from_raw(ty), dims: SmallVec::from_slice(dims) }
            };
            Ok(types.iter().zip(ranks).map(one).collect())
        }
    }

    /// The compiled program as bytes for [`Client::deserialize`](super::Client::deserialize).
    pub fn serialize(&self) -> Result<Vec<u8>> {
        let mut args = ffi::PJRT_Executable_Serialize_Args { executable: self.raw.as_ptr(), ..Default::default() };
        // SAFETY: the executable lives; the bytes are copied, then freed with the function that came with them.
        unsafe {
            self.plugin.call(&mut args)?;
            let bytes = slice(args.serialized_bytes, args.serialized_bytes_size).to_vec();
            if let Some(free) = args.serialized_executable_deleter {
                free(args.serialized_executable);
            }
            Ok(bytes)
        }
    }

    /// XLA's count of work: `flops`, `transcendentals`, `bytes accessed` and what else the plugin counts; that of
    /// [`count_cost`](Self::count_cost) where the plugin counts nothing.
    pub fn cost_analysis(&self) -> Result<BTreeMap<String, f64>> {
        match self.plugin_cost() {
            Err(Error::Pjrt { code: Code::Unimplemented, .. }) => self.count_cost(),
            found => found,
        }
    }

    /// `flops`, `transcendentals` and `bytes accessed` of the optimized program, counted here by XLA's rules: a loop
    /// counts one turn, a conditional its dearest branch, a custom call its memory alone.
    ///
    /// Fails with [`Error::Argument`] where the plugin's program is no HLO.
    pub fn count_cost(&self) -> Result<BTreeMap<String, f64>> {
        let (format, code) = self.optimized_program()?;
        hlo::cost(&format, &code)
    }

    fn plugin_cost(&self) -> Result<BTreeMap<String, f64>> {
        let mut args =
            ffi::PJRT_Executable_GetCostAnalysis_Args { executable: self.raw.as_ptr(), ..Default::default() };
        // SAFETY: the executable lives and owns the properties, which are copied at once.
        let properties = unsafe {
            self.plugin.call(&mut args)?;
            NamedValue::read_all(args.properties, args.num_properties)
        };
        let number = |(name, value)| match value {
            NamedValue::Float(value) => Some((name, f64::from(value))),
            NamedValue::Int(value) => Some((name, value as f64)),
            _ => None,
        };
        Ok(properties.into_iter().filter_map(number).collect())
    }

    /// Bytes that the program needs.
    pub fn memory_analysis(&self) -> Result<MemoryAnalysis> {
        let mut args =
            ffi::PJRT_Executable_GetCompiledMemoryStats_Args { executable: self.raw.as_ptr(), ..Default::default() };
        // SAFETY: the executable lives.
        unsafe { self.plugin.call(&mut args)? };
        Ok(MemoryAnalysis {
            generated_code: args.generated_code_size_in_bytes,
            arguments: args.argument_size_in_bytes,
            outputs: args.output_size_in_bytes,
            aliased: args.alias_size_in_bytes,
            temporaries: args.temp_size_in_bytes,
            peak: args.peak_memory_in_bytes,
            host_generated_code: args.host_generated_code_size_in_bytes,
            host_arguments: args.host_argument_size_in_bytes,
            host_outputs: args.host_output_size_in_bytes,
            host_aliased: args.host_alias_size_in_bytes,
            host_temporaries: args.host_temp_size_in_bytes,
        })
    }

    /// The program after optimization, with its format (`hlo`, `hlo_with_config` or `mlir`).
    pub fn optimized_program(&self) -> Result<(String, Vec<u8>)> {
        let mut program = ffi::PJRT_Program::default();
        let mut args = ffi::PJRT_Executable_OptimizedProgram_Args {
            executable: self.raw.as_ptr(),
            program: &raw mut program,
            ..Default::default()
        };
        // SAFETY: the first call, without room for the code, tells its size; the second fills exactly that room.
        unsafe {
            self.plugin.call(&mut args)?;
            let mut code = vec![0; program.code_size];
            program.code = code.as_mut_ptr();
            self.plugin.call(&mut args)?;
            code.truncate(program.code_size);
            Ok((string(program.format, program.format_size), code))
        }
    }

    /// The program after optimization as people read it: HLO as XLA prints it, or the plugin's own text.
    ///
    /// Fails with [`Error::Argument`](crate::Error::Argument) where the plugin gives what is no such program.
    pub fn optimized_text(&self) -> Result<String> {
        let (format, code) = self.optimized_program()?;
        hlo::text(&format, &code)
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        if fork::is_forked_child() {
            return;
        }
        let mut args = ffi::PJRT_Executable_Destroy_Args { executable: self.raw.as_ptr(), ..Default::default() };
        // SAFETY: the executable is ours and is not used again.
        let _ = unsafe { self.plugin.call(&mut args) };
    }
}
