//! What the graph does beyond type rules: value numbering, folding, unused operations, names, determinism.

mod common;

use common::ty;
use primitives::DType::*;
use primitives::*;

fn graph() -> (Graph, Value) {
    let mut g = Graph::new("main");
    let x = g.parameter(ty(F32, &[2, 3]));
    (g, x)
}

#[test]
fn identical_pure_operations_are_one_value() {
    let (mut g, x) = graph();
    let (a, b) = (g.sin(x).unwrap(), g.sin(x).unwrap());
    assert_eq!(a, b);
    assert_ne!(a, g.cos(x).unwrap());
    assert_eq!(g.scalar(F32, 1).unwrap(), g.scalar(F32, 1.0).unwrap());
    assert_ne!(g.scalar(F32, 0.0).unwrap(), g.scalar(F32, -0.0).unwrap());
    assert_ne!(g.scalar(F32, 1).unwrap(), g.scalar(I32, 1).unwrap());
    assert_ne!(g.full(F32, &[2], 1).unwrap(), g.full(F32, &[3], 1).unwrap());
    let n = g.len();
    g.transpose(x, &[1, 0]).unwrap();
    g.transpose(x, &[1, 0]).unwrap();
    assert_eq!(g.len(), n + 1);
}

#[test]
fn random_bits_are_never_merged() {
    let mut g = Graph::new("main");
    let s = g.parameter(ty(U64, &[2]));
    let a = g.rng_bit_generator(s, RngAlgorithm::Philox, ty(U32, &[4])).unwrap();
    let b = g.rng_bit_generator(s, RngAlgorithm::Philox, ty(U32, &[4])).unwrap();
    assert_ne!(a, b);
}

#[test]
fn operations_that_change_nothing_return_their_operand() {
    let (mut g, x) = graph();
    let zero = g.scalar(F32, 0).unwrap();
    assert_eq!(g.reshape(x, &[2, 3]).unwrap(), x);
    assert_eq!(g.convert(x, F32).unwrap(), x);
    assert_eq!(g.bitcast_convert(x, F32).unwrap(), x);
    assert_eq!(g.transpose(x, &[0, 1]).unwrap(), x);
    assert_eq!(g.broadcast_in_dim(x, &[2, 3], &[0, 1]).unwrap(), x);
    assert_eq!(g.broadcast_to(x, &[2, 3]).unwrap(), x);
    assert_eq!(g.slice(x, &[0, 0], &[2, 3], &[1, 1]).unwrap(), x);
    assert_eq!(g.pad(x, zero, &[0, 0], &[0, 0], &[0, 0]).unwrap(), x);
    assert_eq!(g.concatenate(&[x], 0).unwrap(), x);
    assert_eq!(g.reverse(x, &[]).unwrap(), x);
    assert_eq!(g.reduce_sum(x, &[]).unwrap(), x);
    assert_eq!(g.select(zero, x, x).unwrap_err().argument, "pred");
    assert_eq!(g.real(x).unwrap(), x);
}

#[test]
fn chains_of_reshapes_and_transposes_become_one() {
    let (mut g, x) = graph();
    let a = g.reshape(x, &[6]).unwrap();
    assert_eq!(g.reshape(a, &[2, 3]).unwrap(), x);
    let t = g.transpose(x, &[1, 0]).unwrap();
    assert_eq!(g.transpose(t, &[1, 0]).unwrap(), x);
}

#[test]
fn constants_are_seen_through() {
    let mut g = Graph::new("main");
    let c = g.scalar(F64, 2.5).unwrap();
    let b = g.broadcast_to(c, &[4, 5]).unwrap();
    let t = g.transpose(b, &[1, 0]).unwrap();
    let r = g.reshape(t, &[20]).unwrap();
    let s = g.slice(r, &[0], &[7], &[1]).unwrap();
    assert_eq!(g.const_value(s), Some(Number::Float(2.5)));
    let i = g.convert(s, I32).unwrap();
    assert_eq!(g.const_value(i), Some(Number::Int(2)));
    let all_equal = g.constant(U8, &[3], &[7, 7, 7]).unwrap();
    assert_eq!(g.const_value(all_equal), Some(Number::UInt(7)));
    let x = g.parameter(ty(F32, &[]));
    assert_eq!(g.const_value(x), None);
    let different = g.constant(U8, &[3], &[7, 7, 8]).unwrap();
    assert_eq!(g.const_value(different), None);
}

#[test]
fn unused_operations_are_not_printed() {
    let (mut g, x) = graph();
    let unused = g.sin(x).unwrap();
    g.reduce_sum(unused, &[0]).unwrap();
    let y = g.cos(x).unwrap();
    g.set_outputs(&[y]).unwrap();
    let text = g.to_text();
    assert!(!text.contains(".sine"), "{text}");
    assert!(!text.contains("reduce"), "{text}");
    assert!(text.contains("%0 = stablehlo.cosine %arg0"), "{text}");
}

#[test]
fn effects_are_kept() {
    let (mut g, x) = graph();
    let call = CustomCall { side_effect: true, ..CustomCall::default() };
    let seen = g.sin(x).unwrap();
    g.custom_call("print", &[seen], &[], call.clone()).unwrap();
    let p = g.parameter(ty(Bool, &[]));
    g.if_else(
        p,
        |g, _| {
            g.custom_call("inside", &[x], &[], call)?;
            Ok(vec![])
        },
        |_, _| Ok(vec![]),
    )
    .unwrap();
    g.set_outputs(&[x]).unwrap();
    let text = g.to_text();
    assert!(text.contains("\"print\"") && text.contains("\"inside\"") && text.contains("sine"), "{text}");
}

#[test]
fn values_used_only_in_regions_are_kept() {
    let (mut g, x) = graph();
    let p = g.parameter(ty(Bool, &[]));
    let s = g.sin(x).unwrap();
    let y = g.if_else(p, |g, _| Ok(vec![g.neg(s)?]), |_, _| Ok(vec![s])).unwrap();
    g.set_outputs(&y).unwrap();
    assert!(g.to_text().contains("sine"));
}

#[test]
fn numbering_does_not_cross_regions() {
    let (mut g, x) = graph();
    let p = g.parameter(ty(Bool, &[]));
    let y = g.if_else(p, |g, _| Ok(vec![g.sin(x)?]), |g, _| Ok(vec![g.sin(x)?])).unwrap();
    // A value of a region must not stand for the same operation outside.
    let z = g.sin(x).unwrap();
    g.set_outputs(&[y[0], z]).unwrap();
    assert_eq!(g.to_text().matches("stablehlo.sine").count(), 3);
}

#[test]
fn text_is_deterministic_and_names_are_clean() {
    let build = || {
        let mut g = Graph::new("9 lives: a/b");
        let x = g.parameter(ty(F32, &[4]));
        let c = g.scalar(F32, 3).unwrap();
        let c = g.broadcast_to(c, &[4]).unwrap();
        let y = g.multiply(x, c).unwrap();
        g.set_outputs(&[y]).unwrap();
        g.to_text()
    };
    assert_eq!(build(), build());
    assert!(build().starts_with("module @_9_lives__a_b {"));
}

#[test]
fn large_programs_are_quick() {
    let mut g = Graph::new("large");
    let x = g.parameter(ty(F32, &[128, 256]));
    let start = std::time::Instant::now();
    let mut v = x;
    for i in 0..1250 {
        let c = g.scalar(F32, i).unwrap();
        let c = g.broadcast_to(c, &[128, 256]).unwrap();
        let a = g.add(v, c).unwrap();
        let b = g.multiply(a, x).unwrap();
        let t = g.transpose(b, &[1, 0]).unwrap();
        let t = g.tanh(t).unwrap();
        v = g.transpose(t, &[1, 0]).unwrap();
    }
    g.set_outputs(&[v]).unwrap();
    let built = start.elapsed();
    let text = g.to_text();
    let printed = start.elapsed() - built;
    println!("{} operations, {} bytes: {built:?} to build, {printed:?} to print", g.len(), text.len());
    // Far above what it takes even unoptimized; a quadratic step would exceed it.
    assert!(start.elapsed().as_millis() < 2000);
}
