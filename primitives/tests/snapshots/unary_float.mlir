module @unary_float {
  func.func public @main(%arg0: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
    %0 = stablehlo.abs %arg0 : tensor<2x3xf32>
    %1 = stablehlo.cbrt %arg0 : tensor<2x3xf32>
    %2 = stablehlo.ceil %arg0 : tensor<2x3xf32>
    %3 = stablehlo.cosine %arg0 : tensor<2x3xf32>
    %4 = stablehlo.exponential %arg0 : tensor<2x3xf32>
    %5 = stablehlo.exponential_minus_one %arg0 : tensor<2x3xf32>
    %6 = stablehlo.floor %arg0 : tensor<2x3xf32>
    %7 = "stablehlo.is_finite"(%arg0) : (tensor<2x3xf32>) -> tensor<2x3xi1>
    %8 = stablehlo.log %arg0 : tensor<2x3xf32>
    %9 = stablehlo.log_plus_one %arg0 : tensor<2x3xf32>
    %10 = stablehlo.logistic %arg0 : tensor<2x3xf32>
    %11 = stablehlo.negate %arg0 : tensor<2x3xf32>
    %12 = stablehlo.round_nearest_afz %arg0 : tensor<2x3xf32>
    %13 = stablehlo.round_nearest_even %arg0 : tensor<2x3xf32>
    %14 = stablehlo.rsqrt %arg0 : tensor<2x3xf32>
    %15 = stablehlo.sign %arg0 : tensor<2x3xf32>
    %16 = stablehlo.sine %arg0 : tensor<2x3xf32>
    %17 = stablehlo.sqrt %arg0 : tensor<2x3xf32>
    %18 = stablehlo.tan %arg0 : tensor<2x3xf32>
    %19 = stablehlo.tanh %arg0 : tensor<2x3xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
  }
}
