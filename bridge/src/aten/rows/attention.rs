//! Scaled dot product attention in one program, and its gradient.
//!
//! Queries are seen as `[N, G, L, E]` and keys as `[N, S, E]`: `N` runs over batch and key heads, `G` over the query
//! heads that share one key head.

use super::{convolve, math};
use crate::Result;
use crate::aten::threefry::{self, Bits};
use crate::aten::{Arg, Cx, Row, promote};
use primitives::{DType, Dims, Direction, DotDims, Graph, Precision, Value};

/// The forward row gives `(output, logsumexp, random state before the dropout)`; the face fills in torch's other results.
pub const ROWS: &[Row] = &[
    Row::new("_scaled_dot_product_fused_attention_overrideable", forward).precise(),
    Row::new("_scaled_dot_product_fused_attention_overrideable_backward", backward).precise(),
];

/// What an attention computes with.
struct Problem {
    q: Value,
    k: Value,
    v: Value,
    /// Batch dims of the query, its heads included.
    batch: Dims,
    scale: f64,
    causal: bool,
    dtype: DType,
    precision: Precision,
}

impl Problem {
    fn read(cx: &mut Cx<'_, '_>, first: usize, causal: bool, scale: usize) -> Result<Problem> {
        let (q, k, v) = (cx.t(first)?, cx.t(first + 1)?, cx.t(first + 2)?);
        let (qd, kd, vd) = (cx.g.dims(q), cx.g.dims(k), cx.g.dims(v));
        let (r, dtype) = (qd.len(), cx.g.dtype(q));
        let shapes = || format!("got query {:?}, key {:?}, value {:?}", &qd[..], &kd[..], &vd[..]);
        if r < 3 || kd.len() != r || vd.len() != r || kd[..r - 1] != vd[..r - 1] || qd[r - 1] != kd[r - 1] {
            return Err(cx.error(format!("Expected query, key and value of matching shapes, {}", shapes())));
        }
        if [k, v].iter().any(|&t| cx.g.dtype(t) != dtype) || !dtype.is_float() {
            return Err(cx.error("Expected query, key, and value to have the same floating dtype"));
        }
        let (heads, shared) = (qd[r - 3], kd[r - 3]);
        if qd[..r - 3] != kd[..r - 3] || shared == 0 || heads % shared != 0 {
            return Err(cx.error(format!("Expected query heads to be a multiple of key heads, {}", shapes())));
        }
        let n: i64 = kd[..r - 2].iter().product();
        let q = cx.g.reshape(q, &[n, heads / shared, qd[r - 2], qd[r - 1]])?;
        let k = cx.g.reshape(k, &[n, kd[r - 2], kd[r - 1]])?;
        let v = cx.g.reshape(v, &[n, vd[r - 2], vd[r - 1]])?;
        let scale = cx.opt_float(scale)?.unwrap_or(1.0 / (qd[r - 1] as f64).sqrt());
        let precision = convolve::precision_for(dtype, cx.env.precision);
        Ok(Problem { q, k, v, batch: Dims::from_slice(&qd[..r - 2]), scale, causal, dtype, precision })
    }

    fn compute(&self) -> DType {
        promote::compute_type(self.dtype)
    }

    /// `[N, G, L, S]`
    fn score_dims(&self, g: &Graph) -> [i64; 4] {
        let q = g.dims(self.q);
        [q[0], q[1], q[2], g.dims(self.k)[1]]
    }

    /// Shape of the scores as a mask sees it: batch dims, then `L, S`.
    fn mask_dims(&self, g: &Graph) -> Dims {
        let s = self.score_dims(g);
        self.batch.iter().copied().chain([s[2], s[3]]).collect()
    }

    /// `a [N, G, L, X] · b [N, S, X]` over `X`.
    fn times_transposed(&self, g: &mut Graph, a: Value, b: Value) -> Result<Value> {
        self.dot(g, a, b, 3, 2)
    }

    /// `a [N, G, L, S] · b [N, S, X]`.
    fn times(&self, g: &mut Graph, a: Value, b: Value) -> Result<Value> {
        self.dot(g, a, b, 3, 1)
    }

    fn dot(&self, g: &mut Graph, a: Value, b: Value, left: usize, right: usize) -> Result<Value> {
        let dims =
            DotDims { lhs_batch: vec![0], rhs_batch: vec![0], lhs_contract: vec![left], rhs_contract: vec![right] };
        self.wide_dot(g, a, b, &dims)
    }

    /// A product in the compute dtype: CPU plugins cannot run every product of half precision operands that is summed
    /// in f32, and widening loses nothing.
    fn wide_dot(&self, g: &mut Graph, a: Value, b: Value, dims: &DotDims) -> Result<Value> {
        let (a, b) = (g.convert(a, self.compute())?, g.convert(b, self.compute())?);
        Ok(g.dot_general(a, b, dims, self.precision, None)?)
    }

    /// `sum over G and L of a [N, G, L, X] · b [N, G, L, Y]`: `[N, X, Y]`.
    fn transposed_times(&self, g: &mut Graph, a: Value, b: Value) -> Result<Value> {
        let dims =
            DotDims { lhs_batch: vec![0], rhs_batch: vec![0], lhs_contract: vec![1, 2], rhs_contract: vec![1, 2] };
        self.wide_dot(g, a, b, &dims)
    }

    /// Scaled and masked scores in the compute dtype.
    fn scores(&self, g: &mut Graph, mask: Option<Value>) -> Result<Value> {
        let s = self.times_transposed(g, self.q, self.k)?;
        let mut s = math::mul_n(g, s, self.scale)?;
        let dims = self.score_dims(g);
        let never = g.full_like(s, f64::NEG_INFINITY)?;
        if let Some(m) = mask {
            let wide = self.mask_dims(g);
            let m = g.broadcast_to(m, &wide)?;
            let m = g.reshape(m, &dims)?;
            s = if g.dtype(m).is_bool() {
                g.select(m, s, never)?
            } else {
                let m = g.convert(m, g.dtype(s))?;
                g.add(s, m)?
            };
        }
        if self.causal {
            let (row, column) = (g.iota(DType::I32, &dims, 2)?, g.iota(DType::I32, &dims, 3)?);
            let seen = g.compare(column, row, Direction::Le)?;
            s = g.select(seen, s, never)?;
        }
        Ok(s)
    }

    /// 1 / (1 - p) where an element is kept, 0 where it is dropped.
    fn keep(&self, g: &mut Graph, bits: Bits, p: f64) -> Result<Value> {
        let u = bits.unit(g, DType::F32)?;
        let keep = math::cmp_n(g, u, p, Direction::Ge)?;
        let keep = g.convert(keep, self.compute())?;
        let dims = self.score_dims(g);
        let keep = g.reshape(keep, &dims)?;
        math::mul_n(g, keep, if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 })
    }

    fn result(&self, g: &mut Graph, v: Value, batch: &[i64]) -> Result<Value> {
        let from = g.dims(v);
        let dims: Dims = batch.iter().chain(&from[from.len() - 2..]).copied().collect();
        let v = g.reshape(v, &dims)?;
        Ok(g.convert(v, self.dtype)?)
    }
}

fn check_mask(cx: &Cx<'_, '_>, p: &Problem, i: usize) -> Result<()> {
    let Arg::Tensor(mask) = cx.arg(i) else { return Ok(()) };
    let wide = p.mask_dims(cx.g);
    let fits = mask.sizes.len() <= wide.len()
        && mask.sizes.iter().rev().zip(wide.iter().rev()).all(|(&m, &w)| m == w || m == 1);
    if fits {
        return Ok(());
    }
    Err(cx.error(format!("The attn_mask of shape {:?} does not broadcast to {:?}", mask.sizes, &wide[..])))
}

/// Results lie in memory like the query: mostly with heads next to the last dim, as the projection that follows reads them.
fn lay_out(cx: &mut Cx<'_, '_>, query: usize) {
    if let Arg::Tensor(q) = cx.arg(query)
        && q.sizes.len() == 4
        && q.strides[1] < q.strides[2]
    {
        cx.order = Some(vec![0, 2, 1, 3]);
    }
}

/// Rows without any finite score attend to nothing: their output is zero.
fn forward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (dropout, causal) = (cx.float(4)?, cx.bool(5)?);
    let p = Problem::read(cx, 0, causal, 7)?;
    check_mask(cx, &p, 3)?;
    let mask = cx.opt_t(3)?;
    let scores = p.scores(cx.g, mask)?;
    let dims = p.score_dims(cx.g);
    let kept = if dropout > 0.0 {
        let before = cx.rng_state(None)?;
        let bits = threefry::draw(cx, None, dims.iter().product())?;
        Some((p.keep(cx.g, bits, dropout)?, before))
    } else {
        None
    };
    let g = &mut *cx.g;
    let top = g.reduce_max(scores, &[3])?;
    let finite = math::cmp_n(g, top, f64::NEG_INFINITY, Direction::Ne)?;
    let zeros = g.zeros_like(top)?;
    let top = g.select(finite, top, zeros)?;
    let wide = math::back_over(g, top, &dims, &[3])?;
    let e = g.subtract(scores, wide)?;
    let e = g.exp(e)?;
    let sum = g.reduce_sum(e, &[3])?;
    let log = g.log(sum)?;
    let lse = g.add(log, top)?;
    let ones = g.ones_like(sum)?;
    let divisor = g.select(finite, sum, ones)?;
    let divisor = math::back_over(g, divisor, &dims, &[3])?;
    let mut weights = g.divide(e, divisor)?;
    if let Some((keep, _)) = kept {
        weights = g.multiply(weights, keep)?;
    }
    let weights = g.convert(weights, p.dtype)?;
    let out = p.times(g, weights, p.v)?;
    let out = p.result(g, out, &p.batch)?;
    let rows: Dims = p.batch.iter().copied().chain([dims[2]]).collect();
    let lse = g.reshape(lse, &rows)?;
    lay_out(cx, 0);
    cx.out(out);
    cx.out(lse);
    match kept {
        Some((_, before)) => cx.out(before),
        None => cx.out_none(),
    }
    Ok(())
}

/// `(grad_out, query, key, value, attn_bias, grad_input_mask, out, logsumexp, .., dropout_p, is_causal, philox_seed, ..)`.
///
/// With weights `P = exp(S - logsumexp)` and `D = sum(dO * O)` per row: `dS = P * (dO V^T - D)`, and `dQ = dS K`,
/// `dK = dS^T Q`, both scaled, `dV = P^T dO`; dropout scales `P` and `dO V^T` by what it kept.
fn backward(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (wanted, dropout, causal) = (cx.bools(5)?, cx.float(12)?, cx.bool(13)?);
    let p = Problem::read(cx, 1, causal, 16)?;
    let mask = cx.opt_t(4)?;
    let (go, out, lse) = (cx.t(0)?, cx.t(6)?, cx.t(7)?);
    let state = cx.opt_t(14)?;
    let g = &mut *cx.g;
    let dims = p.score_dims(g);
    let inner = g.dims(p.v)[2];
    let rows = [dims[0], dims[1], dims[2], inner];
    let (go, out) = (g.reshape(go, &rows)?, g.reshape(out, &rows)?);
    let lse = g.reshape(lse, &dims[..3])?;
    let scores = p.scores(g, mask)?;
    let finite = math::cmp_n(g, lse, f64::NEG_INFINITY, Direction::Ne)?;
    let infinite = g.full_like(lse, f64::INFINITY)?;
    let lse = g.select(finite, lse, infinite)?;
    let lse = math::back_over(g, lse, &dims, &[3])?;
    let weights = g.subtract(scores, lse)?;
    let weights = g.exp(weights)?;
    let keep = match state {
        Some(state) if dropout > 0.0 => {
            let bits = threefry::redraw(g, state, dims.iter().product())?;
            Some(p.keep(g, bits, dropout)?)
        }
        _ => None,
    };
    let (wide_go, wide_out) = (g.convert(go, p.compute())?, g.convert(out, p.compute())?);
    let d = g.multiply(wide_go, wide_out)?;
    let d = g.reduce_sum(d, &[3])?;
    let d = math::back_over(g, d, &dims, &[3])?;
    let mut dp = p.times_transposed(g, go, p.v)?;
    let mut dropped = weights;
    if let Some(keep) = keep {
        dp = g.multiply(dp, keep)?;
        dropped = g.multiply(weights, keep)?;
    }
    let ds = g.subtract(dp, d)?;
    let ds = g.multiply(ds, weights)?;
    let narrow = g.convert(ds, p.dtype)?;
    let shared: Dims = {
        let k = cx.sizes(2)?;
        Dims::from_slice(&k[..k.len() - 2])
    };
    let mut results = [None; 4];
    if wanted[0] {
        let v = p.times(cx.g, narrow, p.k)?;
        let v = math::mul_n(cx.g, v, p.scale)?;
        results[0] = Some(p.result(cx.g, v, &p.batch)?);
    }
    if wanted[1] {
        let v = p.transposed_times(cx.g, narrow, p.q)?;
        let v = math::mul_n(cx.g, v, p.scale)?;
        results[1] = Some(p.result(cx.g, v, &shared)?);
    }
    if wanted[2] {
        let dropped = cx.g.convert(dropped, p.dtype)?;
        let v = p.transposed_times(cx.g, dropped, go)?;
        results[2] = Some(p.result(cx.g, v, &shared)?);
    }
    if wanted[3]
        && let Some(m) = mask
    {
        results[3] = Some(mask_grad(cx.g, &p, ds, m)?);
    }
    lay_out(cx, 1);
    for r in results {
        match r {
            Some(v) => cx.out(v),
            None => cx.out_none(),
        }
    }
    Ok(())
}

/// The scores' gradient summed to the shape of the mask.
fn mask_grad(g: &mut Graph, p: &Problem, ds: Value, mask: Value) -> Result<Value> {
    let (wide, dims, dtype) = (p.mask_dims(g), g.dims(mask), g.dtype(mask));
    let v = g.reshape(ds, &wide)?;
    let lead = wide.len() - dims.len();
    let over: Vec<usize> = (0..wide.len()).filter(|&d| d < lead || (dims[d - lead] == 1 && wide[d] != 1)).collect();
    let v = g.reduce_sum(v, &over)?;
    let v = g.reshape(v, &dims)?;
    Ok(g.convert(v, dtype)?)
}
