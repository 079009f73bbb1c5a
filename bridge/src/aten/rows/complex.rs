//! Complex numbers: made, taken apart, conjugated.

use super::util::{In, Out, Takes, inputs};
use crate::Result;
use crate::aten::expr::{Ex, formula};
use crate::aten::{Cx, Row};
use primitives::{DType, Value};
use std::f64::consts::PI;

pub const ROWS: &[Row] = &[
    Row::pointwise("complex", |cx| parts(cx, |re, im| re.complex(im))),
    Row::pointwise("polar", |cx| parts(cx, |abs, angle| (abs * angle.cos()).complex(abs * angle.sin()))),
    Row::pointwise("_conj_physical", conj),
    Row::pointwise("angle", angle),
];

/// Two real tensors of one dtype, f32 or f64, to a complex one.
fn parts(cx: &mut Cx<'_, '_>, f: super::util::F2) -> Result<()> {
    let (a, b) = (cx.ty(0)?.dtype, cx.ty(1)?.dtype);
    if !matches!(a, DType::F32 | DType::F64) || !matches!(b, DType::F32 | DType::F64) {
        return Err(crate::Error::not_implemented(cx.op(), "parts other than f32 or f64".into()));
    }
    if a != b {
        let name = crate::aten::promote::torch_name;
        return Err(cx.error(format!(
            "Expected object of scalar type {} but got scalar type {} for second argument",
            name(a),
            name(b)
        )));
    }
    let ([a, b], _) = inputs(cx, Takes::FLOAT, Out::Promoted, [In::T(0), In::T(1)])?;
    let y = formula(cx.g, [a, b], |[a, b]| f(a, b))?;
    cx.out(y);
    Ok(())
}

/// The conjugate, in memory of its own.
fn conj(cx: &mut Cx<'_, '_>) -> Result<()> {
    let x = cx.t(0)?;
    let y = if cx.g.dtype(x).is_complex() { cx.g.conj(x)? } else { x };
    cx.out(y);
    Ok(())
}

/// The argument of complex numbers; of real ones 0, or pi below 0.
fn angle(cx: &mut Cx<'_, '_>) -> Result<()> {
    let dtype = cx.ty(0)?.dtype;
    if dtype.is_complex() {
        let x = cx.t(0)?;
        let y: Value = formula(cx.g, [x], |[x]: [Ex<'_>; 1]| x.imag().atan2(x.real()))?;
        cx.out(y);
        return Ok(());
    }
    super::util::map1(cx, Takes::NO_COMPLEX, Out::Float, |x| {
        x.is_nan().pick(x, x.lt(0.0).pick(x.constant(PI), x.constant(0.0)))
    })
}
