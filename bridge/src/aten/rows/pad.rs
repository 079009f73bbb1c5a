//! Padding with a constant, by reflection and by replication, and the gradients of the last two.

use super::join::suggested;
use super::take::span;
use crate::Result;
use crate::aten::{Cx, Row};
use primitives::{Graph, Value};

pub const ROWS: &[Row] = &[
    Row::new("constant_pad_nd", constant).dynamic(&["value"]).guarded(|n| n.fits(2)),
    Row::new("reflection_pad1d", |cx| pad(cx, 1, Edge::Reflect)),
    Row::new("reflection_pad2d", |cx| pad(cx, 2, Edge::Reflect)),
    Row::new("reflection_pad3d", |cx| pad(cx, 3, Edge::Reflect)),
    Row::new("replication_pad1d", |cx| pad(cx, 1, Edge::Replicate)),
    Row::new("replication_pad2d", |cx| pad(cx, 2, Edge::Replicate)),
    Row::new("replication_pad3d", |cx| pad(cx, 3, Edge::Replicate)),
    Row::new("reflection_pad1d_backward", |cx| backward(cx, 1, Edge::Reflect)),
    Row::new("reflection_pad2d_backward", |cx| backward(cx, 2, Edge::Reflect)),
    Row::new("reflection_pad3d_backward", |cx| backward(cx, 3, Edge::Reflect)),
    Row::new("replication_pad1d_backward", |cx| backward(cx, 1, Edge::Replicate)),
    Row::new("replication_pad2d_backward", |cx| backward(cx, 2, Edge::Replicate)),
    Row::new("replication_pad3d_backward", |cx| backward(cx, 3, Edge::Replicate)),
];

/// `constant_pad_nd(self, pad, value)`: pairs of paddings from the last dim on; negative ones cut.
fn constant(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let (dtype, sizes) = (cx.g.dtype(x), cx.g.dims(x));
    let pads = cx.ints(1)?;
    let rank = sizes.len();
    if pads.len() % 2 != 0 {
        return Err(cx.error(format!("Length of pad must be even but instead it equals {}", pads.len())));
    }
    if pads.len() > 2 * rank {
        return Err(cx.error(format!(
            "Length of pad should be no more than twice the number of dimensions of the input. Pad length is {} while the \
             input has {rank} dimensions.",
            pads.len()
        )));
    }
    let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
    for (k, pair) in pads.chunks(2).enumerate() {
        let d = rank - 1 - k;
        (low[d], high[d]) = (pair[0], pair[1]);
        let left = sizes[d] + pair[0].min(0) + pair[1].min(0);
        if left < 0 || sizes[d] + pair[0] + pair[1] < 0 {
            return Err(cx.error(format!(
                "The input size {}, plus negative padding {} and {} resulted in a negative output size, which is invalid. \
                 Check dimension {d} of your input.",
                sizes[d], pair[0], pair[1]
            )));
        }
    }
    let value = cx.number_as(2, dtype)?;
    let y = cx.g.pad(x, value, &low, &high, &vec![0; rank])?;
    cx.order = suggested(cx.arg(0), rank);
    cx.out(y);
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    Reflect,
    Replicate,
}

/// The paddings of the last `n` dims (argument `i`), as (dim, left, right).
fn paddings(cx: &Cx<'_, '_>, i: usize, n: usize, sizes: &[i64], edge: Edge) -> Result<Vec<(usize, i64, i64)>> {
    let pads = cx.ints(i)?;
    if pads.len() != 2 * n {
        return Err(cx.error(format!("padding size is expected to be {}, but got: {}", 2 * n, pads.len())));
    }
    let rank = sizes.len();
    let batch = rank == n + 2;
    if !(batch || rank == n + 1) || sizes[usize::from(batch)..].contains(&0) {
        return Err(cx.error(format!(
            "Expected {}D or {}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, \
             but got: {sizes:?}",
            n + 1,
            n + 2
        )));
    }
    let mut found = Vec::new();
    for (k, pair) in pads.chunks(2).enumerate() {
        let (d, l, r) = (rank - 1 - k, pair[0], pair[1]);
        if edge == Edge::Reflect && (l >= sizes[d] || r >= sizes[d]) {
            return Err(cx.error(format!(
                "Argument #{}: Padding size should be less than the corresponding input dimension, but got: padding ({l}, \
                 {r}) at dimension {d} of input {sizes:?}",
                2 * (k + 2)
            )));
        }
        if sizes[d] + l + r < 1 {
            return Err(cx.error(format!(
                "input ({}) is too small. Calculated output: {} at dimension {d}",
                sizes[d],
                sizes[d] + l + r
            )));
        }
        found.push((d, l, r));
    }
    Ok(found)
}

fn pad(cx: &mut Cx<'_, '_>, n: usize, edge: Edge) -> Result<()> {
    let mut y = cx.t(0)?;
    let sizes = cx.g.dims(y);
    for (d, l, r) in paddings(cx, 1, n, &sizes, edge)? {
        y = pad_dim(cx.g, y, d, l, r, edge)?;
    }
    if n > 1 {
        cx.order = suggested(cx.arg(0), sizes.len());
    }
    cx.out(y);
    Ok(())
}

fn pad_dim(g: &mut Graph, x: Value, d: usize, l: i64, r: i64, edge: Edge) -> Result<Value> {
    let n = g.dims(x)[d];
    let (left, right) = (l.max(0), r.max(0));
    let mut parts = Vec::new();
    let mut stretched = g.dims(x);
    let all: Vec<usize> = (0..stretched.len()).collect();
    for (len, lo, hi, end) in [(left, 1, 1 + left, 0), (0, 0, n, -1), (right, n - 1 - right, n - 1, n - 1)] {
        if end == -1 {
            parts.push(x);
        } else if len > 0 {
            parts.push(if edge == Edge::Reflect {
                let v = span(g, x, d, lo, hi)?;
                g.reverse(v, &[d])?
            } else {
                let v = span(g, x, d, end, end + 1)?;
                stretched[d] = len;
                g.broadcast_in_dim(v, &stretched, &all)?
            });
        }
    }
    let y = if parts.len() == 1 { x } else { g.concatenate(&parts, d)? };
    span(g, y, d, left - l, g.dims(y)[d] - (right - r))
}

/// `*_pad*_backward(grad_output, self, padding)`: what was copied to the edges, added back to where it came from.
fn backward(cx: &mut Cx<'_, '_>, n: usize, edge: Edge) -> Result<()> {
    let mut y = cx.t(0)?;
    let sizes = cx.sizes(1)?;
    let pads = paddings(cx, 2, n, &sizes, edge)?;
    let mut padded = sizes.clone();
    for &(d, l, r) in &pads {
        padded[d] += l + r;
    }
    if cx.g.dims(y) != padded {
        return Err(cx.error(format!(
            "grad_output of shape {:?} does not fit: expected {:?}",
            &cx.g.dims(y)[..],
            &padded[..]
        )));
    }
    for (d, l, r) in pads {
        y = fold_dim(cx.g, y, d, sizes[d], l, r, edge)?;
    }
    if n > 1 {
        cx.order = suggested(cx.arg(1), sizes.len());
    }
    cx.out(y);
    Ok(())
}

fn fold_dim(g: &mut Graph, grad: Value, d: usize, n: i64, l: i64, r: i64, edge: Edge) -> Result<Value> {
    let (left, right) = (l.max(0), r.max(0));
    // What a negative padding cut away has no gradient.
    let grad = spread(g, grad, d, left - l, right - r)?;
    let mut y = span(g, grad, d, left, left + n)?;
    for (len, lo, first) in [(left, 0, true), (right, left + n, false)] {
        if len == 0 {
            continue;
        }
        let v = span(g, grad, d, lo, lo + len)?;
        let (v, low, high) = match edge {
            Edge::Reflect => {
                let v = g.reverse(v, &[d])?;
                if first { (v, 1, n - 1 - len) } else { (v, n - 1 - len, 1) }
            }
            Edge::Replicate => {
                let mut one = g.dims(v);
                one[d] = 1;
                let v = g.reduce_sum(v, &[d])?;
                let v = g.reshape(v, &one)?;
                if first { (v, 0, n - 1) } else { (v, n - 1, 0) }
            }
        };
        let term = spread(g, v, d, low, high)?;
        y = g.add(y, term)?;
    }
    Ok(y)
}

fn spread(g: &mut Graph, v: Value, d: usize, low: i64, high: i64) -> Result<Value> {
    let rank = g.rank(v);
    let (mut lo, mut hi) = (vec![0; rank], vec![0; rank]);
    (lo[d], hi[d]) = (low, high);
    let zero = g.scalar(g.dtype(v), 0)?;
    Ok(g.pad(v, zero, &lo, &hi, &vec![0; rank])?)
}
