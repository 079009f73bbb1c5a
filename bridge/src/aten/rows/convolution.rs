//! `convolution` and its gradients, from one to three spatial dims, transposed or not, in groups.

use super::convolve::{self, Geometry};
use super::memory_format;
use crate::Result;
use crate::aten::{Cx, Row, promote};
use primitives::{DType, Dims, Value};

pub const ROWS: &[Row] = &[
    Row::new("convolution", convolution).precise(),
    Row::new("convolution_overrideable", convolution).precise(),
    Row::new("convolution_backward", |cx| backward(cx, 4, 10)).precise(),
    Row::new("convolution_backward_overrideable", |cx| backward(cx, 3, 9)).precise(),
];

/// Reads stride, padding, dilation, transposed, output_padding and groups, which follow each other from position `at`.
fn geometry(cx: &Cx<'_, '_>, at: usize, spatial: usize) -> Result<(Geometry, bool, Vec<i64>)> {
    let list = |i: usize, what: &str| -> Result<Vec<i64>> {
        let v = cx.ints(i)?;
        match v.len() {
            1 => Ok(vec![v[0]; spatial]),
            n if n == spatial => Ok(v),
            n => Err(cx.error(format!("expected {what} to be a single integer value or a list of {spatial} values to match the convolution dimensions, but got {what} of {n} values"))),
        }
    };
    let (stride, padding, dilation) = (list(at, "stride")?, list(at + 1, "padding")?, list(at + 2, "dilation")?);
    let (transposed, output_padding, groups) = (cx.bool(at + 3)?, list(at + 4, "output_padding")?, cx.int(at + 5)?);
    if padding.iter().any(|&p| p < 0) {
        return Err(cx.error("negative padding is not supported"));
    }
    if output_padding.iter().any(|&p| p < 0) {
        return Err(cx.error("negative output_padding is not supported"));
    }
    let room = stride.iter().zip(&dilation).map(|(&s, &d)| s.max(d));
    if transposed && output_padding.iter().zip(room).any(|(&p, room)| p >= room) {
        return Err(cx.error(format!(
            "output padding must be smaller than either stride or dilation, but got output_padding {output_padding:?}, \
             stride {stride:?}, dilation {dilation:?}"
        )));
    }
    if stride.iter().any(|&s| s <= 0) {
        return Err(cx.error("non-positive stride is not supported"));
    }
    if dilation.iter().any(|&d| d <= 0) {
        return Err(cx.error("dilation should be greater than zero"));
    }
    if groups <= 0 {
        return Err(cx.error("non-positive groups is not supported"));
    }
    Ok((Geometry { stride, padding, dilation, groups }, transposed, output_padding))
}

/// `convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)`.
fn convolution(cx: &mut Cx<'_, '_>) -> Result<()> {
    let (x_ty, w_ty) = (cx.ty(0)?, cx.ty(1)?);
    let rank = x_ty.dims.len();
    if w_ty.dims.len() < 3 || rank != w_ty.dims.len() {
        return Err(cx.error(format!(
            "Expected {}-dimensional input for {}-dimensional weight {:?}, but got {rank}-dimensional input of size {:?} instead",
            w_ty.dims.len(),
            w_ty.dims.len(),
            &w_ty.dims[..],
            &x_ty.dims[..]
        )));
    }
    let spatial = rank - 2;
    let (geo, transposed, output_padding) = geometry(cx, 3, spatial)?;
    check_dtypes(cx, &[0, 1, 2])?;
    check_shapes(cx, &x_ty.dims, &w_ty.dims, &geo, transposed)?;
    let out = output_dims(&x_ty.dims, &w_ty.dims, &geo, transposed, &output_padding);
    if let Some(&n) = out[2..].iter().find(|&&n| n < 0 || (n == 0 && x_ty.numel() != 0)) {
        return Err(cx.error(format!(
            "Given input size per channel: {:?}. Calculated output size per channel: {:?} ({n}). Output size is too small",
            &x_ty.dims[2..],
            &out[2..]
        )));
    }
    memory_format::like(cx, &[0, 1]);
    let (x, w, dtype) = operands(cx, 0, 1)?;
    let precision = convolve::precision_for(dtype, cx.env.precision);
    let empty = out.iter().chain(&x_ty.dims).chain(&w_ty.dims).any(|&n| n == 0);
    let mut y = if empty {
        cx.g.full(cx.g.dtype(x), &out, 0)?
    } else if transposed {
        convolve::input_grad(cx.g, x, w, &geo, &out[2..], precision)?
    } else {
        convolve::forward(cx.g, x, w, &geo, None, precision)?
    };
    if let Some(b) = cx.opt_t(2)? {
        if cx.g.dims(b)[..] != [out[1]] {
            return Err(cx.error(format!(
                "Given weight of size {:?}, expected bias to be 1-dimensional with {} elements, but got bias of size {:?} instead",
                &w_ty.dims[..],
                out[1],
                &cx.g.dims(b)[..]
            )));
        }
        let b = cx.g.convert(b, cx.g.dtype(y))?;
        let b = cx.g.broadcast_in_dim(b, &out, &[1])?;
        y = cx.g.add(y, b)?;
    }
    let y = cx.g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

/// Input and weight in the dtype to convolve in.
fn operands(cx: &mut Cx<'_, '_>, x: usize, w: usize) -> Result<(Value, Value, DType)> {
    let (x, w) = (cx.t(x)?, cx.t(w)?);
    let dtype = cx.g.dtype(x);
    let compute = promote::compute_type(dtype);
    Ok((cx.g.convert(x, compute)?, cx.g.convert(w, compute)?, dtype))
}

fn check_dtypes(cx: &Cx<'_, '_>, args: &[usize]) -> Result<()> {
    let first = cx.ty(args[0])?.dtype;
    for (&i, what) in args[1..].iter().zip(["weight", "bias"]) {
        if cx.is_none(i) {
            continue;
        }
        let dtype = cx.ty(i)?.dtype;
        if dtype != first {
            return Err(cx.error(format!(
                "Input type ({}) and {what} type ({}) should be the same",
                promote::torch_name(first),
                promote::torch_name(dtype)
            )));
        }
    }
    Ok(())
}

fn check_shapes(cx: &Cx<'_, '_>, x: &Dims, w: &Dims, geo: &Geometry, transposed: bool) -> Result<()> {
    let groups = geo.groups;
    if w[0] < groups {
        return Err(cx.error(format!("Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {:?} instead", &w[..])));
    }
    if w[0] % groups != 0 {
        return Err(cx.error(format!("Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size {:?} instead", &w[..])));
    }
    let channels = if transposed { w[0] } else { w[1] * groups };
    if x[1] != channels {
        let kind = if transposed { "transposed=1, " } else { "" };
        return Err(cx.error(format!(
            "Given {kind}groups={groups}, weight of size {:?}, expected input{:?} to have {channels} channels, but got {} channels instead",
            &w[..],
            &x[..],
            x[1]
        )));
    }
    if !transposed {
        let padded: Vec<i64> = (0..geo.stride.len()).map(|d| x[d + 2] + 2 * geo.padding[d]).collect();
        let kernel: Vec<i64> = (0..geo.stride.len()).map(|d| geo.dilation[d] * (w[d + 2] - 1) + 1).collect();
        if padded.iter().zip(&kernel).any(|(p, k)| p < k) {
            let show = |v: &[i64]| v.iter().map(|n| n.to_string()).collect::<Vec<_>>().join(" x ");
            return Err(cx.error(format!(
                "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than actual input size",
                show(&padded),
                show(&kernel)
            )));
        }
    }
    Ok(())
}

fn output_dims(x: &Dims, w: &Dims, geo: &Geometry, transposed: bool, output_padding: &[i64]) -> Dims {
    let mut out: Dims = Dims::from_slice(&[x[0], if transposed { w[1] * geo.groups } else { w[0] }]);
    for d in 0..geo.stride.len() {
        let (n, k) = (x[d + 2], geo.dilation[d] * (w[d + 2] - 1) + 1);
        out.push(if transposed {
            (n - 1) * geo.stride[d] - 2 * geo.padding[d] + k + output_padding[d]
        } else {
            (n + 2 * geo.padding[d] - k).div_euclid(geo.stride[d]) + 1
        });
    }
    out
}

/// `convolution_backward(grad_output, input, weight, .., output_mask)`: the gradients of input, weight and bias that
/// the mask asks for. A transposed convolution is the input gradient of an ordinary one, so its gradients are that
/// one's forward pass and the weight gradient with the operands swapped.
fn backward(cx: &mut Cx<'_, '_>, at: usize, mask_at: usize) -> Result<()> {
    let (go_ty, x_ty, w_ty) = (cx.ty(0)?, cx.ty(1)?, cx.ty(2)?);
    let spatial = w_ty.dims.len().saturating_sub(2);
    let (geo, transposed, _) = geometry(cx, at, spatial)?;
    let mask = cx.bools(mask_at)?;
    let dtype = x_ty.dtype;
    let precision = convolve::precision_for(dtype, cx.env.precision);
    let compute = promote::compute_type(dtype);
    let empty = go_ty.dims.iter().chain(&x_ty.dims).chain(&w_ty.dims).any(|&n| n == 0);
    let go = cx.t(0)?;
    let go = cx.g.convert(go, compute)?;
    if mask[0] {
        let w = cx.t(2)?;
        let w = cx.g.convert(w, compute)?;
        let v = if empty {
            cx.g.full(compute, &x_ty.dims, 0)?
        } else if transposed {
            convolve::forward(cx.g, go, w, &geo, Some(&x_ty.dims[2..]), precision)?
        } else {
            convolve::input_grad(cx.g, go, w, &geo, &x_ty.dims[2..], precision)?
        };
        let v = cx.g.convert(v, dtype)?;
        cx.out(v);
    } else {
        cx.out_none();
    }
    if mask[1] {
        let x = cx.t(1)?;
        let x = cx.g.convert(x, compute)?;
        let (image, grad) = if transposed { (go, x) } else { (x, go) };
        let v = if empty {
            cx.g.full(compute, &w_ty.dims, 0)?
        } else {
            convolve::weight_grad(cx.g, image, grad, &geo, &w_ty.dims[2..], precision)?
        };
        let v = cx.g.convert(v, dtype)?;
        cx.out(v);
    } else {
        cx.out_none();
    }
    if mask[2] {
        let dims: Vec<usize> = std::iter::once(0).chain(2..go_ty.dims.len()).collect();
        let v = cx.g.reduce_sum(go, &dims)?;
        let v = cx.g.convert(v, dtype)?;
        cx.out(v);
    } else {
        cx.out_none();
    }
    Ok(())
}
