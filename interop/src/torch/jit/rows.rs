//! Rows of a table by an index that only the device knows, inside a trace. Nobody checks the index: it is clamped.

use super::control::{tensor, value};
use crate::torch::dlpack;
use crate::torch::errors::to_py;
use bridge::dispatch::trace;
use primitives::{DType, Graph, Value};
use pyo3::prelude::*;

/// Where row `index` of a table of this many dims starts.
fn starts(g: &mut Graph, index: Value, rank: usize) -> bridge::Result<Vec<Value>> {
    let zero = g.scalar(DType::I64, 0)?;
    let mut all = vec![zero; rank];
    all[0] = g.reshape(index, &[])?;
    Ok(all)
}

/// `table[index]`; `index` is a tensor of one int64.
#[pyfunction]
pub fn trace_row<'py>(
    py: Python<'py>,
    table: &Bound<'py, PyAny>,
    index: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (table, index) = (value(table)?, value(index)?);
    let row = trace::with(|t| {
        let g = &mut t.graph;
        let dims = g.dims(table);
        let at = starts(g, index, dims.len())?;
        let mut sizes = dims.to_vec();
        sizes[0] = 1;
        let row = g.dynamic_slice(table, &at, &sizes)?;
        Ok(g.reshape(row, &dims[1..])?)
    });
    tensor(py, row.map_err(to_py)?)
}

/// `table[index] = row`, for a table that is a whole storage, or has no elements.
#[pyfunction]
pub fn trace_set_row(table: &Bound<'_, PyAny>, index: &Bound<'_, PyAny>, row: &Bound<'_, PyAny>) -> PyResult<()> {
    let slot = dlpack::pjrt_arg("set_row", table)?.slot;
    if slot == 0 {
        return Ok(());
    }
    let (index, row) = (value(index)?, value(row)?);
    trace::with(|t| {
        let old = t.read(slot)?;
        let g = &mut t.graph;
        let mut sizes = g.dims(old).to_vec();
        let at = starts(g, index, sizes.len())?;
        sizes[0] = 1;
        let row = g.reshape(row, &sizes)?;
        let new = g.dynamic_update_slice(old, row, &at)?;
        t.write(slot, new)
    })
    .map_err(to_py)
}
