//! Primitives that move elements, on the plugin, against plain Rust.

mod on_plugin;

use std::slice::from_ref;

use on_plugin::{Arr, check, expect, indices, run};
use primitives::DType::*;
use primitives::*;

#[test]
fn reshape() {
    let x = Arr::mixed(F32, &[2, 3, 4]);
    let want = Arr { dims: vec![4, 6], ..x.clone() };
    expect("reshape", &[x], &want, |g, p| g.reshape(p[0], &[4, 6]));
}

#[test]
fn transpose() {
    for dtype in [F32, Bool, C64, I8] {
        let x = Arr::mixed(dtype, &[2, 3, 4]);
        let want = Arr::from_fn(dtype, &[4, 2, 3], |i| x.at(&[i[1], i[2], i[0]]));
        expect("transpose", &[x], &want, |g, p| g.transpose(p[0], &[2, 0, 1]));
    }
    let x = Arr::mixed(F32, &[2, 3, 4]);
    let want = Arr::from_fn(F32, &[3, 4, 2], |i| x.at(&[i[2], i[0], i[1]]));
    expect("transpose of transpose", &[x], &want, |g, p| {
        let t = g.transpose(p[0], &[2, 1, 0])?;
        g.transpose(t, &[1, 0, 2])
    });
}

#[test]
fn broadcast() {
    let x = Arr::mixed(F32, &[3, 1]);
    let want = Arr::from_fn(F32, &[3, 2, 4], |i| x.at(&[i[0], 0]));
    expect("broadcast_in_dim", from_ref(&x), &want, |g, p| g.broadcast_in_dim(p[0], &[3, 2, 4], &[0, 2]));
    let want = Arr::from_fn(F32, &[2, 3, 4], |i| x.at(&[i[1], 0]));
    expect("broadcast_to", &[x], &want, |g, p| g.broadcast_to(p[0], &[2, 3, 4]));
    let x = Arr::mixed(F32, &[2, 3]);
    let want = Arr::from_fn(F32, &[3, 2], |i| x.at(&[i[1], i[0]]));
    expect("broadcast_in_dim that transposes", &[x], &want, |g, p| g.broadcast_in_dim(p[0], &[3, 2], &[1, 0]));
}

#[test]
fn concatenate() {
    let (x, y) = (Arr::mixed(F32, &[2, 3]), Arr::mixed(F32, &[2, 1]));
    let want = Arr::from_fn(F32, &[2, 4], |i| if i[1] < 3 { x.at(i) } else { y.at(&[i[0], 0]) });
    expect("concatenate", &[x, y], &want, |g, p| g.concatenate(p, 1));
}

#[test]
fn reverse() {
    let x = Arr::mixed(F32, &[2, 3, 2]);
    let want = Arr::from_fn(F32, &[2, 3, 2], |i| x.at(&[1 - i[0], i[1], 1 - i[2]]));
    expect("reverse", &[x], &want, |g, p| g.reverse(p[0], &[0, 2]));
}

#[test]
fn slice() {
    let x = Arr::mixed(F32, &[5, 6]);
    let want = Arr::from_fn(F32, &[2, 3], |i| x.at(&[1 + i[0], 2 * i[1]]));
    expect("slice", from_ref(&x), &want, |g, p| g.slice(p[0], &[1, 0], &[3, 5], &[1, 2]));
    let none = Arr::from_fn(F32, &[0, 6], |i| x.at(i));
    expect("empty slice", &[x], &none, |g, p| g.slice(p[0], &[3, 0], &[3, 6], &[1, 1]));
}

#[test]
fn dynamic_slices() {
    let x = Arr::mixed(F32, &[4, 5]);
    for (i, j) in [(1, 2), (9, -3), (0, 0)] {
        let index = [Arr::i32(&[], &[i]), Arr::i32(&[], &[j])];
        let (r, c) = (i.clamp(0, 2), j.clamp(0, 2));
        let part = Arr::from_fn(F32, &[2, 3], |k| x.at(&[r + k[0], c + k[1]]));
        let inputs = [&[x.clone()][..], &index].concat();
        expect("dynamic_slice", &inputs, &part, |g, p| g.dynamic_slice(p[0], &p[1..], &[2, 3]));
        let update = Arr::mixed(F32, &[2, 3]).map(F32, |v| v + 100.0);
        let want = Arr::from_fn(F32, &[4, 5], |k| {
            let (a, b) = (k[0] - r, k[1] - c);
            if (0..2).contains(&a) && (0..3).contains(&b) { update.at(&[a, b]) } else { x.at(k) }
        });
        let inputs = [&[x.clone(), update.clone()][..], &index].concat();
        expect("dynamic_update_slice", &inputs, &want, |g, p| g.dynamic_update_slice(p[0], p[1], &p[2..]));
    }
}

#[test]
fn pad() {
    let x = Arr::mixed(F32, &[3, 4]);
    for (low, high, interior) in
        [([1, 0], [2, 1], [0, 2]), ([-1, 1], [0, -2], [1, 0]), ([0, 0], [-3, 0], [0, 0]), ([2, -1], [-1, -1], [2, 3])]
    {
        let dims: Vec<i64> = (0..2).map(|d| low[d] + high[d] + x.dims[d] + (x.dims[d] - 1) * interior[d]).collect();
        let want = Arr::from_fn(F32, &dims, |i| {
            let source: Vec<i64> = (0..2).map(|d| i[d] - low[d]).collect();
            let inside = (0..2).all(|d| {
                source[d] >= 0 && source[d] % (interior[d] + 1) == 0 && source[d] / (interior[d] + 1) < x.dims[d]
            });
            let at: Vec<i64> = (0..2).map(|d| source[d] / (interior[d] + 1)).collect();
            if inside { x.at(&at) } else { Number::Float(9.0) }
        });
        expect("pad", from_ref(&x), &want, |g, p| {
            let nine = g.scalar(F32, 9)?;
            g.pad(p[0], nine, &low, &high, &interior)
        });
    }
}

/// Gather as the StableHLO specification words it.
fn gather(x: &Arr, indices_: &Arr, d: &GatherDims, sizes: &[i64], result: &[i64]) -> Arr {
    Arr::from_fn(x.dtype, result, |r| {
        let batch: Vec<i64> = (0..r.len()).filter(|i| !d.offset_dims.contains(i)).map(|i| r[i]).collect();
        let offset: Vec<i64> = d.offset_dims.iter().map(|i| r[*i]).collect();
        let full = full_start(indices_, &batch, &d.start_index_map, d.index_vector_dim, x.dims.len());
        let mut at: Vec<i64> = (0..x.dims.len()).map(|i| full[i].clamp(0, x.dims[i] - sizes[i])).collect();
        for (a, b) in d.operand_batching_dims.iter().zip(&d.start_indices_batching_dims) {
            at[*a] = batch[b - (*b > d.index_vector_dim) as usize];
        }
        let mut offset = offset.iter();
        for (i, a) in at.iter_mut().enumerate() {
            if !d.collapsed_slice_dims.contains(&i) && !d.operand_batching_dims.contains(&i) {
                *a += offset.next().unwrap();
            }
        }
        x.at(&at)
    })
}

fn full_start(indices_: &Arr, batch: &[i64], map: &[usize], vector_dim: usize, rank: usize) -> Vec<i64> {
    let mut full = vec![0; rank];
    for (k, d) in map.iter().enumerate() {
        let mut at = batch.to_vec();
        if vector_dim < indices_.dims.len() {
            at.insert(vector_dim, k as i64);
        }
        full[*d] = indices_.at(&at).as_i64();
    }
    full
}

#[test]
fn gathers() {
    let x = Arr::mixed(F32, &[4, 5, 3]);
    let cases = [
        // Rows, as embedding does; one index is out of range and is clamped.
        (
            Arr::new(I64, &[3], &[2i64, 9, -1]),
            GatherDims {
                offset_dims: vec![1, 2],
                collapsed_slice_dims: vec![0],
                start_index_map: vec![0],
                index_vector_dim: 1,
                ..GatherDims::default()
            },
            vec![1, 5, 3],
            vec![3, 5, 3],
        ),
        // Blocks at two-dimensional places, with the index vector first.
        (
            Arr::i32(&[2, 4], &[0, 1, 2, 3, 1, 0, 0, 2]),
            GatherDims {
                offset_dims: vec![0, 2],
                collapsed_slice_dims: vec![1],
                start_index_map: vec![2, 0],
                index_vector_dim: 0,
                ..GatherDims::default()
            },
            vec![2, 1, 2],
            vec![2, 4, 2],
        ),
        // Batch dimensions, as take_along_dim does.
        (
            Arr::i32(&[3, 2, 4], &[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3]),
            GatherDims {
                offset_dims: vec![],
                collapsed_slice_dims: vec![1],
                operand_batching_dims: vec![0, 2],
                start_indices_batching_dims: vec![2, 0],
                start_index_map: vec![1],
                index_vector_dim: 3,
            },
            vec![1, 1, 1],
            vec![3, 2, 4],
        ),
    ];
    for (index, dims, sizes, result) in cases {
        let want = gather(&x, &index, &dims, &sizes, &result);
        expect("gather", &[x.clone(), index], &want, |g, p| g.gather(p[0], p[1], &dims, &sizes, false));
    }
}

/// Scatter as the StableHLO specification words it.
fn scatter(x: &Arr, index: &Arr, updates: &Arr, d: &ScatterDims, combine: fn(f64, f64) -> f64) -> Arr {
    let mut out = x.clone();
    for u in indices(&updates.dims) {
        let batch: Vec<i64> = (0..u.len()).filter(|i| !d.update_window_dims.contains(i)).map(|i| u[i]).collect();
        let mut at = full_start(index, &batch, &d.scatter_dims_to_operand_dims, d.index_vector_dim, x.dims.len());
        for (a, b) in d.input_batching_dims.iter().zip(&d.scatter_indices_batching_dims) {
            at[*a] = batch[b - (*b > d.index_vector_dim) as usize];
        }
        let mut window = d.update_window_dims.iter().map(|i| u[*i]);
        for (i, a) in at.iter_mut().enumerate() {
            if !d.inserted_window_dims.contains(&i) && !d.input_batching_dims.contains(&i) {
                *a += window.next().unwrap();
            }
        }
        if at.iter().zip(&x.dims).all(|(a, n)| a >= &0 && a < n) {
            let flat = at.iter().zip(&x.dims).fold(0, |f, (a, n)| f * n + a) as usize;
            out.data[flat] = Number::Float(combine(out.data[flat].as_f64(), updates.f(&u)));
        }
    }
    out
}

#[test]
fn scatters() {
    let x = Arr::mixed(F32, &[4, 5]);
    // Rows added, one index twice, one out of range (skipped).
    let rows = ScatterDims {
        update_window_dims: vec![1],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDims::default()
    };
    let index = Arr::new(I64, &[4], &[1i64, 3, 1, 7]);
    let updates = Arr::mixed(F32, &[4, 5]).map(F32, |v| v * 2.0);
    let want = scatter(&x, &index, &updates, &rows, |a, b| a + b);
    expect("scatter add", &[x.clone(), index.clone(), updates.clone()], &want, |g, p| {
        Ok(g.scatter(&[p[0]], p[1], &[p[2]], &rows, false, false, |g, a| Ok(vec![g.add(a[0], a[1])?]))?[0])
    });
    // Batch dimensions, replacing.
    let along = ScatterDims {
        inserted_window_dims: vec![1],
        input_batching_dims: vec![0],
        scatter_indices_batching_dims: vec![0],
        scatter_dims_to_operand_dims: vec![1],
        index_vector_dim: 2,
        ..ScatterDims::default()
    };
    let index = Arr::i32(&[4, 2], &[0, 1, 4, 2, 3, 1, 0, 4]);
    let updates = Arr::mixed(F32, &[4, 2]).map(F32, |v| v + 50.0);
    let want = scatter(&x, &index, &updates, &along, |_, b| b);
    expect("scatter set", &[x.clone(), index, updates], &want, |g, p| {
        Ok(g.scatter(&[p[0]], p[1], &[p[2]], &along, false, true, |_, a| Ok(vec![a[1]]))?[0])
    });
    // Two operands moved together.
    let (a, b) = (Arr::f32(&[3], &[1.0, 2.0, 3.0]), Arr::i32(&[3], &[10, 20, 30]));
    let index = Arr::i32(&[2, 1], &[2, 0]);
    let (ua, ub) = (Arr::f32(&[2], &[5.0, -5.0]), Arr::i32(&[2], &[50, 60]));
    let point = ScatterDims {
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDims::default()
    };
    let Some(got) = run(&[a, b, index, ua, ub], |g, p| {
        g.scatter(&[p[0], p[1]], p[2], &[p[3], p[4]], &point, false, false, |g, a| {
            let larger = g.compare(a[2], a[0], Direction::Gt)?;
            Ok(vec![g.select(larger, a[2], a[0])?, g.select(larger, a[3], a[1])?])
        })
    }) else {
        return;
    };
    check("scatter of two", &got[0], &Arr::f32(&[3], &[1.0, 2.0, 5.0]));
    check("scatter of two", &got[1], &Arr::i32(&[3], &[10, 20, 50]));
}
