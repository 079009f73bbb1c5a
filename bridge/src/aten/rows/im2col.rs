//! `im2col` (unfold of images into columns of patches) and its transpose `col2im` (fold).

use crate::Result;
use crate::aten::{Cx, Row};
use primitives::{Dims, Value};

pub const ROWS: &[Row] = &[Row::new("im2col", im2col), Row::new("col2im", col2im)];

/// A sliding window over two dims.
struct Sliding {
    kernel: [i64; 2],
    dilation: [i64; 2],
    padding: [i64; 2],
    stride: [i64; 2],
}

impl Sliding {
    /// From the arguments that follow position `i`.
    fn parse(cx: &Cx<'_, '_>, i: usize) -> Result<Self> {
        let pair = |k: usize, name: &str| -> Result<[i64; 2]> {
            match cx.ints(i + k)?[..] {
                [a] => Ok([a, a]),
                [a, b] => Ok([a, b]),
                _ => Err(cx.error(format!("{}: expected {name} to have 2 elements", cx.op()))),
            }
        };
        let s = Self {
            kernel: pair(0, "kernel_size")?,
            dilation: pair(1, "dilation")?,
            padding: pair(2, "padding")?,
            stride: pair(3, "stride")?,
        };
        let named = [(s.kernel, "kernel size"), (s.stride, "stride"), (s.dilation, "dilation")];
        for (v, name) in named {
            if v.iter().any(|&x| x <= 0) {
                return Err(cx.error(format!("{name} should be greater than zero, but got {v:?}")));
            }
        }
        if s.padding.iter().any(|&p| p < 0) {
            return Err(cx.error(format!("padding should be non-negative, but got {:?}", s.padding)));
        }
        Ok(s)
    }

    /// Windows along each dim of an image.
    fn counts(&self, image: [i64; 2]) -> [i64; 2] {
        [0, 1].map(|d| {
            (image[d] + 2 * self.padding[d] - self.dilation[d] * (self.kernel[d] - 1) - 1).div_euclid(self.stride[d])
                + 1
        })
    }

    /// Offsets into a window, in row-major order.
    fn offsets(&self) -> impl Iterator<Item = [i64; 2]> + '_ {
        (0..self.kernel[0])
            .flat_map(move |i| (0..self.kernel[1]).map(move |j| [i * self.dilation[0], j * self.dilation[1]]))
    }
}

/// The value as a batch, and whether it was none.
fn batched(cx: &mut Cx<'_, '_>, x: Value, rank: usize) -> Result<(Value, bool)> {
    let dims = cx.g.dims(x);
    if dims.len() == rank {
        return Ok((x, false));
    }
    let all: Dims = [1].into_iter().chain(dims).collect();
    Ok((cx.g.reshape(x, &all)?, true))
}

fn finish(cx: &mut Cx<'_, '_>, y: Value, single: bool) -> Result<()> {
    let dims = cx.g.dims(y);
    let y = if single { cx.g.reshape(y, &dims[1..])? } else { y };
    cx.out(y);
    Ok(())
}

/// `im2col(self, kernel_size, dilation, padding, stride)`: `(N, C, H, W)` to `(N, C·kh·kw, L)`.
fn im2col(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let s = Sliding::parse(cx, 1)?;
    let given = cx.g.dims(x);
    let valid = matches!(given.len(), 3 | 4) && !given[given.len() - 3..].contains(&0);
    if !valid {
        return Err(cx.error(format!(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but \
             got: {:?}",
            &given[..]
        )));
    }
    let (x, single) = batched(cx, x, 4)?;
    let d = cx.g.dims(x);
    let [oh, ow] = s.counts([d[2], d[3]]);
    if oh < 1 || ow < 1 {
        return Err(cx.error(format!(
            "Given input with spatial size ({}, {}), kernel_size={:?}, dilation={:?}, padding={:?}, calculated shape of the \
             array of sliding blocks as ({oh}, {ow}), but its components must be at least one.",
            d[2], d[3], s.kernel, s.dilation, s.padding
        )));
    }
    let zero = cx.g.scalar(cx.g.dtype(x), 0)?;
    let pads = [0, 0, s.padding[0], s.padding[1]];
    let padded = cx.g.pad(x, zero, &pads, &pads, &[0; 4])?;
    let mut parts = Vec::new();
    for [i, j] in s.offsets() {
        let end = [d[0], d[1], i + (oh - 1) * s.stride[0] + 1, j + (ow - 1) * s.stride[1] + 1];
        let v = cx.g.slice(padded, &[0, 0, i, j], &end, &[1, 1, s.stride[0], s.stride[1]])?;
        parts.push(cx.g.reshape(v, &[d[0], d[1], 1, oh * ow])?);
    }
    let y = if parts.len() == 1 { parts[0] } else { cx.g.concatenate(&parts, 2)? };
    let y = cx.g.reshape(y, &[d[0], d[1] * s.kernel[0] * s.kernel[1], oh * ow])?;
    finish(cx, y, single)
}

/// `col2im(self, output_size, kernel_size, dilation, padding, stride)`: patches summed where they lay.
fn col2im(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let s = Sliding::parse(cx, 2)?;
    let [h, w] = match cx.ints(1)?[..] {
        [a] => [a, a],
        [a, b] => [a, b],
        _ => return Err(cx.error("expected output_size to have 2 elements")),
    };
    let given = cx.g.dims(x);
    if !matches!(given.len(), 2 | 3) || given[given.len() - 2..].contains(&0) {
        return Err(cx.error(format!(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, \
             but got: {:?}",
            &given[..]
        )));
    }
    let (x, single) = batched(cx, x, 3)?;
    let d = cx.g.dims(x);
    let [oh, ow] = s.counts([h, w]);
    let patch = s.kernel[0] * s.kernel[1];
    if d[1] % patch != 0 {
        return Err(cx.error(format!(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)={} \
             and kernel_size={:?}.",
            d[1], s.kernel
        )));
    }
    if oh < 1 || ow < 1 || d[2] != oh * ow {
        return Err(cx.error(format!(
            "Given output_size=({h}, {w}), kernel_size={:?}, dilation={:?}, padding={:?}, stride={:?}, expected size of \
             input's dimension 2 to match the calculated number of sliding blocks {oh} * {ow} = {}, but got \
             input.size(2)={}.",
            s.kernel,
            s.dilation,
            s.padding,
            s.stride,
            oh * ow,
            d[2]
        )));
    }
    let (n, c) = (d[0], d[1] / patch);
    let columns = cx.g.reshape(x, &[n, c, patch, oh, ow])?;
    let (hp, wp) = (h + 2 * s.padding[0], w + 2 * s.padding[1]);
    let zero = cx.g.scalar(cx.g.dtype(x), 0)?;
    let mut sum: Option<Value> = None;
    for (k, [i, j]) in s.offsets().enumerate() {
        let k = k as i64;
        let v = cx.g.slice(columns, &[0, 0, k, 0, 0], &[n, c, k + 1, oh, ow], &[1; 5])?;
        let v = cx.g.reshape(v, &[n, c, oh, ow])?;
        let high = [0, 0, hp - i - ((oh - 1) * s.stride[0] + 1), wp - j - ((ow - 1) * s.stride[1] + 1)];
        let v = cx.g.pad(v, zero, &[0, 0, i, j], &high, &[0, 0, s.stride[0] - 1, s.stride[1] - 1])?;
        sum = Some(match sum {
            None => v,
            Some(t) => cx.g.add(t, v)?,
        });
    }
    let all = sum.ok_or_else(|| cx.error("a kernel of no elements"))?;
    let start = [0, 0, s.padding[0], s.padding[1]];
    let y = cx.g.slice(all, &start, &[n, c, start[2] + h, start[3] + w], &[1; 4])?;
    finish(cx, y, single)
}
