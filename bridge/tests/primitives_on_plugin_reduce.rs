//! Reductions, sorts, products and convolutions on the plugin, against plain Rust.

mod on_plugin;

use std::cmp::Ordering;
use std::slice::from_ref;

use on_plugin::{Arr, check, expect, indices, run};
use primitives::DType::*;
use primitives::*;

type Reduce = fn(&mut Graph, Value, &[usize]) -> Result<Value>;
/// A primitive with its starting value and what it combines by.
type ReduceCase<'a> = (&'a str, Reduce, f64, fn(f64, f64) -> f64);

/// Folds the elements over `dims` in row-major order.
fn fold(x: &Arr, dims: &[usize], init: f64, f: impl Fn(f64, f64) -> f64) -> Arr {
    let kept: Vec<usize> = (0..x.dims.len()).filter(|d| !dims.contains(d)).collect();
    let out: Vec<i64> = kept.iter().map(|d| x.dims[*d]).collect();
    Arr::from_fn(x.dtype, &out, |i| {
        let inside = |k: &Vec<i64>| kept.iter().zip(i).all(|(d, at)| k[*d] == *at);
        indices(&x.dims).iter().filter(|k| inside(k)).fold(init, |acc, k| f(acc, x.f(k)))
    })
}

#[test]
fn reductions() {
    let ops: &[ReduceCase<'_>] = &[
        ("sum", Graph::reduce_sum, 0.0, |a, b| a + b),
        ("prod", Graph::reduce_prod, 1.0, |a, b| a * b),
        ("max", Graph::reduce_max, f64::NEG_INFINITY, f64::max),
        ("min", Graph::reduce_min, f64::INFINITY, f64::min),
    ];
    for dtype in [F32, F64, I32] {
        let x = Arr::mixed(dtype, &[2, 3, 4]);
        for dims in [&[0usize, 2][..], &[1], &[0, 1, 2], &[]] {
            for (name, op, init, f) in ops {
                let wrap = |v: f64| if dtype == I32 { v as i64 as i32 as f64 } else { v };
                let want = fold(&x, dims, *init, |a, b| wrap(f(a, b)));
                let want = if dims.is_empty() { x.clone() } else { want };
                expect(&format!("reduce_{name} {dtype} {dims:?}"), from_ref(&x), &want, |g, p| op(g, p[0], dims));
            }
        }
    }
}

#[test]
fn reductions_of_nothing_and_nan() {
    for dtype in [F32, I8, U16, Bool, BF16] {
        let x = Arr::new::<f64>(dtype, &[2, 0], &[]);
        let Some(got) = run(&[x], |g, p| {
            Ok(vec![
                g.reduce_sum(p[0], &[1])?,
                g.reduce_prod(p[0], &[1])?,
                g.reduce_max(p[0], &[1])?,
                g.reduce_min(p[0], &[1])?,
            ])
        }) else {
            return;
        };
        let (low, high) = match dtype {
            I8 => (Number::Int(-128), Number::Int(127)),
            U16 => (Number::Int(0), Number::Int(65535)),
            Bool => (Number::Bool(false), Number::Bool(true)),
            _ => (Number::Float(f64::NEG_INFINITY), Number::Float(f64::INFINITY)),
        };
        for (got, want) in got.iter().zip([Number::Int(0), Number::Int(1), low, high]) {
            check(&format!("{dtype}"), got, &Arr::new(dtype, &[2], &[want; 2]));
        }
    }
    let x = Arr::f32(&[3, 3], &[f64::NAN, 1.0, 2.0, 1.0, f64::NAN, 2.0, 1.0, 2.0, f64::NAN]);
    let nans = Arr::f32(&[3], &[f64::NAN; 3]);
    expect("max with NaN", from_ref(&x), &nans, |g, p| g.reduce_max(p[0], &[1]));
    expect("min with NaN", &[x], &nans, |g, p| g.reduce_min(p[0], &[1]));
    let b = Arr::bools(&[2, 2], &[true, false, true, true]);
    expect("and", from_ref(&b), &Arr::bools(&[2], &[false, true]), |g, p| g.reduce_and(p[0], &[1]));
    expect("or", &[b], &Arr::bools(&[2], &[true, true]), |g, p| g.reduce_or(p[0], &[1]));
    let i = Arr::i32(&[3], &[0b1100, 0b0110, 0b0111]);
    expect("and", from_ref(&i), &Arr::i32(&[], &[0b0100]), |g, p| g.reduce_and(p[0], &[0]));
    expect("or", &[i], &Arr::i32(&[], &[0b1111]), |g, p| g.reduce_or(p[0], &[0]));
}

#[test]
fn reduction_with_index() {
    let x = Arr::f32(&[2, 4], &[1.0, 5.0, 5.0, 2.0, -1.0, -4.0, -3.0, -1.0]);
    let Some(got) = run(&[x], |g, p| {
        let i = g.iota(I32, &[2, 4], 1)?;
        let (low, none) = (g.scalar(F32, f64::NEG_INFINITY)?, g.scalar(I32, i32::MAX)?);
        g.reduce(&[p[0], i], &[low, none], &[1], |g, a| {
            let greater = g.compare(a[2], a[0], Direction::Gt)?;
            let equal = g.compare(a[2], a[0], Direction::Eq)?;
            let earlier = g.compare(a[3], a[1], Direction::Lt)?;
            let tie = g.and(equal, earlier)?;
            let take = g.or(greater, tie)?;
            Ok(vec![g.select(take, a[2], a[0])?, g.select(take, a[3], a[1])?])
        })
    }) else {
        return;
    };
    check("max", &got[0], &Arr::f32(&[2], &[5.0, -1.0]));
    check("argmax", &got[1], &Arr::i32(&[2], &[1, 0]));
}

/// The operand index under each element of the window at a place of the result, where there is one.
fn under(w: &Window, dims: &[i64], place: &[i64]) -> Vec<Vec<i64>> {
    let mut found = Vec::new();
    for k in indices(&w.dims) {
        let at: Option<Vec<i64>> = (0..dims.len())
            .map(|d| {
                let at = place[d] * w.strides[d] + k[d] * w.window_dilations[d] - w.padding[d].0;
                let real = at >= 0 && at % w.base_dilations[d] == 0 && at / w.base_dilations[d] < dims[d];
                real.then(|| at / w.base_dilations[d])
            })
            .collect();
        found.extend(at);
    }
    found
}

#[test]
fn windows() {
    let x = Arr::mixed(F32, &[2, 7, 6]);
    let windows = [
        (
            Window {
                dims: vec![1, 3, 2],
                strides: vec![1, 2, 1],
                base_dilations: vec![1; 3],
                window_dilations: vec![1; 3],
                padding: vec![(0, 0), (1, 1), (0, 1)],
            },
            [2, 4, 6],
        ),
        (
            Window {
                dims: vec![1, 2, 2],
                strides: vec![1, 1, 2],
                base_dilations: vec![1, 2, 1],
                window_dilations: vec![1, 1, 3],
                padding: vec![(0, 0), (0, 0), (2, 2)],
            },
            [2, 12, 4],
        ),
    ];
    for (w, dims) in &windows {
        let sum = Arr::from_fn(F32, dims, |i| under(w, &x.dims, i).iter().map(|k| x.f(k)).sum::<f64>());
        expect("reduce_window add", from_ref(&x), &sum, |g, p| {
            let zero = g.scalar(F32, 0)?;
            Ok(g.reduce_window(&[p[0]], &[zero], w, |g, a| Ok(vec![g.add(a[0], a[1])?]))?[0])
        });
        let max =
            Arr::from_fn(F32, dims, |i| under(w, &x.dims, i).iter().map(|k| x.f(k)).fold(f64::NEG_INFINITY, f64::max));
        expect("reduce_window max", from_ref(&x), &max, |g, p| {
            let low = g.scalar(F32, f64::NEG_INFINITY)?;
            Ok(g.reduce_window(&[p[0]], &[low], w, |g, a| Ok(vec![g.maximum(a[0], a[1])?]))?[0])
        });
    }
    let (w, dims) = &windows[0];
    let source = Arr::mixed(F32, dims);
    let mut want = x.map(F32, |_| 0.0);
    for i in indices(dims) {
        // The first of the largest elements is selected.
        let mut best: Option<Vec<i64>> = None;
        for k in under(w, &x.dims, &i) {
            if best.as_ref().is_none_or(|b| x.f(&k) > x.f(b)) {
                best = Some(k);
            }
        }
        let best = best.unwrap();
        let flat = best.iter().zip(&x.dims).fold(0, |f, (a, n)| f * n + a) as usize;
        want.data[flat] = Number::Float(want.data[flat].as_f64() + source.f(&i));
    }
    expect("select_and_scatter", &[x, source], &want, |g, p| {
        let zero = g.scalar(F32, 0)?;
        g.select_and_scatter(
            p[0],
            p[1],
            zero,
            w,
            |g, a| Ok(vec![g.compare(a[0], a[1], Direction::Ge)?]),
            |g, a| Ok(vec![g.add(a[0], a[1])?]),
        )
    });
}

#[test]
fn sorts() {
    let x = Arr::f32(&[2, 5], &[3.0, 1.0, 3.0, -1.0, 0.0, 5.0, 5.0, 2.0, 9.0, -7.0]);
    let order = |row: i64| {
        let mut order: Vec<i64> = (0..5).collect();
        order.sort_by(|a, b| x.f(&[row, *a]).partial_cmp(&x.f(&[row, *b])).unwrap_or(Ordering::Equal));
        order
    };
    let sorted = Arr::from_fn(F32, &[2, 5], |i| x.at(&[i[0], order(i[0])[i[1] as usize]]));
    let places = Arr::from_fn(I32, &[2, 5], |i| order(i[0])[i[1] as usize]);
    let Some(got) = run(from_ref(&x), |g, p| {
        let i = g.iota(I32, &[2, 5], 1)?;
        g.sort(&[p[0], i], 1, true, |g, a| Ok(vec![g.compare(a[0], a[1], Direction::Lt)?]))
    }) else {
        return;
    };
    check("sort", &got[0], &sorted);
    check("sort, places", &got[1], &places);
    let Some(got) = run(from_ref(&x), |g, p| g.top_k(p[0], 3).map(|(v, i)| vec![v, i])) else { return };
    check("top_k", &got[0], &Arr::f32(&[2, 3], &[3.0, 3.0, 1.0, 9.0, 5.0, 5.0]));
    check("top_k, places", &got[1], &Arr::i32(&[2, 3], &[0, 2, 1, 3, 0, 1]));
    let x = Arr::f32(&[5], &[1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2.0]);
    let Some(got) = run(&[x], |g, p| g.top_k(p[0], 3).map(|(v, i)| vec![v, i])) else { return };
    check("top_k with NaN", &got[0], &Arr::f32(&[3], &[f64::NAN, f64::INFINITY, 2.0]));
    check("top_k with NaN, places", &got[1], &Arr::i32(&[3], &[1, 2, 4]));
}

#[test]
fn products() {
    let (a, b) = (Arr::mixed(F32, &[2, 3, 4]), Arr::mixed(F32, &[4, 5, 2]));
    let dims = DotDims { lhs_batch: vec![0], rhs_batch: vec![2], lhs_contract: vec![2], rhs_contract: vec![0] };
    let want =
        Arr::from_fn(F32, &[2, 3, 5], |i| (0..4).map(|k| a.f(&[i[0], i[1], k]) * b.f(&[k, i[2], i[0]])).sum::<f64>());
    expect("batched", &[a, b], &want, |g, p| g.dot_general(p[0], p[1], &dims, Precision::Highest, None));
    let plain = DotDims { lhs_contract: vec![1], rhs_contract: vec![0], ..DotDims::default() };
    for (dtype, out) in [(F64, F64), (I32, I32), (I8, I32), (BF16, F32), (F16, F16), (U8, U8)] {
        let (a, b) = (Arr::mixed(dtype, &[3, 4]), Arr::mixed(dtype, &[4, 2]));
        let want = Arr::from_fn(out, &[3, 2], |i| {
            let sum = (0..4).map(|k| a.f(&[i[0], k]) * b.f(&[k, i[1]])).sum::<f64>();
            if dtype.is_int() { Number::Int(sum as i64) } else { Number::Float(sum) }
        });
        expect(&format!("{dtype} into {out}"), &[a, b], &want, |g, p| {
            g.dot_general(p[0], p[1], &plain, Precision::Default, Some(out))
        });
    }
    let (a, b) = (Arr::mixed(F32, &[2]), Arr::mixed(F32, &[3]));
    let outer = Arr::from_fn(F32, &[2, 3], |i| a.f(&[i[0]]) * b.f(&[i[1]]));
    expect("outer", &[a, b], &outer, |g, p| g.dot_general(p[0], p[1], &DotDims::default(), Precision::Default, None));
    let c = Arr::mixed(C64, &[2, 2]);
    let part = |n: Number| if let Number::Complex(re, im) = n { (re, im) } else { unreachable!() };
    let want = Arr::from_fn(C64, &[2, 2], |i| {
        let (mut re, mut im) = (0.0, 0.0);
        for k in 0..2 {
            let ((a, b), (c, d)) = (part(c.at(&[i[0], k])), part(c.at(&[k, i[1]])));
            re += a * c - b * d;
            im += a * d + b * c;
        }
        Number::Complex(re, im)
    });
    expect("complex", &[c], &want, |g, p| g.dot_general(p[0], p[0], &plain, Precision::Highest, None));
}

/// Convolution in PyTorch's layouts, for any number of spatial dimensions.
fn convolve(x: &Arr, k: &Arr, w: &ConvWindow, groups: i64, batch_groups: i64, out: &[i64]) -> Arr {
    let n = x.dims.len() - 2;
    let features = k.dims[1];
    Arr::from_fn(F32, out, |o| {
        let group = o[1] / (k.dims[0] / groups);
        let batch = o[0] + (o[1] / (k.dims[0] / batch_groups)) * (x.dims[0] / batch_groups);
        let mut sum = 0.0;
        for q in indices(&k.dims[2..]) {
            let at: Option<Vec<i64>> = (0..n)
                .map(|d| {
                    let at = o[2 + d] * w.strides[d] + q[d] * w.rhs_dilation[d] - w.padding[d].0;
                    (at >= 0 && at % w.lhs_dilation[d] == 0 && at / w.lhs_dilation[d] < x.dims[2 + d])
                        .then(|| at / w.lhs_dilation[d])
                })
                .collect();
            let Some(at) = at else { continue };
            let tap: Vec<i64> = (0..n).map(|d| if w.reversal[d] { k.dims[2 + d] - 1 - q[d] } else { q[d] }).collect();
            for f in 0..features {
                sum += x.f(&[&[batch, group * features + f], &at[..]].concat()) * k.f(&[&[o[1], f], &tap[..]].concat());
            }
        }
        sum
    })
}

#[test]
fn convolutions() {
    let plain = |n: usize| ConvWindow {
        strides: vec![1; n],
        padding: vec![(0, 0); n],
        lhs_dilation: vec![1; n],
        rhs_dilation: vec![1; n],
        reversal: vec![false; n],
    };
    let cases = [
        (vec![2, 3, 6, 5], vec![4, 3, 3, 2], plain(2), 1, 1, vec![2, 4, 4, 4]),
        (
            vec![1, 4, 7],
            vec![6, 2, 3],
            ConvWindow { strides: vec![2], padding: vec![(2, 1)], rhs_dilation: vec![2], ..plain(1) },
            2,
            1,
            vec![1, 6, 3],
        ),
        (
            vec![1, 2, 3, 3],
            vec![2, 2, 2, 2],
            ConvWindow {
                lhs_dilation: vec![2, 1],
                padding: vec![(1, 1), (-1, 2)],
                reversal: vec![true, true],
                ..plain(2)
            },
            1,
            1,
            vec![1, 2, 6, 3],
        ),
        (vec![4, 1, 5], vec![2, 1, 2], plain(1), 1, 2, vec![2, 2, 4]),
        (vec![1, 1, 2, 3, 4], vec![1, 1, 2, 2, 2], plain(3), 1, 1, vec![1, 1, 1, 2, 3]),
        (vec![1, 1, 2], vec![1, 1, 3], plain(1), 1, 1, vec![1, 1, 0]),
    ];
    for (x, k, w, groups, batch_groups, out) in cases {
        let (x, k) = (Arr::mixed(F32, &x), Arr::mixed(F32, &k));
        let want = convolve(&x, &k, &w, groups, batch_groups, &out);
        let dims = ConvDims::channels_first(x.dims.len() - 2);
        expect(&format!("convolution {w:?}"), &[x, k], &want, |g, p| {
            g.convolution(p[0], p[1], &dims, &w, groups, batch_groups, Precision::Highest)
        });
    }
}
