module @products {
  func.func public @main(%arg0: tensor<2x3x4xf32>, %arg1: tensor<2x4x5xf32>, %arg2: tensor<3x4xi8>, %arg3: tensor<4x5xi8>, %arg4: tensor<3x4xbf16>, %arg5: tensor<4x5xbf16>) -> (tensor<2x3x5xf32>, tensor<3x5xi32>, tensor<3x5xf32>, tensor<3x4x4x5xi8>) {
    %0 = "stablehlo.dot_general"(%arg0, %arg1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
    %1 = "stablehlo.dot_general"(%arg2, %arg3) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<3x4xi8>, tensor<4x5xi8>) -> tensor<3x5xi32>
    %2 = "stablehlo.dot_general"(%arg4, %arg5) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision HIGH>]}> : (tensor<3x4xbf16>, tensor<4x5xbf16>) -> tensor<3x5xf32>
    %3 = "stablehlo.dot_general"(%arg2, %arg3) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [], rhs_contracting_dimensions = []>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<3x4xi8>, tensor<4x5xi8>) -> tensor<3x4x4x5xi8>
    return %0, %1, %2, %3 : tensor<2x3x5xf32>, tensor<3x5xi32>, tensor<3x5xf32>, tensor<3x4x4x5xi8>
  }
}
