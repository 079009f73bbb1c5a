//! The random numbers: the cipher against its published vectors, and counters that cross 32 bits.

mod on_plugin;

use bridge::aten::threefry::{block, blocks};
use on_plugin::{Arr, run};
use primitives::DType::U32;
use primitives::Number;

fn words(v: &[u64]) -> Arr {
    let data: Vec<Number> = v.iter().map(|&w| Number::UInt(w)).collect();
    Arr::new(U32, &[v.len() as i64], &data)
}

fn values(a: &Arr) -> Vec<u64> {
    a.data.iter().map(|n| n.as_u64()).collect()
}

/// Known answers for 20 rounds, from the authors' Random123 distribution.
#[test]
fn published_vectors() {
    let keys = [words(&[0, 0xffff_ffff, 0x1319_8a2e]), words(&[0, 0xffff_ffff, 0x0370_7344])];
    let counters = [words(&[0, 0xffff_ffff, 0x243f_6a88]), words(&[0, 0xffff_ffff, 0x85a3_08d3])];
    let inputs = [&keys[..], &counters[..]].concat();
    let Some(got) = run(&inputs, |g, p| {
        let bits = block(g, (p[0], p[1]), p[2], p[3]).unwrap();
        Ok(vec![bits.low, bits.high])
    }) else {
        return;
    };
    assert_eq!(values(&got[0]), [0x6b20_0159, 0x1cb9_96fc, 0xc492_3a9c]);
    assert_eq!(values(&got[1]), [0x99ba_4efe, 0xbb00_2be7, 0x483d_f7a0]);
}

/// The counter is one number of 64 bits: blocks from `2^32 - 1` on are those from word pairs `(2^32 - 1, 0)` and `(0, 1)`.
#[test]
fn counters_carry() {
    let state = words(&[7, 9, 0xffff_ffff, 0]);
    let (low, high) = (words(&[0xffff_ffff, 0, 1]), words(&[0, 1, 1]));
    let Some(got) = run(&[state, low, high], |g, p| {
        let at = |g: &mut primitives::Graph, i: i64| {
            let w = g.slice(p[0], &[i], &[i + 1], &[1]).unwrap();
            g.reshape(w, &[]).unwrap()
        };
        let (k0, k1, c0, c1) = (at(g, 0), at(g, 1), at(g, 2), at(g, 3));
        let run = blocks(g, (k0, k1), (c0, c1), 3).unwrap();
        let (w0, w1) = (g.broadcast_to(k0, &[3])?, g.broadcast_to(k1, &[3])?);
        let each = block(g, (w0, w1), p[1], p[2]).unwrap();
        Ok(vec![run.low, run.high, each.low, each.high])
    }) else {
        return;
    };
    assert_eq!(values(&got[0]), values(&got[2]));
    assert_eq!(values(&got[1]), values(&got[3]));
}
