//! Reductions: sums, products, logic, extremes.

use super::axes::Axes;
use crate::aten::cast::cast;
use crate::aten::{Cx, Row, exact, promote};
use crate::{Error, Result};
use primitives::{DType, Direction, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::new("sum", |cx| sum(cx, None, 1)),
    Row::new("sum.dim_IntList", |cx| sum(cx, Some((1, 2)), 3)),
    Row::new("mean", |cx| mean(cx, None, 1)),
    Row::new("mean.dim", |cx| mean(cx, Some((1, 2)), 3)),
    Row::new("nansum", nansum),
    Row::new("prod", |cx| prod(cx, None, 1)),
    Row::new("prod.dim_int", |cx| prod(cx, Some((1, 2)), 3)),
    Row::new("any", |cx| logic(cx, None, Graph::reduce_or)),
    Row::new("any.dim", |cx| logic(cx, Some((1, 2)), Graph::reduce_or)),
    Row::new("any.dims", |cx| logic(cx, Some((1, 2)), Graph::reduce_or)),
    Row::new("all", |cx| logic(cx, None, Graph::reduce_and)),
    Row::new("all.dim", |cx| logic(cx, Some((1, 2)), Graph::reduce_and)),
    Row::new("all.dims", |cx| logic(cx, Some((1, 2)), Graph::reduce_and)),
    Row::new("amax", |cx| extreme(cx, "amax", Some((1, 2)), Graph::reduce_max)),
    Row::new("amin", |cx| extreme(cx, "amin", Some((1, 2)), Graph::reduce_min)),
    Row::new("max", |cx| extreme(cx, "max", None, Graph::reduce_max)),
    Row::new("min", |cx| extreme(cx, "min", None, Graph::reduce_min)),
    Row::new("aminmax", aminmax),
    Row::new("count_nonzero", |cx| count_nonzero(cx, 1)),
    Row::new("count_nonzero.dim_IntList", |cx| count_nonzero(cx, 1)),
    Row::new("trace", trace),
];

type Reduce = fn(&mut Graph, Value, &[usize]) -> primitives::Result<Value>;

/// The axes of arguments (dim, keepdim), or all.
pub fn axes(cx: &Cx<'_, '_>, x: Value, args: Option<(usize, usize)>) -> Result<Axes> {
    match args {
        Some((dim, keepdim)) => Axes::of(cx, x, dim, keepdim),
        None => Ok(Axes::all(&cx.g.dims(x))),
    }
}

/// Dtype of a sum or product: i64 for bool and integers unless `dtype` says otherwise.
pub fn sum_dtype(cx: &Cx<'_, '_>, x: Value, dtype: usize) -> Result<DType> {
    let own = cx.g.dtype(x);
    Ok(cx.dtype_arg(dtype)?.unwrap_or(if promote::category(own) < 2 { DType::I64 } else { own }))
}

/// `sum(self, dim, keepdim, *, dtype)`; half precision is summed in f32.
fn sum(cx: &mut Cx<'_, '_>, dims: Option<(usize, usize)>, dtype: usize) -> Result<()> {
    let x = cx.t(0)?;
    let ax = axes(cx, x, dims)?;
    let dtype = sum_dtype(cx, x, dtype)?;
    let y = total(cx.g, x, &ax, dtype, Graph::reduce_sum)?;
    cx.out(y);
    Ok(())
}

/// Reduces in the compute dtype of `dtype`; the result in `dtype`, with the axes' shape.
fn total(g: &mut Graph, x: Value, ax: &Axes, dtype: DType, reduce: Reduce) -> Result<Value> {
    let x = nonzero_for_bool(g, x, dtype)?;
    let x = cast(g, x, promote::compute_type(dtype))?;
    let y = reduce(g, x, &ax.dims)?;
    let y = g.convert(y, dtype)?;
    ax.finish(g, y)
}

/// A cast to bool is `x != 0`.
fn nonzero_for_bool(g: &mut Graph, x: Value, dtype: DType) -> Result<Value> {
    if dtype == DType::Bool { nonzero(g, x) } else { Ok(x) }
}

/// `x != 0`.
pub fn nonzero(g: &mut Graph, x: Value) -> Result<Value> {
    if g.dtype(x) == DType::Bool {
        return Ok(x);
    }
    let zero = g.zeros_like(x)?;
    Ok(g.compare(x, zero, Direction::Ne)?)
}

/// `mean(self, dim, keepdim, *, dtype)`: floating and complex only.
fn mean(cx: &mut Cx<'_, '_>, dims: Option<(usize, usize)>, dtype: usize) -> Result<()> {
    let x = cx.t(0)?;
    let given = cx.dtype_arg(dtype)?;
    let dtype = given.unwrap_or(cx.g.dtype(x));
    if promote::category(dtype) < 2 {
        let what = if given.is_some() { "Optional dtype" } else { "Input dtype" };
        // torch raises NotImplementedError here, as the CPU does after a fallback.
        return Err(Error::not_implemented(
            cx.op(),
            format!(
                "mean(): could not infer output dtype. {what} must be either a floating point or complex dtype. Got: {}",
                promote::torch_name(dtype)
            ),
        ));
    }
    let ax = axes(cx, x, dims)?;
    let compute = promote::compute_type(dtype);
    let x = cx.g.convert(x, compute)?;
    let y = mean_of(cx.g, x, &ax)?;
    let y = cx.g.convert(y, dtype)?;
    let y = ax.finish(cx.g, y)?;
    cx.out(y);
    Ok(())
}

/// Mean over the axes, without keepdim.
pub fn mean_of(g: &mut Graph, x: Value, ax: &Axes) -> Result<Value> {
    let y = g.reduce_sum(x, &ax.dims)?;
    let n = g.full_like(y, ax.count())?;
    Ok(exact::divide(g, y, n)?)
}

/// `nansum(self, dim, keepdim, *, dtype)`: NaN counts as 0.
fn nansum(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    if cx.g.dtype(x).is_complex() {
        return Err(cx.error("nansum does not support complex inputs"));
    }
    let ax = Axes::of(cx, x, 1, 2)?;
    let dtype = sum_dtype(cx, x, 3)?;
    if cx.g.dtype(x).is_float() && !dtype.is_float() {
        return Err(super::util::not_for(cx, "nansum_cpu", dtype));
    }
    let x = without_nan(cx.g, x)?;
    let y = total(cx.g, x, &ax, dtype, Graph::reduce_sum)?;
    cx.out(y);
    Ok(())
}

/// `x` with 0 where it is NaN.
fn without_nan(g: &mut Graph, x: Value) -> Result<Value> {
    if !g.dtype(x).is_float() {
        return Ok(x);
    }
    let nan = g.compare(x, x, Direction::Ne)?;
    let zero = g.zeros_like(x)?;
    Ok(g.select(nan, zero, x)?)
}

/// `prod(self, dim, keepdim, *, dtype)`.
fn prod(cx: &mut Cx<'_, '_>, dims: Option<(usize, usize)>, dtype: usize) -> Result<()> {
    let x = cx.t(0)?;
    let ax = axes(cx, x, dims)?;
    let dtype = sum_dtype(cx, x, dtype)?;
    let y = total(cx.g, x, &ax, dtype, Graph::reduce_prod)?;
    cx.out(y);
    Ok(())
}

/// `any` and `all`: bool, but u8 for u8, as torch keeps it. An empty `dim` list reduces nothing.
fn logic(cx: &mut Cx<'_, '_>, dims: Option<(usize, usize)>, reduce: Reduce) -> Result<()> {
    let x = cx.t(0)?;
    let out = if cx.g.dtype(x) == DType::U8 { DType::U8 } else { DType::Bool };
    let y = nonzero(cx.g, x)?;
    let nothing = dims.is_some_and(|(d, _)| matches!(cx.opt_ints(d), Ok(Some(v)) if v.is_empty()));
    let y = if nothing {
        y
    } else {
        let ax = axes(cx, x, dims)?;
        let y = reduce(cx.g, y, &ax.dims)?;
        ax.finish(cx.g, y)?
    };
    let y = cx.g.convert(y, out)?;
    cx.out(y);
    Ok(())
}

/// `amax`, `amin`, `max`, `min` of all; NaN wins.
fn extreme(cx: &mut Cx<'_, '_>, name: &str, dims: Option<(usize, usize)>, reduce: Reduce) -> Result<()> {
    let x = cx.t(0)?;
    check_ordered(cx, x, name)?;
    let ax = axes(cx, x, dims)?;
    let given = match dims {
        Some((d, _)) => !cx.opt_ints(d)?.unwrap_or_default().is_empty(),
        None => false,
    };
    ax.check_not_empty(cx, name, given)?;
    let y = reduce(cx.g, x, &ax.dims)?;
    let y = ax.finish(cx.g, y)?;
    cx.out(y);
    Ok(())
}

/// Complex numbers have no order.
pub fn check_ordered(cx: &Cx<'_, '_>, x: Value, name: &str) -> Result<()> {
    if cx.g.dtype(x).is_complex() {
        return Err(Error::runtime(cx.op(), format!("{name}(): does not support complex input")));
    }
    Ok(())
}

/// `aminmax(self, *, dim, keepdim)`: both extremes.
fn aminmax(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    check_ordered(cx, x, "aminmax")?;
    let dim = cx.opt_int(1)?;
    let list = dim.map(|d| vec![d]);
    let ax = Axes::new(cx, &cx.g.dims(x), list.as_deref(), cx.bool(2)?)?;
    if dim.is_none() && cx.g.numel(x) == 0 {
        return Err(
            cx.error("aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.")
        );
    }
    ax.check_not_empty(cx, "aminmax", dim.is_some())?;
    for reduce in [Graph::reduce_min as Reduce, Graph::reduce_max as Reduce] {
        let y = reduce(cx.g, x, &ax.dims)?;
        let y = ax.finish(cx.g, y)?;
        cx.out(y);
    }
    Ok(())
}

/// Number of elements that are not zero, i64.
fn count_nonzero(cx: &mut Cx<'_, '_>, dim: usize) -> Result<()> {
    let x = cx.t(0)?;
    let dims = cx.opt_ints(dim)?;
    let ax = Axes::new(cx, &cx.g.dims(x), dims.as_deref(), false)?;
    let y = nonzero(cx.g, x)?;
    let y = total(cx.g, y, &ax, DType::I64, Graph::reduce_sum)?;
    cx.out(y);
    Ok(())
}

/// Sum of a matrix's main diagonal: every `columns + 1`-th element of its rows laid end to end.
fn trace(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let dims = cx.g.dims(x);
    if dims.len() != 2 {
        return Err(cx.error("trace: expected a matrix"));
    }
    let (n, step) = (dims[0].min(dims[1]), dims[1] + 1);
    let flat = cx.g.reshape(x, &[dims[0] * dims[1]])?;
    let diagonal = if n == 0 { flat } else { cx.g.slice(flat, &[0], &[(n - 1) * step + 1], &[step])? };
    let dtype = if promote::category(cx.g.dtype(x)) < 2 { DType::I64 } else { cx.g.dtype(x) };
    let y = total(cx.g, diagonal, &Axes::all(&[n]), dtype, Graph::reduce_sum)?;
    cx.out(y);
    Ok(())
}
