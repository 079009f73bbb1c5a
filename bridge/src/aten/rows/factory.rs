//! Tensors from sizes and numbers alone.

use crate::Result;
use crate::aten::expr::{Ex, formula};
use crate::aten::promote::Class;
use crate::aten::{Cx, Operand, Row, promote};
use primitives::{DType, Direction, Value};

pub const ROWS: &[Row] = &[
    Row::new("full", full).dynamic(&["fill_value"]).guarded(|n| n.fits_dtype_at(1, 2)),
    Row::new("zeros", |cx| filled(cx, 0)),
    Row::new("ones", |cx| filled(cx, 1)),
    Row::new("scalar_tensor", scalar_tensor).dynamic(&["s"]).guarded(|n| n.fits_dtype_at(0, 1)),
    Row::pointwise("full_like", full_like).dynamic(&["fill_value"]).guarded(|n| n.fits_dtype_at(1, 2)),
    Row::pointwise("ones_like", ones_like),
    Row::new("eye", |cx| eye(cx, 0, 1)),
    Row::new("eye.m", |cx| eye(cx, 1, 2)),
    Row::new("linspace", linspace)
        .dynamic(&["start", "end"])
        .guarded(|n| n.fits_dtype_at(0, 3).and(n.fits_dtype_at(1, 3))),
    Row::new("linspace.Tensor_Tensor", linspace),
    Row::new("linspace.Tensor_Scalar", linspace).dynamic(&["end"]),
    Row::new("linspace.Scalar_Tensor", linspace).dynamic(&["start"]),
    Row::new("logspace.Tensor_Tensor", logspace).dynamic(&["base"]),
    Row::new("logspace.Tensor_Scalar", logspace).dynamic(&["end", "base"]),
    Row::new("logspace.Scalar_Tensor", logspace).dynamic(&["start", "base"]),
    Row::new("logspace", logspace).dynamic(&["start", "end", "base"]),
    // Our own: what every form of `arange` comes to, once the number of elements is known.
    Row::new("_arange", arange).dynamic(&["start", "step"]),
];

/// The dtype that torch gives a tensor made from this number.
fn dtype_of(cx: &Cx<'_, '_>, numbers: &[Operand]) -> DType {
    let default = cx.env.default_dtype;
    numbers.iter().fold(DType::Bool, |d, n| {
        let own = match n.dtype {
            d if d.is_complex() => default.complex_of(),
            d if d.is_float() => default,
            d => d,
        };
        promote::promote_types(d, own)
    })
}

fn spread(cx: &mut Cx<'_, '_>, i: usize, dtype: DType, dims: &[i64]) -> Result<Value> {
    let n = cx.number_as(i, dtype)?;
    Ok(cx.g.broadcast_to(n, dims)?)
}

/// `full(size, fill_value, *, dtype)`.
fn full(cx: &mut Cx<'_, '_>) -> Result<()> {
    let dims = sizes(cx, 0)?;
    let value = cx.operand(1)?;
    let dtype = cx.dtype_arg(2)?.unwrap_or_else(|| dtype_of(cx, &[value]));
    let v = spread(cx, 1, dtype, &dims)?;
    cx.out(v);
    Ok(())
}

/// `size` argument `i`, without negatives.
fn sizes(cx: &Cx<'_, '_>, i: usize) -> Result<Vec<i64>> {
    let dims = cx.ints(i)?;
    match dims.iter().find(|&&n| n < 0) {
        Some(n) => Err(cx.error(format!("Trying to create tensor with negative dimension {n}: {dims:?}"))),
        None => Ok(dims),
    }
}

/// `zeros(size, *, dtype)`, `ones(size, *, dtype)`.
fn filled(cx: &mut Cx<'_, '_>, n: i64) -> Result<()> {
    let dims = sizes(cx, 0)?;
    let dtype = cx.dtype_arg(1)?.unwrap_or(cx.env.default_dtype);
    let v = cx.g.full(dtype, &dims, n)?;
    cx.out(v);
    Ok(())
}

/// `scalar_tensor(s, *, dtype)`: the default dtype unless told.
fn scalar_tensor(cx: &mut Cx<'_, '_>) -> Result<()> {
    let dtype = cx.dtype_arg(1)?.unwrap_or(cx.env.default_dtype);
    let v = cx.number_as(0, dtype)?;
    cx.out(v);
    Ok(())
}

/// `full_like(self, fill_value, *, dtype, ..., memory_format)`.
fn full_like(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(0)?;
    let dtype = cx.dtype_arg(2)?.unwrap_or(ty.dtype);
    let v = spread(cx, 1, dtype, &ty.dims)?;
    cx.lay_out_by(6, ty.dims.len())?;
    cx.out(v);
    Ok(())
}

/// `ones_like(self, *, dtype, ..., memory_format)`.
fn ones_like(cx: &mut Cx<'_, '_>) -> Result<()> {
    let ty = cx.ty(0)?;
    let dtype = cx.dtype_arg(1)?.unwrap_or(ty.dtype);
    let v = cx.g.full(dtype, &ty.dims, 1)?;
    cx.lay_out_by(5, ty.dims.len())?;
    cx.out(v);
    Ok(())
}

/// `eye(n)`, `eye(n, m)`: ones on the diagonal. `columns` is the argument with their number, `dtype` that of the dtype.
fn eye(cx: &mut Cx<'_, '_>, columns: usize, dtype: usize) -> Result<()> {
    let dims = [cx.int(0)?, cx.int(columns)?];
    for (n, what) in dims.iter().zip(["n", "m"]) {
        if *n < 0 {
            return Err(cx.error(format!("{what} must be greater or equal to 0, got {n}")));
        }
    }
    let dtype = cx.dtype_arg(dtype)?.unwrap_or(cx.env.default_dtype);
    let (rows, cols) = (cx.g.iota(DType::I64, &dims, 0)?, cx.g.iota(DType::I64, &dims, 1)?);
    let diagonal = cx.g.compare(rows, cols, Direction::Eq)?;
    let v = cx.g.convert(diagonal, dtype)?;
    cx.out(v);
    Ok(())
}

/// `_arange(n, start, step, *, dtype)`: `start + i * step`, in 64 bits.
fn arange(cx: &mut Cx<'_, '_>) -> Result<()> {
    let n = cx.int(0)?;
    let dtype = cx.dtype_arg(3)?.unwrap_or(cx.env.default_dtype);
    let wide = if dtype.is_float() { DType::F64 } else { DType::I64 };
    let (start, step) = (spread(cx, 1, wide, &[n])?, spread(cx, 2, wide, &[n])?);
    let i = cx.g.iota(wide, &[n], 0)?;
    let v = formula(cx.g, [start, step, i], |[start, step, i]| start + i * step)?;
    let v = cx.g.convert(v, dtype)?;
    cx.out(v);
    Ok(())
}

/// Evenly spaced numbers, from both ends inwards so that both are met exactly; and the dtype asked for.
fn spaced(cx: &mut Cx<'_, '_>, dtype: usize) -> Result<(Value, DType)> {
    let steps = cx.int(2)?;
    if steps < 0 {
        return Err(cx.error("number of steps must be non-negative"));
    }
    let ends = [cx.operand(0)?, cx.operand(1)?];
    if ends.iter().any(|e| e.class == Class::Dim) {
        return Err(cx.error("only 0-dimensional start and end tensors are supported, got one with more dims"));
    }
    let complex = ends.iter().any(|e| e.dtype.is_complex());
    let default = cx.env.default_dtype;
    let default = if complex { default.complex_of() } else { default };
    let dtype = cx.dtype_arg(dtype)?.unwrap_or(default);
    if complex && !dtype.is_complex() {
        return Err(cx.error(format!("inferred dtype {} can't be safely cast to passed dtype {}", default, dtype)));
    }
    let compute = if dtype.is_int() || dtype.is_bool() { DType::F64 } else { promote::compute_type(dtype) };
    let whole = |cx: &mut Cx<'_, '_>, i| -> Result<Value> {
        // An integer result has integer ends.
        let v = cx.number_as(i, if dtype.is_int() { DType::I64 } else { compute })?;
        Ok(cx.g.convert(v, compute)?)
    };
    let (start, end) = (whole(cx, 0)?, whole(cx, 1)?);
    let step = formula(cx.g, [start, end], |[start, end]| {
        let count = start.constant((steps - 1).max(1) as f64);
        // XLA turns a division by a constant, or by a number repeated along dims, into a product with its reciprocal.
        // That is one rounding more, which integers cut off.
        let count = if dtype.is_int() { count + start * 0.0 } else { count };
        (end - start) / count
    })?;
    let dims = [steps];
    let mut spread = [start, end, step];
    for v in &mut spread {
        *v = cx.g.broadcast_to(*v, &dims)?;
    }
    let [start, end, step] = spread;
    let i = cx.g.iota(DType::I64, &dims, 0)?;
    let v = formula(cx.g, [start, end, step, i], |[start, end, step, i]: [Ex<'_>; 4]| {
        if steps == 1 {
            return start;
        }
        let from_end = (i.constant(steps - 1) - i).to(compute);
        i.lt(steps / 2).pick(start + step * i.to(compute), end - step * from_end)
    })?;
    Ok((v, dtype))
}

/// `linspace(start, end, steps, *, dtype)`.
fn linspace(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (v, dtype) = spaced(cx, 3)?;
    let v = cx.g.convert(v, dtype)?;
    cx.out(v);
    Ok(())
}

/// `logspace(start, end, steps, base, *, dtype)`.
fn logspace(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (v, dtype) = spaced(cx, 4)?;
    let (compute, dims) = (cx.g.dtype(v), cx.g.dims(v));
    let base = spread(cx, 3, compute, &dims)?;
    let v = cx.g.power(base, v)?;
    let v = cx.g.convert(v, dtype)?;
    cx.out(v);
    Ok(())
}
