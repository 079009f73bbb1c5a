//! The device's state: modes, caches, counters, random numbers, memory.

use super::call::Gil;
use super::errors::to_py;
use bridge::dispatch::eager::{self, Host, NoHost};
use bridge::dispatch::{cache, checks, disk, metrics, queue, rng, slots};
use bridge::pjrt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::PathBuf;

/// Waits for everything launched; raises what went wrong meanwhile.
#[pyfunction]
pub fn synchronize(py: Python<'_>) -> PyResult<()> {
    let mut done = Ok(());
    Gil(py).unlocked(&mut || done = checks::settle(&NoHost).and_then(|()| slots::await_all()));
    done.map_err(to_py)
}

/// Waits until everything is launched; raises what went wrong so far. In a forked child there is nothing to wait for.
#[pyfunction]
pub fn settle(py: Python<'_>) -> PyResult<()> {
    if pjrt::is_forked_child() { Ok(()) } else { checks::settle(&Gil(py)).map_err(to_py) }
}

/// Chooses the mode of eager execution.
#[pyfunction]
pub fn set_debug(on: bool, check_nan: bool) {
    eager::set_debug(on, check_nan);
}

#[pyfunction]
pub fn is_debug() -> bool {
    eager::is_debug()
}

#[pyfunction]
pub fn checks_nan() -> bool {
    eager::checks_nan()
}

/// Counts, seconds and bytes of executions and transfers.
#[pyfunction]
pub fn meters(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    queue::wait(&Gil(py)).map_err(to_py)?;
    let out = PyDict::new(py);
    out.set_item("execute", metrics::EXECUTE.read())?;
    out.set_item("to_device", metrics::TO_DEVICE.read())?;
    out.set_item("from_device", metrics::FROM_DEVICE.read())?;
    Ok(out)
}

/// Counters of the caches.
#[pyfunction]
pub fn cache_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    queue::wait(&Gil(py)).map_err(to_py)?;
    let (m, d) = (cache::stats(), disk::stats());
    let out = PyDict::new(py);
    out.set_item("entries", m.entries)?;
    out.set_item("capacity", m.capacity)?;
    out.set_item("hits", m.hits)?;
    out.set_item("misses", m.misses)?;
    out.set_item("evictions", m.evictions)?;
    out.set_item("executions", m.executions)?;
    out.set_item("compiles", d.compiles)?;
    out.set_item("compile_seconds", d.compile_nanos as f64 * 1e-9)?;
    out.set_item("disk_hits", d.disk_hits)?;
    out.set_item("disk_damaged", d.damaged)?;
    out.set_item("disk_folder", disk::folder().map(|p| p.display().to_string()))?;
    Ok(out)
}

#[pyfunction]
pub fn clear_cache() {
    cache::clear();
}

#[pyfunction]
pub fn set_cache_capacity(entries: usize) -> PyResult<()> {
    if entries == 0 {
        return Err(PyValueError::new_err("set_cache_capacity: got 0, expected at least 1"));
    }
    cache::set_capacity(entries);
    Ok(())
}

/// Device values alive in this process.
#[pyfunction]
pub fn live_buffers(py: Python<'_>) -> PyResult<i64> {
    // A launch that waits holds its inputs.
    queue::wait(&Gil(py)).map_err(to_py)?;
    Ok(slots::live_arrays())
}

/// Storages alive in this process.
#[pyfunction]
pub fn live_storages() -> usize {
    slots::live()
}

#[pyfunction]
pub fn manual_seed(py: Python<'_>, seed: u64) -> PyResult<()> {
    if bridge::dispatch::trace::active() {
        return Err(super::jit::refuse(py, "seed"));
    }
    rng::seed(seed);
    Ok(())
}

#[pyfunction]
pub fn initial_seed() -> u64 {
    rng::initial_seed()
}

#[pyfunction]
pub fn get_rng_state(py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
    if bridge::dispatch::trace::active() {
        return Err(super::jit::refuse(py, "seed"));
    }
    Ok(PyBytes::new(py, &rng::get_bytes().map_err(to_py)?))
}

#[pyfunction]
pub fn set_rng_state(py: Python<'_>, state: &[u8]) -> PyResult<()> {
    if bridge::dispatch::trace::active() {
        return Err(super::jit::refuse(py, "seed"));
    }
    rng::set_bytes(state).map_err(to_py)
}

/// Where plugins are looked for.
#[pyfunction]
pub fn set_search_roots(roots: Vec<PathBuf>) {
    pjrt::set_search_roots(roots);
}

#[pyfunction]
pub fn is_available() -> bool {
    pjrt::existing_client().is_some() || pjrt::select().is_ok()
}

#[pyfunction]
pub fn is_initialized() -> bool {
    pjrt::existing_client().is_some()
}

#[pyfunction]
pub fn in_bad_fork() -> bool {
    pjrt::is_forked_child()
}

/// Devices this process drives: one torch device stands for the client's first device.
#[pyfunction]
pub fn device_count() -> usize {
    is_available() as usize
}

#[pyfunction]
pub fn device_name() -> PyResult<String> {
    let c = pjrt::client().map_err(to_py)?;
    Ok(format!("{} ({})", c.platform_name(), c.platform_version().lines().next().unwrap_or("")))
}

#[pyfunction]
pub fn platform_name() -> PyResult<String> {
    Ok(pjrt::client().map_err(to_py)?.platform_name().to_owned())
}

#[pyfunction]
pub fn plugin_path() -> PyResult<String> {
    Ok(pjrt::client().map_err(to_py)?.plugin().path().display().to_string())
}

/// Memory counters: the plugin's own where it keeps them, and the bytes of live device values.
#[pyfunction]
pub fn memory_stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    queue::wait(&Gil(py)).map_err(to_py)?;
    let out = PyDict::new(py);
    let (live, peak) = slots::bytes();
    out.set_item("bytes_in_use", live)?;
    out.set_item("peak_bytes_in_use", peak)?;
    out.set_item("live_buffers", slots::live_arrays())?;
    if let Some(client) = pjrt::existing_client()
        && let Ok(stats) = client.device(0).and_then(|d| d.memory_stats())
    {
        out.set_item("bytes_in_use", stats.bytes_in_use)?;
        if let Some(p) = stats.peak_bytes_in_use {
            out.set_item("peak_bytes_in_use", p)?;
        }
        if let Some(n) = stats.bytes_limit {
            out.set_item("bytes_limit", n)?;
        }
    }
    Ok(out)
}

#[pyfunction]
pub fn reset_peak_memory() {
    slots::reset_peak();
}

#[pyfunction]
pub fn empty_cache() {
    bridge::dispatch::clear_scalars();
}
