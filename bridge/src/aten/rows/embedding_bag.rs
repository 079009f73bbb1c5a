//! Bags of embeddings: rows looked up and combined per bag.

use super::search::{binary_search, take};
use crate::aten::cx::CheckKind;
use crate::aten::{Cx, Row, exact, promote};
use crate::{Error, Result};
use primitives::{DType, Direction, GatherDims, Graph, ScatterDims, Value};

pub const ROWS: &[Row] = &[
    Row::new("_embedding_bag", forward),
    Row::new("_embedding_bag_forward_only", forward),
    Row::new("_embedding_bag_backward", |cx| {
        if cx.bool(9)? {
            return Err(Error::not_implemented(cx.op(), "sparse gradients".into()));
        }
        backward(cx, &Places { offset2bag: 3, size: 4, max: 5, count: 6, scale: 7, mode: 8, weights: 10, padding: 11 })
    }),
    Row::new("_embedding_bag_dense_backward", |cx| {
        backward(cx, &Places { offset2bag: 2, size: 3, max: 4, count: 5, scale: 6, mode: 7, weights: 8, padding: 9 })
    }),
    Row::new("_embedding_bag_per_sample_weights_backward", weights_backward),
];

const SUM: i64 = 0;
const MEAN: i64 = 1;
const MAX: i64 = 2;

/// Rows `index` of a matrix.
fn rows(g: &mut Graph, x: Value, index: Value) -> Result<Value> {
    let width = g.dims(x)[1];
    let dims = GatherDims {
        offset_dims: vec![1],
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 1,
        ..GatherDims::default()
    };
    Ok(g.gather(x, index, &dims, &[1, width], false)?)
}

/// Combines rows of `updates` into the rows of `target` that `index` names; names outside are skipped.
fn combine_rows(
    g: &mut Graph,
    target: Value,
    index: Value,
    updates: Value,
    f: fn(&mut Graph, Value, Value) -> primitives::Result<Value>,
) -> Result<Value> {
    let dims = ScatterDims {
        update_window_dims: (1..g.rank(target)).collect(),
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDims::default()
    };
    let r = g.scatter(&[target], index, &[updates], &dims, false, false, |g, a| Ok(vec![f(g, a[0], a[1])?]))?;
    Ok(r[0])
}

/// The first bag starts with the first index, and the last one with one of the indices or behind them.
fn check_offsets(cx: &mut Cx<'_, '_>, offsets: Value, n: i64) -> Result<()> {
    let count = cx.g.numel(offsets);
    if count == 0 {
        return Ok(());
    }
    let end = |g: &mut Graph, i: i64| -> Result<Value> {
        let v = g.slice(offsets, &[i], &[i + 1], &[1])?;
        let v = g.reshape(v, &[])?;
        Ok(g.convert(v, DType::I64)?)
    };
    let (first, last) = (end(cx.g, 0)?, end(cx.g, count - 1)?);
    let (zero, n) = (cx.g.scalar(DType::I64, 0)?, cx.g.scalar(DType::I64, n)?);
    let bad = cx.g.compare(first, zero, Direction::Ne)?;
    cx.check(
        bad,
        first,
        CheckKind::Runtime,
        "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {}",
    )?;
    let bad = cx.g.compare(last, n, Direction::Gt)?;
    let message = "offsets[-1] can not be greater than the number of indices, but got offsets[-1] of {}";
    cx.check(bad, last, CheckKind::Runtime, message)
}

/// `_embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset,
/// padding_idx)` -> result `[bags, width]`, the bag of each index, the size of each bag, and for `max` which row won.
///
/// With `include_last_offset` the last bag runs to the end of the indices even if the last offset stops before it:
/// torch's own kernels disagree there (its f32 one stops, its f64 one and all gradients go on).
fn forward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (weight, indices, offsets) = (cx.t(0)?, cx.t(1)?, cx.t(2)?);
    let (mode, padding) = (cx.int(4)?, cx.int(8)?);
    let sample_weights = cx.opt_t(6)?;
    if cx.g.rank(weight) != 2 || cx.g.rank(indices) != 1 || cx.g.rank(offsets) != 1 {
        return Err(cx.error("embedding_bag: expected a matrix of weights, and vectors of indices and offsets"));
    }
    if sample_weights.is_some() && mode != SUM {
        return Err(cx.error(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum'",
        ));
    }
    let (wd, n) = (cx.g.dims(weight), cx.g.numel(indices));
    let bags = cx.g.numel(offsets) - i64::from(cx.bool(7)?);
    let dtype = cx.g.dtype(weight);
    if !dtype.is_float() {
        return Err(
            cx.error(format!("Expected tensor for argument #1 'weight' to have a float dtype, but got {dtype}"))
        );
    }
    let index_dtype = promote::promote_types(cx.g.dtype(indices), cx.g.dtype(offsets));
    let padding = if padding < 0 && padding >= -wd[0] && padding != -1 { padding + wd[0] } else { padding };
    let index = cx.check_index(
        indices,
        wd[0],
        CheckKind::Runtime,
        format!(
            "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {{}} with num_embeddings {}",
            wd[0]
        ),
    )?;
    check_offsets(cx, offsets, n)?;
    let g = &mut *cx.g;
    let compute = promote::compute_type(dtype);
    let starts = g.slice(offsets, &[0], &[bags], &[1])?;
    let starts = g.convert(starts, DType::I64)?;
    let place = g.iota(DType::I64, &[n], 0)?;
    let after = binary_search(g, starts, place, None, true)?;
    let one = g.ones_like(after)?;
    let bag = g.subtract(after, one)?;
    let counts = counted(g, index, padding)?;
    // Padded indices go to a bag past the end, which does not exist.
    let nowhere = g.full_like(bag, bags)?;
    let goal = g.select(counts, bag, nowhere)?;
    let zeros = g.full(DType::I64, &[bags], 0)?;
    let ones = g.full(DType::I64, &[n], 1)?;
    let size = combine_rows(g, zeros, goal, ones, Graph::add)?;
    let shape = [bags, wd[1]];
    let (result, winner) = if n == 0 || g.numel(weight) == 0 {
        (g.full(compute, &shape, 0)?, g.full(DType::I64, &shape, -1)?)
    } else {
        let x = rows(g, weight, index)?;
        let x = g.convert(x, compute)?;
        let zero = g.full(compute, &shape, 0)?;
        let wide_size = g.broadcast_in_dim(size, &shape, &[0])?;
        if mode == MAX {
            most(g, x, index, goal, wide_size, &shape)?
        } else {
            let x = match sample_weights {
                None => x,
                Some(w) => {
                    let w = g.convert(w, compute)?;
                    let w = g.broadcast_in_dim(w, &[n, wd[1]], &[0])?;
                    g.multiply(x, w)?
                }
            };
            let mut y = combine_rows(g, zero, goal, x, Graph::add)?;
            if mode == MEAN {
                let one = g.ones_like(wide_size)?;
                let count = g.maximum(wide_size, one)?;
                let count = g.convert(count, compute)?;
                y = exact::divide(g, y, count)?;
            }
            (y, g.full(DType::I64, &[bags], 0)?)
        }
    };
    let result = g.convert(result, dtype)?;
    cx.out(result);
    for v in [bag, size, winner] {
        let v = cx.g.convert(v, index_dtype)?;
        cx.out(v);
    }
    Ok(())
}

/// Which indices are not the padding.
fn counted(g: &mut Graph, index: Value, padding: i64) -> Result<Value> {
    let pad = g.full_like(index, padding)?;
    Ok(g.compare(index, pad, Direction::Ne)?)
}

/// Largest row element per bag (0 in an empty one), and the index of the row that has it first (-1).
fn most(g: &mut Graph, x: Value, index: Value, goal: Value, size: Value, shape: &[i64]) -> Result<(Value, Value)> {
    let dtype = g.dtype(x);
    let (n, bags) = (g.dims(x)[0], shape[0]);
    let low = g.full(dtype, shape, f64::NEG_INFINITY)?;
    let top = combine_rows(g, low, goal, x, Graph::maximum)?;
    // The first place that reaches the top of its bag.
    let last = g.scalar(DType::I64, (bags - 1).max(0))?;
    let zero = g.scalar(DType::I64, 0)?;
    let own = g.clamp(zero, goal, last)?;
    let own_top = rows(g, top, own)?;
    let hit = g.compare(x, own_top, Direction::Eq)?;
    let place = g.iota(DType::I64, &[n, shape[1]], 0)?;
    let never = g.full_like(place, n)?;
    let place = g.select(hit, place, never)?;
    let none = g.full(DType::I64, shape, n)?;
    let first = combine_rows(g, none, goal, place, Graph::minimum)?;
    let end = g.full_like(first, n - 1)?;
    let at = g.minimum(first, end)?;
    let winner = take(g, index, at)?;
    let zeros = g.zeros_like(size)?;
    let empty = g.compare(size, zeros, Direction::Eq)?;
    let nobody = g.full_like(winner, -1)?;
    let nothing = g.zeros_like(top)?;
    Ok((g.select(empty, nothing, top)?, g.select(empty, nobody, winner)?))
}

/// Positions of a backward op's arguments behind `grad, indices`.
struct Places {
    offset2bag: usize,
    size: usize,
    max: usize,
    count: usize,
    scale: usize,
    mode: usize,
    weights: usize,
    padding: usize,
}

/// The gradient of the embedding matrix: each bag's gradient, to the rows it was made of.
fn backward(cx: &mut Cx<'_, '_>, at: &Places) -> Result<()> {
    let (grad, indices) = (cx.t(0)?, cx.t(1)?);
    let (count, mode, padding) = (cx.int(at.count)?, cx.int(at.mode)?, cx.int(at.padding)?);
    let by_frequency = cx.bool(at.scale)?;
    let weights = cx.opt_t(at.weights)?;
    let dtype = cx.g.dtype(grad);
    let compute = promote::compute_type(dtype);
    let gd = cx.g.dims(grad);
    let n = cx.g.numel(indices);
    let (bag, size) = (cx.t(at.offset2bag)?, cx.t(at.size)?);
    let winner = if mode == MAX { Some(cx.t(at.max)?) } else { None };
    let g = &mut *cx.g;
    let grad = g.convert(grad, compute)?;
    let target = g.full(compute, &[count, gd[1]], 0)?;
    if n == 0 || g.numel(grad) == 0 {
        let y = g.convert(target, dtype)?;
        cx.out(y);
        return Ok(());
    }
    let y = if let Some(winner) = winner {
        // Every element of the result to the one row that gave it.
        let winner = g.convert(winner, DType::I64)?;
        let column = g.iota(DType::I64, &gd, 1)?;
        let shape = [gd[0], gd[1], 1];
        let (a, b) = (g.reshape(winner, &shape)?, g.reshape(column, &shape)?);
        let index = g.concatenate(&[a, b], 2)?;
        let dims = ScatterDims {
            inserted_window_dims: vec![0, 1],
            scatter_dims_to_operand_dims: vec![0, 1],
            index_vector_dim: 2,
            ..ScatterDims::default()
        };
        g.scatter(&[target], index, &[grad], &dims, false, false, |g, a| Ok(vec![g.add(a[0], a[1])?]))?[0]
    } else {
        let index = g.convert(indices, DType::I64)?;
        let bag = g.convert(bag, DType::I64)?;
        let mut x = rows(g, grad, bag)?;
        let shape = g.dims(x);
        if let Some(w) = weights {
            let w = g.convert(w, compute)?;
            let w = g.broadcast_in_dim(w, &shape, &[0])?;
            x = g.multiply(x, w)?;
        }
        if mode == MEAN {
            let size = g.convert(size, compute)?;
            let size = take(g, size, bag)?;
            let size = g.broadcast_in_dim(size, &shape, &[0])?;
            x = exact::divide(g, x, size)?;
        }
        if by_frequency {
            let zeros = g.full(compute, &[count], 0)?;
            let ones = g.full(compute, &[n], 1)?;
            let often = combine_rows(g, zeros, index, ones, Graph::add)?;
            let often = take(g, often, index)?;
            let often = g.broadcast_in_dim(often, &shape, &[0])?;
            x = exact::divide(g, x, often)?;
        }
        let counts = counted(g, index, padding)?;
        let nowhere = g.full_like(index, count)?;
        let goal = g.select(counts, index, nowhere)?;
        combine_rows(g, target, goal, x, Graph::add)?
    };
    let y = g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `_embedding_bag_per_sample_weights_backward(grad, weight, indices, offsets, offset2bag, mode, padding_idx)`: the product
/// of each row with its bag's gradient.
fn weights_backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (grad, weight, indices, bag) = (cx.t(0)?, cx.t(1)?, cx.t(2)?, cx.t(4)?);
    let padding = cx.int(6)?;
    let dtype = cx.g.dtype(grad);
    let g = &mut *cx.g;
    let index = g.convert(indices, DType::I64)?;
    let bag = g.convert(bag, DType::I64)?;
    let (a, b) = (rows(g, grad, bag)?, rows(g, weight, index)?);
    let compute = promote::compute_type(dtype);
    let (a, b) = (g.convert(a, compute)?, g.convert(b, compute)?);
    let y = g.multiply(a, b)?;
    let y = g.reduce_sum(y, &[1])?;
    let counts = counted(g, index, padding)?;
    let zero = g.zeros_like(y)?;
    let y = g.select(counts, y, zero)?;
    let y = g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}
