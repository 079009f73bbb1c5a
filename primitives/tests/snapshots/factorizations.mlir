module @factorizations {
  func.func public @main(%arg0: tensor<2x3x3xf32>, %arg1: tensor<2x3x1xf32>) -> (tensor<2x3x3xf32>, tensor<2x3x3xf32>, tensor<2x3x1xf32>, tensor<2x3x1xf32>, tensor<2x3x3xf32>) {
    %0 = "stablehlo.cholesky"(%arg0) <{lower = true}> : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
    %1 = "stablehlo.cholesky"(%arg0) <{lower = false}> : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
    %2 = "stablehlo.triangular_solve"(%0, %arg1) <{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<2x3x3xf32>, tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
    %3 = "stablehlo.triangular_solve"(%0, %arg1) <{left_side = true, lower = true, unit_diagonal = true, transpose_a = #stablehlo<transpose ADJOINT>}> : (tensor<2x3x3xf32>, tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
    %4 = "stablehlo.triangular_solve"(%0, %0) <{left_side = false, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose TRANSPOSE>}> : (tensor<2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
    return %0, %1, %2, %3, %4 : tensor<2x3x3xf32>, tensor<2x3x3xf32>, tensor<2x3x1xf32>, tensor<2x3x1xf32>, tensor<2x3x3xf32>
  }
}
