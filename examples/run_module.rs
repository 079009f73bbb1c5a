//! Builds a small program with the primitives, compiles it and runs it on the best device that is installed.
//!
//!     VIRTUAL_ENV=.venv cargo run -p torch-pjrt-bridge --example run_module
//!
//! `PJRT_DEVICE` and `TORCH_PJRT_PLUGIN` choose another device.

use bridge::pjrt::{self, CompileOptions};
use primitives::{DType, DotDims, Graph, Precision, TensorType};

/// `tanh(x · w + b)`, a layer of a neural network.
fn layer() -> Result<Graph, primitives::Error> {
    let mut g = Graph::new("layer");
    let x = g.parameter(TensorType::new(DType::F32, &[2, 3]));
    let w = g.parameter(TensorType::new(DType::F32, &[3, 4]));
    let b = g.parameter(TensorType::new(DType::F32, &[4]));
    let dims = DotDims { lhs_contract: vec![1], rhs_contract: vec![0], ..Default::default() };
    let product = g.dot_general(x, w, &dims, Precision::Default, None)?;
    let bias = g.broadcast_in_dim(b, &[2, 4], &[1])?;
    let sum = g.add(product, bias)?;
    let y = g.tanh(sum)?;
    g.set_outputs(&[y])?;
    Ok(g)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = layer()?.to_text();
    println!("{text}");

    let client = pjrt::client()?;
    println!("on {} with {}", client.platform_name(), client.plugin().path().display());
    let program = client.compile(&text, &CompileOptions::default())?;

    let x = [[0.5f32, -1.0, 2.0], [1.5, 0.0, -0.5]];
    let w = [[0.1f32, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8], [-0.1, -0.2, -0.3, -0.4]];
    let b = [0.0f32, 0.1, 0.2, 0.3];
    let upload = |values: &[f32], dims: &[i64]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        client.buffer_from_host(&bytes, DType::F32, dims, client.device(0)?)
    };
    let inputs = [upload(x.as_flattened(), &[2, 3])?, upload(w.as_flattened(), &[3, 4])?, upload(&b, &[4])?];
    let outputs = program.execute(&inputs.each_ref())?;

    let mut bytes = [0; 2 * 4 * 4];
    outputs[0].to_host(&mut bytes)?;
    let result: Vec<f32> = bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
    for (row, result) in x.iter().zip(result.chunks_exact(4)) {
        let expected = |column: usize| (0..3).map(|k| row[k] * w[k][column]).sum::<f32>() + b[column];
        println!("tanh({row:?} · w + b) = {result:?}");
        assert!(result.iter().enumerate().all(|(column, got)| (got - expected(column).tanh()).abs() < 1e-6));
    }
    Ok(())
}
