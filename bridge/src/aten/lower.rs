//! Lowering of one call onto a graph: the row, then what its form adds (views written, dtypes converted, layouts kept).

use super::args::{Arg, ArgPos, TensorArg};
use super::cx::{Check, Cx, Env, Source, view_of, within};
use super::kernel::{Form, Kernel};
pub use super::layout::NewTensor;
use super::layout::{in_order, laid_out, operands, order_of};
use super::view::View;
use super::{fits, overlap, promote, view};
use crate::{Error, Result};
use primitives::{DType, Dims, Direction, Graph, Number, TensorType, Value};

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
    overlap::check(kernel, args)?;
    let mut extended: Vec<Arg<'_>> = args.iter().chain(kernel.extra()).cloned().collect();
    if let Some((i, dtype)) = dtype_of_out(kernel, args)? {
        extended[i] = Arg::DType(dtype);
    }
    let op = kernel.schema.name.as_str();
    let items: Vec<Option<usize>> = match kernel.items(args)? {
        None => vec![None],
        Some(n) => (0..n).map(Some).collect(),
    };
    let mut low = Lowered { outs: Vec::new(), mutated: Vec::new(), checks: Vec::new(), harmless: true, rng: None };
    for item in items {
        let mut mutations = Vec::new();
        // The items of a list are worked on one after the other: a later one may have the memory of an earlier one.
        let mut newer = Newer { source: &mut *source, values: &low.mutated };
        let map = kernel.positions(args, item);
        let like = kernel.preserves_strides().then(|| operands(&map, &extended));
        let mut cx = Cx::new(g, &mut newer, op, &extended, map.clone(), kernel.row_dynamic(&map, &extended), env);
        (kernel.row.lower)(&mut cx)?;
        let (outs, muts, checks, rng) = (
            std::mem::take(&mut cx.outs),
            std::mem::take(&mut cx.mutations),
            std::mem::take(&mut cx.checks),
            cx.rng_out.take(),
        );
        let (chosen, by_columns) = (cx.order.take(), std::mem::take(&mut cx.by_columns));
        // Checks of a list's other items are not known to this one's guard.
        low.harmless &= kernel.form == Form::InPlace && item.is_none() && cx.guards == Some(checks.len());
        low.checks.extend(checks);
        low.rng = rng.or(low.rng);
        mutations.extend(muts.into_iter().map(|(p, v)| (p, v, false)));
        match kernel.form {
            Form::Functional | Form::Out { .. } | Form::Foreach => {
                for (i, v) in outs.into_iter().enumerate() {
                    low.outs.push(match v {
                        None => None,
                        Some(v) if by_columns.contains(&i) && g.rank(v) > 1 => {
                            let mut order: Vec<usize> = (0..g.rank(v)).collect();
                            order.swap(g.rank(v) - 2, g.rank(v) - 1);
                            Some(in_order(g, v, &order)?)
                        }
                        Some(v) => Some(match chosen.as_ref().filter(|o| o.len() == g.rank(v)) {
                            Some(order) => in_order(g, v, order)?,
                            None => laid_out(g, v, like.as_ref())?,
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
    }
    Ok(low)
}

/// What earlier items of a list wrote, in front of what was there.
struct Newer<'s> {
    source: &'s mut dyn Source,
    values: &'s [(ArgPos, u32, Value)],
}

impl Source for Newer<'_> {
    fn storage_type(&self, slot: u32) -> Result<TensorType> {
        self.source.storage_type(slot)
    }

    fn base(&mut self, g: &mut Graph, pos: ArgPos, slot: u32) -> Result<Value> {
        match self.values.iter().find(|(_, written, _)| *written == slot) {
            Some((_, _, newer)) => Ok(*newer),
            None => self.source.base(g, pos, slot),
        }
    }

    fn number(&mut self, g: &mut Graph, pos: ArgPos, value: Number, dtype: DType) -> Result<Value> {
        self.source.number(g, pos, value, dtype)
    }

    fn rng(&mut self, g: &mut Graph, pos: Option<ArgPos>) -> Result<Value> {
        self.source.rng(g, pos)
    }
}

/// Place and value of the argument `dtype` of an `out=` form that leaves it out, for the ops that then compute in the
/// dtype of `out`.
fn dtype_of_out(kernel: &Kernel, args: &[Arg<'_>]) -> Result<Option<(usize, DType)>> {
    const OPS: [&str; 6] = ["sum", "nansum", "mean", "prod", "cumsum", "cumprod"];
    let op = kernel.row.name.split('.').next().unwrap_or_default();
    let (Form::Out { first }, Some(i)) = (kernel.form, kernel.schema.position("dtype")) else { return Ok(None) };
    let (Some(Arg::Tensor(out)), true) = (args.get(first), OPS.contains(&op)) else { return Ok(None) };
    Ok(match (&args[i], &args[0]) {
        (Arg::DType(given), _) if *given != out.dtype => {
            let (given, got) = (fits::c_name(*given), fits::c_name(out.dtype));
            return Err(Error::runtime(
                &kernel.schema.name,
                format!("Expected out tensor to have dtype {given}, but got {got} instead"),
            ));
        }
        // The mean of integers is refused whatever takes it.
        (Arg::None, Arg::Tensor(t)) if op != "mean" || promote::category(t.dtype) > 1 => Some((i, out.dtype)),
        _ => None,
    })
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
