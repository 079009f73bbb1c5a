//! Cumulative sums, products and extremes.

use super::arg_reduce::worst;
use super::axes::wrap;
use super::reduce::{check_ordered, sum_dtype};
use super::scan::{scan, scan_in_order};
use crate::Result;
use crate::aten::cast::cast;
use crate::aten::{Cx, Row, promote};
use primitives::{DType, Direction, Graph, Number, Value};

pub const ROWS: &[Row] = &[
    Row::new("cumsum", |cx| fold(cx, Number::Int(0), Graph::add)),
    Row::new("cumprod", |cx| fold(cx, Number::Int(1), Graph::multiply)),
    Row::new("cummax", |cx| extreme(cx, "cummax", Direction::Ge)),
    Row::new("cummin", |cx| extreme(cx, "cummin", Direction::Le)),
    Row::new("logcumsumexp", logcumsumexp),
    Row::new("_logcumsumexp", logcumsumexp),
];

type Op = fn(&mut Graph, Value, Value) -> primitives::Result<Value>;

/// `cumsum(self, dim, *, dtype)`; half precision is accumulated in f32.
fn fold(cx: &mut Cx<'_, '_>, identity: Number, op: Op) -> Result<()> {
    let x = cx.t(0)?;
    let dim = wrap(cx, cx.int(1)?, cx.g.rank(x))?;
    let dtype = sum_dtype(cx, x, 2)?;
    let x = if dtype == DType::Bool { super::reduce::nonzero(cx.g, x)? } else { x };
    let v = cast(cx.g, x, promote::compute_type(dtype))?;
    let y = if cx.g.rank(v) == 0 {
        v
    } else {
        scan(cx.g, &[v], &[identity], dim, &|g, a, b| Ok(vec![op(g, a[0], b[0])?]))?[0]
    };
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `cummax(self, dim)`: the extreme so far and its last index. NaN, once met, stays.
fn extreme(cx: &mut Cx<'_, '_>, name: &str, better: Direction) -> Result<()> {
    let x = cx.t(0)?;
    check_ordered(cx, x, name)?;
    let (dims, dtype) = (cx.g.dims(x), cx.g.dtype(x));
    let dim = wrap(cx, cx.int(1)?, dims.len())?;
    if dims.is_empty() {
        cx.out(x);
        let zero = cx.g.scalar(DType::I64, 0)?;
        cx.out(zero);
        return Ok(());
    }
    let v = if dtype.is_bool() { cx.g.convert(x, DType::U8)? } else { x };
    let float = dtype.is_float();
    let strict = if better == Direction::Ge { Direction::Gt } else { Direction::Lt };
    let identity = worst(cx.g.dtype(v), strict);
    let pick: Op = if better == Direction::Ge { Graph::maximum } else { Graph::minimum };
    let best = scan(cx.g, &[v], &[identity], dim, &|g, a, b| Ok(vec![pick(g, a[0], b[0])?]))?[0];
    // Where an element is the extreme so far, its place counts; places only grow.
    let g = &mut *cx.g;
    let mut record = g.compare(v, best, Direction::Eq)?;
    if float {
        let nan = g.compare(v, v, Direction::Ne)?;
        record = g.or(record, nan)?;
    }
    let small = dims[dim] <= i32::MAX as i64;
    let index = g.iota(if small { DType::I32 } else { DType::I64 }, &dims, dim)?;
    let zero = g.zeros_like(index)?;
    let index = g.select(record, index, zero)?;
    let last = scan(g, &[index], &[Number::Int(0)], dim, &|g, a, b| Ok(vec![g.maximum(a[0], b[0])?]))?[0];
    let last = g.convert(last, DType::I64)?;
    let y = g.convert(best, dtype)?;
    cx.out(y);
    cx.out(last);
    Ok(())
}

/// `logcumsumexp(self, dim)`: the scan of `log(exp(a) + exp(b))`.
fn logcumsumexp(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let dtype = cx.g.dtype(x);
    if promote::category(dtype) < 2 {
        return Err(crate::Error::not_implemented(
            cx.op(),
            format!("\"logcumsumexp_out_cpu\" not implemented for '{}'", promote::torch_name(dtype)),
        ));
    }
    let dim = wrap(cx, cx.int(1)?, cx.g.rank(x))?;
    let v = cx.g.convert(x, promote::compute_type(dtype))?;
    let y = if cx.g.rank(v) == 0 {
        v
    } else if dtype.is_complex() {
        scan_in_order(cx.g, v, dim, log_add_exp_complex)?
    } else {
        scan(cx.g, &[v], &[Number::Float(f64::NEG_INFINITY)], dim, &|g, a, b| Ok(vec![log_add_exp(g, a[0], b[0])?]))?[0]
    };
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `max(a, b) + log(1 + exp(-|a - b|))`; where both are the same infinity, that.
fn log_add_exp(g: &mut Graph, a: Value, b: Value) -> Result<Value> {
    let max = g.maximum(a, b)?;
    let same = g.compare(a, b, Direction::Eq)?;
    let finite = g.is_finite(a)?;
    let infinite = g.not(finite)?;
    let stuck = g.and(same, infinite)?;
    let d = g.subtract(a, b)?;
    let d = g.abs(d)?;
    let d = g.neg(d)?;
    let e = g.exp(d)?;
    let l = g.log1p(e)?;
    let y = g.add(max, l)?;
    Ok(g.select(stuck, a, y)?)
}

/// The same of complex numbers: the one with the larger real part leads; one with real part -inf adds nothing.
fn log_add_exp_complex(g: &mut Graph, a: Value, b: Value) -> Result<Value> {
    let (ra, rb) = (g.real(a)?, g.real(b)?);
    let first = g.compare(ra, rb, Direction::Ge)?;
    let (max, min) = (g.select(first, a, b)?, g.select(first, b, a)?);
    let low = g.real(min)?;
    let none = g.full_like(low, f64::NEG_INFINITY)?;
    let nothing = g.compare(low, none, Direction::Eq)?;
    let d = g.subtract(min, max)?;
    let e = g.exp(d)?;
    let l = g.log1p(e)?;
    let y = g.add(max, l)?;
    Ok(g.select(nothing, max, y)?)
}
