//! The work of programs as we count it, against the count of the plugin that has one.

mod common;

use bridge::pjrt::{Client, CompileOptions, Executable};
use common::cpu_clients;

fn compile(client: &'static Client, name: &str, text: &str) -> Executable {
    client.compile(text, &CompileOptions::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A function named `main` with this signature and this body.
fn module(signature: &str, body: &str) -> String {
    format!("module @m {{ func.func public @main{signature} {{\n{body}\n}} }}")
}

/// Applies `op` in a reduction of f32.
fn region(op: &str) -> String {
    format!(
        "({{ ^bb0(%l: tensor<f32>, %r: tensor<f32>):\n %o = stablehlo.{op} %l, %r : tensor<f32>\n \
         stablehlo.return %o : tensor<f32> }})"
    )
}

fn programs() -> Vec<(&'static str, String)> {
    let add = region("add");
    let conv = |window: &str, [features, batches]: [i64; 2], from: &str, kernel: &str, to: &str| {
        module(
            &format!("(%a: {from}, %k: {kernel}) -> {to}"),
            &format!(
                "%0 = stablehlo.convolution(%a, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], \
                 window = {{{window}}} {{feature_group_count = {features} : i64, \
                     batch_group_count = {batches} : i64}} : ({from}, {kernel}) -> {to}\n return %0 : {to}"
            ),
        )
    };
    let (image, small) = ("tensor<2x4x9x8xf32>", "tensor<6x4x3x3xf32>");
    vec![
        (
            "elementwise and transcendental",
            module(
                "(%a: tensor<8x16xf32>) -> tensor<8x16xf32>",
                "%0 = stablehlo.exponential %a : tensor<8x16xf32>\n %1 = stablehlo.multiply %0, %a : tensor<8x16xf32>\n \
                 %2 = stablehlo.rsqrt %1 : tensor<8x16xf32>\n return %2 : tensor<8x16xf32>",
            ),
        ),
        (
            "a product over two dims with a batch",
            module(
                "(%a: tensor<3x4x5x6xf32>, %b: tensor<3x7x6x5xf32>) -> tensor<3x4x7xf32>",
                "%0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2, 3] x [3, 2] : \
                 (tensor<3x4x5x6xf32>, tensor<3x7x6x5xf32>) -> tensor<3x4x7xf32>\n return %0 : tensor<3x4x7xf32>",
            ),
        ),
        ("a convolution with padding", conv("pad = [[1, 1], [2, 0]]", [1, 1], image, small, "tensor<2x6x9x8xf32>")),
        ("with strides", conv("stride = [2, 3], pad = [[1, 1], [1, 1]]", [1, 1], image, small, "tensor<2x6x5x3xf32>")),
        (
            "with dilations",
            conv(
                "pad = [[2, 2], [0, 1]], lhs_dilate = [2, 1], rhs_dilate = [3, 2]",
                [1, 1],
                image,
                small,
                "tensor<2x6x15x5xf32>",
            ),
        ),
        ("with groups", conv("", [2, 1], image, "tensor<6x2x3x3xf32>", "tensor<2x6x7x6xf32>")),
        ("with groups of the batch", conv("", [1, 2], image, small, "tensor<1x6x7x6xf32>")),
        (
            "reduce",
            module(
                "(%a: tensor<8x16xf32>) -> tensor<8xf32>",
                &format!(
                    "%z = stablehlo.constant dense<0.> : tensor<f32>\n \
                     %0 = \"stablehlo.reduce\"(%a, %z) <{{dimensions = array<i64: 1>}}> {add} : \
                     (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>\n return %0 : tensor<8xf32>"
                ),
            ),
        ),
        (
            "reduce_window",
            module(
                "(%a: tensor<8x16xf32>) -> tensor<4x5xf32>",
                &format!(
                    "%z = stablehlo.constant dense<0.> : tensor<f32>\n \
                     %0 = \"stablehlo.reduce_window\"(%a, %z) <{{window_dimensions = array<i64: 2, 4>, \
                     window_strides = array<i64: 2, 3>}}> {} : (tensor<8x16xf32>, tensor<f32>) -> tensor<4x5xf32>\n \
                     return %0 : tensor<4x5xf32>",
                    region("maximum")
                ),
            ),
        ),
        (
            "select_and_scatter",
            module(
                "(%a: tensor<8x16xf32>, %s: tensor<4x4xf32>) -> tensor<8x16xf32>",
                &format!(
                    "%z = stablehlo.constant dense<0.> : tensor<f32>\n \
                     %0 = \"stablehlo.select_and_scatter\"(%a, %s, %z) <{{window_dimensions = array<i64: 2, 4>, \
                     window_strides = array<i64: 2, 4>}}> ({{ ^bb0(%l: tensor<f32>, %r: tensor<f32>):\n \
                     %g = stablehlo.compare GE, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>\n \
                     stablehlo.return %g : tensor<i1> }}, {}) : \
                     (tensor<8x16xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<8x16xf32>\n \
                     return %0 : tensor<8x16xf32>",
                    &add[1..add.len() - 1]
                ),
            ),
        ),
        (
            "gather",
            module(
                "(%a: tensor<50x3xf32>, %i: tensor<7x1xi32>) -> tensor<7x3xf32>",
                "%0 = \"stablehlo.gather\"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], \
                 collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, \
                 slice_sizes = array<i64: 1, 3>}> : (tensor<50x3xf32>, tensor<7x1xi32>) -> tensor<7x3xf32>\n \
                 return %0 : tensor<7x3xf32>",
            ),
        ),
        (
            "scatter",
            module(
                "(%a: tensor<50x3xf32>, %i: tensor<7x1xi32>, %u: tensor<7x3xf32>) -> tensor<50x3xf32>",
                &format!(
                    "%0 = \"stablehlo.scatter\"(%a, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<\
                     update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], \
                     index_vector_dim = 1>}}> {add} : \
                     (tensor<50x3xf32>, tensor<7x1xi32>, tensor<7x3xf32>) -> tensor<50x3xf32>\n \
                     return %0 : tensor<50x3xf32>"
                ),
            ),
        ),
        (
            "sort",
            module(
                "(%a: tensor<5x100xf32>) -> tensor<5x100xf32>",
                "%0 = \"stablehlo.sort\"(%a) <{dimension = 1 : i64}> ({ ^bb0(%l: tensor<f32>, %r: tensor<f32>):\n \
                 %g = stablehlo.compare LT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>\n \
                 stablehlo.return %g : tensor<i1> }) : (tensor<5x100xf32>) -> tensor<5x100xf32>\n \
                 return %0 : tensor<5x100xf32>",
            ),
        ),
        (
            "fft",
            module(
                "(%a: tensor<3x20x16xf32>) -> tensor<3x20x9xcomplex<f32>>",
                "%0 = stablehlo.fft %a, type = RFFT, length = [20, 16] : (tensor<3x20x16xf32>) -> \
                 tensor<3x20x9xcomplex<f32>>\n return %0 : tensor<3x20x9xcomplex<f32>>",
            ),
        ),
        (
            "cholesky and triangular_solve",
            module(
                "(%a: tensor<3x5x5xf32>, %b: tensor<3x5x2xf32>) -> tensor<3x5x2xf32>",
                "%0 = stablehlo.cholesky %a, lower = true : tensor<3x5x5xf32>\n \
                 %1 = \"stablehlo.triangular_solve\"(%0, %b) <{left_side = true, lower = true, \
                 unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : \
                 (tensor<3x5x5xf32>, tensor<3x5x2xf32>) -> tensor<3x5x2xf32>\n return %1 : tensor<3x5x2xf32>",
            ),
        ),
        (
            "slices and updates at places that are not known",
            module(
                "(%a: tensor<64x32xf32>, %i: tensor<i32>) -> tensor<64x32xf32>",
                "%z = stablehlo.constant dense<0> : tensor<i32>\n \
                 %0 = stablehlo.dynamic_slice %a, %i, %z, sizes = [4, 32] : \
                 (tensor<64x32xf32>, tensor<i32>, tensor<i32>) -> tensor<4x32xf32>\n \
                 %1 = stablehlo.multiply %0, %0 : tensor<4x32xf32>\n \
                 %2 = stablehlo.dynamic_update_slice %a, %1, %z, %i : \
                 (tensor<64x32xf32>, tensor<4x32xf32>, tensor<i32>, tensor<i32>) -> tensor<64x32xf32>\n \
                 return %2 : tensor<64x32xf32>",
            ),
        ),
        (
            "a loop",
            module(
                "(%a: tensor<64xf32>, %b: tensor<f32>) -> tensor<64xf32>",
                "%0 = stablehlo.while(%x = %a) : tensor<64xf32>\n cond {\n \
                 %f = stablehlo.slice %x [0:1] : (tensor<64xf32>) -> tensor<1xf32>\n \
                 %g = stablehlo.reshape %f : (tensor<1xf32>) -> tensor<f32>\n \
                 %p = stablehlo.compare LT, %g, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n \
                 stablehlo.return %p : tensor<i1>\n } do {\n \
                 %y = stablehlo.cosine %x : tensor<64xf32>\n %w = stablehlo.add %y, %x : tensor<64xf32>\n \
                 stablehlo.return %w : tensor<64xf32>\n }\n return %0 : tensor<64xf32>",
            ),
        ),
        (
            "a choice",
            module(
                "(%p: tensor<i1>, %a: tensor<64x64xf32>) -> tensor<64x64xf32>",
                "%0 = \"stablehlo.if\"(%p) ({\n %y = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : \
                 (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>\n \
                 stablehlo.return %y : tensor<64x64xf32>\n }, {\n %w = stablehlo.tanh %a : tensor<64x64xf32>\n \
                 stablehlo.return %w : tensor<64x64xf32>\n }) : (tensor<i1>) -> tensor<64x64xf32>\n \
                 return %0 : tensor<64x64xf32>",
            ),
        ),
        (
            "random bits",
            module(
                "(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<40xui32>)",
                "%0, %1 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : \
                 (tensor<2xui64>) -> (tensor<2xui64>, tensor<40xui32>)\n return %0, %1 : tensor<2xui64>, tensor<40xui32>",
            ),
        ),
        (
            "narrow and wide types",
            module(
                "(%a: tensor<33xf64>, %b: tensor<33xbf16>) -> (tensor<33xcomplex<f64>>, tensor<33xi1>)",
                "%0 = stablehlo.convert %b : (tensor<33xbf16>) -> tensor<33xf64>\n \
                 %1 = stablehlo.complex %a, %0 : tensor<33xcomplex<f64>>\n \
                 %2 = stablehlo.compare LT, %a, %0 : (tensor<33xf64>, tensor<33xf64>) -> tensor<33xi1>\n \
                 return %1, %2 : tensor<33xcomplex<f64>>, tensor<33xi1>",
            ),
        ),
        (
            "a large constant",
            module(
                "(%a: tensor<12xf32>) -> tensor<12xf32>",
                "%c = stablehlo.constant dense<[1.,2.,3.,4.,5.,6.,7.,8.,9.,10.,11.,12.]> : tensor<12xf32>\n \
                 %0 = stablehlo.add %a, %c : tensor<12xf32>\n %1 = stablehlo.tanh %0 : tensor<12xf32>\n \
                 return %1 : tensor<12xf32>",
            ),
        ),
        ("a training step", include_str!("../../tests/jit/snapshots/mlp_step.mlir").to_owned()),
        ("attention", include_str!("../../tests/jit/snapshots/attention.mlir").to_owned()),
    ]
}

#[test]
fn the_count_is_the_plugins() {
    let mut judges = 0;
    for client in cpu_clients() {
        let mut wrong = Vec::new();
        for (name, text) in programs() {
            let program = compile(client, name, &text);
            let counted = program.compiled().count_cost().unwrap();
            let plugins = program.cost_analysis().unwrap();
            // Only a plugin's own count says more than these three.
            judges += usize::from(plugins.len() > 3);
            for key in ["flops", "transcendentals", "bytes accessed"] {
                let (counted, plugins) = (counted[key], plugins.get(key).copied().unwrap_or(0.));
                // The plugin adds in f32.
                if (counted - plugins).abs() > 1e-6 * plugins.abs() {
                    wrong.push(format!("{name}: {key}: {counted}, the plugin has {plugins}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
    assert!(judges >= programs().len() || cpu_clients().len() < 2, "only {judges} counts of a plugin to judge by");
}
