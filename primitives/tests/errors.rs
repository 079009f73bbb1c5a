//! The exact message of every kind of error: `tests/snapshots/errors.txt` has one line per call below.

mod common;

use std::fmt::Write;

use common::ty;
use primitives::DType::*;
use primitives::*;

type Call = fn(&mut Graph) -> Result<()>;

fn p(g: &mut Graph, dtype: DType, dims: &[i64]) -> Value {
    g.parameter(ty(dtype, dims))
}

/// A value that only the body of a reduction may use.
fn inside_a_region(g: &mut Graph) -> Result<Value> {
    let mut inner = None;
    let (x, i) = (p(g, F32, &[3]), p(g, F32, &[]));
    g.reduce(&[x], &[i], &[0], |_, a| {
        inner = Some(a[0]);
        Ok(vec![a[0]])
    })?;
    Ok(inner.unwrap())
}

fn add(g: &mut Graph, a: &[Value]) -> Result<Vec<Value>> {
    Ok(vec![g.add(a[0], a[1])?])
}

fn less(g: &mut Graph, a: &[Value]) -> Result<Vec<Value>> {
    Ok(vec![g.compare(a[0], a[1], Direction::Lt)?])
}

const ELEMENTWISE: &[Call] = &[
    |g| (p(g, F32, &[3]), p(g, F32, &[4])).pipe(|(a, b)| g.add(a, b)),
    |g| (p(g, F32, &[3]), p(g, F64, &[3])).pipe(|(a, b)| g.multiply(a, b)),
    |g| p(g, Bool, &[3]).pipe(|b| g.subtract(b, b)),
    |g| p(g, F32, &[3]).pipe(|x| g.and(x, x)),
    |g| p(g, F32, &[3]).pipe(|x| g.shift_left(x, x)),
    |g| p(g, C64, &[3]).pipe(|x| g.remainder(x, x)),
    |g| p(g, I32, &[3]).pipe(|x| g.atan2(x, x)),
    |g| p(g, I32, &[3]).pipe(|x| g.exp(x)),
    |g| p(g, C64, &[3]).pipe(|x| g.floor(x)),
    |g| p(g, U8, &[3]).pipe(|x| g.abs(x)),
    |g| p(g, Bool, &[3]).pipe(|x| g.neg(x)),
    |g| p(g, F32, &[3]).pipe(|x| g.popcnt(x)),
    |g| p(g, F32, &[3]).pipe(|x| g.not(x)),
    |g| p(g, I32, &[3]).pipe(|x| g.erf(x)),
    |g| p(g, I64, &[3]).pipe(|x| g.polygamma(x, x)),
    |g| (p(g, F32, &[3]), p(g, F32, &[2])).pipe(|(a, b)| g.zeta(a, b)),
    |g| p(g, I32, &[3]).pipe(|x| g.is_finite(x)),
    |g| p(g, F16, &[3]).pipe(|x| g.complex(x, x)),
    |g| p(g, I32, &[3]).pipe(|x| g.real(x)),
    |g| p(g, I32, &[3]).pipe(|x| g.conj(x)),
    |g| p(g, C64, &[3]).pipe(|x| g.compare(x, x, Direction::Lt)),
    |g| p(g, I32, &[3]).pipe(|x| g.compare_total_order(x, x, Direction::Lt)),
    |g| (p(g, F32, &[3]), p(g, F32, &[2])).pipe(|(a, b)| g.compare(a, b, Direction::Eq)),
    |g| (p(g, Bool, &[2]), p(g, F32, &[3])).pipe(|(a, b)| g.select(a, b, b)),
    |g| p(g, F32, &[3]).pipe(|x| g.select(x, x, x)),
    |g| (p(g, F32, &[2]), p(g, F32, &[3])).pipe(|(a, x)| g.clamp(a, x, x)),
    |g| p(g, C64, &[]).pipe(|x| g.clamp(x, x, x)),
    |g| p(g, Bool, &[3]).pipe(|x| g.bitcast_convert(x, U8)),
    |g| p(g, U8, &[3]).pipe(|x| g.bitcast_convert(x, F32)),
    |g| p(g, F32, &[3]).pipe(|x| g.reduce_precision(x, 0, 7)),
    |g| p(g, F32, &[3]).pipe(|x| g.reduce_precision(x, 8, -1)),
    |g| g.constant(F32, &[3], &[0; 8]).map(drop),
    |g| g.full(F32, &[3, -1], 0).map(drop),
    |g| g.iota(Bool, &[3], 0).map(drop),
    |g| g.iota(I32, &[3], 1).map(drop),
];

const SHAPES: &[Call] = &[
    |g| p(g, F32, &[2, 3]).pipe(|x| g.reshape(x, &[5])),
    |g| p(g, F32, &[2, 3]).pipe(|x| g.reshape(x, &[-1])),
    |g| p(g, F32, &[2, 3]).pipe(|x| g.transpose(x, &[0])),
    |g| p(g, F32, &[2, 3]).pipe(|x| g.transpose(x, &[0, 0])),
    |g| p(g, F32, &[2, 3]).pipe(|x| g.broadcast_in_dim(x, &[2, 4], &[0, 1])),
    |g| p(g, F32, &[2, 3]).pipe(|x| g.broadcast_in_dim(x, &[2, 3], &[0, 2])),
    |g| p(g, F32, &[2, 3]).pipe(|x| g.broadcast_to(x, &[3])),
    |g| p(g, F32, &[2, 3]).pipe(|x| g.broadcast_to(x, &[2, 2])),
    |g| g.concatenate(&[], 0).map(drop),
    |g| (p(g, F32, &[2, 3]), p(g, F32, &[3, 3])).pipe(|(a, b)| g.concatenate(&[a, b], 1)),
    |g| p(g, F32, &[]).pipe(|x| g.concatenate(&[x, x], 0)),
    |g| p(g, F32, &[2]).pipe(|x| g.reverse(x, &[1])),
    |g| p(g, F32, &[2]).pipe(|x| g.slice(x, &[0], &[3], &[1])),
    |g| p(g, F32, &[2]).pipe(|x| g.slice(x, &[2], &[1], &[1])),
    |g| p(g, F32, &[2]).pipe(|x| g.slice(x, &[0], &[2], &[0])),
    |g| p(g, F32, &[2]).pipe(|x| g.slice(x, &[], &[2], &[1])),
    |g| (p(g, F32, &[2]), p(g, I32, &[])).pipe(|(x, i)| g.dynamic_slice(x, &[i], &[3])),
    |g| (p(g, F32, &[2]), p(g, F32, &[])).pipe(|(x, i)| g.dynamic_slice(x, &[i], &[1])),
    |g| (p(g, F32, &[2]), p(g, I32, &[1])).pipe(|(x, i)| g.dynamic_slice(x, &[i], &[1])),
    |g| (p(g, F32, &[2]), p(g, F32, &[3]), p(g, I32, &[])).pipe(|(x, u, i)| g.dynamic_update_slice(x, u, &[i])),
    |g| (p(g, F32, &[2]), p(g, F32, &[])).pipe(|(x, v)| g.pad(x, v, &[-3], &[0], &[0])),
    |g| (p(g, F32, &[2]), p(g, F32, &[])).pipe(|(x, v)| g.pad(x, v, &[0], &[0], &[-1])),
    |g| (p(g, F32, &[2]), p(g, I32, &[])).pipe(|(x, v)| g.pad(x, v, &[0], &[0], &[0])),
];

fn gather(g: &mut Graph, dims: GatherDims, sizes: &[i64]) -> Result<Value> {
    let (x, i) = (p(g, F32, &[4, 5]), p(g, I32, &[3, 1]));
    g.gather(x, i, &dims, sizes, false)
}

fn rows() -> GatherDims {
    GatherDims {
        offset_dims: vec![1],
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 1,
        ..GatherDims::default()
    }
}

fn scatter_rows(g: &mut Graph, updates: &[i64]) -> Result<Vec<Value>> {
    let dims = ScatterDims {
        update_window_dims: vec![1],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDims::default()
    };
    let (x, i, u) = (p(g, F32, &[4, 5]), p(g, I32, &[3, 1]), p(g, F32, updates));
    g.scatter(&[x], i, &[u], &dims, false, false, add)
}

const INDEXED: &[Call] = &[
    |g| (p(g, F32, &[4]), p(g, F32, &[3])).pipe(|(x, i)| g.gather(x, i, &rows(), &[1], false)),
    |g| gather(g, GatherDims { index_vector_dim: 3, ..rows() }, &[1, 5]).map(drop),
    |g| gather(g, GatherDims { start_index_map: vec![0, 1], ..rows() }, &[1, 5]).map(drop),
    |g| gather(g, GatherDims { start_index_map: vec![2], ..rows() }, &[1, 5]).map(drop),
    |g| gather(g, GatherDims { offset_dims: vec![], ..rows() }, &[1, 5]).map(drop),
    |g| gather(g, GatherDims { offset_dims: vec![2], ..rows() }, &[1, 5]).map(drop),
    |g| gather(g, rows(), &[2, 5]).map(drop),
    |g| gather(g, rows(), &[1, 6]).map(drop),
    |g| {
        gather(
            g,
            GatherDims { operand_batching_dims: vec![0], start_indices_batching_dims: vec![0], ..rows() },
            &[1, 5],
        )
        .map(drop)
    },
    |g| {
        let dims = GatherDims {
            offset_dims: vec![],
            collapsed_slice_dims: vec![1],
            operand_batching_dims: vec![0],
            start_indices_batching_dims: vec![0],
            start_index_map: vec![1],
            index_vector_dim: 1,
        };
        gather(g, dims, &[1, 1]).map(drop)
    },
    |g| scatter_rows(g, &[3, 6]).map(drop),
    |g| scatter_rows(g, &[2, 5]).map(drop),
    |g| p(g, I32, &[3]).pipe(|i| g.scatter(&[], i, &[], &ScatterDims::default(), false, false, add)),
];

const REDUCTIONS: &[Call] = &[
    |g| g.reduce(&[], &[], &[], add).map(drop),
    |g| p(g, F32, &[3]).pipe(|x| g.reduce(&[x], &[], &[0], add)),
    |g| p(g, F32, &[3]).pipe(|x| g.reduce(&[x], &[x], &[0], add)),
    |g| p(g, F32, &[3]).pipe(|x| g.reduce_sum(x, &[1])),
    |g| p(g, F32, &[3]).pipe(|x| g.reduce_sum(x, &[0, 0])),
    |g| p(g, C64, &[3]).pipe(|x| g.reduce_max(x, &[0])),
    |g| p(g, F32, &[3]).pipe(|x| g.reduce_or(x, &[0])),
    |g| (p(g, F32, &[3]), p(g, F32, &[])).pipe(|(x, i)| g.reduce(&[x], &[i], &[0], less)),
    |g| (p(g, F32, &[3]), p(g, F32, &[])).pipe(|(x, i)| g.reduce(&[x], &[i], &[0], |g, a| Ok(vec![g.add(a[0], i)?]))),
    |g| (p(g, F32, &[3]), p(g, F32, &[])).pipe(|(x, i)| g.reduce_window(&[x], &[i], &Window::new(&[1, 2]), add)),
    |g| (p(g, F32, &[3]), p(g, F32, &[])).pipe(|(x, i)| g.reduce_window(&[x], &[i], &Window::new(&[0]), add)),
    |g| {
        let (x, i) = (p(g, F32, &[3]), p(g, F32, &[]));
        let w = Window { window_dilations: vec![2], ..Window::new(&[2]) };
        g.select_and_scatter(x, x, i, &w, less, add).map(drop)
    },
    |g| (p(g, F32, &[3]), p(g, F32, &[])).pipe(|(x, i)| g.select_and_scatter(x, x, i, &Window::new(&[2]), less, add)),
    |g| (p(g, F32, &[3]), p(g, F32, &[2])).pipe(|(x, y)| g.sort(&[x, y], 0, true, less)),
    |g| p(g, F32, &[3]).pipe(|x| g.sort(&[x], 0, true, add)),
    |g| p(g, F32, &[3]).pipe(|x| g.top_k(x, 4)),
    |g| p(g, F32, &[]).pipe(|x| g.top_k(x, 1)),
];

fn dot(g: &mut Graph, lhs: TensorType, rhs: TensorType, out: Option<DType>) -> Result<()> {
    let dims = DotDims { lhs_contract: vec![1], rhs_contract: vec![0], ..DotDims::default() };
    let (l, r) = (g.parameter(lhs), g.parameter(rhs));
    g.dot_general(l, r, &dims, Precision::Default, out).map(drop)
}

fn conv(g: &mut Graph, lhs: &[i64], rhs: &[i64], w: ConvWindow, features: i64, batches: i64) -> Result<()> {
    let (l, r) = (p(g, F32, lhs), p(g, F32, rhs));
    g.convolution(l, r, &ConvDims::channels_first(1), &w, features, batches, Precision::Default).map(drop)
}

const PRODUCTS: &[Call] = &[
    |g| dot(g, ty(F32, &[2, 3]), ty(F32, &[4, 2]), None),
    |g| dot(g, ty(F32, &[2, 3]), ty(F64, &[3, 2]), None),
    |g| dot(g, ty(Bool, &[2, 3]), ty(Bool, &[3, 2]), None),
    |g| dot(g, ty(F32, &[2, 3]), ty(F32, &[3, 2]), Some(BF16)),
    |g| dot(g, ty(F32, &[3]), ty(F32, &[3, 2]), None),
    |g| {
        let dims = DotDims { lhs_batch: vec![0], ..DotDims::default() };
        p(g, F32, &[2]).pipe(|x| g.dot_general(x, x, &dims, Precision::Default, None))
    },
    |g| conv(g, &[1, 2, 5], &[3, 3, 2], ConvWindow::default(), 1, 1),
    |g| conv(g, &[1, 2, 5], &[3, 1, 2], ConvWindow::default(), 2, 1),
    |g| conv(g, &[3, 2, 5], &[2, 2, 2], ConvWindow::default(), 1, 2),
    |g| conv(g, &[1, 2, 5], &[3, 2, 2], ConvWindow::default(), 2, 2),
    |g| conv(g, &[1, 2, 5, 5], &[3, 2, 2], ConvWindow::default(), 1, 1),
    |g| conv(g, &[1, 2, 5], &[3, 2, 2], ConvWindow { strides: vec![0], ..ConvWindow::default() }, 1, 1),
    |g| conv(g, &[1, 2, 5], &[3, 2, 2], ConvWindow { padding: vec![(0, 0); 2], ..ConvWindow::default() }, 1, 1),
    |g| p(g, F32, &[2, 3]).pipe(|x| g.cholesky(x, true)),
    |g| p(g, I32, &[3, 3]).pipe(|x| g.cholesky(x, true)),
    |g| {
        (p(g, F32, &[3, 3]), p(g, F32, &[2, 3]))
            .pipe(|(a, b)| g.triangular_solve(a, b, true, true, false, Transpose::No))
    },
    |g| (p(g, F32, &[3, 3]), p(g, F32, &[3])).pipe(|(a, b)| g.triangular_solve(a, b, true, true, false, Transpose::No)),
    |g| p(g, F32, &[4]).pipe(|x| g.fft(x, FftKind::Fft, &[4])),
    |g| p(g, C64, &[4]).pipe(|x| g.fft(x, FftKind::Rfft, &[4])),
    |g| p(g, C64, &[4]).pipe(|x| g.fft(x, FftKind::Fft, &[5])),
    |g| p(g, C64, &[4]).pipe(|x| g.fft(x, FftKind::Irfft, &[4])),
    |g| p(g, C64, &[4]).pipe(|x| g.fft(x, FftKind::Fft, &[])),
];

fn manual(g: &mut Graph, mesh: &str, operands: &[Split<'_>], results: &[Split<'_>]) -> Result<()> {
    g.add_mesh("mesh", &[("x", 2)]);
    let x = p(g, F32, &[3]);
    g.manual_computation(&[x], Manual { mesh, operands, results }, |_, a| Ok(a.to_vec())).map(drop)
}

const PROGRAMS: &[Call] = &[
    |g| p(g, F32, &[]).pipe(|x| g.while_loop(&[x], |_, a| Ok(a.to_vec()), |_, a| Ok(a.to_vec()))),
    |g| p(g, F32, &[]).pipe(|x| g.while_loop(&[x], |g, a| less(g, &[a[0], a[0]]), |_, _| Ok(vec![]))),
    |g| p(g, F32, &[]).pipe(|x| g.if_else(x, |_, _| Ok(vec![]), |_, _| Ok(vec![]))),
    |g| p(g, Bool, &[]).pipe(|x| g.if_else(x, |_, _| Ok(vec![x]), |_, _| Ok(vec![]))),
    |g| p(g, I32, &[]).pipe(|x| g.case(x, vec![])),
    |g| p(g, I32, &[1]).pipe(|x| g.case(x, vec![branch(|_, _| Ok(vec![]))])),
    |g| p(g, U64, &[3]).pipe(|s| g.rng_bit_generator(s, RngAlgorithm::ThreeFry, ty(U32, &[4]))),
    |g| p(g, I64, &[2]).pipe(|s| g.rng_bit_generator(s, RngAlgorithm::Philox, ty(U32, &[4]))),
    |g| p(g, U64, &[2]).pipe(|s| g.rng_bit_generator(s, RngAlgorithm::Philox, ty(Bool, &[4]))),
    |g| p(g, F32, &[3]).pipe(|x| g.all_reduce(x, &Groups::default(), add)),
    |g| {
        p(g, F32, &[3]).pipe(|x| g.all_gather(x, 0, &Groups { groups: vec![vec![0, 1], vec![2]], ..Groups::default() }))
    },
    |g| p(g, F32, &[3]).pipe(|x| g.all_gather(x, 0, &Groups { groups: vec![vec![0, 0]], ..Groups::default() })),
    |g| p(g, F32, &[3]).pipe(|x| g.all_gather(x, 0, &Groups { channel: None, ..Groups::all_partitions(2) })),
    |g| p(g, F32, &[3]).pipe(|x| g.reduce_scatter(x, 0, &Groups::all_replicas(2), add)),
    |g| p(g, F32, &[3]).pipe(|x| g.collective_permute(x, &[(0, 1), (0, 2)], None)),
    |g| p(g, F32, &[3]).pipe(|x| g.custom_call("", &[x], &[], CustomCall::default())),
    |g| {
        let call = CustomCall { backend_config: BackendConfig::Text("x".into()), ..CustomCall::default() };
        g.custom_call("f", &[], &[], call).map(drop)
    },
    |g| {
        let call = CustomCall { output_operand_aliases: vec![(0, 0)], ..CustomCall::default() };
        p(g, F32, &[3]).pipe(|x| g.custom_call("f", &[x], &[ty(F32, &[4])], call))
    },
    |g| {
        let call = CustomCall { operand_layouts: Some(vec![]), ..CustomCall::default() };
        p(g, F32, &[3]).pipe(|x| g.custom_call("f", &[x], &[], call))
    },
    |g| p(g, F32, &[3]).pipe(|x| g.sharding_constraint(x, "")),
    |g| manual(g, "other", &[&[&["x"]]], &[&[&["x"]]]),
    |g| manual(g, "mesh", &[], &[&[&["x"]]]),
    |g| manual(g, "mesh", &[&[]], &[&[&["x"]]]),
    |g| manual(g, "mesh", &[&[&["z"]]], &[&[&["x"]]]),
    |g| manual(g, "mesh", &[&[&["x", "x"]]], &[&[&["x"]]]),
    |g| manual(g, "mesh", &[&[&["x"]]], &[&[&["x"]]]),
    |g| manual(g, "mesh", &[&[&[]]], &[]),
    |g| inside_a_region(g).and_then(|v| g.set_outputs(&[v])),
    |g| inside_a_region(g).and_then(|v| g.neg(v)).map(drop),
    |g| g.donate(0, None),
    |g| p(g, F32, &[3]).pipe_ok(|_| g.donate(0, Some(0))),
    |g| {
        let (x, y) = (p(g, F32, &[3]), p(g, F32, &[4]));
        g.set_outputs(&[x, y])?;
        g.donate(0, Some(1))
    },
    |g| {
        let (x, _) = (p(g, F32, &[3]), p(g, F32, &[3]));
        g.set_outputs(&[x])?;
        g.donate(0, Some(0))?;
        g.donate(1, Some(0))
    },
];

/// `x.pipe(f)`: lets a table entry make its parameters before it borrows the graph for the call.
trait Pipe: Sized {
    fn pipe<T>(self, f: impl FnOnce(Self) -> Result<T>) -> Result<()> {
        f(self).map(drop)
    }

    fn pipe_ok(self, f: impl FnOnce(Self) -> Result<()>) -> Result<()> {
        f(self)
    }
}

impl<T> Pipe for T {}

#[test]
fn messages() {
    let mut text = String::new();
    for (family, calls) in [
        ("elementwise", ELEMENTWISE),
        ("shapes", SHAPES),
        ("indexed", INDEXED),
        ("reductions", REDUCTIONS),
        ("products", PRODUCTS),
        ("programs", PROGRAMS),
    ] {
        writeln!(text, "# {family}").unwrap();
        for (i, call) in calls.iter().enumerate() {
            let mut g = Graph::new("errors");
            let e = call(&mut g).expect_err(&format!("{family} {i} is accepted"));
            assert!(!e.hint.is_empty(), "no way out: {e}");
            writeln!(text, "{e}").unwrap();
        }
    }
    common::compare("errors.txt", &text);
}

#[test]
fn an_error_has_its_parts() {
    let mut g = Graph::new("errors");
    let (a, b) = (p(&mut g, F32, &[3]), p(&mut g, F32, &[4]));
    let e = g.add(a, b).unwrap_err();
    assert_eq!((e.op, &e.argument[..], &e.got[..], &e.expected[..]), ("add", "rhs", "tensor<4xf32>", "tensor<3xf32>"));
    assert_eq!(e.to_string(), "add: rhs is tensor<4xf32>, expected tensor<3xf32>; broadcast to one shape first");
}

/// A failed call leaves the program as it was: it can go on.
#[test]
fn a_failure_inside_a_region_closes_it() {
    let mut g = Graph::new("errors");
    let (x, i) = (p(&mut g, F32, &[3]), p(&mut g, F32, &[]));
    g.reduce(&[x], &[i], &[0], |g, a| Ok(vec![g.and(a[0], a[1])?])).unwrap_err();
    let y = g.neg(x).unwrap();
    g.set_outputs(&[y]).unwrap();
    assert!(g.to_text().contains("stablehlo.negate"));
}
