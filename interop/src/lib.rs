//! The Python faces of torch_pjrt.

use pyo3::prelude::*;

mod torch;

/// Hands torch's singletons and interfaces over; `libraries` are paths of torch's shared libraries. Returns the ops whose
/// kernels are registered without Python.
#[pyfunction]
fn init(torch: &Bound<'_, PyAny>, libraries: Vec<String>) -> PyResult<Vec<&'static str>> {
    torch::dlpack::init(&torch.getattr("Tensor")?.getattr("__dlpack_c_exchange_api__")?)?;
    torch::types::init(torch)?;
    torch::layout::init(torch)?;
    Ok(torch::views::init(&libraries))
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::init;
    #[pymodule_export]
    use super::torch::call::{kernel, row_names};
    #[pymodule_export]
    use super::torch::device::{
        cache_info, checks_nan, clear_cache, device_count, device_name, empty_cache, get_rng_state, in_bad_fork,
        initial_seed, is_available, is_debug, is_initialized, live_buffers, live_storages, manual_seed, memory_stats,
        meters, platform_name, plugin_path, reset_peak_memory, set_cache_capacity, set_debug, set_rng_state,
        set_search_roots, settle, synchronize,
    };
    #[pymodule_export]
    use super::torch::guard::GuardType;
    #[pymodule_export]
    use super::torch::jit::classes::dict_of;
    #[pymodule_export]
    use super::torch::jit::control::{trace_barrier, trace_cond, trace_probe, trace_scan, trace_while, trace_written};
    #[pymodule_export]
    use super::torch::jit::entry::{Entry, Residuals, run_backward};
    #[pymodule_export]
    use super::torch::jit::fast::Fast;
    #[pymodule_export]
    use super::torch::jit::holders::holders;
    #[pymodule_export]
    use super::torch::jit::location::{set_library_folders, user_location};
    #[pymodule_export]
    use super::torch::jit::memory::host_seen;
    #[pymodule_export]
    use super::torch::jit::numbers::{
        number_arithmetic, number_compare, number_expression, number_input, number_peek, number_specialize,
    };
    #[pymodule_export]
    use super::torch::jit::program::{Finished, Foreign, Program, trace_finish};
    #[pymodule_export]
    use super::torch::jit::rows::{trace_row, trace_set_row};
    #[pymodule_export]
    use super::torch::jit::tags::dict_words;
    #[pymodule_export]
    use super::torch::jit::{
        trace_abort, trace_begin, trace_captured, trace_choose, trace_given, trace_in_branch, trace_is_born,
        trace_keep, trace_mark, trace_read, trace_rng_load, trace_rng_save, trace_watch, tracing,
    };
    #[pymodule_export]
    use super::torch::layout::{ask_for_all, layout_found};
    #[pymodule_export]
    use super::torch::storage::{clone_storage, retype};
    #[pymodule_export]
    use super::torch::transfer::{
        download, download_storage, empty, empty_flat, is_whole, item_kernel, storage_bytes, upload, upload_into,
    };
    #[pymodule_export]
    use super::torch::views::view_kernels;
}
