//! The windows of pooling ops: one [`Axis`] per spatial dim, always the last dims of the input.

use crate::Result;
use crate::aten::Cx;
use primitives::Dims;

/// How a window moves along one dim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The dim of the input.
    pub dim: usize,
    pub size: i64,
    pub kernel: i64,
    pub stride: i64,
    pub padding: i64,
    pub dilation: i64,
    /// Number of places.
    pub out: i64,
}

impl Axis {
    /// Edge padding that puts place `o` of offset `j` of a window at `o * stride`, and the limit of that slice.
    pub fn high(&self) -> i64 {
        let last = (self.out - 1) * self.stride - self.padding + (self.kernel - 1) * self.dilation;
        (last + 1 - self.size).max(0)
    }

    /// Start of place `o`, in elements of the input; negative in the padding.
    pub fn start(&self, o: i64) -> i64 {
        o * self.stride - self.padding
    }
}

/// Parses `kernel_size, stride, padding` at `at..at+3` (and a dilation), for `n` spatial dims of argument `input`.
pub fn axes(
    cx: &Cx<'_, '_>,
    input: usize,
    n: usize,
    at: usize,
    dilation: Option<usize>,
    ceil_mode: bool,
) -> Result<Vec<Axis>> {
    let dims = cx.sizes(input)?;
    let rank = dims.len();
    let expected = if rank == n + 1 { &dims[..] } else { dims.get(1..).unwrap_or(&[]) };
    if (rank != n + 1 && rank != n + 2) || expected.contains(&0) {
        return Err(cx.error(format!(
            "Expected {}D or {}D (batch mode) tensor with optional 0 dim batch size for input, but got: {:?}",
            n + 1,
            n + 2,
            &dims[..]
        )));
    }
    let list = |i: usize, what: &str| -> Result<Vec<i64>> {
        let v = cx.ints(i)?;
        match v.len() {
            1 => Ok(vec![v[0]; n]),
            m if m == n => Ok(v),
            _ => Err(cx.error(format!("{what} must either be a single int, or a tuple of {n} ints"))),
        }
    };
    let kernel = list(at, "kernel_size")?;
    let stride = if cx.ints(at + 1)?.is_empty() { kernel.clone() } else { list(at + 1, "stride")? };
    let padding = list(at + 2, "padding")?;
    let dilation = match dilation {
        Some(i) => list(i, "dilation")?,
        None => vec![1; n],
    };
    (0..n)
        .map(|i| {
            let (k, s, p, d) = (kernel[i], stride[i], padding[i], dilation[i]);
            if k <= 0 || d <= 0 {
                return Err(cx.error(format!("kernel size and dilation should be greater than zero, but got kernel_size={k}, dilation={d}")));
            }
            if s <= 0 {
                return Err(cx.error("stride should not be zero"));
            }
            if p < 0 {
                return Err(cx.error(format!("pad must be non-negative, but got pad: {p}")));
            }
            if p > ((k - 1) * d + 1) / 2 {
                return Err(cx.error(format!("pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={d}")));
            }
            let dim = rank - n + i;
            let size = dims[dim];
            let room = size + 2 * p - d * (k - 1) - 1 + if ceil_mode { s - 1 } else { 0 };
            let mut out = room.div_euclid(s) + 1;
            // A last window may not start in the padding on the right.
            if ceil_mode && (out - 1) * s >= size + p {
                out -= 1;
            }
            if out < 1 {
                return Err(cx.error(format!("Given input size: {:?}. Calculated output size: {out} along dim {dim}. Output size is too small", &dims[..])));
            }
            Ok(Axis { dim, size, kernel: k, stride: s, padding: p, dilation: d, out })
        })
        .collect()
}

/// Sizes of the result.
pub fn out_dims(dims: &[i64], axes: &[Axis]) -> Dims {
    let mut out = Dims::from_slice(dims);
    for a in axes {
        out[a.dim] = a.out;
    }
    out
}

/// All offsets within a window, the last dim moving fastest.
pub fn offsets(axes: &[Axis]) -> Vec<Vec<i64>> {
    offsets_in(axes.iter().map(|a| a.kernel))
}

/// All offsets within a window of these sizes, the last dim moving fastest.
pub fn offsets_in(sizes: impl IntoIterator<Item = i64>) -> Vec<Vec<i64>> {
    sizes
        .into_iter()
        .fold(vec![vec![]], |all, k| all.iter().flat_map(|p| (0..k).map(move |j| [&p[..], &[j]].concat())).collect())
}

/// Number of elements of a window.
pub fn window_len(axes: &[Axis]) -> i64 {
    axes.iter().map(|a| a.kernel).product()
}
