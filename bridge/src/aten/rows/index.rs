//! `x[i, ..., j]` with tensors: reading and assigning. Masks arrive as the integer tensors of their nonzero places.

use super::places::{Combine, checked, gather_at, scatter_at};
use crate::aten::{Arg, CheckKind, Cx, Row, broadcast};
use crate::{Error, Result};
use primitives::{DType, Dims, Value};

pub const ROWS: &[Row] = &[
    Row::new("index.Tensor", index),
    Row::new("_unsafe_index.Tensor", index),
    Row::pointwise("index_put", index_put),
    Row::pointwise("_index_put_impl", index_put),
    Row::pointwise("_unsafe_index_put", index_put),
];

/// Index tensors in place: the dims they index, in one shape and in range, and where their dims go in the result.
struct Indexed {
    dims: Vec<usize>,
    index: Vec<Value>,
    at: usize,
}

fn parse(cx: &mut Cx<'_, '_>, sizes: &Dims) -> Result<Option<Indexed>> {
    let given = cx.opt_ts(1)?;
    if given.len() > sizes.len() {
        return Err(Error::index(cx.op(), format!("too many indices for tensor of dimension {}", sizes.len())));
    }
    let mut dims = Vec::new();
    let mut shape = Dims::new();
    let mut shapes = Vec::new();
    for (d, v) in given.iter().enumerate().filter_map(|(d, v)| v.map(|v| (d, v))) {
        let dtype = cx.g.dtype(v);
        if dtype.is_bool() || dtype == DType::U8 {
            return Err(Error::internal(format!("{}: a mask was not expanded", cx.op())));
        }
        if !matches!(dtype, DType::I64 | DType::I32) {
            return Err(Error::index(
                cx.op(),
                "tensors used as indices must be long, int, byte or bool tensors".into(),
            ));
        }
        dims.push((d, v));
        shapes.push(cx.g.dims(v));
    }
    if dims.is_empty() {
        return Ok(None);
    }
    for s in &shapes {
        shape = broadcast::shape(cx.op(), &shape, s).map_err(|_| {
            let list: Vec<String> = shapes.iter().map(|s| format!("{:?}", &s[..])).collect();
            Error::index(
                cx.op(),
                format!(
                    "shape mismatch: indexing tensors could not be broadcast together with shapes {}",
                    list.join(", ")
                ),
            )
        })?;
    }
    let mut index = Vec::with_capacity(dims.len());
    let empty = shape.contains(&0);
    for &(d, v) in &dims {
        let size = sizes[d];
        if size == 0 && !empty {
            return Err(Error::index(cx.op(), "index is out of bounds for dimension with size 0".into()));
        }
        let v = if empty {
            v
        } else {
            let message = format!("index {{}} is out of bounds for dimension {d} with size {size}");
            checked(cx, v, size, true, CheckKind::Index, &message)?
        };
        let v = cx.g.convert(v, DType::I64)?;
        index.push(cx.g.broadcast_to(v, &shape)?);
    }
    let dims: Vec<usize> = dims.into_iter().map(|(d, _)| d).collect();
    let adjacent = dims.windows(2).all(|w| w[1] == w[0] + 1);
    let at = if adjacent { dims[0] } else { 0 };
    Ok(Some(Indexed { dims, index, at }))
}

/// `index(self, indices)`: the index tensors' common shape replaces the indexed dims, in place when these are adjacent
/// and in front otherwise.
fn index(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let sizes = cx.g.dims(x);
    let y = match parse(cx, &sizes)? {
        None => x,
        Some(i) => gather_at(cx.g, x, &i.dims, &i.index, i.at)?,
    };
    cx.out(y);
    Ok(())
}

/// `index_put(self, indices, values, accumulate)`: `values`, broadcast to the shape of `self[indices]`, assigned or added.
fn index_put(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let (sizes, dtype) = (cx.g.dims(x), cx.g.dtype(x));
    let values = cx.t(2)?;
    let accumulate = cx.bool(3)?;
    if cx.g.dtype(values) != dtype {
        return Err(cx.error(format!(
            "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
            crate::aten::promote::torch_name(dtype),
            crate::aten::promote::torch_name(cx.g.dtype(values))
        )));
    }
    let in_place = cx.op().split('.').next().is_some_and(|name| name.ends_with('_'));
    if accumulate
        && in_place
        && let Arg::Tensor(t) = cx.arg(0)
        && t.sizes.iter().zip(t.strides).any(|(&n, &s)| n > 1 && s == 0)
    {
        return Err(cx.error(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. \
             Please clone() the tensor before performing the operation.",
        ));
    }
    let combine = if accumulate { Combine::Add } else { Combine::Set };
    let Some(mut i) = parse(cx, &sizes)? else {
        let v = cx.g.broadcast_to(values, &sizes)?;
        let v = combine.apply(cx.g, x, v)?;
        cx.out(v);
        return Ok(());
    };
    let kept: Vec<i64> = (0..sizes.len()).filter(|d| !i.dims.contains(d)).map(|d| sizes[d]).collect();
    let shape: Dims =
        kept[..i.at].iter().copied().chain(cx.g.dims(i.index[0])).chain(kept[i.at..].iter().copied()).collect();
    let from = cx.g.dims(values);
    let lead = from.len().saturating_sub(shape.len());
    let mismatch = |cx: &Cx<'_, '_>| {
        cx.error(format!(
            "shape mismatch: value tensor of shape {:?} cannot be broadcast to indexing result of shape {:?}",
            &from[..],
            &shape[..]
        ))
    };
    if from[..lead].iter().any(|&n| n != 1) {
        return Err(mismatch(cx));
    }
    let values = cx.g.reshape(values, &from[lead..])?;
    let values = cx.g.broadcast_to(values, &shape).map_err(|_| mismatch(cx))?;
    // One bad component is enough for a place to be skipped.
    i.index[0] = cx.guarded(i.index[0])?;
    let compute = if accumulate { crate::aten::promote::compute_type(dtype) } else { dtype };
    let (x, values) = (cx.g.convert(x, compute)?, cx.g.convert(values, compute)?);
    let y = scatter_at(cx.g, x, &i.dims, &i.index, i.at, values, combine)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}
