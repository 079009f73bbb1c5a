//! `gather` and the `scatter` family: one index for each element, along one dim.

use super::places::{Combine, at_least_1d, checked, flat_places, put_flat, take_flat, wrap_dim};
use super::reduce_into::{Reduce, reduce_into};
use crate::Result;
use crate::aten::promote::{compute_type, torch_name};
use crate::aten::{CheckKind, Cx, Row};
use primitives::{DType, Dims, Value};

pub const ROWS: &[Row] = &[
    Row::new("gather", gather),
    Row::new("scatter.src", |cx| scatter(cx, Combine::Set)),
    Row::new("scatter.value", |cx| scatter(cx, Combine::Set)).dynamic(&["value"]).guarded(|n| n.fits(3)),
    Row::new("scatter.reduce", scatter_by_name),
    Row::new("scatter.value_reduce", scatter_by_name).dynamic(&["value"]).guarded(|n| n.fits(3)),
    Row::new("scatter_add", |cx| scatter(cx, Combine::Add)),
    Row::new("scatter_reduce.two", scatter_reduce),
];

/// The index of an op along `dim`: integer, and of the tensor's rank.
fn index_arg(cx: &mut Cx<'_, '_>, name: &str, rank: usize) -> Result<Value> {
    let index = cx.t(2)?;
    if cx.g.numel(index) > 0 && !matches!(cx.g.dtype(index), DType::I64 | DType::I32) {
        return Err(cx.error(format!("{name}(): Expected dtype int32/int64 for index")));
    }
    let index = at_least_1d(cx.g, index)?;
    if cx.g.numel(index) > 0 && cx.g.rank(index) != rank.max(1) {
        let whom = if name == "gather" { "input" } else { "self" };
        return Err(cx.error(format!("Index tensor must have the same number of dimensions as {whom} tensor")));
    }
    Ok(index)
}

/// `gather(self, dim, index)`: `out[i][j] = self[index[i][j]][j]` for `dim` 0.
fn gather(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let out = cx.sizes(2)?;
    let dim = wrap_dim(cx, cx.int(1)?, cx.g.rank(x))?;
    let index = index_arg(cx, "gather", cx.g.rank(x))?;
    if cx.g.numel(index) == 0 {
        let y = cx.g.full(cx.g.dtype(x), &out, 0)?;
        cx.out(y);
        return Ok(());
    }
    let x = at_least_1d(cx.g, x)?;
    let (sizes, shape) = (cx.g.dims(x), cx.g.dims(index));
    if let Some(d) = (0..sizes.len()).find(|&d| d != dim && shape[d] > sizes[d]) {
        return Err(cx.error(format!(
            "Size does not match at dimension {d} expected index {:?} to be no larger than self {:?} apart from dimension {dim}",
            &shape[..],
            &sizes[..]
        )));
    }
    let message = format!("index {{}} is out of bounds for dimension {dim} with size {}", sizes[dim]);
    let index = checked(cx, index, sizes[dim], false, CheckKind::Runtime, &message)?;
    let places = flat_places(cx.g, index, &sizes, dim)?;
    let y = take_flat(cx.g, x, places)?;
    let y = cx.g.reshape(y, &out)?;
    cx.out(y);
    Ok(())
}

/// Arguments of a scatter: the operand, at least 1-d, the places written, and the values for them.
struct Scatter {
    x: Value,
    places: Value,
    updates: Value,
}

fn parse(cx: &mut Cx<'_, '_>) -> Result<Option<Scatter>> {
    let x = cx.t(0)?;
    let dtype = cx.g.dtype(x);
    let dim = wrap_dim(cx, cx.int(1)?, cx.g.rank(x))?;
    let index = index_arg(cx, "scatter", cx.g.rank(x))?;
    let source = cx.operand(3)?;
    let is_tensor = cx.ty(3).is_ok();
    if is_tensor && source.dtype != dtype {
        return Err(cx.error(format!(
            "scatter(): Expected self.dtype to be equal to src.dtype, got {} and {}",
            torch_name(dtype),
            torch_name(source.dtype)
        )));
    }
    if cx.g.numel(index) == 0 {
        return Ok(None);
    }
    let x = at_least_1d(cx.g, x)?;
    let (sizes, shape) = (cx.g.dims(x), cx.g.dims(index));
    let source = cx.value_as(&source, dtype)?;
    let from = if is_tensor { Some(at_least_1d(cx.g, source)?) } else { None };
    let src_dims: Option<Dims> = from.map(|v| cx.g.dims(v));
    let too_large = (0..sizes.len()).any(|d| d != dim && shape[d] > sizes[d]);
    let past_source =
        src_dims.as_ref().is_some_and(|s| s.len() != shape.len() || (0..s.len()).any(|d| shape[d] > s[d]));
    if too_large || past_source {
        let tail = src_dims.map(|s| format!(" and to be no larger size than src {:?}", &s[..])).unwrap_or_default();
        return Err(cx.error(format!(
            "Expected index {:?} to be no larger than self {:?} apart from dimension {dim}{tail}",
            &shape[..],
            &sizes[..]
        )));
    }
    let message = format!("index {{}} is out of bounds for dimension {dim} with size {}", sizes[dim]);
    let index = checked(cx, index, sizes[dim], false, CheckKind::Runtime, &message)?;
    let places = flat_places(cx.g, index, &sizes, dim)?;
    let places = cx.guarded(places)?;
    let updates = match from {
        Some(v) => cx.g.slice(v, &vec![0; shape.len()], &shape, &vec![1; shape.len()])?,
        None => cx.g.broadcast_to(source, &shape)?,
    };
    Ok(Some(Scatter { x, places, updates }))
}

/// `scatter(self, dim, index, src | value)` and `scatter_add`: `out[index[i][j]][j] (+)= src[i][j]` for `dim` 0.
fn scatter(cx: &mut Cx<'_, '_>, combine: Combine) -> Result<()> {
    let ty = cx.ty(0)?;
    let y = match parse(cx)? {
        None => cx.t(0)?,
        Some(s) => {
            let compute = if combine == Combine::Set { ty.dtype } else { compute_type(ty.dtype) };
            let (x, updates) = (cx.g.convert(s.x, compute)?, cx.g.convert(s.updates, compute)?);
            let y = put_flat(cx.g, x, s.places, updates, combine)?;
            let y = cx.g.convert(y, ty.dtype)?;
            cx.g.reshape(y, &ty.dims)?
        }
    };
    cx.out(y);
    Ok(())
}

/// `scatter(..., reduce="add" | "multiply")`.
fn scatter_by_name(cx: &mut Cx<'_, '_>) -> Result<()> {
    let combine = match cx.str(4)? {
        "add" => Combine::Add,
        "multiply" => Combine::Mul,
        other => return Err(cx.error(format!("reduce argument must be either add or multiply, got {other}."))),
    };
    scatter(cx, combine)
}

/// `scatter_reduce(self, dim, index, src, reduce, include_self)`.
fn scatter_reduce(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(0)?;
    let Some(reduce) = Reduce::named(cx.str(4)?) else {
        return Err(
            cx.error(format!("reduce argument must be either sum, prod, mean, amax or amin, got {}", cx.str(4)?))
        );
    };
    reduce.check(cx, ty.dtype)?;
    let include_self = cx.bool(5)?;
    let y = match parse(cx)? {
        None => cx.t(0)?,
        Some(s) => {
            let y = reduce_into(cx.g, s.x, s.updates, reduce, include_self, |g, base, updates, combine| {
                put_flat(g, base, s.places, updates, combine)
            })?;
            cx.g.reshape(y, &ty.dims)?
        }
    };
    cx.out(y);
    Ok(())
}
