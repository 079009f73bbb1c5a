//! Scatters into planes: the last `n` dims of a tensor flattened, one plane for each batch and channel.

use crate::Result;
use primitives::{Dims, Graph, ScatterDims, Value};

type Combine = fn(&mut Graph, &[Value]) -> primitives::Result<Vec<Value>>;

/// Adds `values` at flat `index` within each plane of zeros of shape `dims`.
pub fn scatter_add(g: &mut Graph, values: Value, index: Value, dims: &Dims, n: usize) -> Result<Value> {
    scatter(g, values, index, dims, n, |g, a| Ok(vec![g.add(a[0], a[1])?]))
}

/// Stores `values` at flat `index` within each plane of zeros of shape `dims`.
pub fn scatter_set(g: &mut Graph, values: Value, index: Value, dims: &Dims, n: usize) -> Result<Value> {
    scatter(g, values, index, dims, n, |_, a| Ok(vec![a[1]]))
}

fn scatter(g: &mut Graph, values: Value, index: Value, dims: &Dims, n: usize, combine: Combine) -> Result<Value> {
    let split = dims.len() - n;
    let planes: i64 = dims[..split].iter().product();
    let volume: i64 = dims[split..].iter().product();
    let from = g.dims(values);
    let count: i64 = from[split..].iter().product();
    let zeros = g.full(g.dtype(values), &[planes, volume], 0)?;
    let values = g.reshape(values, &[planes, count])?;
    let index = g.reshape(index, &[planes, count, 1])?;
    let scatter = ScatterDims {
        update_window_dims: vec![],
        inserted_window_dims: vec![1],
        input_batching_dims: vec![0],
        scatter_indices_batching_dims: vec![0],
        scatter_dims_to_operand_dims: vec![1],
        index_vector_dim: 2,
    };
    let out = g.scatter(&[zeros], index, &[values], &scatter, false, false, combine)?;
    Ok(g.reshape(out[0], dims)?)
}
