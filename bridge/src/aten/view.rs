//! Strided views over a storage, lowered to StableHLO.
//!
//! A view is (sizes, strides, offset) over storage elements. Sorted by stride, its dims nearly always factor the flat
//! storage into axes of which the view takes one contiguous block each: `reshape → slice → reshape → transpose →
//! broadcast` reads it, and the same axes with `dynamic_update_slice` write it. What does not factor (overlapping
//! windows) is a gather, or a scatter, over flat indices.

use crate::Result;
use primitives::{DType, Dims, GatherDims, Graph, ScatterDims, TensorType, Value};
use smallvec::SmallVec;

/// A tensor's view over its storage, in elements of the tensor's dtype.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    pub dtype: DType,
    pub sizes: Dims,
    pub strides: Dims,
    pub offset: i64,
}

impl View {
    /// Whether the view is all of a storage whose natural type is `ty`, in its natural order.
    pub fn is_identity(&self, ty: &TensorType) -> bool {
        self.offset == 0
            && self.dtype == ty.dtype
            && self.sizes == ty.dims
            && super::args::is_contiguous(&self.sizes, &self.strides)
    }

    fn numel(&self) -> i64 {
        self.sizes.iter().product()
    }
}

/// Axes into which a view cuts flat storage, outermost first: the axis's length, and the block taken of it.
struct Factored {
    /// Elements the flat storage is padded (or cut) to, so that the axes divide it.
    padded: i64,
    axes: SmallVec<[i64; 8]>,
    starts: SmallVec<[i64; 8]>,
    lens: SmallVec<[i64; 8]>,
    /// For each view dim, the axis that it runs along; `None` for a broadcast dim or one of size 1.
    axis_of: SmallVec<[Option<usize>; 6]>,
}

fn factor(view: &View, storage: i64) -> Option<Factored> {
    let mut order: SmallVec<[usize; 6]> =
        (0..view.sizes.len()).filter(|&d| view.sizes[d] != 1 && view.strides[d] != 0).collect();
    if order.iter().any(|&d| view.strides[d] < 0) {
        return None;
    }
    order.sort_by_key(|&d| std::cmp::Reverse(view.strides[d]));
    let mut f = Factored {
        padded: storage,
        axes: SmallVec::new(),
        starts: SmallVec::new(),
        lens: SmallVec::new(),
        axis_of: SmallVec::from_elem(None, view.sizes.len()),
    };
    let mut rest = view.offset;
    let mut outer = None;
    for (k, &d) in order.iter().enumerate() {
        let stride = view.strides[d];
        let start = rest / stride;
        rest %= stride;
        let len = match outer {
            None => {
                let whole = storage / stride;
                // A storage that the stride does not divide is cut, or padded when the view reaches past the cut.
                let len = whole.max(start + view.sizes[d]);
                f.padded = len * stride;
                len
            }
            Some(o) if o % stride == 0 => o / stride,
            Some(_) => return None,
        };
        if start + view.sizes[d] > len {
            return None;
        }
        f.axes.push(len);
        f.starts.push(start);
        f.lens.push(view.sizes[d]);
        f.axis_of[d] = Some(k);
        outer = Some(stride);
    }
    match outer {
        None => {
            f.axes.push(storage);
            f.starts.push(view.offset);
            f.lens.push(1);
        }
        Some(1) => {}
        Some(stride) => {
            f.axes.push(stride);
            f.starts.push(rest);
            f.lens.push(1);
        }
    }
    Some(f)
}

/// Brings the flat storage to `len` elements: cut, or padded with zeros (which no view reads).
fn resize_flat(g: &mut Graph, flat: Value, len: i64) -> Result<Value> {
    let n = g.numel(flat);
    Ok(if len < n {
        g.slice(flat, &[0], &[len], &[1])?
    } else if len > n {
        let zero = g.scalar(g.dtype(flat), 0)?;
        g.pad(flat, zero, &[0], &[len - n], &[0])?
    } else {
        flat
    })
}

/// Reads the view of `base`: a value of the view's dtype and sizes.
pub fn read(g: &mut Graph, base: Value, view: &View) -> Result<Value> {
    if view.is_identity(g.ty(base)) {
        return Ok(base);
    }
    if view.numel() == 0 {
        return Ok(g.full(view.dtype, &view.sizes, 0)?);
    }
    let base = reinterpret(g, base, view.dtype)?;
    let storage = g.numel(base);
    let Some(f) = factor(view, storage) else { return read_by_gather(g, base, view) };
    let whole = f.padded == storage && f.starts.iter().all(|&s| s == 0) && f.axes == f.lens;
    let block = if whole {
        g.reshape(base, &f.axes)?
    } else {
        let flat = g.reshape(base, &[storage])?;
        let flat = resize_flat(g, flat, f.padded)?;
        let axes = g.reshape(flat, &f.axes)?;
        let ends: Vec<i64> = f.starts.iter().zip(&f.lens).map(|(s, n)| s + n).collect();
        g.slice(axes, &f.starts, &ends, &vec![1; f.axes.len()])?
    };
    // The block's dims are in stride order; the view's dims that are not broadcast pick them in the view's order.
    let kept: Vec<usize> = f.axis_of.iter().flatten().copied().collect();
    let kept_lens: Vec<i64> = f.lens[..kept.len()].to_vec();
    let block = g.reshape(block, &kept_lens)?;
    let block = g.transpose(block, &kept)?;
    let dims: Vec<usize> = (0..view.sizes.len()).filter(|&d| f.axis_of[d].is_some()).collect();
    Ok(g.broadcast_in_dim(block, &view.sizes, &dims)?)
}

/// The storage after `value` (of the view's sizes and dtype) is written through the view.
pub fn write(g: &mut Graph, base: Value, view: &View, value: Value) -> Result<Value> {
    let ty = g.ty(base).clone();
    if view.is_identity(&ty) || (view.numel() == g.numel(base) && view.offset == 0 && covers(view, &ty)) {
        return Ok(g.reshape(value, &ty.dims)?);
    }
    if view.numel() == 0 {
        return Ok(base);
    }
    let typed = reinterpret(g, base, view.dtype)?;
    let storage = g.numel(typed);
    let Some(f) = factor(view, storage).filter(|_| !has_broadcast(view)) else {
        let out = write_by_scatter(g, typed, view, value)?;
        return restore(g, out, &ty);
    };
    let order: Vec<usize> = {
        let mut pairs: Vec<(usize, usize)> =
            f.axis_of.iter().enumerate().filter_map(|(d, a)| a.map(|a| (a, d))).collect();
        pairs.sort_unstable();
        pairs.into_iter().map(|(_, d)| d).collect()
    };
    let ones: Vec<usize> = (0..view.sizes.len()).filter(|d| !order.contains(d)).collect();
    let perm: Vec<usize> = order.iter().chain(&ones).copied().collect();
    let block = g.transpose(value, &perm)?;
    let block = g.reshape(block, &f.lens)?;
    if f.padded == storage && f.axes == f.lens {
        return restore(g, block, &ty);
    }
    let flat = g.reshape(typed, &[storage])?;
    let sized = resize_flat(g, flat, f.padded)?;
    let axes = g.reshape(sized, &f.axes)?;
    let mut starts = Vec::with_capacity(f.starts.len());
    for &s in &f.starts {
        starts.push(g.scalar(DType::I32, s)?);
    }
    let updated = g.dynamic_update_slice(axes, block, &starts)?;
    let mut out = g.reshape(updated, &[f.padded])?;
    if f.padded > storage {
        out = g.slice(out, &[0], &[storage], &[1])?;
    } else if f.padded < storage {
        let tail = g.slice(flat, &[f.padded], &[storage], &[1])?;
        out = g.concatenate(&[out, tail], 0)?;
    }
    restore(g, out, &ty)
}

/// A row-major view of all elements whose sizes differ from the natural ones (`x.view(-1)`).
fn covers(view: &View, ty: &TensorType) -> bool {
    view.dtype == ty.dtype && super::args::is_contiguous(&view.sizes, &view.strides)
}

fn has_broadcast(view: &View) -> bool {
    view.sizes.iter().zip(&view.strides).any(|(&n, &s)| n > 1 && s == 0)
}

/// Flat storage in elements of `dtype`: a view may read its storage's bytes as another dtype.
fn reinterpret(g: &mut Graph, base: Value, dtype: DType) -> Result<Value> {
    let from = g.dtype(base);
    if from == dtype {
        return Ok(base);
    }
    let n = g.numel(base);
    let flat = g.reshape(base, &[n])?;
    // Complex storage is pairs of reals and bool is a byte: neither may be bit-cast directly.
    if from.is_complex() {
        let (re, im) = (g.real(flat)?, g.imag(flat)?);
        let (re, im) = (g.reshape(re, &[n, 1])?, g.reshape(im, &[n, 1])?);
        let pairs = g.concatenate(&[re, im], 1)?;
        let pairs = g.reshape(pairs, &[2 * n])?;
        return reinterpret(g, pairs, dtype);
    }
    if dtype.is_complex() {
        let reals = reinterpret(g, flat, dtype.real_of())?;
        let m = g.numel(reals) / 2;
        let pairs = g.reshape(reals, &[m, 2])?;
        let re = g.slice(pairs, &[0, 0], &[m, 1], &[1, 1])?;
        let im = g.slice(pairs, &[0, 1], &[m, 2], &[1, 1])?;
        let (re, im) = (g.reshape(re, &[m])?, g.reshape(im, &[m])?);
        return Ok(g.complex(re, im)?);
    }
    if from == DType::Bool {
        let bytes = g.convert(flat, DType::U8)?;
        return reinterpret(g, bytes, dtype);
    }
    if dtype == DType::Bool {
        let bytes = reinterpret(g, flat, DType::U8)?;
        let zero = g.zeros_like(bytes)?;
        return Ok(g.compare(bytes, zero, primitives::Direction::Ne)?);
    }
    let (a, b) = (from.size_of() as i64, dtype.size_of() as i64);
    let out = if a < b {
        let grouped = g.reshape(flat, &[n * a / b, b / a])?;
        g.bitcast_convert(grouped, dtype)?
    } else {
        g.bitcast_convert(flat, dtype)?
    };
    Ok(g.reshape(out, &[n * a / b])?)
}

/// Undoes [`reinterpret`]: elements back in the storage's natural type.
fn restore(g: &mut Graph, flat: Value, ty: &TensorType) -> Result<Value> {
    let out = reinterpret(g, flat, ty.dtype)?;
    Ok(g.reshape(out, &ty.dims)?)
}

fn flat_indices(g: &mut Graph, view: &View) -> Result<Value> {
    let mut sum = g.full(DType::I64, &view.sizes, view.offset)?;
    for d in 0..view.sizes.len() {
        let i = g.iota(DType::I64, &view.sizes, d)?;
        let s = g.full(DType::I64, &view.sizes, view.strides[d])?;
        let term = g.multiply(i, s)?;
        sum = g.add(sum, term)?;
    }
    Ok(g.reshape(sum, &[view.numel(), 1])?)
}

fn read_by_gather(g: &mut Graph, base: Value, view: &View) -> Result<Value> {
    let n = g.numel(base);
    let flat = g.reshape(base, &[n])?;
    let indices = flat_indices(g, view)?;
    let dims = GatherDims {
        offset_dims: vec![],
        collapsed_slice_dims: vec![0],
        operand_batching_dims: vec![],
        start_indices_batching_dims: vec![],
        start_index_map: vec![0],
        index_vector_dim: 1,
    };
    let out = g.gather(flat, indices, &dims, &[1], false)?;
    Ok(g.reshape(out, &view.sizes)?)
}

fn write_by_scatter(g: &mut Graph, typed: Value, view: &View, value: Value) -> Result<Value> {
    let n = g.numel(typed);
    let flat = g.reshape(typed, &[n])?;
    let indices = flat_indices(g, view)?;
    let updates = g.reshape(value, &[view.numel()])?;
    let dims = ScatterDims {
        update_window_dims: vec![],
        inserted_window_dims: vec![0],
        input_batching_dims: vec![],
        scatter_indices_batching_dims: vec![],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
    };
    let out = g.scatter(&[flat], indices, &[updates], &dims, false, false, |_, args| Ok(vec![args[1]]))?;
    Ok(out[0])
}
