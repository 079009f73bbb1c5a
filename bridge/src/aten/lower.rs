//! Lowering of one call onto a graph: the row, then what its form adds (views written, dtypes converted, layouts kept).

use super::args::{Arg, ArgPos, TensorArg, contiguous_strides};
use super::cx::{Check, Cx, Env, Source, view_of, within};
use super::kernel::{Form, Kernel};
use super::view::View;
use super::{promote, view};
use crate::{Error, Result};
use primitives::{DType, Dims, Direction, Graph, TensorType, Value};

/// A new tensor: its value is laid out as `natural`, its torch sizes and strides view all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTensor {
    pub dtype: DType,
    pub sizes: Dims,
    pub strides: Dims,
    pub natural: Dims,
}

/// What a call computes, as values of the graph.
pub struct Lowered {
    /// Results in order; `None` is an undefined tensor.
    pub outs: Vec<Option<(Value, NewTensor)>>,
    /// New storage values of mutated tensors.
    pub mutated: Vec<(ArgPos, u32, Value)>,
    pub checks: Vec<(Value, Check)>,
    /// Where a check finds an offence, what is written is what was there.
    pub harmless: bool,
    pub rng: Option<(Option<ArgPos>, Value)>,
}

/// Lowers a call of `kernel` with `args`. On an error nothing but the graph has changed.
pub fn lower(kernel: &Kernel, args: &[Arg<'_>], g: &mut Graph, source: &mut dyn Source, env: Env) -> Result<Lowered> {
    kernel.guard(args)?;
    let extended: Vec<Arg<'_>> = args.iter().chain(kernel.extra()).cloned().collect();
    let op = kernel.schema.name.as_str();
    let items: Vec<Option<usize>> = match kernel.items(args)? {
        None => vec![None],
        Some(n) => (0..n).map(Some).collect(),
    };
    let mut low = Lowered { outs: Vec::new(), mutated: Vec::new(), checks: Vec::new(), harmless: true, rng: None };
    let mut mutations = Vec::new();
    for item in items {
        let map = kernel.positions(args, item);
        let like = kernel.preserves_strides().then(|| stride_order(&map, &extended));
        let mut cx = Cx::new(g, source, op, &extended, map.clone(), kernel.row_dynamic(&map, &extended), env);
        (kernel.row.lower)(&mut cx)?;
        let (outs, muts, checks, rng) = (
            std::mem::take(&mut cx.outs),
            std::mem::take(&mut cx.mutations),
            std::mem::take(&mut cx.checks),
            cx.rng_out.take(),
        );
        let chosen = cx.order.take();
        // Checks of a list's other items are not known to this one's guard.
        low.harmless &= kernel.form == Form::InPlace && item.is_none() && cx.guards == Some(checks.len());
        low.checks.extend(checks);
        low.rng = rng.or(low.rng);
        mutations.extend(muts.into_iter().map(|(p, v)| (p, v, false)));
        match kernel.form {
            Form::Functional | Form::Out { .. } | Form::Foreach => {
                for v in outs {
                    low.outs.push(match v {
                        None => None,
                        Some(v) => Some(match chosen.as_ref().filter(|o| o.len() == g.rank(v)) {
                            Some(order) => in_order(g, v, order)?,
                            None => laid_out(g, v, like.as_ref().and_then(|l| l.as_ref()))?,
                        }),
                    });
                }
            }
            Form::InPlace | Form::ForeachInPlace => {
                let first = outs.into_iter().next().flatten();
                let v = first.ok_or_else(|| Error::internal(format!("{op}: no result for its first argument")))?;
                // The written argument comes first in the call, wherever the row has it.
                let pos = map.iter().copied().find(|p| p.arg == 0).unwrap_or(map[0]);
                mutations.push((pos, v, true));
            }
        }
    }
    for (pos, v, cast_checked) in mutations {
        let Arg::Tensor(t) = pos.get(&extended) else {
            return Err(Error::runtime(op, "a tensor that is written must be on the pjrt device".into()));
        };
        let new = written(op, t, v, cast_checked, pos, g, source, &low.mutated)?;
        if let Some(new) = new {
            match low.mutated.iter_mut().find(|(_, slot, _)| *slot == t.slot) {
                Some(entry) => entry.2 = new,
                None => low.mutated.push((pos, t.slot, new)),
            }
        }
    }
    Ok(low)
}

/// The storage value after `v` is stored through the view of `t`; `None` when there is nothing to store.
#[allow(clippy::too_many_arguments)]
fn written(
    op: &str,
    t: &TensorArg<'_>,
    v: Value,
    cast_checked: bool,
    pos: ArgPos,
    g: &mut Graph,
    source: &mut dyn Source,
    earlier: &[(ArgPos, u32, Value)],
) -> Result<Option<Value>> {
    let ty = g.ty(v).clone();
    if ty.dims[..] != *t.sizes {
        return Err(Error::runtime(
            op,
            format!("output with shape {:?} doesn't match the broadcast shape {:?}", t.sizes, &ty.dims[..]),
        ));
    }
    if cast_checked && !promote::can_cast(ty.dtype, t.dtype) {
        return Err(Error::runtime(
            op,
            format!(
                "result type {} can't be cast to the desired output type {}",
                promote::torch_name(ty.dtype),
                promote::torch_name(t.dtype)
            ),
        ));
    }
    if t.numel() == 0 {
        return Ok(None);
    }
    let repeated: Vec<usize> = (0..t.sizes.len()).filter(|&d| t.sizes[d] > 1 && t.strides[d] == 0).collect();
    if !repeated.is_empty() && !writes_expanded(op) {
        let message = "unsupported operation: more than one element of the written-to tensor refers to a single memory \
                       location. Please clone() the tensor before performing the operation.";
        return Err(Error::runtime(op, message.into()));
    }
    let v = g.convert(v, t.dtype)?;
    let natural = source.storage_type(t.slot)?;
    within(op, t, &natural)?;
    let view = view_of(t);
    if view.is_identity(&natural) {
        return Ok(Some(v));
    }
    let base = match earlier.iter().find(|(_, slot, _)| *slot == t.slot) {
        Some((_, _, newer)) => *newer,
        None if t.numel() == natural.dims.iter().product::<i64>() && dense_from_zero(t) && t.dtype == natural.dtype => {
            // All of the storage is replaced, in another order: its old value is not read.
            return Ok(Some(in_storage_order(g, v, t, &natural)?));
        }
        None => source.base(g, pos, t.slot)?,
    };
    let v = if repeated.is_empty() { v } else { one_of_several(g, base, &view, &repeated, v)? };
    view::write(g, base, &view, v).map(Some)
}

/// Ops that torch lets write to an expanded tensor, where one element stands for several.
fn writes_expanded(op: &str) -> bool {
    const OPS: [&str; 8] =
        ["fill_", "zero_", "masked_fill_", "index_fill_", "index_put_", "_index_put_impl_", "tril_", "triu_"];
    OPS.contains(&op.split('.').next().unwrap_or(op))
}

/// The new value of an expanded tensor, the same along `repeated` dims: what was written to any of the elements that are
/// one in memory, or what was there.
fn one_of_several(g: &mut Graph, base: Value, view: &View, repeated: &[usize], new: Value) -> Result<Value> {
    let old = view::read(g, base, view)?;
    let changed = differs(g, new, old)?;
    let (zero, no) = (g.scalar(g.dtype(new), 0)?, g.scalar(DType::Bool, false)?);
    let found = g.reduce(&[new, changed], &[zero, no], repeated, |g, v| {
        Ok(vec![g.select(v[3], v[2], v[0])?, g.or(v[1], v[3])?])
    })?;
    let sizes = g.dims(new);
    let kept: Vec<usize> = (0..sizes.len()).filter(|d| !repeated.contains(d)).collect();
    let value = g.broadcast_in_dim(found[0], &sizes, &kept)?;
    let written = g.broadcast_in_dim(found[1], &sizes, &kept)?;
    Ok(g.select(written, value, old)?)
}

/// Where two values are not the same, NaN being the same as NaN.
fn differs(g: &mut Graph, a: Value, b: Value) -> Result<Value> {
    let dtype = g.dtype(a);
    if dtype.is_complex() {
        let (re, im) = ((g.real(a)?, g.real(b)?), (g.imag(a)?, g.imag(b)?));
        let (re, im) = (differs(g, re.0, re.1)?, differs(g, im.0, im.1)?);
        return Ok(g.or(re, im)?);
    }
    Ok(if dtype.is_float() { g.compare_total_order(a, b, Direction::Ne)? } else { g.compare(a, b, Direction::Ne)? })
}

fn dense_from_zero(t: &TensorArg<'_>) -> bool {
    let Some(order) = order_of(t.sizes, t.strides) else { return false };
    let sizes: Dims = order.iter().map(|&d| t.sizes[d]).collect();
    let strides: Dims = order.iter().map(|&d| t.strides[d]).collect();
    t.offset == 0 && super::args::is_contiguous(&sizes, &strides)
}

fn in_storage_order(g: &mut Graph, v: Value, t: &TensorArg<'_>, natural: &TensorType) -> Result<Value> {
    let order = order_of(t.sizes, t.strides).unwrap_or_default();
    let v = g.transpose(v, &order)?;
    Ok(g.reshape(v, &natural.dims)?)
}

/// Dims from the largest stride to the smallest, size-1 dims last in place; `None` when a broadcast dim makes it moot.
fn order_of(sizes: &[i64], strides: &[i64]) -> Option<Vec<usize>> {
    if sizes.iter().zip(strides).any(|(&n, &s)| n > 1 && s == 0) {
        return None;
    }
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    // Only dims longer than 1 have a say; the others keep their place relative to their right neighbour.
    let mut key = vec![0i64; sizes.len()];
    let mut right = 0;
    for d in (0..sizes.len()).rev() {
        if sizes[d] > 1 {
            right = strides[d];
        }
        key[d] = right;
    }
    order.sort_by_key(|&d| std::cmp::Reverse(key[d]));
    Some(order)
}

/// The dim order that all tensors of the largest shape agree on, with that shape; `None` for row-major.
fn stride_order(map: &[ArgPos], args: &[Arg<'_>]) -> Option<(Dims, Vec<usize>)> {
    let mut found: Option<(Dims, Vec<usize>)> = None;
    let tensors = map.iter().filter_map(|p| match p.get(args) {
        Arg::Tensor(t) => Some(t),
        _ => None,
    });
    let rank = tensors.clone().map(|t| t.sizes.len()).max()?;
    for t in tensors.filter(|t| t.sizes.len() == rank) {
        let Some(order) = order_of(t.sizes, t.strides) else { continue };
        match &found {
            None => found = Some((Dims::from_slice(t.sizes), order)),
            Some((sizes, _)) if sizes[..] != *t.sizes => continue,
            Some((_, o)) if *o != order => return None,
            _ => {}
        }
    }
    found.filter(|(_, order)| order.windows(2).any(|w| w[0] > w[1]))
}

fn laid_out(g: &mut Graph, v: Value, like: Option<&(Dims, Vec<usize>)>) -> Result<(Value, NewTensor)> {
    let ty = g.ty(v).clone();
    let Some((_, order)) = like.filter(|(sizes, _)| *sizes == ty.dims) else {
        let strides = contiguous_strides(&ty.dims);
        return Ok((v, NewTensor { dtype: ty.dtype, sizes: ty.dims.clone(), strides, natural: ty.dims }));
    };
    in_order(g, v, order)
}

/// A result whose dims lie in memory in `order`, outermost first.
fn in_order(g: &mut Graph, v: Value, order: &[usize]) -> Result<(Value, NewTensor)> {
    let ty = g.ty(v).clone();
    let physical = g.transpose(v, order)?;
    let natural = g.dims(physical);
    let inner = contiguous_strides(&natural);
    let mut strides = Dims::from_elem(0, order.len());
    for (k, &d) in order.iter().enumerate() {
        strides[d] = inner[k];
    }
    Ok((physical, NewTensor { dtype: ty.dtype, sizes: ty.dims, strides, natural }))
}
