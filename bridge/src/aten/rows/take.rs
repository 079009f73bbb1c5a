//! Elements of one dim picked by indices that are known when the program is built.

use super::math;
use crate::Result;
use primitives::{DType, Dims, GatherDims, Graph, Value};

/// Elements `from..to` along `dim`.
pub fn span(g: &mut Graph, x: Value, dim: usize, from: i64, to: i64) -> Result<Value> {
    let dims = g.dims(x);
    let (mut start, mut limit) = (vec![0; dims.len()], dims.to_vec());
    (start[dim], limit[dim]) = (from, to);
    Ok(g.slice(x, &start, &limit, &vec![1; dims.len()])?)
}

/// `x` with dim `dim` replaced by the elements at `indices` (each in range): a slice, a repetition or a gather.
pub fn take(g: &mut Graph, x: Value, dim: usize, indices: &[i64]) -> Result<Value> {
    let dims = g.dims(x);
    let n = indices.len() as i64;
    if n == 0 {
        let mut out = dims;
        out[dim] = 0;
        return Ok(g.full(g.dtype(x), &out, 0)?);
    }
    let step = if n > 1 { indices[1] - indices[0] } else { 1 };
    if step > 0 && indices.windows(2).all(|w| w[1] - w[0] == step) {
        let (mut start, mut limit, mut strides) = (vec![0; dims.len()], dims.to_vec(), vec![1; dims.len()]);
        (start[dim], limit[dim], strides[dim]) = (indices[0], indices[indices.len() - 1] + 1, step);
        return Ok(g.slice(x, &start, &limit, &strides)?);
    }
    if let Some(times) = repeats(indices, dims[dim]) {
        let mut wide = dims.clone();
        wide.insert(dim + 1, times);
        let map: Vec<usize> = (0..dims.len()).map(|d| if d <= dim { d } else { d + 1 }).collect();
        let wide = g.broadcast_in_dim(x, &wide, &map)?;
        let mut out = dims;
        out[dim] *= times;
        return Ok(g.reshape(wide, &out)?);
    }
    let index = math::ints(g, DType::I32, indices)?;
    let mut sizes: Dims = dims.clone();
    sizes[dim] = 1;
    let gather = GatherDims {
        offset_dims: (0..dims.len()).filter(|&d| d != dim).collect(),
        collapsed_slice_dims: vec![dim],
        operand_batching_dims: vec![],
        start_indices_batching_dims: vec![],
        start_index_map: vec![dim],
        index_vector_dim: 1,
    };
    let sorted = indices.windows(2).all(|w| w[0] <= w[1]);
    Ok(g.gather(x, index, &gather, &sizes, sorted)?)
}

/// How often each of `size` elements comes in a row, when all come equally often and in order.
fn repeats(indices: &[i64], size: i64) -> Option<i64> {
    let n = indices.len() as i64;
    if size == 0 || n % size != 0 {
        return None;
    }
    let times = n / size;
    indices.iter().enumerate().all(|(i, &v)| v == i as i64 / times).then_some(times)
}

/// Sum over `windows` of dim `dim`: result element `o` is the sum of elements `windows[o].0 .. windows[o].1`.
pub fn window_sums(g: &mut Graph, x: Value, dim: usize, windows: &[(i64, i64)]) -> Result<Value> {
    let longest = windows.iter().map(|w| w.1 - w.0).max().unwrap_or(0);
    let size = g.dims(x)[dim];
    let mut sum: Option<Value> = None;
    for j in 0..longest {
        let picks: Vec<i64> = windows.iter().map(|w| (w.0 + j).clamp(0, size - 1)).collect();
        let mut term = take(g, x, dim, &picks)?;
        if windows.iter().any(|w| w.0 + j >= w.1) {
            let inside: Vec<u8> = windows.iter().map(|w| (w.0 + j < w.1) as u8).collect();
            let mask = g.constant(DType::Bool, &[windows.len() as i64], &inside)?;
            let dims = g.dims(term);
            let mask = g.broadcast_in_dim(mask, &dims, &[dim])?;
            let zeros = g.zeros_like(term)?;
            term = g.select(mask, term, zeros)?;
        }
        sum = Some(match sum {
            Some(s) => g.add(s, term)?,
            None => term,
        });
    }
    match sum {
        Some(s) => Ok(s),
        None => {
            let mut out = g.dims(x);
            out[dim] = windows.len() as i64;
            Ok(g.full(g.dtype(x), &out, 0)?)
        }
    }
}
