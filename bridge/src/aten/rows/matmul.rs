//! Matrix products, with torch's scaling of sums: `beta * self + alpha * product`.

use crate::aten::{Cx, Row, promote};
use crate::{Error, Result};
use primitives::{DType, Dims, Direction, DotDims, Value};

pub const ROWS: &[Row] = &[
    Row::new("mm", |cx| plain(cx, mm)).precise(),
    Row::new("bmm", |cx| plain(cx, bmm)).precise(),
    Row::new("mv", |cx| plain(cx, mv)).precise(),
    Row::new("dot", |cx| plain(cx, |cx, a, b| dot(cx, a, b, false))).precise(),
    Row::new("vdot", |cx| plain(cx, |cx, a, b| dot(cx, a, b, true))).precise(),
    Row::new("mm.dtype", |cx| widened(cx, mm)).precise(),
    Row::new("bmm.dtype", |cx| widened(cx, bmm)).precise(),
    Row::new("addmm", |cx| add(cx, mm, 3)).dynamic(&["beta", "alpha"]).precise(),
    Row::new("addmv", |cx| add(cx, mv, 3)).dynamic(&["beta", "alpha"]).precise(),
    Row::new("addr", |cx| add(cx, outer, 3)).dynamic(&["beta", "alpha"]),
    Row::new("baddbmm", |cx| add(cx, bmm, 3)).dynamic(&["beta", "alpha"]).precise(),
    Row::new("addbmm", |cx| add(cx, bmm_summed, 3)).dynamic(&["beta", "alpha"]).precise(),
    Row::new("addmm.dtype", |cx| add_widened(cx, mm)).dynamic(&["beta", "alpha"]).precise(),
    Row::new("baddbmm.dtype", |cx| add_widened(cx, bmm)).dynamic(&["beta", "alpha"]).precise(),
    Row::new("linalg_cross", cross),
    Row::new("_addmm_activation", addmm_activation).dynamic(&["beta", "alpha"]).precise(),
];

type Product = fn(&mut Cx<'_, '_>, Value, Value) -> Result<Value>;

/// Product over paired dimensions. Half precision is summed in f32, and the result left so; see [`promote::compute_type`].
///
/// The operands are widened first: CPU plugins fail on some products of bf16 that are summed in f32, and bf16 numbers
/// widened lose nothing in the fastest precision.
pub fn contract(cx: &mut Cx<'_, '_>, a: Value, b: Value, dims: &DotDims) -> Result<Value> {
    let dtype = cx.g.dtype(a);
    let compute = promote::compute_type(dtype);
    if dtype != DType::BF16 {
        return Ok(cx.g.dot_general(a, b, dims, cx.env.precision, Some(compute))?);
    }
    let (a, b) = (cx.g.convert(a, compute)?, cx.g.convert(b, compute)?);
    let precision = super::convolve::precision_for(dtype, cx.env.precision);
    Ok(cx.g.dot_general(a, b, dims, precision, None)?)
}

fn dims(lhs_batch: &[usize], rhs_batch: &[usize], lhs_contract: usize, rhs_contract: usize) -> DotDims {
    DotDims {
        lhs_batch: lhs_batch.to_vec(),
        rhs_batch: rhs_batch.to_vec(),
        lhs_contract: vec![lhs_contract],
        rhs_contract: vec![rhs_contract],
    }
}

/// Both factors have one dtype that numbers have.
fn check_dtypes(cx: &Cx<'_, '_>, a: Value, b: Value) -> Result<()> {
    let (x, y) = (cx.g.dtype(a), cx.g.dtype(b));
    if x != y {
        return Err(cx.error(format!(
            "expected m1 and m2 to have the same dtype, but got: {} != {}",
            promote::c_name(x),
            promote::c_name(y)
        )));
    }
    Ok(())
}

fn no_bool(cx: &Cx<'_, '_>, a: Value) -> Result<()> {
    if cx.g.dtype(a).is_bool() {
        return Err(crate::Error::not_implemented(cx.op(), format!("\"{}\" not implemented for 'Bool'", cx.op())));
    }
    Ok(())
}

fn check_rank(cx: &Cx<'_, '_>, v: Value, rank: usize, what: &str) -> Result<()> {
    let got = cx.g.rank(v);
    if got == rank {
        return Ok(());
    }
    Err(cx.error(match rank {
        1 => format!("Expected 1-D argument {what}, but got {got}-D"),
        2 => format!("{what} must be a matrix, got {got}-D tensor"),
        _ => format!("{what} must be a 3D tensor, got a {got}D tensor"),
    }))
}

/// `[n, k] x [k, m] -> [n, m]`.
fn mm(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    check_rank(cx, a, 2, "self")?;
    check_rank(cx, b, 2, "mat2")?;
    check_dtypes(cx, a, b)?;
    no_bool(cx, a)?;
    let (x, y) = (cx.g.dims(a), cx.g.dims(b));
    if x[1] != y[0] {
        return Err(cannot_multiply(cx, &x, &y));
    }
    contract(cx, a, b, &dims(&[], &[], 1, 0))
}

/// The error of matrices whose inner sizes differ.
pub fn cannot_multiply(cx: &Cx<'_, '_>, a: &[i64], b: &[i64]) -> Error {
    cx.error(format!("mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})", a[0], a[1], b[0], b[1]))
}

/// Two batches of matrices of one dtype, not bool.
fn check_batches(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<()> {
    check_rank(cx, a, 3, "batch1")?;
    check_rank(cx, b, 3, "batch2")?;
    let (x, y) = (cx.g.dtype(a), cx.g.dtype(b));
    if x != y {
        let (x, y) = (promote::torch_name(x), promote::torch_name(y));
        return Err(cx.error(format!("expected scalar type {x} but found {y}")));
    }
    no_bool(cx, a)
}

/// `[b, n, k] x [b, k, m] -> [b, n, m]`.
fn bmm(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    check_batches(cx, a, b)?;
    let (x, y) = (cx.g.dims(a), cx.g.dims(b));
    if x[0] != y[0] || x[2] != y[1] {
        return Err(cx.error(format!(
            "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
            x[0], x[2], y[0], y[1]
        )));
    }
    contract(cx, a, b, &dims(&[0], &[0], 2, 1))
}

/// The sum of `bmm` over the batch: one contraction over both.
fn bmm_summed(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    check_batches(cx, a, b)?;
    let (x, y) = (cx.g.dims(a), cx.g.dims(b));
    if x[0] != y[0] || x[2] != y[1] {
        return Err(cx.error(format!(
            "batch1 and batch2 must have same number of batches and matching inner sizes, got {:?} and {:?}",
            &x[..],
            &y[..]
        )));
    }
    let d = DotDims { lhs_contract: vec![0, 2], rhs_contract: vec![0, 1], ..DotDims::default() };
    contract(cx, a, b, &d)
}

/// `[n, k] x [k] -> [n]`.
fn mv(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    if cx.g.rank(a) != 2 || cx.g.rank(b) != 1 {
        return Err(cx.error(format!("vector + matrix @ vector expected, got 1, {}, {}", cx.g.rank(a), cx.g.rank(b))));
    }
    check_dtypes(cx, a, b)?;
    no_bool(cx, a)?;
    let (x, y) = (cx.g.dims(a), cx.g.dims(b));
    if x[1] != y[0] {
        return Err(cx.error(format!("size mismatch, got mat ({}x{}), vec ({})", x[0], x[1], y[0])));
    }
    contract(cx, a, b, &dims(&[], &[], 1, 0))
}

/// `sum(a * b)` of vectors; `vdot` conjugates `a`.
fn dot(cx: &mut Cx<'_, '_>, a: Value, b: Value, conj: bool) -> Result<Value> {
    let (x, y) = (cx.g.dims(a), cx.g.dims(b));
    if x.len() != 1 || y.len() != 1 {
        return Err(cx.error(format!("1D tensors expected, but got {}D and {}D tensors", x.len(), y.len())));
    }
    if cx.g.dtype(a) != cx.g.dtype(b) {
        return Err(cx.error(format!(
            "dot : expected both vectors to have same dtype, but found {} and {}",
            promote::torch_name(cx.g.dtype(a)),
            promote::torch_name(cx.g.dtype(b))
        )));
    }
    no_bool(cx, a)?;
    if x != y {
        return Err(cx.error(format!(
            "inconsistent tensor size, expected tensor [{}] and src [{}] to have the same number of elements, but got {} \
             and {} elements respectively",
            x[0], y[0], x[0], y[0]
        )));
    }
    let a = if conj && cx.g.dtype(a).is_complex() { cx.g.conj(a)? } else { a };
    contract(cx, a, b, &dims(&[], &[], 0, 0))
}

/// `[n], [m] -> [n, m]`.
fn outer(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    check_rank(cx, a, 1, "vec1")?;
    check_rank(cx, b, 1, "vec2")?;
    let dtype = cx.promote(&[cx.operand_of(a), cx.operand_of(b)]);
    let compute = promote::compute_type(dtype);
    let (n, m) = (cx.g.dims(a)[0], cx.g.dims(b)[0]);
    let (a, b) = (cx.g.convert(a, compute)?, cx.g.convert(b, compute)?);
    let (a, b) = (cx.g.broadcast_in_dim(a, &[n, m], &[0])?, cx.g.broadcast_in_dim(b, &[n, m], &[1])?);
    Ok(if compute.is_bool() { cx.g.and(a, b)? } else { cx.g.multiply(a, b)? })
}

fn plain(cx: &mut Cx<'_, '_>, f: Product) -> Result<()> {
    let (a, b) = (cx.t(0)?, cx.t(1)?);
    let dtype = cx.g.dtype(a);
    let y = f(cx, a, b)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `mm.dtype(self, mat2, out_dtype)`.
fn widened(cx: &mut Cx<'_, '_>, f: Product) -> Result<()> {
    let (a, b) = (cx.t(0)?, cx.t(1)?);
    let dtype = cx.dtype_arg(2)?.unwrap_or(cx.g.dtype(a));
    let y = f(cx, a, b)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `op(self, a, b, *, beta, alpha)`.
fn add(cx: &mut Cx<'_, '_>, f: Product, beta: usize) -> Result<()> {
    let y = add_value(cx, f, beta, None)?;
    cx.out(y);
    Ok(())
}

/// `op.dtype(self, a, b, out_dtype, *, beta, alpha)`: the sum as it was computed, in a wider dtype.
fn add_widened(cx: &mut Cx<'_, '_>, f: Product) -> Result<()> {
    let out = cx.dtype_arg(3)?;
    let y = add_value(cx, f, 4, out)?;
    cx.out(y);
    Ok(())
}

fn add_value(cx: &mut Cx<'_, '_>, f: Product, beta: usize, out: Option<DType>) -> Result<Value> {
    let (x, mut a, mut b) = (cx.t(0)?, cx.t(1)?, cx.t(2)?);
    let operands = [cx.operand(0)?, cx.operand(1)?, cx.operand(2)?];
    let dtype = cx.promote(&operands);
    if cx.op().starts_with("addr") {
        (a, b) = (cx.g.convert(a, dtype)?, cx.g.convert(b, dtype)?);
    } else if cx.g.dtype(x) != cx.g.dtype(a) && out.is_none() {
        return Err(cx.error(format!(
            "self and mat2 must have the same dtype, but got {} and {}",
            promote::torch_name(cx.g.dtype(x)),
            promote::torch_name(cx.g.dtype(b))
        )));
    }
    let product = f(cx, a, b)?;
    let compute = promote::compute_type(dtype);
    let product = cx.g.convert(product, compute)?;
    let shape = cx.g.dims(product);
    let product = scaled(cx, product, beta + 1, dtype)?;
    let x = cx.g.convert(x, compute)?;
    let x = scaled_or_ignored(cx, x, beta, dtype)?;
    let x = expand(cx, x, &shape)?;
    let y = cx.g.add(product, x)?;
    Ok(cx.g.convert(y, out.unwrap_or(dtype))?)
}

/// `v` times number argument `i`; nothing for the int 1.
fn scaled(cx: &mut Cx<'_, '_>, v: Value, i: usize, dtype: DType) -> Result<Value> {
    if cx.scalar_is_one(i) {
        return Ok(v);
    }
    check_number(cx, i, dtype)?;
    let by = cx.number_as(i, cx.g.dtype(v))?;
    let by = cx.g.broadcast_to(by, &cx.g.dims(v))?;
    Ok(if cx.g.dtype(v).is_bool() { cx.g.and(v, by)? } else { cx.g.multiply(v, by)? })
}

/// As [`scaled`], but 0 even where `v` is NaN when the factor is 0: torch does not read `self` then.
fn scaled_or_ignored(cx: &mut Cx<'_, '_>, v: Value, i: usize, dtype: DType) -> Result<Value> {
    if cx.scalar_is_one(i) {
        return Ok(v);
    }
    let y = scaled(cx, v, i, dtype)?;
    if cx.g.dtype(v).is_bool() {
        return Ok(y);
    }
    let by = cx.number_as(i, cx.g.dtype(v))?;
    let zero = cx.g.zeros_like(by)?;
    let off = cx.g.compare(by, zero, Direction::Eq)?;
    let zeros = cx.g.zeros_like(y)?;
    Ok(cx.g.select(off, zeros, y)?)
}

fn check_number(cx: &Cx<'_, '_>, i: usize, dtype: DType) -> Result<()> {
    let number = cx.operand(i)?.dtype;
    // Only `addr` refuses; the others truncate.
    if cx.op().starts_with("addr") && promote::category(number) > promote::category(dtype).max(1) {
        let name = if i == 3 { "beta" } else { "alpha" };
        return Err(
            cx.error(format!("For integral input tensors, argument {name} must not be a floating point number."))
        );
    }
    Ok(())
}

/// `v` broadcast to `shape`, with torch's error.
pub fn expand(cx: &mut Cx<'_, '_>, v: Value, shape: &Dims) -> Result<Value> {
    let from = cx.g.dims(v);
    cx.g.broadcast_to(v, shape).map_err(|_| {
        cx.error(format!(
            "The expanded size of the tensor must match the existing size. Target sizes: {:?}. Tensor sizes: {:?}",
            &shape[..],
            &from[..]
        ))
    })
}

/// `_addmm_activation(self, mat1, mat2, *, beta, alpha, use_gelu)`: `relu` or tanh-`gelu` of `addmm`.
fn addmm_activation(cx: &mut Cx<'_, '_>) -> Result<()> {
    let gelu = cx.bool(5)?;
    let y = add_value(cx, mm, 3, None)?;
    let dtype = cx.g.dtype(y);
    let g = &mut *cx.g;
    let x = g.convert(y, promote::compute_type(dtype))?;
    let y = if gelu {
        let c = |g: &mut primitives::Graph, n: f64| g.full_like(x, n);
        let (cubic, root, half, one) =
            (c(g, 0.044715)?, c(g, (2.0 / std::f64::consts::PI).sqrt())?, c(g, 0.5)?, c(g, 1.0)?);
        let x2 = g.multiply(x, x)?;
        let t = g.multiply(cubic, x2)?;
        let t = g.add(t, one)?;
        let t = g.multiply(t, x)?;
        let t = g.multiply(t, root)?;
        let t = g.tanh(t)?;
        let t = g.add(t, one)?;
        let h = g.multiply(x, half)?;
        g.multiply(h, t)?
    } else {
        let zero = g.zeros_like(x)?;
        g.maximum(x, zero)?
    };
    let y = g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// `linalg_cross(self, other, *, dim)`: the vector product along a dimension of size 3.
fn cross(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (a, b) = (cx.operand(0)?, cx.operand(1)?);
    let dtype = cx.promote(&[a, b]);
    let (a, b) = (cx.value_as(&a, dtype)?, cx.value_as(&b, dtype)?);
    let (ra, rb) = (cx.g.rank(a), cx.g.rank(b));
    if ra != rb {
        return Err(
            cx.error(format!("linalg.cross: inputs must have the same number of dimensions. Got {ra} and {rb}."))
        );
    }
    let dim = super::axes::wrap(cx, cx.int(2)?, ra)?;
    if ra == 0 || cx.g.dims(a)[dim] != 3 || cx.g.dims(b)[dim] != 3 {
        return Err(cx.error(format!("linalg.cross: inputs dimension {dim} must have length 3.")));
    }
    let (a, b) = crate::aten::broadcast::pair(cx, a, b)?;
    let g = &mut *cx.g;
    // Element i of the result is a[i+1] b[i+2] - a[i+2] b[i+1].
    let turned = |g: &mut primitives::Graph, x: Value, by: i64| -> Result<Value> {
        let dims = g.dims(x);
        let (mut split, none) = (vec![0; dims.len()], vec![0; dims.len()]);
        let ones = vec![1; dims.len()];
        split[dim] = by;
        let mut first = dims.to_vec();
        first[dim] = by;
        let (tail, head) = (g.slice(x, &split, &dims, &ones)?, g.slice(x, &none, &first, &ones)?);
        Ok(g.concatenate(&[tail, head], dim)?)
    };
    let (a1, a2, b1, b2) = (turned(g, a, 1)?, turned(g, a, 2)?, turned(g, b, 1)?, turned(g, b, 2)?);
    let (x, y) = (g.multiply(a1, b2)?, g.multiply(a2, b1)?);
    let y = g.subtract(x, y)?;
    cx.out(y);
    Ok(())
}
