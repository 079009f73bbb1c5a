//! Reading and writing at computed places: what indexing, gather, scatter and embedding share.

use crate::aten::{CheckKind, Cx};
use crate::{Error, Result};
use primitives::{DType, Dims, GatherDims, Graph, Number, ScatterDims, Value};

/// How an update meets the element that is already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    Set,
    Add,
    Mul,
    Max,
    Min,
}

impl Combine {
    /// The combined element; on bools sum is `or` and product is `and`.
    pub fn apply(self, g: &mut Graph, old: Value, new: Value) -> primitives::Result<Value> {
        let bools = g.dtype(old) == DType::Bool;
        match self {
            Combine::Set => Ok(new),
            Combine::Add | Combine::Max if bools => g.or(old, new),
            Combine::Mul | Combine::Min if bools => g.and(old, new),
            Combine::Add => g.add(old, new),
            Combine::Mul => g.multiply(old, new),
            Combine::Max => g.maximum(old, new),
            Combine::Min => g.minimum(old, new),
        }
    }

    /// The element that changes nothing. `Set` has none: zero.
    pub fn identity(self, dtype: DType) -> Number {
        match self {
            Combine::Set | Combine::Add => Number::Int(0),
            Combine::Mul => Number::Int(1),
            Combine::Max => lowest(dtype),
            Combine::Min => highest(dtype),
        }
    }
}

/// The smallest number of a dtype.
pub fn lowest(dtype: DType) -> Number {
    if dtype.is_float() {
        Number::Float(f64::NEG_INFINITY)
    } else if dtype.is_signed() {
        Number::Int(i64::MIN >> (64 - 8 * dtype.size_of()))
    } else {
        Number::Int(0)
    }
}

/// The largest number of a dtype.
pub fn highest(dtype: DType) -> Number {
    let bits = 8 * dtype.size_of();
    if dtype.is_float() {
        Number::Float(f64::INFINITY)
    } else if dtype.is_bool() {
        Number::Bool(true)
    } else if dtype.is_signed() {
        Number::Int(i64::MAX >> (64 - bits))
    } else {
        Number::UInt(u64::MAX >> (64 - bits))
    }
}

/// A dim argument, wrapped; a 0-d tensor counts as one of rank 1. The error is torch's IndexError.
pub fn wrap_dim(cx: &Cx<'_, '_>, dim: i64, rank: usize) -> Result<usize> {
    let n = rank.max(1) as i64;
    if (-n..n).contains(&dim) {
        return Ok(dim.rem_euclid(n) as usize);
    }
    Err(Error::index(
        cx.op(),
        format!("Dimension out of range (expected to be in range of [{}, {}], but got {dim})", -n, n - 1),
    ))
}

/// At least one dim: a 0-d value becomes a vector of one element.
pub fn at_least_1d(g: &mut Graph, v: Value) -> Result<Value> {
    if g.rank(v) == 0 { Ok(g.reshape(v, &[1])?) } else { Ok(v) }
}

/// Indices in the narrowest type that holds places of `n` elements: chips compute 32-bit integers much faster.
pub fn narrow(g: &mut Graph, index: Value, n: i64) -> Result<Value> {
    let dtype = if n < i32::MAX as i64 { DType::I32 } else { DType::I64 };
    Ok(g.convert(index, dtype)?)
}

/// Indices of equal shape stacked into index vectors along a new last dim.
fn vectors(g: &mut Graph, index: &[Value]) -> Result<Value> {
    let mut dims = g.dims(index[0]);
    dims.push(1);
    let last = dims.len() - 1;
    let columns = index.iter().map(|&v| g.reshape(v, &dims)).collect::<primitives::Result<Vec<_>>>()?;
    Ok(if columns.len() == 1 { columns[0] } else { g.concatenate(&columns, last)? })
}

/// The dims that remain when `dims` are indexed, and where among them and the index's dims (put at `at`) they land.
fn kept(rank: usize, dims: &[usize], index_rank: usize, at: usize) -> (Vec<usize>, Vec<usize>) {
    let kept: Vec<usize> = (0..rank).filter(|d| !dims.contains(d)).collect();
    let places = (0..kept.len()).map(|i| if i < at { i } else { i + index_rank }).collect();
    (kept, places)
}

fn sorted(dims: &[usize]) -> Vec<usize> {
    let mut d = dims.to_vec();
    d.sort_unstable();
    d
}

/// `x` with its `dims` replaced by what `index` (one per dim, equal shapes, in range) picks of them. The dims of the
/// index come at position `at` among the dims that are kept.
pub fn gather_at(g: &mut Graph, x: Value, dims: &[usize], index: &[Value], at: usize) -> Result<Value> {
    let sizes = g.dims(x);
    let shape = g.dims(index[0]);
    let (kept, offset_dims) = kept(sizes.len(), dims, shape.len(), at);
    let out: Dims = kept[..at]
        .iter()
        .map(|&d| sizes[d])
        .chain(shape.iter().copied())
        .chain(kept[at..].iter().map(|&d| sizes[d]))
        .collect();
    if out.contains(&0) || sizes.contains(&0) {
        return Ok(g.full(g.dtype(x), &out, 0)?);
    }
    let adjacent = dims.windows(2).all(|w| w[1] == w[0] + 1);
    if adjacent && at == dims[0] && sizes[..at].iter().any(|&n| n > 1) {
        return rows_at(g, x, dims, index, &out);
    }
    let index = vectors(g, index)?;
    let index = narrow(g, index, sizes.iter().product())?;
    let slice_sizes: Vec<i64> = (0..sizes.len()).map(|d| if dims.contains(&d) { 1 } else { sizes[d] }).collect();
    let gd = GatherDims {
        offset_dims,
        collapsed_slice_dims: sorted(dims),
        start_index_map: dims.to_vec(),
        index_vector_dim: shape.len(),
        ..GatherDims::default()
    };
    Ok(g.gather(x, index, &gd, &slice_sizes, false)?)
}

/// [`gather_at`] where other dims come before the adjacent ones that are indexed: all up to these become one, whose rows
/// are picked by computed numbers. XLA's CPU compiler copies rows, but picks columns element by element.
fn rows_at(g: &mut Graph, x: Value, dims: &[usize], index: &[Value], out: &Dims) -> Result<Value> {
    let sizes = g.dims(x);
    let (first, end) = (dims[0], dims[dims.len() - 1] + 1);
    let product = |d: &[i64]| d.iter().product::<i64>();
    let (outer, each, inner) = (product(&sizes[..first]), product(&sizes[first..end]), product(&sizes[end..]));
    let mut place: Option<Value> = None;
    for (&d, &i) in dims.iter().zip(index) {
        let i = narrow(g, i, outer * each * inner)?;
        place = Some(match place {
            None => i,
            Some(so_far) => {
                let n = g.full_like(so_far, sizes[d])?;
                let so_far = g.multiply(so_far, n)?;
                g.add(so_far, i)?
            }
        });
    }
    let Some(place) = place else { return Ok(x) };
    let k = g.numel(place);
    let place = g.reshape(place, &[k])?;
    let place = g.broadcast_in_dim(place, &[outer, k], &[1])?;
    let start = g.iota(g.dtype(place), &[outer, k], 0)?;
    let step = g.full_like(start, each)?;
    let start = g.multiply(start, step)?;
    let place = g.add(start, place)?;
    let place = g.reshape(place, &[outer * k])?;
    let rows = g.reshape(x, &[outer * each, inner])?;
    let y = gather_at(g, rows, &[0], &[place], 0)?;
    Ok(g.reshape(y, out)?)
}

/// `x` with `updates` (laid out as [`gather_at`]'s result) combined into the places that `index` names. Places out of
/// range are skipped.
pub fn scatter_at(
    g: &mut Graph,
    x: Value,
    dims: &[usize],
    index: &[Value],
    at: usize,
    updates: Value,
    combine: Combine,
) -> Result<Value> {
    let sizes = g.dims(x);
    if g.numel(updates) == 0 || sizes.contains(&0) {
        return Ok(x);
    }
    let shape = g.dims(index[0]);
    let (_, update_window_dims) = kept(sizes.len(), dims, shape.len(), at);
    let index = vectors(g, index)?;
    let index = narrow(g, index, sizes.iter().product())?;
    let sd = ScatterDims {
        update_window_dims,
        inserted_window_dims: sorted(dims),
        scatter_dims_to_operand_dims: dims.to_vec(),
        index_vector_dim: shape.len(),
        ..ScatterDims::default()
    };
    let out = g.scatter(&[x], index, &[updates], &sd, false, false, |g, a| Ok(vec![combine.apply(g, a[0], a[1])?]))?;
    Ok(out[0])
}

/// For every element of `index` the place, in a row-major array of `sizes`, with that index along `dim` and the
/// element's own position along the others.
pub fn flat_places(g: &mut Graph, index: Value, sizes: &[i64], dim: usize) -> Result<Value> {
    let shape = g.dims(index);
    let strides = crate::aten::args::contiguous_strides(sizes);
    let index = narrow(g, index, sizes.iter().product())?;
    let dtype = g.dtype(index);
    let mut sum: Option<Value> = None;
    for d in 0..sizes.len() {
        if d != dim && shape[d] == 1 {
            continue;
        }
        let i = if d == dim { index } else { g.iota(dtype, &shape, d)? };
        let term = if strides[d] == 1 {
            i
        } else {
            let s = g.full(dtype, &shape, strides[d])?;
            g.multiply(i, s)?
        };
        sum = Some(match sum {
            None => term,
            Some(s) => g.add(s, term)?,
        });
    }
    Ok(sum.unwrap_or(index))
}

/// Elements of `x`, counted in row-major order, at `places`; in the shape of `places`.
pub fn take_flat(g: &mut Graph, x: Value, places: Value) -> Result<Value> {
    let n = g.numel(x);
    let flat = g.reshape(x, &[n])?;
    let shape = g.dims(places);
    let m = g.numel(places);
    let list = g.reshape(places, &[m])?;
    let out = gather_at(g, flat, &[0], &[list], 0)?;
    Ok(g.reshape(out, &shape)?)
}

/// `x` with `updates` combined into its elements, counted in row-major order, at `places`.
pub fn put_flat(g: &mut Graph, x: Value, places: Value, updates: Value, combine: Combine) -> Result<Value> {
    let (sizes, n, m) = (g.dims(x), g.numel(x), g.numel(places));
    let flat = g.reshape(x, &[n])?;
    let list = g.reshape(places, &[m])?;
    let updates = g.reshape(updates, &[m])?;
    let out = scatter_at(g, flat, &[0], &[list], 0, updates, combine)?;
    Ok(g.reshape(out, &sizes)?)
}

/// Indices along a dim of `size`, negative ones wrapped when `negative`; out of range is an error of `kind`.
pub fn checked(
    cx: &mut Cx<'_, '_>,
    index: Value,
    size: i64,
    negative: bool,
    kind: CheckKind,
    message: &str,
) -> Result<Value> {
    if size == 0 && cx.g.numel(index) > 0 {
        let message = message.replace("{}", "0");
        return Err(if kind == CheckKind::Index { Error::index(cx.op(), message) } else { cx.error(message) });
    }
    if negative { cx.wrap_index(index, size, kind, message) } else { cx.check_index(index, size, kind, message) }
}
