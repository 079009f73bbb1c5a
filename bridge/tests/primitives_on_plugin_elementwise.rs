//! Element-wise primitives on the plugin, against plain Rust.

mod on_plugin;

use std::slice::from_ref;

use on_plugin::{Arr, check, check_within, expect, run};
use primitives::DType::*;
use primitives::*;

type Unary = fn(&mut Graph, Value) -> Result<Value>;
type Binary = fn(&mut Graph, Value, Value) -> Result<Value>;
/// A primitive with its reference.
type UnaryCase<'a> = (&'a str, Unary, fn(f64) -> f64);
type BinaryCase<'a, T> = (&'a str, Binary, fn(T, T) -> T);

const FLOATS: [DType; 4] = [F32, F64, F16, BF16];

fn round_even(x: f64) -> f64 {
    x.round_ties_even()
}

fn sign(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() { x } else { x.signum() }
}

#[test]
fn unary_floats() {
    let ops: &[UnaryCase<'_>] = &[
        ("abs", Graph::abs, f64::abs),
        ("cbrt", Graph::cbrt, f64::cbrt),
        ("ceil", Graph::ceil, f64::ceil),
        ("cos", Graph::cos, f64::cos),
        ("exp", Graph::exp, f64::exp),
        ("expm1", Graph::expm1, f64::exp_m1),
        ("floor", Graph::floor, f64::floor),
        ("log", Graph::log, f64::ln),
        ("log1p", Graph::log1p, f64::ln_1p),
        ("logistic", Graph::logistic, |x| 1.0 / (1.0 + (-x).exp())),
        ("neg", Graph::neg, |x| -x),
        ("round_nearest_afz", Graph::round_nearest_afz, f64::round),
        ("round_nearest_even", Graph::round_nearest_even, round_even),
        ("rsqrt", Graph::rsqrt, |x| 1.0 / x.sqrt()),
        ("sign", Graph::sign, sign),
        ("sin", Graph::sin, f64::sin),
        ("sqrt", Graph::sqrt, f64::sqrt),
        ("tan", Graph::tan, f64::tan),
        ("tanh", Graph::tanh, f64::tanh),
    ];
    let data =
        [-3.5, -2.5, -1.0, -0.75, -0.0, 0.0, 1e-3, 0.5, 1.5, 2.5, 7.25, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    for dtype in FLOATS {
        let x = Arr::new(dtype, &[14], &data);
        let Some(got) = run(from_ref(&x), |g, p| ops.iter().map(|(_, op, _)| op(g, p[0])).collect()) else { return };
        for ((name, _, reference), got) in ops.iter().zip(got) {
            check(&format!("{name} {dtype}"), &got, &x.map(dtype, reference));
        }
    }
}

#[test]
fn unary_integers() {
    for dtype in [I8, I16, I32, I64, U8, U16, U32, U64] {
        let x = Arr::new(dtype, &[6], &[0i64, 1, 5, 100, -1, -128]);
        let bits = dtype.bits() as u32;
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let on_bits = |f: fn(u64) -> u64| {
            let data: Vec<u64> = x.data.iter().map(|n| f(n.as_u64() & mask)).collect();
            Arr::new(dtype, &[6], &data)
        };
        let Some(got) = run(from_ref(&x), |g, p| {
            Ok(vec![g.not(p[0])?, g.popcnt(p[0])?, g.count_leading_zeros(p[0])?, g.neg(p[0])?])
        }) else {
            return;
        };
        check("not", &got[0], &on_bits(|u| !u));
        check("popcnt", &got[1], &on_bits(|u| u.count_ones() as u64));
        let clz: Vec<u64> = x.data.iter().map(|n| ((n.as_u64() & mask).leading_zeros() - (64 - bits)) as u64).collect();
        check("count_leading_zeros", &got[2], &Arr::new(dtype, &[6], &clz));
        check("neg", &got[3], &on_bits(u64::wrapping_neg));
        if dtype.is_signed() {
            let i64s = |f: fn(i64) -> i64| {
                let data: Vec<i64> = x.data.iter().map(|n| f(n.as_i64())).collect();
                Arr::new(dtype, &[6], &data)
            };
            expect("abs", from_ref(&x), &i64s(i64::wrapping_abs), |g, p| g.abs(p[0]));
            expect("sign", from_ref(&x), &i64s(i64::signum), |g, p| g.sign(p[0]));
        }
    }
    let b = Arr::bools(&[2], &[true, false]);
    expect("not bool", &[b], &Arr::bools(&[2], &[false, true]), |g, p| g.not(p[0]));
}

/// Logarithmic derivative of the gamma function, by recurrence and asymptotic series.
fn digamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 15.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    sum + x.ln() - 0.5 / x - r * (1.0 / 12.0 - r * (1.0 / 120.0 - r * (1.0 / 252.0 - r / 240.0)))
}

/// Hurwitz zeta function by Euler-Maclaurin summation.
fn zeta(s: f64, q: f64) -> f64 {
    let n = 20;
    let head: f64 = (0..n).map(|k| (q + k as f64).powf(-s)).sum();
    let a = q + n as f64;
    let tail = a.powf(1.0 - s) / (s - 1.0) + 0.5 * a.powf(-s) + s * a.powf(-s - 1.0) / 12.0
        - s * (s + 1.0) * (s + 2.0) * a.powf(-s - 3.0) / 720.0;
    head + tail
}

fn polygamma(n: f64, x: f64) -> f64 {
    if n == 0.0 {
        return digamma(x);
    }
    let sign = if n as i64 % 2 == 0 { -1.0 } else { 1.0 };
    sign * libm::tgamma(n + 1.0) * zeta(n + 1.0, x)
}

/// Modified Bessel function of order 1 by its power series, scaled.
fn bessel_i1e(x: f64) -> f64 {
    let mut term = x / 2.0;
    let mut sum = 0.0;
    for k in 1..60 {
        sum += term;
        term *= x * x / 4.0 / (k as f64 * (k as f64 + 1.0));
    }
    sum * (-x.abs()).exp()
}

fn erf_inv(y: f64) -> f64 {
    if y.abs() == 1.0 {
        return y * f64::INFINITY;
    }
    let mut x = 0.0;
    for _ in 0..100 {
        x -= (libm::erf(x) - y) / (2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp());
    }
    x
}

#[test]
fn special_functions() {
    let wide = [-3.5, -1.25, -0.5, 0.0, 0.25, 1.0, 2.5, 6.0];
    let unit = [-1.0, -0.9, -0.5, 0.0, 0.25, 0.5, 0.75, 0.99];
    let positive = [0.25, 0.5, 1.0, 1.5, 2.0, 3.25, 10.0, 30.0];
    let above_one = [1.0, 1.25, 1.5, 2.0, 3.0, 10.0, 100.0, 1000.0];
    let ops: &[(UnaryCase<'_>, &[f64; 8])] = &[
        (("erf", Graph::erf, libm::erf), &wide),
        (("erfc", Graph::erfc, libm::erfc), &wide),
        (("erf_inv", Graph::erf_inv, erf_inv), &unit),
        (("lgamma", Graph::lgamma, libm::lgamma), &positive),
        (("digamma", Graph::digamma, digamma), &positive),
        (("asin", Graph::asin, f64::asin), &unit),
        (("acos", Graph::acos, f64::acos), &unit),
        (("atan", Graph::atan, f64::atan), &wide),
        (("sinh", Graph::sinh, f64::sinh), &wide),
        (("cosh", Graph::cosh, f64::cosh), &wide),
        (("asinh", Graph::asinh, f64::asinh), &wide),
        (("acosh", Graph::acosh, f64::acosh), &above_one),
        (("atanh", Graph::atanh, f64::atanh), &unit),
        (("bessel_i1e", Graph::bessel_i1e, bessel_i1e), &wide),
    ];
    for dtype in [F32, F64] {
        for ((name, op, reference), data) in ops {
            let x = Arr::new(dtype, &[8], &data[..]);
            let Some(got) = run(from_ref(&x), |g, p| Ok(vec![op(g, p[0])?])) else { return };
            let tolerance = if dtype == F32 { 1e-5 } else { 1e-10 };
            check_within(&format!("{name} {dtype}"), &got[0], &x.map(dtype, reference), tolerance);
        }
        let (n, x) = (Arr::new(dtype, &[4], &[0.0, 1.0, 2.0, 3.0]), Arr::new(dtype, &[4], &[0.5, 1.5, 2.0, 8.0]));
        let s = Arr::new(dtype, &[4], &[1.5, 2.0, 3.0, 8.0]);
        let Some(got) =
            run(&[n.clone(), x.clone(), s.clone()], |g, p| Ok(vec![g.polygamma(p[0], p[1])?, g.zeta(p[2], p[1])?]))
        else {
            return;
        };
        let pairs = |a: &Arr, b: &Arr, f: fn(f64, f64) -> f64| {
            let data: Vec<f64> = a.data.iter().zip(&b.data).map(|(a, b)| f(a.as_f64(), b.as_f64())).collect();
            Arr::new(dtype, &[4], &data)
        };
        check_within("polygamma", &got[0], &pairs(&n, &x, polygamma), 1e-5);
        check_within("zeta", &got[1], &pairs(&s, &x, zeta), 1e-5);
    }
    let (x, y) = (Arr::f32(&[4], &[1.0, 1.0, 0.0, -2.0]), Arr::f32(&[4], &[2.0, 0.0, 1.0, -2.0]));
    let next = [1.0f32.next_up(), 1.0f32.next_down(), 0f32.next_up(), -2.0];
    let Some(got) = run(&[x, y], |g, p| Ok(vec![g.next_after(p[0], p[1])?])) else { return };
    assert_eq!(got[0], Arr::new(F32, &[4], &next));
}

#[test]
fn binary_floats() {
    fn max(a: f64, b: f64) -> f64 {
        if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
    }
    fn min(a: f64, b: f64) -> f64 {
        if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }
    }
    let ops: &[BinaryCase<'_, f64>] = &[
        ("add", Graph::add, |a, b| a + b),
        ("subtract", Graph::subtract, |a, b| a - b),
        ("multiply", Graph::multiply, |a, b| a * b),
        ("divide", Graph::divide, |a, b| a / b),
        ("remainder", Graph::remainder, |a, b| a % b),
        ("power", Graph::power, f64::powf),
        ("maximum", Graph::maximum, max),
        ("minimum", Graph::minimum, min),
        ("atan2", Graph::atan2, f64::atan2),
    ];
    let a = [1.5, -2.5, 0.0, 3.0, f64::NAN, 7.5, -7.5, 2.0];
    let b = [0.5, 2.0, 1.0, -1.5, 1.0, 2.0, 2.0, f64::NAN];
    for dtype in FLOATS {
        let (x, y) = (Arr::new(dtype, &[2, 4], &a), Arr::new(dtype, &[2, 4], &b));
        let Some(got) = run(&[x.clone(), y.clone()], |g, p| ops.iter().map(|(_, op, _)| op(g, p[0], p[1])).collect())
        else {
            return;
        };
        for ((name, _, reference), got) in ops.iter().zip(got) {
            let data: Vec<f64> = x.data.iter().zip(&y.data).map(|(a, b)| reference(a.as_f64(), b.as_f64())).collect();
            check(&format!("{name} {dtype}"), &got, &Arr::new(dtype, &[2, 4], &data));
        }
    }
}

#[test]
fn binary_integers() {
    let ops: &[BinaryCase<'_, i64>] = &[
        ("add", Graph::add, i64::wrapping_add),
        ("subtract", Graph::subtract, i64::wrapping_sub),
        ("multiply", Graph::multiply, i64::wrapping_mul),
        ("divide", Graph::divide, |a, b| a / b),
        ("remainder", Graph::remainder, |a, b| a % b),
        ("maximum", Graph::maximum, i64::max),
        ("minimum", Graph::minimum, i64::min),
        ("and", Graph::and, |a, b| a & b),
        ("or", Graph::or, |a, b| a | b),
        ("xor", Graph::xor, |a, b| a ^ b),
        ("shift_left", Graph::shift_left, |a, b| if b < 64 { a.wrapping_shl(b as u32) } else { 0 }),
    ];
    for dtype in [I8, I32, I64, U8, U32, U64] {
        let x = Arr::new(dtype, &[6], &[7i64, 100, 3, 90, 1, 5]);
        let y = Arr::new(dtype, &[6], &[2i64, 3, 1, 4, 7, 5]);
        let Some(got) = run(&[x.clone(), y.clone()], |g, p| ops.iter().map(|(_, op, _)| op(g, p[0], p[1])).collect())
        else {
            return;
        };
        for ((name, _, reference), got) in ops.iter().zip(got) {
            let data: Vec<i64> = x.data.iter().zip(&y.data).map(|(a, b)| reference(a.as_i64(), b.as_i64())).collect();
            check(&format!("{name} {dtype}"), &got, &Arr::new(dtype, &[6], &data));
        }
    }
    let (x, n) = (Arr::i32(&[3], &[-8, 8, -1]), Arr::i32(&[3], &[1, 2, 31]));
    let Some(got) = run(&[x, n], |g, p| {
        Ok(vec![g.shift_right_arithmetic(p[0], p[1])?, g.shift_right_logical(p[0], p[1])?, g.power(p[1], p[1])?])
    }) else {
        return;
    };
    check("shift_right_arithmetic", &got[0], &Arr::i32(&[3], &[-4, 2, -1]));
    check("shift_right_logical", &got[1], &Arr::i32(&[3], &[0x7fff_fffc, 2, 1]));
    assert_eq!(got[2].data[..2], [Number::Int(1), Number::Int(4)]);
    let (a, b) = (Arr::bools(&[4], &[true, true, false, false]), Arr::bools(&[4], &[true, false, true, false]));
    let bools: &[(&str, Binary, [bool; 4])] = &[
        ("and", Graph::and, [true, false, false, false]),
        ("or", Graph::or, [true, true, true, false]),
        ("xor", Graph::xor, [false, true, true, false]),
        ("add", Graph::add, [true, true, true, false]),
        ("multiply", Graph::multiply, [true, false, false, false]),
        ("maximum", Graph::maximum, [true, true, true, false]),
        ("minimum", Graph::minimum, [true, false, false, false]),
    ];
    for (name, op, want) in bools {
        expect(name, &[a.clone(), b.clone()], &Arr::bools(&[4], want), |g, p| op(g, p[0], p[1]));
    }
}

#[test]
fn comparisons() {
    use Direction::*;
    let a = [1.0, 2.0, f64::NAN, -0.0, f64::INFINITY];
    let b = [2.0, 2.0, f64::NAN, 0.0, 1.0];
    type Case = (Direction, fn(f64, f64) -> bool);
    let real: [Case; 6] = [
        (Eq, |a, b| a == b),
        (Ne, |a, b| a != b),
        (Lt, |a, b| a < b),
        (Le, |a, b| a <= b),
        (Gt, |a, b| a > b),
        (Ge, |a, b| a >= b),
    ];
    let (x, y) = (Arr::f32(&[5], &a), Arr::f32(&[5], &b));
    for (direction, reference) in real {
        let want: Vec<bool> = a.iter().zip(b).map(|(a, b)| reference(*a, b)).collect();
        expect("compare", &[x.clone(), y.clone()], &Arr::bools(&[5], &want), |g, p| g.compare(p[0], p[1], direction));
    }
    let want = Arr::bools(&[5], &[true, false, false, true, false]);
    expect("compare_total_order", &[x, y], &want, |g, p| g.compare_total_order(p[0], p[1], Lt));
    let (u, v) = (Arr::new(U8, &[2], &[200, 1]), Arr::new(U8, &[2], &[100, 2]));
    expect("unsigned", &[u, v], &Arr::bools(&[2], &[true, false]), |g, p| g.compare(p[0], p[1], Gt));
    let (c, d) = (
        Arr::new(C64, &[2], &[Number::Complex(1.0, 2.0), Number::Complex(1.0, 2.0)]),
        Arr::new(C64, &[2], &[Number::Complex(1.0, 2.0), Number::Complex(1.0, -2.0)]),
    );
    expect("complex", &[c, d], &Arr::bools(&[2], &[true, false]), |g, p| g.compare(p[0], p[1], Eq));
}

#[test]
fn selection() {
    let p = Arr::bools(&[3], &[true, false, true]);
    let one = Arr::bools(&[], &[false]);
    let (x, y) = (Arr::f32(&[3], &[1.0, 2.0, f64::NAN]), Arr::f32(&[3], &[-1.0, -2.0, -3.0]));
    let Some(got) = run(&[p, one, x, y], |g, p| {
        let (low, high) = (g.scalar(F32, -1.5)?, g.scalar(F32, 1.5)?);
        Ok(vec![
            g.select(p[0], p[2], p[3])?,
            g.select(p[1], p[2], p[3])?,
            g.clamp(low, p[2], high)?,
            g.clamp(p[3], p[3], high)?,
        ])
    }) else {
        return;
    };
    check("select", &got[0], &Arr::f32(&[3], &[1.0, -2.0, f64::NAN]));
    check("select by one", &got[1], &Arr::f32(&[3], &[-1.0, -2.0, -3.0]));
    check("clamp", &got[2], &Arr::f32(&[3], &[1.0, 1.5, f64::NAN]));
    check("clamp by elements", &got[3], &Arr::f32(&[3], &[-1.0, -2.0, -3.0]));
}

#[test]
fn conversions() {
    let x = Arr::new(F64, &[5], &[0.0, 1.75, -2.5, 100.0, 0.1]);
    for dtype in DType::ALL {
        let want = Arr::new(dtype, &[5], &x.data);
        if dtype.is_unsigned_int() {
            continue; // A negative float has no unsigned value.
        }
        expect(&format!("convert to {dtype}"), from_ref(&x), &want, |g, p| g.convert(p[0], dtype));
    }
    let i = Arr::i32(&[3], &[-1, 300, 0]);
    for dtype in [I8, U8, I64, U64, F16, BF16, Bool, C64] {
        let want = Arr::new(dtype, &[3], &i.data);
        expect(&format!("convert i32 to {dtype}"), from_ref(&i), &want, |g, p| g.convert(p[0], dtype));
    }
    let c = Arr::new(C64, &[3], &[Number::Complex(1.5, 2.0), Number::Complex(0.0, 2.0), Number::Complex(0.0, 0.0)]);
    for dtype in [F32, I32, Bool, C128] {
        let want = Arr::new(dtype, &[3], &c.data);
        expect(&format!("convert c64 to {dtype}"), from_ref(&c), &want, |g, p| g.convert(p[0], dtype));
    }
    let bits = Arr::new(I32, &[2], &[0x3f80_0000i64, 0x4000_0000]);
    expect("bitcast", from_ref(&bits), &Arr::f32(&[2], &[1.0, 2.0]), |g, p| g.bitcast_convert(p[0], F32));
    let bytes = Arr::new(U8, &[2, 4], &[0, 0, 0x80, 0x3f, 0, 0, 0, 0x40]);
    expect("bitcast narrower", &[bits], &bytes, |g, p| g.bitcast_convert(p[0], U8));
    expect("bitcast wider", &[bytes], &Arr::f32(&[2], &[1.0, 2.0]), |g, p| g.bitcast_convert(p[0], F32));
    let pi = Arr::f32(&[1], &[std::f64::consts::PI]);
    expect("reduce_precision", &[pi], &Arr::f32(&[1], &[3.140625]), |g, p| g.reduce_precision(p[0], 8, 7));
    let e = Arr::f32(&[4], &[1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
    expect("is_finite", &[e], &Arr::bools(&[4], &[true, false, false, false]), |g, p| g.is_finite(p[0]));
}

#[test]
fn complex_numbers() {
    let (re, im) = (Arr::f32(&[3], &[3.0, -1.0, 0.5]), Arr::f32(&[3], &[4.0, 2.0, 0.0]));
    let Some(got) = run(&[re.clone(), im.clone()], |g, p| {
        let c = g.complex(p[0], p[1])?;
        let conj = g.conj(c)?;
        Ok(vec![g.real(c)?, g.imag(c)?, g.imag(conj)?, g.abs(c)?, g.multiply(c, conj)?, g.imag(p[0])?, g.conj(p[0])?])
    }) else {
        return;
    };
    check("real", &got[0], &re);
    check("imag", &got[1], &im);
    check("conj", &got[2], &im.map(F32, |x| -x));
    let modulus = Arr::f32(&[3], &[5.0, 5f64.sqrt(), 0.5]);
    check("abs", &got[3], &modulus);
    let square: Vec<Number> = modulus.data.iter().map(|x| Number::Complex(x.as_f64().powi(2), 0.0)).collect();
    check("multiply", &got[4], &Arr::new(C64, &[3], &square));
    check("imag of real", &got[5], &re.map(F32, |_| 0.0));
    check("conj of real", &got[6], &re);
}

#[test]
fn constants_keep_their_bits() {
    let numbers = [0.0, -0.0, 0.1, -1.5, 1e30, 1e-40, f64::INFINITY, f64::NEG_INFINITY, 65504.0, 3e-5, f64::MAX];
    for dtype in [F64, F32, F16, BF16, F8E4M3FN, F8E5M2, C64, C128] {
        let want: Vec<Arr> = numbers.iter().map(|x| Arr::new(dtype, &[], &[*x])).collect();
        let Some(got) = run(&[], |g, _| numbers.iter().map(|x| g.scalar(dtype, *x)).collect()) else { return };
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(got.bytes(), want.bytes(), "{dtype} {want:?}");
        }
    }
    let nan = run(&[], |g, _| Ok(vec![g.scalar(F32, f64::NAN)?, g.scalar(BF16, f64::NAN)?]));
    assert!(nan.is_none_or(|got| got.iter().all(|a| a.data[0].as_f64().is_nan())));
    // Short and long literals, every type.
    for dtype in DType::ALL {
        for n in [3, 100] {
            let want = Arr::mixed(dtype, &[n, 2]);
            expect(&format!("constant {dtype}"), &[], &want, |g, _| g.constant(dtype, &[n, 2], &want.bytes()));
        }
    }
    let x = Arr::new(BF16, &[2], &[5, 6]);
    let Some(got) = run(&[x], |g, p| {
        Ok(vec![g.full(F32, &[2], 2.5)?, g.full_like(p[0], 2.5)?, g.zeros_like(p[0])?, g.ones_like(p[0])?])
    }) else {
        return;
    };
    for (got, want) in got.iter().zip([(F32, 2.5), (BF16, 2.5), (BF16, 0.0), (BF16, 1.0)]) {
        check("filled", got, &Arr::new(want.0, &[2], &[want.1; 2]));
    }
    let iota = Arr::from_fn(I64, &[2, 3], |i| i[1]);
    expect("iota", &[], &iota, |g, _| g.iota(I64, &[2, 3], 1));
}
