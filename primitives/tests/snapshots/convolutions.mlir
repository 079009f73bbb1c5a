module @convolutions {
  func.func public @main(%arg0: tensor<2x4x8x8xf32>, %arg1: tensor<6x2x3x3xf32>, %arg2: tensor<2x8x3xf32>, %arg3: tensor<3x3x4xf32>) -> (tensor<2x6x3x15xf32>, tensor<1x6x4xf32>) {
    %0 = "stablehlo.convolution"(%arg0, %arg1) <{window_strides = array<i64: 2, 1>, padding = dense<[[1, 1], [0, 2]]> : tensor<2x2xi64>, lhs_dilation = array<i64: 1, 2>, rhs_dilation = array<i64: 2, 1>, window_reversal = array<i1: false, true>, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 2 : i64, batch_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<2x4x8x8xf32>, tensor<6x2x3x3xf32>) -> tensor<2x6x3x15xf32>
    %1 = "stablehlo.convolution"(%arg2, %arg3) <{window_strides = array<i64: 1>, padding = dense<[[0, 0]]> : tensor<1x2xi64>, lhs_dilation = array<i64: 1>, rhs_dilation = array<i64: 1>, window_reversal = array<i1: false>, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64, batch_group_count = 2 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<2x8x3xf32>, tensor<3x3x4xf32>) -> tensor<1x6x4xf32>
    return %0, %1 : tensor<2x6x3x15xf32>, tensor<1x6x4xf32>
  }
}
