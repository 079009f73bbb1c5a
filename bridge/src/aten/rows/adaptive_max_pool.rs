//! Adaptive max pooling: windows of unequal sizes.

use super::avg_pool::{adaptive_axes, adaptive_window};
use super::max_pool::{self, UNROLLED};
use super::pool_axes::{Axis, offsets, out_dims, window_len};
use super::util::Takes;
use super::{math, memory_format, planes, take};
use crate::Result;
use crate::aten::{Cx, Row, promote};
use primitives::{DType, Direction, Graph, Value};

pub const ROWS: &[Row] = &[
    Row::new("adaptive_max_pool2d", |cx| forward(cx, 2)),
    Row::new("adaptive_max_pool3d", |cx| forward(cx, 3)),
    Row::new("adaptive_max_pool2d_backward", |cx| backward(cx, 2)),
    Row::new("adaptive_max_pool3d_backward", |cx| backward(cx, 3)),
];

fn divides(axes: &[Axis]) -> bool {
    axes.iter().all(|a| a.out > 0 && a.size % a.out == 0)
}

/// `(values, indices)`.
fn forward(cx: &mut Cx<'_, '_>, n: usize) -> Result<()> {
    let axes = adaptive_axes(cx, 0, n, &cx.ints(1)?)?;
    memory_format::like(cx, &[0]);
    let x = cx.t(0)?;
    Takes::NO_COMPLEX.check(cx, cx.g.dtype(x))?;
    if axes.iter().any(|a| a.out == 0) {
        let dims = out_dims(&cx.g.dims(x), &axes);
        let (y, i) = (cx.g.full(cx.g.dtype(x), &dims, 0)?, cx.g.full(DType::I64, &dims, 0)?);
        cx.out(y);
        cx.out(i);
        return Ok(());
    }
    let (y, i) = if divides(&axes) { max_pool::max_with_index(cx.g, x, &axes)? } else { unequal(cx.g, x, &axes)? };
    cx.out(y);
    cx.out(i);
    Ok(())
}

/// Offset `j` of each window, or the window's last element where the window is shorter, which changes no maximum.
fn unequal(g: &mut Graph, x: Value, axes: &[Axis]) -> Result<(Value, Value)> {
    let dims = out_dims(&g.dims(x), axes);
    let mut best: Option<(Value, Value)> = None;
    for offset in offsets(axes) {
        let mut v = x;
        let mut here = g.full(DType::I64, &dims, 0)?;
        for (k, (a, &j)) in axes.iter().zip(&offset).enumerate() {
            let picks: Vec<i64> = (0..a.out)
                .map(|o| {
                    let (from, to) = adaptive_window(o, a.size, a.out);
                    (from + j).min(to - 1)
                })
                .collect();
            v = take::take(g, v, a.dim, &picks)?;
            let step: i64 = axes[k + 1..].iter().map(|a| a.size).product();
            let at: Vec<i64> = picks.iter().map(|p| p * step).collect();
            let at = math::ints(g, DType::I64, &at)?;
            let at = math::along(g, at, &dims, a.dim)?;
            here = g.add(here, at)?;
        }
        best = Some(match best {
            None => (v, here),
            Some((w, i)) => {
                let mut wins = g.compare(v, w, Direction::Gt)?;
                if g.dtype(v).is_float() {
                    let nan = g.compare(v, v, Direction::Ne)?;
                    wins = g.or(wins, nan)?;
                }
                (g.select(wins, v, w)?, g.select(wins, here, i)?)
            }
        });
    }
    best.ok_or_else(|| crate::Error::internal("adaptive_max_pool: a window without elements".into()))
}

/// `adaptive_max_pool_backward(grad_output, self, indices)`.
fn backward(cx: &mut Cx<'_, '_>, n: usize) -> Result<()> {
    let (go_dims, dims) = (cx.sizes(0)?, cx.sizes(1)?);
    let axes = adaptive_axes(cx, 1, n, &go_dims[go_dims.len() - n..])?;
    memory_format::like(cx, &[1]);
    let (go, index) = (cx.t(0)?, cx.t(2)?);
    if divides(&axes) && window_len(&axes) <= UNROLLED {
        let y = max_pool::grad(cx.g, go, index, &dims, &axes)?;
        cx.out(y);
        return Ok(());
    }
    let dtype = cx.g.dtype(go);
    let go = cx.g.convert(go, promote::compute_type(dtype))?;
    let y = planes::scatter_add(cx.g, go, index, &dims, n)?;
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}
