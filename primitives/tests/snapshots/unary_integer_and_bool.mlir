module @unary_integer_and_bool {
  func.func public @main(%arg0: tensor<4xi32>, %arg1: tensor<4xui8>, %arg2: tensor<4xi1>) -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xui8>, tensor<4xi32>, tensor<4xi1>, tensor<4xui8>) {
    %0 = stablehlo.abs %arg0 : tensor<4xi32>
    %1 = stablehlo.count_leading_zeros %arg0 : tensor<4xi32>
    %2 = stablehlo.negate %arg0 : tensor<4xi32>
    %3 = stablehlo.not %arg0 : tensor<4xi32>
    %4 = stablehlo.popcnt %arg1 : tensor<4xui8>
    %5 = stablehlo.sign %arg0 : tensor<4xi32>
    %6 = stablehlo.not %arg2 : tensor<4xi1>
    %7 = stablehlo.negate %arg1 : tensor<4xui8>
    return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xui8>, tensor<4xi32>, tensor<4xi1>, tensor<4xui8>
  }
}
