//! The text of the other primitives and of whole programs, compared with files.

mod common;

use common::{program, snapshot, ty};
use primitives::DType::*;
use primitives::*;

#[test]
fn reductions() {
    program("reductions", |g| {
        let x = g.parameter(ty(F32, &[2, 3, 4]));
        let i = g.parameter(ty(I32, &[2, 3, 4]));
        let b = g.parameter(ty(Bool, &[5]));
        let mut out = vec![
            g.reduce_sum(x, &[0, 2])?,
            g.reduce_prod(i, &[1])?,
            g.reduce_max(x, &[2])?,
            g.reduce_min(i, &[0, 1, 2])?,
            g.reduce_and(b, &[0])?,
            g.reduce_or(b, &[0])?,
        ];
        // Largest element with its index.
        let (start, none) = (g.scalar(F32, f32::NEG_INFINITY)?, g.scalar(I32, 0)?);
        out.extend(g.reduce(&[x, i], &[start, none], &[2], |g, a| {
            let first = g.compare(a[0], a[2], Direction::Ge)?;
            Ok(vec![g.select(first, a[0], a[2])?, g.select(first, a[1], a[3])?])
        })?);
        Ok(out)
    });
}

#[test]
fn windows() {
    program("windows", |g| {
        let x = g.parameter(ty(F32, &[1, 2, 8, 8]));
        let window = Window {
            dims: vec![1, 1, 3, 3],
            strides: vec![1, 1, 2, 2],
            padding: vec![(0, 0), (0, 0), (1, 1), (1, 0)],
            ..Window::default()
        };
        let init = g.scalar(F32, f32::NEG_INFINITY)?;
        let pooled = g.reduce_window(&[x], &[init], &window, |g, a| Ok(vec![g.maximum(a[0], a[1])?]))?[0];
        let zero = g.scalar(F32, 0)?;
        let dilated = Window {
            window_dilations: vec![1, 1, 2, 2],
            base_dilations: vec![1, 1, 2, 1],
            ..Window::new(&[1, 1, 2, 2])
        };
        let sums = g.reduce_window(&[x], &[zero], &dilated, |g, a| Ok(vec![g.add(a[0], a[1])?]))?[0];
        let grad = g.select_and_scatter(
            x,
            pooled,
            zero,
            &window,
            |g, a| Ok(vec![g.compare(a[0], a[1], Direction::Ge)?]),
            |g, a| Ok(vec![g.add(a[0], a[1])?]),
        )?;
        Ok(vec![pooled, sums, grad])
    });
}

#[test]
fn gathers_and_scatters() {
    program("gathers_and_scatters", |g| {
        let x = g.parameter(ty(F32, &[5, 4]));
        let i = g.parameter(ty(I64, &[3]));
        let rows = GatherDims {
            offset_dims: vec![1],
            collapsed_slice_dims: vec![0],
            start_index_map: vec![0],
            index_vector_dim: 1,
            ..GatherDims::default()
        };
        let taken = g.gather(x, i, &rows, &[1, 4], false)?;
        let i2 = g.parameter(ty(I32, &[5, 2, 1]));
        let along = GatherDims {
            offset_dims: vec![],
            collapsed_slice_dims: vec![1],
            operand_batching_dims: vec![0],
            start_indices_batching_dims: vec![0],
            start_index_map: vec![1],
            index_vector_dim: 2,
        };
        let picked = g.gather(x, i2, &along, &[1, 1], true)?;
        let put = ScatterDims {
            update_window_dims: vec![1],
            inserted_window_dims: vec![0],
            scatter_dims_to_operand_dims: vec![0],
            index_vector_dim: 1,
            ..ScatterDims::default()
        };
        let added = g.scatter(&[x], i, &[taken], &put, false, false, |g, a| Ok(vec![g.add(a[0], a[1])?]))?[0];
        let back = ScatterDims {
            inserted_window_dims: vec![1],
            input_batching_dims: vec![0],
            scatter_indices_batching_dims: vec![0],
            scatter_dims_to_operand_dims: vec![1],
            index_vector_dim: 2,
            ..ScatterDims::default()
        };
        let set = g.scatter(&[x], i2, &[picked], &back, true, true, |_, a| Ok(vec![a[1]]))?[0];
        Ok(vec![taken, picked, added, set])
    });
}

#[test]
fn sorts() {
    program("sorts", |g| {
        let x = g.parameter(ty(F32, &[3, 4]));
        let i = g.iota(I32, &[3, 4], 1)?;
        let mut out = g.sort(&[x, i], 1, true, |g, a| Ok(vec![g.compare_total_order(a[0], a[1], Direction::Lt)?]))?;
        let (values, indices) = g.top_k(x, 2)?;
        out.extend([values, indices]);
        Ok(out)
    });
}

#[test]
fn products() {
    program("products", |g| {
        let a = g.parameter(ty(F32, &[2, 3, 4]));
        let b = g.parameter(ty(F32, &[2, 4, 5]));
        let dims = DotDims { lhs_batch: vec![0], rhs_batch: vec![0], lhs_contract: vec![2], rhs_contract: vec![1] };
        let c = g.parameter(ty(I8, &[3, 4]));
        let d = g.parameter(ty(I8, &[4, 5]));
        let plain = DotDims { lhs_contract: vec![1], rhs_contract: vec![0], ..DotDims::default() };
        let e = g.parameter(ty(BF16, &[3, 4]));
        let f = g.parameter(ty(BF16, &[4, 5]));
        Ok(vec![
            g.dot_general(a, b, &dims, Precision::Highest, None)?,
            g.dot_general(c, d, &plain, Precision::Default, Some(I32))?,
            g.dot_general(e, f, &plain, Precision::High, Some(F32))?,
            g.dot_general(c, d, &DotDims::default(), Precision::Default, None)?,
        ])
    });
}

#[test]
fn convolutions() {
    program("convolutions", |g| {
        let x = g.parameter(ty(F32, &[2, 4, 8, 8]));
        let k = g.parameter(ty(F32, &[6, 2, 3, 3]));
        let window = ConvWindow {
            strides: vec![2, 1],
            padding: vec![(1, 1), (0, 2)],
            lhs_dilation: vec![1, 2],
            rhs_dilation: vec![2, 1],
            reversal: vec![false, true],
        };
        let grouped = g.convolution(x, k, &ConvDims::channels_first(2), &window, 2, 1, Precision::Default)?;
        let y = g.parameter(ty(F32, &[2, 8, 3]));
        let kernel = g.parameter(ty(F32, &[3, 3, 4]));
        let last = ConvDims {
            input_batch: 0,
            input_spatial: vec![1],
            input_feature: 2,
            kernel_spatial: vec![0],
            kernel_input_feature: 1,
            kernel_output_feature: 2,
            output_batch: 0,
            output_spatial: vec![1],
            output_feature: 2,
        };
        let batched = g.convolution(y, kernel, &last, &ConvWindow::default(), 1, 2, Precision::Highest)?;
        Ok(vec![grouped, batched])
    });
}

#[test]
fn control_flow() {
    program("control_flow", |g| {
        let n = g.parameter(ty(I32, &[]));
        let x = g.parameter(ty(F32, &[4]));
        let i = g.scalar(I32, 0)?;
        let looped = g.while_loop(
            &[i, x],
            |g, a| Ok(vec![g.compare(a[0], n, Direction::Lt)?]),
            |g, a| {
                let one = g.scalar(I32, 1)?;
                Ok(vec![g.add(a[0], one)?, g.multiply(a[1], x)?])
            },
        )?;
        let p = g.compare(n, i, Direction::Gt)?;
        let chosen = g.if_else(p, |g, _| Ok(vec![g.sin(x)?, n]), |g, _| Ok(vec![g.cos(x)?, i]))?;
        let picked = g.case(
            n,
            vec![branch(|g, _| Ok(vec![g.exp(x)?])), branch(|_, _| Ok(vec![x])), branch(|g, _| Ok(vec![g.neg(x)?]))],
        )?;
        let fenced = g.optimization_barrier(&[x, n])?;
        Ok([looped, chosen, picked, fenced].concat())
    });
}

#[test]
fn factorizations() {
    program("factorizations", |g| {
        let a = g.parameter(ty(F32, &[2, 3, 3]));
        let b = g.parameter(ty(F32, &[2, 3, 1]));
        let l = g.cholesky(a, true)?;
        Ok(vec![
            l,
            g.cholesky(a, false)?,
            g.triangular_solve(l, b, true, true, false, Transpose::No)?,
            g.triangular_solve(l, b, true, true, true, Transpose::Adjoint)?,
            g.triangular_solve(l, l, false, true, false, Transpose::Transpose)?,
        ])
    });
}

#[test]
fn fourier() {
    program("fourier", |g| {
        let x = g.parameter(ty(F32, &[4, 8]));
        let half = g.fft(x, FftKind::Rfft, &[8])?;
        let full = g.fft(half, FftKind::Fft, &[4, 5])?;
        let back = g.fft(full, FftKind::Ifft, &[5])?;
        Ok(vec![half, full, back, g.fft(back, FftKind::Irfft, &[4, 8])?])
    });
}

#[test]
fn random_bits() {
    program("random_bits", |g| {
        let state = g.parameter(ty(U64, &[2]));
        let (s1, bits) = g.rng_bit_generator(state, RngAlgorithm::ThreeFry, ty(U32, &[5]))?;
        let (s2, more) = g.rng_bit_generator(s1, RngAlgorithm::Philox, ty(U64, &[2, 2]))?;
        let (s3, rest) = g.rng_bit_generator(s2, RngAlgorithm::Default, ty(U8, &[3]))?;
        Ok(vec![s1, bits, s2, more, s3, rest])
    });
}

#[test]
fn collectives() {
    let mut g = Graph::new("collectives");
    g.set_partitions(1, 4);
    let x = g.parameter(ty(F32, &[4, 8]));
    let groups = Groups { groups: vec![vec![0, 1], vec![2, 3]], ..Groups::default() };
    let build = |g: &mut Graph| -> Result<Vec<Value>> {
        Ok(vec![
            g.all_reduce(x, &groups, |g, a| Ok(vec![g.add(a[0], a[1])?]))?,
            g.all_gather(x, 1, &groups)?,
            g.reduce_scatter(x, 0, &groups, |g, a| Ok(vec![g.maximum(a[0], a[1])?]))?,
            g.all_to_all(x, 0, 1, &groups)?,
            g.collective_permute(x, &[(0, 1), (1, 2)], None)?,
            g.partition_id()?,
            g.replica_id()?,
        ])
    };
    let out = build(&mut g).unwrap();
    g.set_outputs(&out).unwrap();
    snapshot("collectives", &g.to_text());
}

#[test]
fn collective_broadcast() {
    let mut g = Graph::new("collective_broadcast");
    g.set_partitions(1, 4);
    let x = g.parameter(ty(F32, &[4, 8]));
    let y = g.collective_broadcast(x, &Groups { groups: vec![vec![0, 1], vec![3, 2]], ..Groups::default() }).unwrap();
    g.set_outputs(&[y]).unwrap();
    snapshot("collective_broadcast", &g.to_text());
}

#[test]
fn collectives_over_partitions() {
    let mut g = Graph::new("collectives_over_partitions");
    g.set_partitions(4, 1);
    let x = g.parameter(ty(F32, &[4, 8]));
    let groups = Groups::all_partitions(4);
    let build = |g: &mut Graph| -> Result<Vec<Value>> {
        Ok(vec![
            g.all_reduce(x, &groups, |g, a| Ok(vec![g.add(a[0], a[1])?]))?,
            g.all_gather(x, 1, &groups)?,
            g.reduce_scatter(x, 0, &groups, |g, a| Ok(vec![g.add(a[0], a[1])?]))?,
            g.all_to_all(x, 0, 1, &groups)?,
            g.collective_permute(x, &[(0, 1), (1, 0)], Some(0))?,
        ])
    };
    let out = build(&mut g).unwrap();
    g.set_outputs(&out).unwrap();
    snapshot("collectives_over_partitions", &g.to_text());
}

#[test]
fn custom_calls() {
    program("custom_calls", |g| {
        let x = g.parameter(ty(F32, &[2, 3]));
        let typed = CustomCall {
            backend_config: BackendConfig::Dict(vec![("eps".into(), "1.0e-5 : f32".into())]),
            output_operand_aliases: vec![(0, 0)],
            ..CustomCall::default()
        };
        let a = g.custom_call("norm", &[x], &[ty(F32, &[2, 3])], typed)?;
        let text = CustomCall {
            backend_config: BackendConfig::Text("a \"b\" \\ \n".into()),
            api_version: ApiVersion::StatusReturning,
            side_effect: true,
            operand_layouts: Some(vec![vec![1, 0]]),
            result_layouts: Some(vec![vec![0, 1], vec![]]),
            ..CustomCall::default()
        };
        let b = g.custom_call("old", &[x], &[ty(F32, &[2, 3]), ty(I32, &[])], text)?;
        Ok([a, b].concat())
    });
}

#[test]
fn sharding() {
    let mut g = Graph::new("sharding");
    g.add_mesh("mesh", &[("x", 2), ("y", 2)]);
    g.set_partitions(4, 1);
    let x = g.parameter(ty(F32, &[4, 8]).with_sharding("#sdy.sharding<@mesh, [{\"x\"}, {}]>"));
    let y = g.sin(x).unwrap();
    let y = g.sharding_constraint(y, "#sdy.sharding<@mesh, [{}, {\"y\"}]>").unwrap();
    g.set_outputs(&[y]).unwrap();
    snapshot("sharding_shardy", &g.to_text());

    let mut g = Graph::new("sharding");
    g.set_partitions(2, 1);
    let x = g.parameter(ty(F32, &[4, 8]).with_sharding("{devices=[2,1]<=[2]}"));
    let y = g.sin(x).unwrap();
    let y = g.sharding_constraint(y, "{devices=[1,2]<=[2]}").unwrap();
    g.set_outputs(&[y]).unwrap();
    g.donate(0, None).unwrap();
    snapshot("sharding_hlo", &g.to_text());
}

#[test]
fn manual_computation() {
    let mut g = Graph::new("manual_computation");
    g.add_mesh("mesh", &[("x", 2), ("y", 2)]);
    g.set_partitions(4, 1);
    let x = g.parameter(ty(F32, &[4, 8]));
    let splits: &[Split<'_>] = &[&[&["x"], &["y"]]];
    let manual = Manual { mesh: "mesh", operands: splits, results: &[&[&["x"], &[]], &[&["x", "y"]]] };
    let out = g.manual_computation(&[x], manual, |g, a| {
        let rows = Groups { groups: vec![vec![0, 1], vec![2, 3]], channel: Some(0), global_ids: true };
        let sum = g.all_reduce(a[0], &rows, |g, a| Ok(vec![g.add(a[0], a[1])?]))?;
        let id = g.partition_id()?;
        Ok(vec![sum, g.reshape(id, &[1])?])
    });
    g.set_outputs(&out.unwrap()).unwrap();
    snapshot("manual_computation", &g.to_text());
}

#[test]
fn module_form() {
    let mut g = Graph::new("train step/1");
    let w = g.parameter_named(ty(F32, &[4]), "weight");
    let d = g.parameter(ty(F32, &[4]));
    g.set_location("model.py:12");
    let s = g.add(w, d).unwrap();
    g.set_location("a name");
    let t = g.multiply(s, s).unwrap();
    g.set_location("");
    let u = g.neg(t).unwrap();
    g.set_outputs(&[u, s, s, d]).unwrap();
    g.donate(0, Some(1)).unwrap();
    g.donate(1, None).unwrap();
    snapshot("module_form", &g.to_text());
    snapshot("module_form_with_locations", &g.to_text_with_locations());
}

#[test]
fn no_outputs() {
    let mut g = Graph::new("nothing");
    g.parameter(ty(F32, &[]));
    snapshot("no_outputs", &g.to_text());
}
