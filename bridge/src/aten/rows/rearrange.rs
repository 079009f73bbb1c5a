//! Elements moved about: `narrow_copy`, `flip`, `roll`, `repeat`, pixel and channel shuffles.

use super::places::wrap_dim;
use super::take::span;
use crate::aten::{Cx, Row};
use crate::{Error, Result};
use primitives::{Dims, Value};

pub const ROWS: &[Row] = &[
    Row::new("narrow_copy", narrow_copy),
    Row::pointwise("flip", flip),
    Row::new("roll", roll),
    Row::new("repeat", repeat),
    Row::new("pixel_shuffle", pixel_shuffle),
    Row::new("pixel_unshuffle", pixel_unshuffle),
    Row::new("channel_shuffle", channel_shuffle),
    Row::new("native_channel_shuffle", channel_shuffle),
];

/// `narrow_copy(self, dim, start, length)`: torch's checks and their exception types, which are not those of `narrow`.
fn narrow_copy(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let (dim, start, length) = (cx.int(1)?, cx.int(2)?, cx.int(3)?);
    let dims = cx.g.dims(x);
    if dims.is_empty() {
        return Err(cx.error("narrow() cannot be applied to a 0-dim tensor."));
    }
    if length < 0 {
        return Err(cx.error("narrow(): length must be non-negative."));
    }
    if dim >= dims.len() as i64 {
        return Err(cx.error(format!("narrow_copy(): got dim {dim}, expected less than {}", dims.len())));
    }
    let dim = wrap_dim(cx, dim, dims.len())?;
    let size = dims[dim];
    if start < -size || start > size {
        let message = format!("start out of range (expected to be in range of [{}, {size}], but got {start})", -size);
        return Err(Error::index(cx.op(), message));
    }
    let start = if start < 0 { start + size } else { start };
    if start > size - length {
        return Err(cx.error(format!("start ({start}) + length ({length}) exceeds dimension size ({size}).")));
    }
    let y = span(cx.g, x, dim, start, start + length)?;
    cx.out(y);
    Ok(())
}

/// `flip(self, dims)`.
fn flip(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let rank = cx.g.rank(x);
    let mut dims = Vec::new();
    for d in cx.ints(1)? {
        let d = wrap_dim(cx, d, rank)?;
        if dims.contains(&d) {
            return Err(cx.error(format!("dim {d} appears multiple times in the list of dims")));
        }
        dims.push(d);
    }
    dims.retain(|&d| d < rank);
    let y = cx.g.reverse(x, &dims)?;
    cx.out(y);
    Ok(())
}

/// `roll(self, shifts, dims)`; without dims the flattened tensor rolls.
fn roll(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let sizes = cx.g.dims(x);
    let (shifts, dims) = (cx.ints(1)?, cx.ints(2)?);
    if shifts.is_empty() {
        return Err(cx.error("`shifts` required"));
    }
    let y = if dims.is_empty() && shifts.len() == 1 {
        let n = cx.g.numel(x);
        let flat = cx.g.reshape(x, &[n])?;
        let rolled = rolled(cx, flat, 0, shifts[0])?;
        cx.g.reshape(rolled, &sizes)?
    } else if shifts.len() != dims.len() {
        return Err(cx.error(format!(
            "shifts and dimensions must align. shifts: {}, dims:{}",
            shifts.len(),
            dims.len()
        )));
    } else {
        let mut y = x;
        for (&s, &d) in shifts.iter().zip(&dims) {
            if sizes.is_empty() {
                let message = format!("Dimension specified as {d} but tensor has no dimensions");
                return Err(Error::index(cx.op(), message));
            }
            let d = wrap_dim(cx, d, sizes.len())?;
            y = rolled(cx, y, d, s)?;
        }
        y
    };
    cx.out(y);
    Ok(())
}

fn rolled(cx: &mut Cx<'_, '_>, x: Value, dim: usize, shift: i64) -> Result<Value> {
    let sizes = cx.g.dims(x);
    let n = sizes[dim];
    if n == 0 || shift.rem_euclid(n) == 0 {
        return Ok(x);
    }
    let cut = n - shift.rem_euclid(n);
    let (zeros, ones) = (vec![0; sizes.len()], vec![1; sizes.len()]);
    let (mut start, mut end) = (zeros.clone(), sizes.clone());
    start[dim] = cut;
    end[dim] = cut;
    let tail = cx.g.slice(x, &start, &sizes, &ones)?;
    let head = cx.g.slice(x, &zeros, &end, &ones)?;
    Ok(cx.g.concatenate(&[tail, head], dim)?)
}

/// `repeat(self, repeats)`: copies side by side along each dim; new dims come in front.
fn repeat(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let (sizes, repeats) = (cx.g.dims(x), cx.ints(1)?);
    let Some(new) = repeats.len().checked_sub(sizes.len()) else {
        return Err(
            cx.error("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
        );
    };
    if let Some(r) = repeats.iter().find(|&&r| r < 0) {
        return Err(cx.error(format!("Trying to create tensor with negative dimension {r}: {repeats:?}")));
    }
    let mut wide = Dims::new();
    let mut mapping = Vec::new();
    let mut out = Dims::new();
    for (k, &r) in repeats.iter().enumerate() {
        wide.push(r);
        out.push(r * if k < new { 1 } else { sizes[k - new] });
        if k >= new {
            mapping.push(wide.len());
            wide.push(sizes[k - new]);
        }
    }
    let v = cx.g.broadcast_in_dim(x, &wide, &mapping)?;
    let y = cx.g.reshape(v, &out)?;
    cx.out(y);
    Ok(())
}

/// `pixel_shuffle(self, r)`: `(*, C·r², H, W)` to `(*, C, H·r, W·r)`.
fn pixel_shuffle(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let (sizes, r) = (cx.g.dims(x), cx.int(1)?);
    if sizes.len() < 3 {
        return Err(cx.error(format!(
            "pixel_shuffle expects input to have at least 3 dimensions, but got input with {} dimension(s)",
            sizes.len()
        )));
    }
    if r <= 0 {
        return Err(cx.error(format!("pixel_shuffle expects a positive upscale_factor, but got {r}")));
    }
    let b = sizes.len() - 3;
    let (c, h, w) = (sizes[b], sizes[b + 1], sizes[b + 2]);
    if c % (r * r) != 0 {
        return Err(cx.error(format!(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but \
             input.size(-3)={c} is not divisible by {}",
            r * r
        )));
    }
    let lead = &sizes[..b];
    let split = [lead, &[c / (r * r), r, r, h, w]].concat();
    let v = cx.g.reshape(x, &split)?;
    let order: Vec<usize> = (0..b).chain([b, b + 3, b + 1, b + 4, b + 2]).collect();
    let v = cx.g.transpose(v, &order)?;
    let y = cx.g.reshape(v, &[lead, &[c / (r * r), h * r, w * r]].concat())?;
    cx.out(y);
    Ok(())
}

/// `pixel_unshuffle(self, r)`: the inverse of [`pixel_shuffle`].
fn pixel_unshuffle(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let (sizes, r) = (cx.g.dims(x), cx.int(1)?);
    if sizes.len() < 3 {
        return Err(cx.error(format!(
            "pixel_unshuffle expects input to have at least 3 dimensions, but got input with {} dimension(s)",
            sizes.len()
        )));
    }
    if r <= 0 {
        return Err(cx.error(format!("pixel_unshuffle expects a positive downscale_factor, but got {r}")));
    }
    let b = sizes.len() - 3;
    let (c, h, w) = (sizes[b], sizes[b + 1], sizes[b + 2]);
    for (name, place, n) in [("height", 2, h), ("width", 1, w)] {
        if n % r != 0 {
            return Err(cx.error(format!(
                "pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size(-{place})={n} is not \
                 divisible by {r}"
            )));
        }
    }
    let lead = &sizes[..b];
    let v = cx.g.reshape(x, &[lead, &[c, h / r, r, w / r, r]].concat())?;
    let order: Vec<usize> = (0..b).chain([b, b + 2, b + 4, b + 1, b + 3]).collect();
    let v = cx.g.transpose(v, &order)?;
    let y = cx.g.reshape(v, &[lead, &[c * r * r, h / r, w / r]].concat())?;
    cx.out(y);
    Ok(())
}

/// `channel_shuffle(self, groups)`: channels of the groups interleaved.
fn channel_shuffle(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let (sizes, groups) = (cx.g.dims(x), cx.int(1)?);
    if sizes.len() < 3 {
        return Err(
            cx.error(format!("channel_shuffle expects input with > 2 dims, but got input with sizes {:?}", &sizes[..]))
        );
    }
    if groups <= 0 {
        return Err(
            cx.error(format!("Number of groups to divide channels in must be positive. Value of groups:{groups}"))
        );
    }
    if sizes[1] % groups != 0 {
        return Err(cx.error(format!(
            "Number of channels must be divisible by groups. Got {} channels and {groups} groups.",
            sizes[1]
        )));
    }
    let rest: i64 = sizes[2..].iter().product();
    let v = cx.g.reshape(x, &[sizes[0], groups, sizes[1] / groups, rest])?;
    let v = cx.g.transpose(v, &[0, 2, 1, 3])?;
    let y = cx.g.reshape(v, &sizes)?;
    cx.out(y);
    Ok(())
}
