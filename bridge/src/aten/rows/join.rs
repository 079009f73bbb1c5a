//! Tensors joined: `cat` and `stack`.

use super::places::wrap_dim;
use crate::aten::{Arg, Cx, Row};
use crate::{Error, Result};
use primitives::{Dims, Value};

pub const ROWS: &[Row] = &[Row::new("cat", cat), Row::new("stack", stack)];

/// Items of the tensor list (argument 0), promoted to one dtype.
fn promoted(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>> {
    let n = cx.list_len(0);
    let operands = (0..n).map(|k| cx.operand_item(0, k)).collect::<Result<Vec<_>>>()?;
    let dtype = cx.promote(&operands);
    operands.iter().map(|o| cx.value_as(o, dtype)).collect()
}

/// `cat(tensors, dim)`. Vectors without elements are left out, as torch does for old code's sake.
fn cat(cx: &mut Cx<'_, '_>) -> Result<()> {
    if cx.list_len(0) == 0 {
        return Err(Error::value(cx.op(), "torch.cat(): expected a non-empty list of Tensors".into()));
    }
    let all = promoted(cx)?;
    if let Some(k) = all.iter().position(|&v| cx.g.rank(v) == 0) {
        return Err(cx.error(format!("zero-dimensional tensor (at position {k}) cannot be concatenated")));
    }
    let skipped = |d: &Dims| d.len() == 1 && d[0] == 0;
    let kept: Vec<(usize, Value)> = all.iter().copied().enumerate().filter(|&(_, v)| !skipped(&cx.g.dims(v))).collect();
    let Some(&(_, first)) = kept.first() else {
        wrap_dim(cx, cx.int(1)?, 1)?;
        cx.out(all[0]);
        return Ok(());
    };
    let like = cx.g.dims(first);
    let dim = wrap_dim(cx, cx.int(1)?, like.len())?;
    for &(k, v) in &kept {
        let dims = cx.g.dims(v);
        if dims.len() != like.len() {
            return Err(cx.error(format!(
                "Tensors must have same number of dimensions: got {} and {}",
                like.len(),
                dims.len()
            )));
        }
        if let Some(d) = (0..dims.len()).find(|&d| d != dim && dims[d] != like[d]) {
            return Err(cx.error(format!(
                "Sizes of tensors must match except in dimension {dim}. Expected size {} but got size {} for tensor \
                 number {k} in the list.",
                like[d], dims[d]
            )));
        }
    }
    let parts: Vec<Value> = kept.iter().map(|&(_, v)| v).collect();
    let y = if parts.len() == 1 { parts[0] } else { cx.g.concatenate(&parts, dim)? };
    cx.order = channels_last(cx, like.len());
    cx.out(y);
    Ok(())
}

/// The dim order of the result when every tensor lies in memory channels last.
fn channels_last(cx: &Cx<'_, '_>, rank: usize) -> Option<Vec<usize>> {
    let Arg::List(items) = cx.arg(0) else { return None };
    let orders: Vec<_> = items.iter().map(|a| suggested(a, rank)).collect();
    orders.into_iter().reduce(|a, b| if a == b { a } else { None }).flatten()
}

/// torch's `suggest_memory_format`: the channels-last dim order of a tensor that lies so, else none.
pub fn suggested(arg: &Arg<'_>, rank: usize) -> Option<Vec<usize>> {
    let order: &[usize] = match rank {
        4 => &[0, 2, 3, 1],
        5 => &[0, 2, 3, 4, 1],
        _ => return None,
    };
    let Arg::Tensor(t) = arg else { return None };
    if t.sizes.len() != rank || t.is_contiguous() {
        return None;
    }
    let pick = |v: &[i64]| order.iter().map(|&d| v[d]).collect::<Dims>();
    crate::aten::args::is_contiguous(&pick(t.sizes), &pick(t.strides)).then(|| order.to_vec())
}

/// `stack(tensors, dim)`: joined along a new dim.
fn stack(cx: &mut Cx<'_, '_>) -> Result<()> {
    if cx.list_len(0) == 0 {
        return Err(cx.error("stack expects a non-empty TensorList"));
    }
    let all = promoted(cx)?;
    let like = cx.g.dims(all[0]);
    let dim = wrap_dim(cx, cx.int(1)?, like.len() + 1)?;
    if let Some(k) = all.iter().position(|&v| cx.g.dims(v) != like) {
        return Err(cx.error(format!(
            "stack expects each tensor to be equal size, but got {:?} at entry 0 and {:?} at entry {k}",
            &like[..],
            &cx.g.dims(all[k])[..]
        )));
    }
    let mut dims = like.clone();
    dims.insert(dim, 1);
    let parts = all.iter().map(|&v| cx.g.reshape(v, &dims)).collect::<primitives::Result<Vec<_>>>()?;
    let y = if parts.len() == 1 { parts[0] } else { cx.g.concatenate(&parts, dim)? };
    cx.out(y);
    Ok(())
}
