//! Control flow, factorizations, transforms, random bits and whole-program features on the plugin.

mod on_plugin;

use std::f64::consts::PI;
use std::slice::from_ref;

use bridge::pjrt::CompileOptions;
use on_plugin::{Arr, check, check_within, device, expect, run};
use primitives::DType::*;
use primitives::*;

#[test]
fn loops() {
    // Newton's method for a square root, with the loop's constants taken from outside.
    let (x, n) = (Arr::f32(&[], &[2.0]), Arr::i32(&[], &[8]));
    let Some(got) = run(&[x, n], |g, p| {
        let (x, n) = (p[0], p[1]);
        let (zero, half) = (g.scalar(I32, 0)?, g.scalar(F32, 0.5)?);
        g.while_loop(
            &[zero, x],
            |g, a| Ok(vec![g.compare(a[0], n, Direction::Lt)?]),
            |g, a| {
                let one = g.scalar(I32, 1)?;
                let quotient = g.divide(x, a[1])?;
                let sum = g.add(a[1], quotient)?;
                Ok(vec![g.add(a[0], one)?, g.multiply(sum, half)?])
            },
        )
    }) else {
        return;
    };
    check("count", &got[0], &Arr::i32(&[], &[8]));
    check("root", &got[1], &Arr::f32(&[], &[2f64.sqrt()]));
}

#[test]
fn branches() {
    for (p, want) in [(true, 3.0), (false, -3.0)] {
        let inputs = [Arr::bools(&[], &[p]), Arr::f32(&[], &[3.0])];
        expect("if_else", &inputs, &Arr::f32(&[], &[want]), |g, p| {
            let x = p[1];
            Ok(g.if_else(p[0], |_, _| Ok(vec![x]), |g, _| Ok(vec![g.neg(x)?]))?[0])
        });
    }
    for dtype in [I32, I64, U8] {
        for (i, want) in [(0i64, 1.0), (1, 2.0), (2, 3.0), (7, 3.0), (-1, 3.0), (1 << 32, 3.0)] {
            if i != Number::from_bytes(dtype, &Number::Int(i).to_bytes(dtype)).as_i64() {
                continue;
            }
            let index = Arr::new(dtype, &[], &[i]);
            expect(&format!("case {i} {dtype}"), &[index], &Arr::f32(&[], &[want]), |g, p| {
                let branches = (1..=3).map(|n| branch(move |g, _| Ok(vec![g.scalar(F32, n)?]))).collect();
                Ok(g.case(p[0], branches)?[0])
            });
        }
    }
    let (x, y) = (Arr::f32(&[2], &[1.0, 2.0]), Arr::i32(&[], &[4]));
    let Some(got) = run(&[x.clone(), y.clone()], |g, p| g.optimization_barrier(p)) else { return };
    check("optimization_barrier", &got[0], &x);
    check("optimization_barrier", &got[1], &y);
}

/// Product of batches of 3 by 3 matrices.
fn matmul(a: &Arr, b: &Arr) -> Arr {
    Arr::from_fn(a.dtype, &[2, 3, 3], |i| (0..3).map(|k| a.f(&[i[0], i[1], k]) * b.f(&[i[0], k, i[2]])).sum::<f64>())
}

#[test]
fn factorizations() {
    for dtype in [F32, F64] {
        // A lower factor with a positive diagonal, and the matrix it makes.
        let l = Arr::from_fn(dtype, &[2, 3, 3], |i| match i[1] - i[2] {
            0 => 1.0 + i[1] as f64 + i[0] as f64,
            d if d > 0 => 0.5 * i[1] as f64 - 0.25 * i[0] as f64,
            _ => 0.0,
        });
        let lt = Arr::from_fn(dtype, &[2, 3, 3], |i| l.at(&[i[0], i[2], i[1]]));
        let a = matmul(&l, &lt);
        let triangle = |g: &mut Graph, x: Value, lower: bool| {
            let (rows, columns) = (g.iota(I32, &[2, 3, 3], 1)?, g.iota(I32, &[2, 3, 3], 2)?);
            let keep = g.compare(rows, columns, if lower { Direction::Ge } else { Direction::Le })?;
            let zero = g.zeros_like(x)?;
            g.select(keep, x, zero)
        };
        expect("cholesky", from_ref(&a), &l, |g, p| {
            let c = g.cholesky(p[0], true)?;
            triangle(g, c, true)
        });
        expect("cholesky, upper", &[a], &lt, |g, p| {
            let c = g.cholesky(p[0], false)?;
            triangle(g, c, false)
        });
        let x = Arr::mixed(dtype, &[2, 3, 3]);
        for (left, matrix, transpose) in [
            (true, &l, Transpose::No),
            (true, &lt, Transpose::Transpose),
            (false, &l, Transpose::No),
            (false, &lt, Transpose::Adjoint),
        ] {
            let b = if left { matmul(matrix, &x) } else { matmul(&x, matrix) };
            // `a` is always the lower factor; transposed it is the upper one.
            let Some(got) =
                run(&[l.clone(), b], |g, p| Ok(vec![g.triangular_solve(p[0], p[1], left, true, false, transpose)?]))
            else {
                return;
            };
            check_within(&format!("triangular_solve {left} {transpose:?}"), &got[0], &x, 1e-4);
        }
        let unit = Arr::from_fn(dtype, &[2, 3, 3], |i| if i[1] == i[2] { 1.0 } else { l.f(i) });
        let b = matmul(&unit, &x);
        let Some(got) =
            run(&[l, b], |g, p| Ok(vec![g.triangular_solve(p[0], p[1], true, true, true, Transpose::No)?]))
        else {
            return;
        };
        check_within("triangular_solve, unit", &got[0], &x, 1e-4);
    }
}

/// Discrete Fourier transform of one row by its definition.
fn dft(x: &[(f64, f64)], sign: f64) -> Vec<(f64, f64)> {
    let n = x.len() as f64;
    (0..x.len())
        .map(|k| {
            x.iter().enumerate().fold((0.0, 0.0), |(re, im), (j, (a, b))| {
                let (s, c) = (sign * 2.0 * PI * (j * k) as f64 / n).sin_cos();
                (re + a * c - b * s, im + a * s + b * c)
            })
        })
        .collect()
}

fn pair(n: &Number) -> (f64, f64) {
    match n {
        Number::Complex(re, im) => (*re, *im),
        other => (other.as_f64(), 0.0),
    }
}

#[test]
fn fourier_transforms() {
    let x = Arr::mixed(F32, &[2, 8]);
    let c = Arr::mixed(C64, &[2, 6]);
    let rows = |a: &Arr, sign: f64, scale: f64, keep: usize| {
        let n = a.dims[1] as usize;
        let row = |r: &[Number]| -> Vec<Number> {
            let row: Vec<(f64, f64)> = r.iter().map(pair).collect();
            dft(&row, sign)[..keep].iter().map(|(re, im)| Number::Complex(re * scale, im * scale)).collect()
        };
        let data: Vec<Number> = a.data.chunks(n).flat_map(row).collect();
        Arr::new(C64, &[a.dims[0], keep as i64], &data)
    };
    let Some(got) = run(&[x.clone(), c.clone()], |g, p| {
        let half = g.fft(p[0], FftKind::Rfft, &[8])?;
        Ok(vec![
            half,
            g.fft(p[1], FftKind::Fft, &[6])?,
            g.fft(p[1], FftKind::Ifft, &[6])?,
            g.fft(half, FftKind::Irfft, &[8])?,
        ])
    }) else {
        return;
    };
    check_within("rfft", &got[0], &rows(&x, -1.0, 1.0, 5), 1e-5);
    check_within("fft", &got[1], &rows(&c, -1.0, 1.0, 6), 1e-5);
    check_within("ifft", &got[2], &rows(&c, 1.0, 1.0 / 6.0, 6), 1e-5);
    check_within("irfft", &got[3], &x, 1e-5);
}

#[test]
fn random_bits() {
    for algorithm in [RngAlgorithm::ThreeFry, RngAlgorithm::Philox, RngAlgorithm::Default] {
        let state = Arr::new(U64, &[2], &[42u64, 7]);
        let Some(got) = run(from_ref(&state), |g, p| {
            let (s1, a) = g.rng_bit_generator(p[0], algorithm, TensorType::new(U32, &[2048]))?;
            let (s2, b) = g.rng_bit_generator(s1, algorithm, TensorType::new(U32, &[2048]))?;
            let (_, again) = g.rng_bit_generator(p[0], algorithm, TensorType::new(U32, &[2048]))?;
            Ok(vec![s1, a, s2, b, again])
        }) else {
            return;
        };
        assert_eq!(got[1], got[4], "{algorithm:?}: the same state gives the same bits");
        assert_ne!(got[1], got[3], "{algorithm:?}: the next state gives others");
        assert_ne!(got[0], state);
        assert_ne!(got[0], got[2]);
        for bits in [&got[1], &got[3]] {
            let mean = bits.data.iter().map(|n| n.as_f64()).sum::<f64>() / 2048.0 / u32::MAX as f64;
            assert!((mean - 0.5).abs() < 0.03, "{algorithm:?}: mean {mean}");
            let ones: u32 = bits.data.iter().map(|n| (n.as_u64() as u32).count_ones()).sum();
            assert!((ones as f64 / 65536.0 - 0.5).abs() < 0.01, "{algorithm:?}: {ones} of 65536 bits are set");
        }
    }
}

#[test]
fn donated_memory_is_reused() {
    let Some(client) = device() else { return };
    for output in [Some(0), None] {
        let mut g = Graph::new("donate");
        let x = g.parameter(TensorType::new(F32, &[64]));
        let y = g.add(x, x).unwrap();
        g.set_outputs(&[y]).unwrap();
        g.donate(0, output).unwrap();
        let exe = client.compile(g.to_text(), &CompileOptions::default()).unwrap();
        let input = Arr::mixed(F32, &[64]);
        let buffer = client.buffer_from_host(&input.bytes(), F32, &[64], client.device(0).unwrap()).unwrap();
        let result = exe.execute(&[&buffer]).unwrap();
        assert!(buffer.is_deleted().unwrap());
        let mut bytes = vec![0; 256];
        result[0].to_host(&mut bytes).unwrap();
        assert_eq!(bytes, input.map(F32, |v| v + v).bytes());
    }
}

#[test]
fn text_with_locations_compiles() {
    let Some(client) = device() else { return };
    let mut g = Graph::new("locations");
    let x = g.parameter_named(TensorType::new(F32, &[4]), "weight \"é\"");
    g.set_location("model.py:12");
    let y = g.sin(x).unwrap();
    g.set_location("no line");
    let y = g.reduce_sum(y, &[0]).unwrap();
    g.set_outputs(&[y]).unwrap();
    client.compile(g.to_text_with_locations(), &CompileOptions::default()).unwrap();
}

#[test]
fn unknown_custom_calls_are_errors() {
    let Some(client) = device() else { return };
    let mut g = Graph::new("custom");
    let x = g.parameter(TensorType::new(F32, &[4]));
    let y = g.custom_call("no_such_target", &[x], &[TensorType::new(F32, &[4])], CustomCall::default()).unwrap();
    g.set_outputs(&y).unwrap();
    let run = || -> bridge::Result<()> {
        let exe = client.compile(g.to_text(), &CompileOptions::default())?;
        let buffer = client.buffer_from_host(&[0; 16], F32, &[4], client.device(0)?)?;
        exe.execute(&[&buffer])?[0].await_ready()
    };
    let message = run().err().map(|e| e.to_string()).unwrap_or_default();
    assert!(message.contains("no_such_target"), "{message}");
}
