//! Prefix sums and their like: inclusive scans with an associative combine, in blocks so that the work stays linear.

use crate::Result;
use primitives::{DType, Dims, Direction, Graph, Number, Value};

/// Combines, element by element, what came before with what follows: `(earlier, later) -> both`.
pub type Combine<'a> = &'a dyn Fn(&mut Graph, &[Value], &[Value]) -> Result<Vec<Value>>;

const BLOCK: i64 = 32;

/// Inclusive scan of `xs` (one shape) along `dim`. `identity` holds a number for each, neutral as the earlier operand.
pub fn scan(g: &mut Graph, xs: &[Value], identity: &[Number], dim: usize, combine: Combine<'_>) -> Result<Vec<Value>> {
    let n = g.dims(xs[0])[dim];
    if n <= 1 || g.numel(xs[0]) == 0 {
        return Ok(xs.to_vec());
    }
    if n <= BLOCK { doubling(g, xs, identity, dim, combine) } else { blocked(g, xs, identity, dim, combine) }
}

/// `log2(n)` steps, each combining every element with the one `step` before it.
fn doubling(g: &mut Graph, xs: &[Value], identity: &[Number], dim: usize, combine: Combine<'_>) -> Result<Vec<Value>> {
    let n = g.dims(xs[0])[dim];
    let mut xs = xs.to_vec();
    let mut step = 1;
    while step < n {
        let earlier =
            xs.iter().zip(identity).map(|(&x, &id)| shifted(g, x, id, dim, step)).collect::<Result<Vec<_>>>()?;
        xs = combine(g, &earlier, &xs)?;
        // Fused, the steps would compute each other anew: twice the work with every step.
        xs = g.optimization_barrier(&xs)?;
        step *= 2;
    }
    Ok(xs)
}

/// `x` moved `step` further along `dim`, with `fill` in front.
fn shifted(g: &mut Graph, x: Value, fill: Number, dim: usize, step: i64) -> Result<Value> {
    let rank = g.rank(x);
    let fill = g.scalar(g.dtype(x), fill)?;
    let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
    low[dim] = step;
    high[dim] = -step;
    Ok(g.pad(x, fill, &low, &high, &vec![0; rank])?)
}

/// Scans blocks on their own, then the blocks' totals, and combines.
fn blocked(g: &mut Graph, xs: &[Value], identity: &[Number], dim: usize, combine: Combine<'_>) -> Result<Vec<Value>> {
    let dims = g.dims(xs[0]);
    let (rank, n) = (dims.len(), dims[dim]);
    let blocks = (n + BLOCK - 1) / BLOCK;
    let mut split = Dims::from_slice(&dims[..dim]);
    split.extend([blocks, BLOCK]);
    split.extend(dims[dim + 1..].iter().copied());
    let mut parts = Vec::new();
    for (&x, &id) in xs.iter().zip(identity) {
        let fill = g.scalar(g.dtype(x), id)?;
        let mut high = vec![0; rank];
        high[dim] = blocks * BLOCK - n;
        let x = g.pad(x, fill, &vec![0; rank], &high, &vec![0; rank])?;
        parts.push(g.reshape(x, &split)?);
    }
    let inner = doubling(g, &parts, identity, dim + 1, combine)?;
    let mut one = dims.clone();
    one[dim] = blocks;
    let mut totals = Vec::new();
    for &x in &inner {
        let (mut start, mut limit) = (vec![0; rank + 1], split.to_vec());
        start[dim + 1] = BLOCK - 1;
        limit[dim + 1] = BLOCK;
        let last = g.slice(x, &start, &limit, &vec![1; rank + 1])?;
        totals.push(g.reshape(last, &one)?);
    }
    let totals = scan(g, &totals, identity, dim, combine)?;
    let kept: Vec<usize> = (0..=rank).filter(|&d| d != dim + 1).collect();
    let mut before = Vec::new();
    for (&t, &id) in totals.iter().zip(identity) {
        let t = shifted(g, t, id, dim, 1)?;
        before.push(g.broadcast_in_dim(t, &split, &kept)?);
    }
    let mut padded = dims.clone();
    padded[dim] = blocks * BLOCK;
    let mut out = Vec::new();
    for x in combine(g, &before, &inner)? {
        let x = g.reshape(x, &padded)?;
        out.push(g.slice(x, &vec![0; rank], &dims, &vec![1; rank])?);
    }
    Ok(out)
}

/// Inclusive scan of one array along `dim` in order, an element a step: for combines whose rounding or branch of a
/// many-valued result depends on the order.
pub fn scan_in_order(
    g: &mut Graph,
    x: Value,
    dim: usize,
    combine: fn(&mut Graph, Value, Value) -> Result<Value>,
) -> Result<Value> {
    let dims = g.dims(x);
    let n = dims[dim];
    if n <= 1 || g.numel(x) == 0 {
        return Ok(x);
    }
    let mut line = dims.clone();
    line[dim] = 1;
    let zero = g.scalar(DType::I64, 0)?;
    let one = g.scalar(DType::I64, 1)?;
    let first = g.dynamic_slice(x, &vec![zero; dims.len()], &line)?;
    let r = g.while_loop(
        &[one, first, x],
        |g, s| {
            let end = g.scalar(DType::I64, n)?;
            Ok(vec![g.compare(s[0], end, Direction::Lt)?])
        },
        |g, s| {
            let start: Vec<Value> = (0..dims.len()).map(|d| if d == dim { s[0] } else { zero }).collect();
            let next = g.dynamic_slice(s[2], &start, &line)?;
            let sum = combine(g, s[1], next).map_err(super::lu::unwrapped)?;
            let all = g.dynamic_update_slice(s[2], sum, &start)?;
            let i = g.add(s[0], one)?;
            Ok(vec![i, sum, all])
        },
    )?;
    Ok(r[2])
}

/// Running sum along `dim`, the element itself included.
pub fn running_sum(g: &mut Graph, x: Value, dim: usize) -> Result<Value> {
    Ok(scan(g, &[x], &[Number::Int(0)], dim, &|g, a, b| Ok(vec![g.add(a[0], b[0])?]))?[0])
}
