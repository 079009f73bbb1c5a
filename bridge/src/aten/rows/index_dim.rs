//! `index_select` and its kin: one vector of indices along one dim; `take` and `put`: flat indices.

use super::places::{Combine, at_least_1d, checked, gather_at, narrow, put_flat, scatter_at, take_flat, wrap_dim};
use super::reduce_into::{Reduce, reduce_into};
use crate::aten::promote::{compute_type, torch_name};
use crate::aten::{CheckKind, Cx, Row};
use crate::{Error, Result};
use primitives::{DType, Value};

pub const ROWS: &[Row] = &[
    Row::new("index_select", index_select),
    Row::new("index_add", index_add).dynamic(&["alpha"]),
    Row::new("index_copy", index_copy),
    Row::pointwise("index_fill.int_Scalar", index_fill).dynamic(&["value"]).guarded(|n| n.fits_real(3)),
    Row::pointwise("index_fill.int_Tensor", index_fill),
    Row::new("index_reduce", index_reduce),
    Row::new("take", take),
    Row::new("put", put),
];

/// A vector of indices (argument 2) along dim (argument 1) of argument 0, of torch's types.
struct Along {
    x: Value,
    dim: usize,
    index: Value,
    size: i64,
}

fn along(cx: &mut Cx<'_, '_>, name: &str) -> Result<Along> {
    let x = cx.t(0)?;
    let dim = wrap_dim(cx, cx.int(1)?, cx.g.rank(x))?;
    let x = at_least_1d(cx.g, x)?;
    let index = cx.t(2)?;
    if cx.g.rank(index) > 1 {
        return Err(Error::index(cx.op(), format!("{name}(): Index is supposed to be a vector")));
    }
    if !matches!(cx.g.dtype(index), DType::I64 | DType::I32) {
        return Err(cx.error(format!("{name}(): Expected dtype int32 or int64 for index")));
    }
    let index = at_least_1d(cx.g, index)?;
    Ok(Along { x, dim, index, size: cx.g.dims(x)[dim] })
}

/// `index_select(self, dim, index)`. Negative indices are errors.
fn index_select(cx: &mut Cx<'_, '_>) -> Result<()> {
    let scalar = cx.sizes(0)?.is_empty();
    let a = along(cx, "index_select")?;
    if scalar && cx.g.numel(a.index) != 1 {
        return Err(cx.error(format!(
            "index_select(): Index to scalar can have only 1 value, got {} value(s)",
            cx.g.numel(a.index)
        )));
    }
    let index = checked(cx, a.index, a.size, false, CheckKind::Index, "index out of range in self")?;
    let y = gather_at(cx.g, a.x, &[a.dim], &[index], a.dim)?;
    let y = if scalar { cx.g.reshape(y, &[])? } else { y };
    cx.out(y);
    Ok(())
}

/// The values (argument 3) for the places of `a`, in the shape of `self` with the index's length along `dim`.
fn source(cx: &mut Cx<'_, '_>, name: &str, a: &Along) -> Result<Value> {
    let v = cx.t(3)?;
    let (mine, theirs) = (cx.g.dtype(a.x), cx.g.dtype(v));
    if mine != theirs {
        return Err(cx.error(format!(
            "{name}: self ({}) and source ({}) must have the same scalar type",
            torch_name(mine),
            torch_name(theirs)
        )));
    }
    let n = cx.g.numel(a.index);
    let given = cx.g.dims(v);
    let v = at_least_1d(cx.g, v)?;
    let (sizes, dims) = (cx.g.dims(a.x), cx.g.dims(v));
    // A 0-d source may stand for a vector of one element.
    if dims.len() == sizes.len() && dims[a.dim] != n {
        return Err(match name {
            "index_copy_()" => Error::index(
                cx.op(),
                format!("{name}: Number of indices ({n}) should be equal to source.size(dim) ({})", dims[a.dim]),
            ),
            _ => cx.error(format!(
                "{name}: Number of indices ({n}) should be equal to source.size(dim): ({}), for dim: {}",
                dims[a.dim], a.dim
            )),
        });
    }
    let fits = dims.len() == sizes.len() && (0..dims.len()).all(|d| d == a.dim || dims[d] == sizes[d]);
    if !fits {
        return Err(match name {
            "index_copy_()" => Error::index(
                cx.op(),
                format!(
                    "{name}: Source/destination tensor must have same slice shapes. Destination slice shape: {:?} at \
                     dimension {} and source slice shape: {:?} at dimension {}.",
                    &sizes[..],
                    a.dim,
                    &given[..],
                    a.dim
                ),
            ),
            _ => cx.error(format!(
                "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = \
                 {:?} source.shape = {:?}",
                &sizes[..],
                &given[..]
            )),
        });
    }
    Ok(v)
}

/// `index_add(self, dim, index, source, alpha)`.
fn index_add(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(0)?;
    let a = along(cx, "index_add")?;
    let v = source(cx, "index_add_()", &a)?;
    let message = format!("index {{}} is out of bounds for dimension {} with size {}", a.dim, a.size);
    let index = checked(cx, a.index, a.size, false, CheckKind::Runtime, &message)?;
    let index = cx.guarded(index)?;
    let compute = compute_type(ty.dtype);
    let (x, mut v) = (cx.g.convert(a.x, compute)?, cx.g.convert(v, compute)?);
    if !cx.scalar_is_one(4) {
        let alpha = cx.number_as(4, compute)?;
        let alpha = cx.g.broadcast_to(alpha, &cx.g.dims(v))?;
        v = Combine::Mul.apply(cx.g, v, alpha)?;
    }
    let y = scatter_at(cx.g, x, &[a.dim], &[index], a.dim, v, Combine::Add)?;
    finish(cx, y, &ty)
}

/// `index_copy(self, dim, index, source)`.
fn index_copy(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(0)?;
    let a = along(cx, "index_copy_")?;
    let v = source(cx, "index_copy_()", &a)?;
    let message = format!("index_copy_(): index {{}} is out of bounds for dimension {} with size {}", a.dim, a.size);
    let index = checked(cx, a.index, a.size, false, CheckKind::Index, &message)?;
    let index = cx.guarded(index)?;
    let y = scatter_at(cx.g, a.x, &[a.dim], &[index], a.dim, v, Combine::Set)?;
    finish(cx, y, &ty)
}

/// `index_fill(self, dim, index, value)`. Negative indices count from the end.
fn index_fill(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(0)?;
    let a = along(cx, "index_fill_")?;
    if let Ok(value) = cx.ty(3)
        && !value.dims.is_empty()
    {
        return Err(cx.error(format!(
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
            value.dims.len()
        )));
    }
    let message = format!("index {{}} is out of bounds for dimension {} with size {}", a.dim, a.size);
    let index = checked(cx, a.index, a.size, true, CheckKind::Index, &message)?;
    let index = cx.guarded(index)?;
    let value = cx.number_as(3, ty.dtype)?;
    // A mask along the dim, then a select: no scatter of the whole value.
    let flags = cx.g.full(DType::Bool, &[a.size], false)?;
    let n = cx.g.numel(index);
    let on = cx.g.full(DType::Bool, &[n], true)?;
    let flags = scatter_at(cx.g, flags, &[0], &[index], 0, on, Combine::Set)?;
    let sizes = cx.g.dims(a.x);
    let mask = cx.g.broadcast_in_dim(flags, &sizes, &[a.dim])?;
    let value = cx.g.broadcast_to(value, &sizes)?;
    let y = cx.g.select(mask, value, a.x)?;
    finish(cx, y, &ty)
}

/// `index_reduce(self, dim, index, source, reduce, include_self)`.
fn index_reduce(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(0)?;
    let name = cx.str(4)?;
    let Some(reduce) = Reduce::named(name).filter(|r| *r != Reduce::Sum) else {
        return Err(
            cx.error(format!("index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {name}."))
        );
    };
    reduce.check(cx, ty.dtype)?;
    let include_self = cx.bool(5)?;
    let a = along(cx, "index_reduce")?;
    let v = source(cx, "index_reduce()", &a)?;
    let index = checked(cx, a.index, a.size, false, CheckKind::Index, "index out of range in self")?;
    let index = cx.guarded(index)?;
    let dim = a.dim;
    let y = reduce_into(cx.g, a.x, v, reduce, include_self, |g, base, updates, combine| {
        scatter_at(g, base, &[dim], &[index], dim, updates, combine)
    })?;
    finish(cx, y, &ty)
}

fn finish(cx: &mut Cx<'_, '_>, y: Value, ty: &primitives::TensorType) -> Result<()> {
    let y = cx.g.convert(y, ty.dtype)?;
    let y = cx.g.reshape(y, &ty.dims)?;
    cx.out(y);
    Ok(())
}

fn flat_index(cx: &mut Cx<'_, '_>, name: &str, n: i64) -> Result<Value> {
    let index = cx.t(1)?;
    if cx.g.dtype(index) != DType::I64 {
        return Err(
            cx.error(format!("{name}(): Expected a long tensor for index, but got {}", torch_name(cx.g.dtype(index))))
        );
    }
    if n == 0 && cx.g.numel(index) > 0 {
        return Err(Error::index(cx.op(), format!("{name}(): tried to take from an empty tensor")));
    }
    let message = format!("out of range: tried to access index {{}} on a tensor of {n} elements.");
    let index = checked(cx, index, n, true, CheckKind::Index, &message)?;
    narrow(cx.g, index, n)
}

/// `take(self, index)`: elements of the flattened tensor.
fn take(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let index = flat_index(cx, "take", cx.g.numel(x))?;
    let y = take_flat(cx.g, x, index)?;
    cx.out(y);
    Ok(())
}

/// `put(self, index, source, accumulate)`.
fn put(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(0)?;
    let (x, source) = (cx.t(0)?, cx.t(2)?);
    let index = flat_index(cx, "put_", cx.g.numel(x))?;
    let index = cx.guarded(index)?;
    if cx.g.dtype(source) != ty.dtype {
        return Err(cx.error(format!(
            "put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}",
            torch_name(ty.dtype),
            torch_name(cx.g.dtype(source))
        )));
    }
    let (n, m) = (cx.g.numel(source), cx.g.numel(index));
    if n != m {
        return Err(Error::index(
            cx.op(),
            format!(
                "put_(): Expected source and index to have the same number of elements, but got source.numel() = {n}, index.numel() = {m}"
            ),
        ));
    }
    let combine = if cx.bool(3)? { Combine::Add } else { Combine::Set };
    let compute = if combine == Combine::Add { compute_type(ty.dtype) } else { ty.dtype };
    let (x, source) = (cx.g.convert(x, compute)?, cx.g.convert(source, compute)?);
    let y = put_flat(cx.g, x, index, source, combine)?;
    finish(cx, y, &ty)
}
