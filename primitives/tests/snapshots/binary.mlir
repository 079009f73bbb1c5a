module @binary {
  func.func public @main(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>, %arg2: tensor<2xi32>, %arg3: tensor<2xi32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<2xf32>
    %1 = stablehlo.subtract %arg0, %arg1 : tensor<2xf32>
    %2 = stablehlo.multiply %arg0, %arg1 : tensor<2xf32>
    %3 = stablehlo.divide %arg0, %arg1 : tensor<2xf32>
    %4 = stablehlo.remainder %arg0, %arg1 : tensor<2xf32>
    %5 = stablehlo.power %arg0, %arg1 : tensor<2xf32>
    %6 = stablehlo.maximum %arg0, %arg1 : tensor<2xf32>
    %7 = stablehlo.minimum %arg0, %arg1 : tensor<2xf32>
    %8 = stablehlo.atan2 %arg0, %arg1 : tensor<2xf32>
    %9 = stablehlo.and %arg2, %arg3 : tensor<2xi32>
    %10 = stablehlo.or %arg2, %arg3 : tensor<2xi32>
    %11 = stablehlo.xor %arg2, %arg3 : tensor<2xi32>
    %12 = stablehlo.shift_left %arg2, %arg3 : tensor<2xi32>
    %13 = stablehlo.shift_right_arithmetic %arg2, %arg3 : tensor<2xi32>
    %14 = stablehlo.shift_right_logical %arg2, %arg3 : tensor<2xi32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>
  }
}
