module @shapes {
  func.func public @main(%arg0: tensor<2x3x4xf32>, %arg1: tensor<3x1xf32>) -> (tensor<6x4xf32>, tensor<4x2x3xf32>, tensor<3x5x2xf32>, tensor<7x3x5xf32>, tensor<2x9x4xf32>, tensor<2x3x4xf32>, tensor<2x2x2xf32>) {
    %0 = "stablehlo.reshape"(%arg0) : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
    %1 = "stablehlo.transpose"(%arg0) <{permutation = array<i64: 2, 0, 1>}> : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
    %2 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<3x1xf32>) -> tensor<3x5x2xf32>
    %3 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<3x1xf32>) -> tensor<7x3x5xf32>
    %4 = "stablehlo.concatenate"(%arg0, %arg0, %arg0) <{dimension = 1 : i64}> : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x9x4xf32>
    %5 = "stablehlo.reverse"(%arg0) <{dimensions = array<i64: 0, 2>}> : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
    %6 = "stablehlo.slice"(%arg0) <{start_indices = array<i64: 0, 1, 0>, limit_indices = array<i64: 2, 3, 4>, strides = array<i64: 1, 1, 2>}> : (tensor<2x3x4xf32>) -> tensor<2x2x2xf32>
    return %0, %1, %2, %3, %4, %5, %6 : tensor<6x4xf32>, tensor<4x2x3xf32>, tensor<3x5x2xf32>, tensor<7x3x5xf32>, tensor<2x9x4xf32>, tensor<2x3x4xf32>, tensor<2x2x2xf32>
  }
}
