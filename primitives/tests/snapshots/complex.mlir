module @complex {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>, tensor<4xf32>, tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>, tensor<4xf32>, tensor<4xcomplex<f64>>, tensor<4xi1>) {
    %0 = "stablehlo.complex"(%arg0, %arg1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xcomplex<f32>>
    %1 = "stablehlo.real"(%0) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
    %2 = "stablehlo.imag"(%0) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
    %3 = stablehlo.negate %2 : tensor<4xf32>
    %4 = "stablehlo.complex"(%1, %3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xcomplex<f32>>
    %5 = "stablehlo.abs"(%0) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
    %6 = stablehlo.exponential %0 : tensor<4xcomplex<f32>>
    %7 = stablehlo.tanh %0 : tensor<4xcomplex<f32>>
    %8 = "stablehlo.convert"(%0) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f64>>
    %9 = stablehlo.constant dense<0.0> : tensor<4xf32>
    %10 = "stablehlo.compare"(%1, %9) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %11 = "stablehlo.compare"(%2, %9) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %12 = stablehlo.or %10, %11 : tensor<4xi1>
    return %0, %4, %5, %6, %7, %1, %8, %12 : tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>, tensor<4xf32>, tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>, tensor<4xf32>, tensor<4xcomplex<f64>>, tensor<4xi1>
  }
}
