//! Fake quantization: rounding to a grid of integers and back, and where the grid was wide enough.

use crate::Result;
use crate::aten::expr::formula;
use crate::aten::{Cx, Row, promote};
use primitives::{DType, Dims, Value};

pub const ROWS: &[Row] = &[
    Row::pointwise("fake_quantize_per_tensor_affine_cachemask", |cx| {
        let (scale, zero) = (cx.number_as(1, DType::F32)?, cx.number_as(2, DType::F32)?);
        quantize(cx, scale, zero, false, None, 3)
    })
    .dynamic(&["scale"]),
    Row::pointwise("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", with_tensors),
    Row::pointwise("fake_quantize_per_channel_affine_cachemask", per_channel),
];

/// `(self, scale, zero_point, fake_quant_enabled, quant_min, quant_max)`: tensors of one element.
fn with_tensors(cx: &mut Cx<'_, '_>) -> Result<()> {
    let mut given = [cx.t(1)?, cx.t(2)?, cx.t(3)?];
    for v in &mut given {
        *v = cx.g.reshape(*v, &[])?;
    }
    let [scale, zero, on] = given;
    let (scale, zero) = (cx.g.convert(scale, DType::F32)?, cx.g.convert(zero, DType::F32)?);
    let on = super::reduce::nonzero(cx.g, on)?;
    quantize(cx, scale, zero, false, Some(on), 4)
}

/// `(self, scale, zero_point, axis, quant_min, quant_max)`: a scale and a zero for each slice along `axis`.
fn per_channel(cx: &mut Cx<'_, '_>) -> Result<()> {
    let sizes = cx.ty(0)?.dims;
    let axis = cx.int(3)?;
    let Some(axis) = usize::try_from(axis).ok().filter(|&a| a < sizes.len()) else {
        return Err(cx.error("`axis` must be between 0 and number of dimensions of input"));
    };
    let (scale, zero) = (cx.t(1)?, cx.t(2)?);
    if cx.g.numel(scale) != sizes[axis] || cx.g.numel(zero) != sizes[axis] {
        return Err(cx.error("dimensions of scale and zero-point are not consistent with input tensor"));
    }
    let mut spread = Dims::from_elem(1, sizes.len());
    spread[axis] = sizes[axis];
    let (scale, zero) = (cx.g.convert(scale, DType::F32)?, cx.g.convert(zero, DType::F32)?);
    let (scale, zero) = (cx.g.reshape(scale, &spread)?, cx.g.reshape(zero, &spread)?);
    let between = cx.ty(2)?.dtype.is_float();
    quantize(cx, scale, zero, between, None, 4)
}

/// The nearest number of the grid, whose ends are arguments `ends` and the next; and whether it lies between them. A zero
/// `between` two numbers of the grid is added before the rounding.
fn quantize(
    cx: &mut Cx<'_, '_>,
    scale: Value,
    zero: Value,
    between: bool,
    on: Option<Value>,
    ends: usize,
) -> Result<()> {
    let x = cx.t(0)?;
    let (dtype, sizes) = (cx.g.dtype(x), cx.g.dims(x));
    let (least, most) = (cx.int(ends)?, cx.int(ends + 1)?);
    if least > most {
        return Err(cx.error("`quant_min` should be less than or equal to `quant_max`."));
    }
    if !matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::BF16) {
        return Err(super::util::not_for(cx, "fake_quantize_tensor_cachemask_kernel_type_handling", dtype));
    }
    let compute = promote::compute_type(dtype);
    let wide = cx.g.convert(x, compute)?;
    let inverse = formula(cx.g, [scale], |[scale]| scale.constant(1.0) / scale)?;
    let mut spread = [inverse, zero, scale];
    for v in &mut spread {
        *v = cx.g.convert(*v, compute)?;
        *v = cx.g.broadcast_to(*v, &sizes)?;
    }
    let [inverse, zero, scale] = spread;
    let at = formula(cx.g, [wide, inverse, zero], |[x, inverse, zero]| {
        let (inner, outer) = if between { (zero, zero * 0.0) } else { (zero * 0.0, zero) };
        (x * inverse + inner).map(|g, v| g.round_nearest_even(v)) + outer
    })?;
    let (least, most) = (least as f64, most as f64);
    // The product is one of single precision, of doubles too.
    let mut y = formula(cx.g, [at, zero, scale], |[at, zero, scale]| {
        (at.max(least).min(most) - zero).to(DType::F32) * scale.to(DType::F32)
    })?;
    y = cx.g.convert(y, compute)?;
    let mut mask = formula(cx.g, [at], |[at]| at.ge(least) & at.le(most))?;
    if let Some(on) = on {
        let on = cx.g.broadcast_to(on, &sizes)?;
        y = cx.g.select(on, y, wide)?;
        let off = cx.g.not(on)?;
        mask = cx.g.or(mask, off)?;
    }
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    cx.out(mask);
    Ok(())
}
