//! The text of elementwise primitives, constants and shapes, compared with files.

mod common;

use common::{program, ty};
use primitives::DType::*;
use primitives::*;

#[test]
fn unary_float() {
    program("unary_float", |g| {
        let x = g.parameter(ty(F32, &[2, 3]));
        let ops: &[fn(&mut Graph, Value) -> Result<Value>] = &[
            Graph::abs,
            Graph::cbrt,
            Graph::ceil,
            Graph::cos,
            Graph::exp,
            Graph::expm1,
            Graph::floor,
            Graph::is_finite,
            Graph::log,
            Graph::log1p,
            Graph::logistic,
            Graph::neg,
            Graph::round_nearest_afz,
            Graph::round_nearest_even,
            Graph::rsqrt,
            Graph::sign,
            Graph::sin,
            Graph::sqrt,
            Graph::tan,
            Graph::tanh,
        ];
        ops.iter().map(|op| op(g, x)).collect()
    });
}

#[test]
fn unary_integer_and_bool() {
    program("unary_integer_and_bool", |g| {
        let x = g.parameter(ty(I32, &[4]));
        let u = g.parameter(ty(U8, &[4]));
        let b = g.parameter(ty(Bool, &[4]));
        Ok(vec![
            g.abs(x)?,
            g.count_leading_zeros(x)?,
            g.neg(x)?,
            g.not(x)?,
            g.popcnt(u)?,
            g.sign(x)?,
            g.not(b)?,
            g.neg(u)?,
        ])
    });
}

#[test]
fn complex() {
    program("complex", |g| {
        let re = g.parameter(ty(F32, &[4]));
        let im = g.parameter(ty(F32, &[4]));
        let c = g.complex(re, im)?;
        Ok(vec![
            c,
            g.conj(c)?,
            g.abs(c)?,
            g.exp(c)?,
            g.tanh(c)?,
            g.convert(c, F32)?,
            g.convert(c, C128)?,
            g.convert(c, Bool)?,
        ])
    });
}

#[test]
fn special_functions() {
    program("special_functions", |g| {
        let x = g.parameter(ty(F32, &[3]));
        let y = g.parameter(ty(F32, &[3]));
        let ops: &[fn(&mut Graph, Value) -> Result<Value>] = &[
            Graph::erf,
            Graph::erfc,
            Graph::erf_inv,
            Graph::lgamma,
            Graph::digamma,
            Graph::asin,
            Graph::acos,
            Graph::atan,
            Graph::sinh,
            Graph::cosh,
            Graph::asinh,
            Graph::acosh,
            Graph::atanh,
            Graph::bessel_i1e,
        ];
        let mut out: Vec<Value> = ops.iter().map(|op| op(g, x)).collect::<Result<_>>()?;
        out.extend([g.polygamma(x, y)?, g.zeta(x, y)?, g.next_after(x, y)?]);
        Ok(out)
    });
}

#[test]
fn binary() {
    program("binary", |g| {
        let x = g.parameter(ty(F32, &[2]));
        let y = g.parameter(ty(F32, &[2]));
        let i = g.parameter(ty(I32, &[2]));
        let j = g.parameter(ty(I32, &[2]));
        let real: &[fn(&mut Graph, Value, Value) -> Result<Value>] = &[
            Graph::add,
            Graph::subtract,
            Graph::multiply,
            Graph::divide,
            Graph::remainder,
            Graph::power,
            Graph::maximum,
            Graph::minimum,
            Graph::atan2,
        ];
        let mut out: Vec<Value> = real.iter().map(|op| op(g, x, y)).collect::<Result<_>>()?;
        let integer: &[fn(&mut Graph, Value, Value) -> Result<Value>] = &[
            Graph::and,
            Graph::or,
            Graph::xor,
            Graph::shift_left,
            Graph::shift_right_arithmetic,
            Graph::shift_right_logical,
        ];
        for op in integer {
            out.push(op(g, i, j)?);
        }
        Ok(out)
    });
}

#[test]
fn comparison_and_selection() {
    program("comparison_and_selection", |g| {
        use Direction::*;
        let x = g.parameter(ty(F32, &[2]));
        let y = g.parameter(ty(F32, &[2]));
        let i = g.parameter(ty(I32, &[2]));
        let u = g.parameter(ty(U8, &[2]));
        let c = g.parameter(ty(C64, &[2]));
        let mut out = Vec::new();
        for d in [Eq, Ne, Lt, Le, Gt, Ge] {
            out.push(g.compare(x, y, d)?);
        }
        out.push(g.compare(i, i, Lt)?);
        out.push(g.compare(u, u, Gt)?);
        out.push(g.compare(c, c, Eq)?);
        out.push(g.compare(out[0], out[1], Ge)?);
        out.push(g.compare_total_order(x, y, Lt)?);
        out.push(g.select(out[0], x, y)?);
        let one = g.parameter(ty(Bool, &[]));
        out.push(g.select(one, x, y)?);
        let (low, high) = (g.scalar(F32, -1)?, g.scalar(F32, f32::INFINITY)?);
        out.push(g.clamp(low, x, high)?);
        Ok(out)
    });
}

#[test]
fn conversions() {
    program("conversions", |g| {
        let x = g.parameter(ty(F32, &[2]));
        let i = g.parameter(ty(I8, &[3, 4]));
        let mut out = vec![];
        for d in DType::ALL {
            if d != F32 {
                out.push(g.convert(x, d)?);
            }
        }
        out.push(g.bitcast_convert(x, I32)?);
        out.push(g.bitcast_convert(x, U8)?);
        out.push(g.bitcast_convert(i, F32)?);
        out.push(g.reduce_precision(x, 8, 7)?);
        Ok(out)
    });
}

#[test]
fn constants() {
    program("constants", |g| {
        let mut out = vec![];
        for d in DType::ALL {
            out.push(g.full(d, &[2], 1)?);
        }
        for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.1, 1e30, 5e-324] {
            for d in [F64, F32, BF16, F16] {
                out.push(g.scalar(d, x)?);
            }
        }
        let small: Vec<u8> = (0..6i32).flat_map(|i| i.to_le_bytes()).collect();
        let large: Vec<u8> = (0..70).flat_map(|i| (i as f32 * 0.5).to_le_bytes()).collect();
        let bools: Vec<u8> = (0..70).map(|i| (i % 3 == 0) as u8).collect();
        out.push(g.constant(I32, &[2, 3], &small)?);
        out.push(g.constant(F32, &[70], &large)?);
        out.push(g.constant(Bool, &[70], &bools)?);
        out.push(g.constant(Bool, &[3], &bools[..3])?);
        out.push(g.constant(F32, &[2, 0], &[])?);
        out.push(g.constant(C64, &[2], &large[..16])?);
        out.push(g.constant(U8, &[2], &[1, 1])?);
        out.push(g.iota(I64, &[2, 3], 1)?);
        out.push(g.zeros_like(out[0])?);
        out.push(g.full(F32, &[0], 3.0)?);
        Ok(out)
    });
}

#[test]
fn shapes() {
    program("shapes", |g| {
        let x = g.parameter(ty(F32, &[2, 3, 4]));
        let b = g.parameter(ty(F32, &[3, 1]));
        Ok(vec![
            g.reshape(x, &[6, 4])?,
            g.transpose(x, &[2, 0, 1])?,
            g.broadcast_in_dim(b, &[3, 5, 2], &[0, 2])?,
            g.broadcast_to(b, &[7, 3, 5])?,
            g.concatenate(&[x, x, x], 1)?,
            g.reverse(x, &[0, 2])?,
            g.slice(x, &[0, 1, 0], &[2, 3, 4], &[1, 1, 2])?,
        ])
    });
}

#[test]
fn dynamic_slices_and_pad() {
    program("dynamic_slices_and_pad", |g| {
        let x = g.parameter(ty(F32, &[4, 5]));
        let i = g.parameter(ty(I32, &[]));
        let zero = g.scalar(I32, 0)?;
        let part = g.dynamic_slice(x, &[i, zero], &[2, 5])?;
        let back = g.dynamic_update_slice(x, part, &[zero, i])?;
        let p = g.scalar(F32, 0)?;
        Ok(vec![part, back, g.pad(x, p, &[1, -1], &[0, 2], &[1, 0])?])
    });
}
