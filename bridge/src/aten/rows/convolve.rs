//! The three convolutions behind `convolution` and its gradients, each one `stablehlo.convolution`.
//!
//! Kernels are flipped with `reverse` and groups are moved with transposes rather than with window reversal and batch
//! groups: backends have fast kernels for the plain form only.

use crate::Result;
use primitives::{ConvDims, ConvWindow, DType, Dims, Graph, Precision, Value};

/// What a convolution does besides its operands' shapes, an entry per spatial dim.
#[derive(Clone, Debug)]
pub struct Geometry {
    pub stride: Vec<i64>,
    pub padding: Vec<i64>,
    pub dilation: Vec<i64>,
    pub groups: i64,
}

/// How exact products of operands that came as `dtype` have to be: bf16 numbers widened to f32 lose nothing in the
/// fastest form of hardware that multiplies bf16.
pub fn precision_for(dtype: DType, asked: Precision) -> Precision {
    if dtype == DType::BF16 { Precision::Default } else { asked }
}

/// `x [N, G*Ci, ..]` with `w [G*Co, Ci, ..]`: `[N, G*Co, ..]`, as many places as fit, or the first `size` ones.
pub fn forward(
    g: &mut Graph,
    x: Value,
    w: Value,
    geo: &Geometry,
    size: Option<&[i64]>,
    precision: Precision,
) -> Result<Value> {
    let (from, k) = (g.dims(x), g.dims(w));
    let high = |d: usize| match size {
        None => geo.padding[d],
        Some(n) => (n[d] - 1) * geo.stride[d] + (k[d + 2] - 1) * geo.dilation[d] + 1 - from[d + 2] - geo.padding[d],
    };
    let window = ConvWindow {
        strides: geo.stride.clone(),
        padding: (0..geo.stride.len()).map(|d| (geo.padding[d], high(d))).collect(),
        rhs_dilation: geo.dilation.clone(),
        ..ConvWindow::default()
    };
    let dims = ConvDims::channels_first(geo.stride.len());
    Ok(g.convolution(x, w, &dims, &window, geo.groups, 1, precision)?)
}

/// Gradient of [`forward`]'s input, whose spatial sizes are `size`: `go [N, G*Co, ..]` with `w [G*Co, Ci, ..]`.
pub fn input_grad(
    g: &mut Graph,
    go: Value,
    w: Value,
    geo: &Geometry,
    size: &[i64],
    precision: Precision,
) -> Result<Value> {
    let spatial = geo.stride.len();
    let (from, k) = (g.dims(go), g.dims(w));
    let flipped: Vec<usize> = (2..2 + spatial).collect();
    let w = g.reverse(w, &flipped)?;
    // [G*Co, Ci, ..] to [Co, G*Ci, ..]: input features of this convolution first.
    let (groups, co, ci) = (geo.groups, k[0] / geo.groups, k[1]);
    let w = swap_groups(g, w, groups, co, ci)?;
    let mut dims = ConvDims::channels_first(spatial);
    (dims.kernel_input_feature, dims.kernel_output_feature) = (0, 1);
    let padding = (0..spatial)
        .map(|d| {
            let reach = (k[d + 2] - 1) * geo.dilation[d];
            let low = reach - geo.padding[d];
            let spread = (from[d + 2] - 1) * geo.stride[d] + 1;
            (low, size[d] + reach - spread - low)
        })
        .collect();
    let window = ConvWindow {
        padding,
        lhs_dilation: geo.stride.clone(),
        rhs_dilation: geo.dilation.clone(),
        ..ConvWindow::default()
    };
    Ok(g.convolution(go, w, &dims, &window, groups, 1, precision)?)
}

/// `[G*A, B, ..]` to `[A, G*B, ..]`.
fn swap_groups(g: &mut Graph, w: Value, groups: i64, a: i64, b: i64) -> Result<Value> {
    if groups == 1 {
        return Ok(w);
    }
    let rest = Dims::from_slice(&g.dims(w)[2..]);
    let split: Dims = [groups, a, b].into_iter().chain(rest.iter().copied()).collect();
    let w = g.reshape(w, &split)?;
    let order: Vec<usize> = [1, 0, 2].into_iter().chain(3..3 + rest.len()).collect();
    let w = g.transpose(w, &order)?;
    let joined: Dims = [a, groups * b].into_iter().chain(rest.iter().copied()).collect();
    Ok(g.reshape(w, &joined)?)
}

/// Gradient of [`forward`]'s weight, whose spatial sizes are `size`: `x [N, G*Ci, ..]` with `go [N, G*Co, ..]`.
///
/// The batch is what is summed over, so it becomes the feature dim: `x` as `[Ci, G*N, ..]`, `go` as the kernel
/// `[N, G*Co, ..]`, dilated by the stride; the result is `[Ci, G*Co, ..]`.
pub fn weight_grad(
    g: &mut Graph,
    x: Value,
    go: Value,
    geo: &Geometry,
    size: &[i64],
    precision: Precision,
) -> Result<Value> {
    let spatial = geo.stride.len();
    let (image, grad) = (g.dims(x), g.dims(go));
    let (groups, n, ci) = (geo.groups, image[0], image[1] / geo.groups);
    let mut dims = ConvDims::channels_first(spatial);
    let x = if groups == 1 {
        (dims.input_batch, dims.input_feature) = (1, 0);
        x
    } else {
        let rest = &image[2..];
        let split: Dims = [n, groups, ci].into_iter().chain(rest.iter().copied()).collect();
        let x = g.reshape(x, &split)?;
        let order: Vec<usize> = [2, 1, 0].into_iter().chain(3..3 + spatial).collect();
        let x = g.transpose(x, &order)?;
        let joined: Dims = [ci, groups * n].into_iter().chain(rest.iter().copied()).collect();
        g.reshape(x, &joined)?
    };
    (dims.kernel_input_feature, dims.kernel_output_feature) = (0, 1);
    (dims.output_batch, dims.output_feature) = (1, 0);
    let padding = (0..spatial)
        .map(|d| {
            let low = geo.padding[d];
            let spread = (grad[d + 2] - 1) * geo.stride[d] + 1;
            (low, (size[d] - 1) * geo.dilation[d] + spread - image[d + 2] - low)
        })
        .collect();
    let window = ConvWindow {
        strides: geo.dilation.clone(),
        padding,
        rhs_dilation: geo.stride.clone(),
        ..ConvWindow::default()
    };
    Ok(g.convolution(x, go, &dims, &window, groups, 1, precision)?)
}
