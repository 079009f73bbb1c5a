//! Margin losses over classes.

use super::losses::{Reduction, reduced, reduction};
use super::util::check_real_float;
use crate::Result;
use crate::aten::cx::CheckKind;
use crate::aten::{Cx, Row, exact, promote};
use primitives::{DType, Direction, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::new("multi_margin_loss", multi_margin).dynamic(&["margin"]),
    Row::new("multi_margin_loss_backward", multi_margin_backward).dynamic(&["margin"]),
    Row::new("multilabel_margin_loss_forward", multilabel),
    Row::new("multilabel_margin_loss_backward", multilabel_backward),
];

/// Rows and classes of an input of one or two dimensions.
fn rows_and_classes(cx: &Cx<'_, '_>, dims: &[i64]) -> Result<(i64, i64)> {
    match *dims {
        [] => Ok((1, 1)),
        [c] if c != 0 => Ok((1, c)),
        [n, c] if c != 0 => Ok((n, c)),
        _ => Err(
            cx.error(format!("Expected non-empty vector or matrix with optional 0-dim batch size, but got: {dims:?}"))
        ),
    }
}

/// What both passes of `multi_margin_loss` need: per class the margin left over, which classes count, the weights.
struct Margins {
    left: Value,
    counts: Value,
    target: Value,
    weight: Option<Value>,
    p: f64,
    rows: i64,
    classes: i64,
}

fn margins(cx: &mut Cx<'_, '_>, first: usize) -> Result<Margins> {
    let (x, t) = (cx.t(first)?, cx.t(first + 1)?);
    let p = cx.float(first + 2)?;
    let weight = cx.opt_t(first + 4)?;
    if p != 1.0 && p != 2.0 {
        return Err(cx.error("only p == 1 and p == 2 supported"));
    }
    check_real_float(cx, "multi_margin_loss_cpu_kernel", cx.g.dtype(x))?;
    let dims = cx.g.dims(x);
    let (n, c) = rows_and_classes(cx, &dims)?;
    if cx.g.numel(t) != n || cx.g.rank(t) > 1 {
        return Err(cx.error(format!("inconsistent target size, expected {n} but got {:?}", &cx.g.dims(t)[..])));
    }
    if cx.g.dtype(t) != DType::I64 {
        return Err(cx.error(format!("expected scalar type Long but found {}", promote::torch_name(cx.g.dtype(t)))));
    }
    if let Some(w) = weight
        && cx.g.dims(w)[..] != [c]
    {
        return Err(cx.error(format!("inconsistent weight size, expected {c} but got {:?}", &cx.g.dims(w)[..])));
    }
    let compute = promote::compute_type(cx.g.dtype(x));
    let t = cx.g.reshape(t, &[n])?;
    let t = cx.check_index(t, c, CheckKind::Runtime, "target out of range")?;
    let margin = cx.number_as(first + 3, compute)?;
    let g = &mut *cx.g;
    let x = g.reshape(x, &[n, c])?;
    let x = g.convert(x, compute)?;
    let class = g.iota(DType::I64, &[n, c], 1)?;
    let wide_t = g.broadcast_in_dim(t, &[n, c], &[0])?;
    let target = g.compare(class, wide_t, Direction::Eq)?;
    let zero = g.zeros_like(x)?;
    let own = g.select(target, x, zero)?;
    let own = g.reduce_sum(own, &[1])?;
    let own = g.broadcast_in_dim(own, &[n, c], &[0])?;
    let m = g.broadcast_to(margin, &[n, c])?;
    let left = g.subtract(m, own)?;
    let left = g.add(left, x)?;
    let positive = g.compare(left, zero, Direction::Gt)?;
    let other = g.not(target)?;
    let counts = g.and(positive, other)?;
    let weight = match weight {
        None => None,
        Some(w) => {
            let w = g.convert(w, compute)?;
            let w = g.broadcast_in_dim(w, &[n, c], &[1])?;
            let w = g.select(target, w, zero)?;
            let w = g.reduce_sum(w, &[1])?;
            Some(g.broadcast_in_dim(w, &[n, c], &[0])?)
        }
    };
    Ok(Margins { left, counts, target, weight, p, rows: n, classes: c })
}

/// `multi_margin_loss(self, target, p, margin, weight, reduction)`:
/// `sum over other classes of weight[t] max(0, margin - x[t] + x[c])^p / classes`.
fn multi_margin(cx: &mut Cx<'_, '_>) -> Result<()> {
    let how = reduction(cx, 5)?;
    let ty = cx.ty(0)?;
    let m = margins(cx, 0)?;
    let g = &mut *cx.g;
    let mut v = if m.p == 1.0 { m.left } else { g.multiply(m.left, m.left)? };
    if let Some(w) = m.weight {
        v = g.multiply(v, w)?;
    }
    let zero = g.zeros_like(v)?;
    let v = g.select(m.counts, v, zero)?;
    let v = g.reduce_sum(v, &[1])?;
    let c = g.full_like(v, m.classes)?;
    let v = exact::divide(g, v, c)?;
    let y = shaped(g, v, how, ty.dims.len())?;
    let y = g.convert(y, ty.dtype)?;
    cx.out(y);
    Ok(())
}

/// Losses `[n]` reduced; one unbatched row is a scalar.
fn shaped(g: &mut Graph, v: Value, how: Reduction, rank: usize) -> Result<Value> {
    let y = reduced(g, v, how)?;
    Ok(if how == Reduction::None && rank < 2 { g.reshape(y, &[])? } else { y })
}

/// The gradient of the result as one number a row, over the number of rows for a mean.
fn row_grad(g: &mut Graph, grad: Value, how: Reduction, n: i64, c: i64, dtype: DType) -> Result<Value> {
    let grad = g.convert(grad, dtype)?;
    let shape: &[i64] = if g.rank(grad) == 0 { &[] } else { &[n] };
    let mut grad = g.reshape(grad, shape)?;
    if how == Reduction::Mean {
        let count = g.full_like(grad, n)?;
        grad = exact::divide(g, grad, count)?;
    }
    let map: &[usize] = if shape.is_empty() { &[] } else { &[0] };
    Ok(g.broadcast_in_dim(grad, &[n, c], map)?)
}

/// `multi_margin_loss_backward(grad, self, target, p, margin, weight, reduction)`.
fn multi_margin_backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let how = reduction(cx, 6)?;
    let grad = cx.t(0)?;
    let ty = cx.ty(1)?;
    let m = margins(cx, 1)?;
    let g = &mut *cx.g;
    let mut slope = if m.p == 1.0 { g.ones_like(m.left)? } else { g.add(m.left, m.left)? };
    if let Some(w) = m.weight {
        slope = g.multiply(slope, w)?;
    }
    let zero = g.zeros_like(slope)?;
    let c = g.full_like(slope, m.classes)?;
    let slope = exact::divide(g, slope, c)?;
    let slope = g.select(m.counts, slope, zero)?;
    let total = g.reduce_sum(slope, &[1])?;
    let total = g.neg(total)?;
    let total = g.broadcast_in_dim(total, &[m.rows, m.classes], &[0])?;
    let slope = g.select(m.target, total, slope)?;
    let grad = row_grad(g, grad, how, m.rows, m.classes, g.dtype(slope))?;
    let y = g.multiply(slope, grad)?;
    let y = g.reshape(y, &ty.dims)?;
    let y = g.convert(y, ty.dtype)?;
    cx.out(y);
    Ok(())
}

/// Per row: `[n, c]` of the input, and for each place of the target list (up to its first negative) which class it is.
struct Labels {
    x: Value,
    /// `[n, c]`: classes that are targets.
    is_target: Value,
    /// `[n, c]`: places of the list that hold a target.
    listed: Value,
    /// `[n, c]`: the class at each place.
    t: Value,
    rows: i64,
    classes: i64,
}

fn labels(cx: &mut Cx<'_, '_>, first: usize) -> Result<Labels> {
    let (x, t) = (cx.t(first)?, cx.t(first + 1)?);
    check_real_float(cx, "multilabel_margin_loss_forward_out_frame", cx.g.dtype(x))?;
    let dims = cx.g.dims(x);
    let (n, c) = rows_and_classes(cx, &dims)?;
    if cx.g.numel(t) != n * c {
        return Err(cx.error(format!(
            "inconsistent target size: {:?} for input of size: {:?}",
            &cx.g.dims(t)[..],
            &dims[..]
        )));
    }
    if cx.g.dtype(t) != DType::I64 {
        return Err(cx.error(format!("expected scalar type Long but found {}", promote::torch_name(cx.g.dtype(t)))));
    }
    let t = cx.g.reshape(t, &[n, c])?;
    let zero = cx.g.zeros_like(t)?;
    let (low, high) = (cx.g.full_like(t, -1)?, cx.g.full_like(t, c)?);
    let under = cx.g.compare(t, low, Direction::Lt)?;
    let over = cx.g.compare(t, high, Direction::Ge)?;
    let bad = cx.g.or(under, over)?;
    cx.check(bad, t, CheckKind::Runtime, "multilabel_margin_loss: target {} is out of range")?;
    let g = &mut *cx.g;
    let x = g.reshape(x, &[n, c])?;
    let x = g.convert(x, promote::compute_type(g.dtype(x)))?;
    // The list ends at its first negative entry.
    let ends = g.compare(t, zero, Direction::Lt)?;
    let ends = g.convert(ends, DType::I32)?;
    let ended =
        super::scan::scan(g, &[ends], &[primitives::Number::Int(0)], 1, &|g, a, b| Ok(vec![g.maximum(a[0], b[0])?]))?
            [0];
    let none = g.zeros_like(ended)?;
    let listed = g.compare(ended, none, Direction::Eq)?;
    let hit = pairs(g, t, listed, n, c)?;
    let hit = g.convert(hit, DType::I32)?;
    let hits = g.reduce_max(hit, &[1])?;
    let none = g.zeros_like(hits)?;
    let is_target = g.compare(hits, none, Direction::Gt)?;
    Ok(Labels { x, is_target, listed, t, rows: n, classes: c })
}

/// `[n, place, class]`: the listed place holds the class.
fn pairs(g: &mut Graph, t: Value, listed: Value, n: i64, c: i64) -> Result<Value> {
    let shape = [n, c, c];
    let class = g.iota(DType::I64, &shape, 2)?;
    let t = g.broadcast_in_dim(t, &shape, &[0, 1])?;
    let hit = g.compare(class, t, Direction::Eq)?;
    let listed = g.broadcast_in_dim(listed, &shape, &[0, 1])?;
    Ok(g.and(hit, listed)?)
}

/// `[n, place, class]`: the hinge `1 - x[target at place] + x[class]`, and where it counts.
fn hinges(g: &mut Graph, l: &Labels) -> Result<(Value, Value, Value)> {
    let shape = [l.rows, l.classes, l.classes];
    let hit = pairs(g, l.t, l.listed, l.rows, l.classes)?;
    let x = g.broadcast_in_dim(l.x, &shape, &[0, 2])?;
    let zero = g.zeros_like(x)?;
    let own = g.select(hit, x, zero)?;
    let own = g.reduce_sum(own, &[2])?;
    let own = g.broadcast_in_dim(own, &shape, &[0, 1])?;
    let one = g.ones_like(x)?;
    let h = g.subtract(one, own)?;
    let h = g.add(h, x)?;
    let positive = g.compare(h, zero, Direction::Gt)?;
    let target = g.broadcast_in_dim(l.is_target, &shape, &[0, 2])?;
    let other = g.not(target)?;
    let listed = g.broadcast_in_dim(l.listed, &shape, &[0, 1])?;
    let counts = g.and(positive, other)?;
    let counts = g.and(counts, listed)?;
    Ok((h, counts, hit))
}

/// `multilabel_margin_loss_forward(self, target, reduction)` -> loss, is_target.
fn multilabel(cx: &mut Cx<'_, '_>) -> Result<()> {
    let how = reduction(cx, 2)?;
    let (ty, tt) = (cx.ty(0)?, cx.ty(1)?);
    let l = labels(cx, 0)?;
    let g = &mut *cx.g;
    let (h, counts, _) = hinges(g, &l)?;
    let zero = g.zeros_like(h)?;
    let v = g.select(counts, h, zero)?;
    let v = g.reduce_sum(v, &[1, 2])?;
    let c = g.full_like(v, l.classes)?;
    let v = exact::divide(g, v, c)?;
    let y = shaped(g, v, how, ty.dims.len())?;
    let y = g.convert(y, ty.dtype)?;
    let t = g.convert(l.is_target, ty.dtype)?;
    let t = g.reshape(t, &tt.dims)?;
    cx.out(y);
    cx.out(t);
    Ok(())
}

/// `multilabel_margin_loss_backward(grad, self, target, reduction, is_target)`.
fn multilabel_backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let how = reduction(cx, 3)?;
    let grad = cx.t(0)?;
    let ty = cx.ty(1)?;
    let l = labels(cx, 1)?;
    let g = &mut *cx.g;
    let (h, counts, hit) = hinges(g, &l)?;
    let (zero, one) = (g.zeros_like(h)?, g.ones_like(h)?);
    let slope = g.select(counts, one, zero)?;
    let up = g.reduce_sum(slope, &[1])?;
    let each = g.reduce_sum(slope, &[2])?;
    let each = g.broadcast_in_dim(each, &[l.rows, l.classes, l.classes], &[0, 1])?;
    let down = g.select(hit, each, zero)?;
    let down = g.reduce_sum(down, &[1])?;
    let slope = g.subtract(up, down)?;
    let c = g.full_like(slope, l.classes)?;
    let slope = exact::divide(g, slope, c)?;
    let grad = row_grad(g, grad, how, l.rows, l.classes, g.dtype(slope))?;
    let y = g.multiply(slope, grad)?;
    let y = g.reshape(y, &ty.dims)?;
    let y = g.convert(y, ty.dtype)?;
    cx.out(y);
    Ok(())
}
