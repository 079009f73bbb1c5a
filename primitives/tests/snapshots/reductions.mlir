module @reductions {
  func.func public @main(%arg0: tensor<2x3x4xf32>, %arg1: tensor<2x3x4xi32>, %arg2: tensor<5xi1>) -> (tensor<3xf32>, tensor<2x4xi32>, tensor<2x3xf32>, tensor<i32>, tensor<i1>, tensor<i1>, tensor<2x3xf32>, tensor<2x3xi32>) {
    %0 = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = "stablehlo.reduce"(%arg0, %0) <{dimensions = array<i64: 0, 2>}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %2 = stablehlo.add %arg3, %arg4 : tensor<f32>
      "stablehlo.return"(%2) : (tensor<f32>) -> ()
    }) : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %3 = stablehlo.constant dense<1> : tensor<i32>
    %4 = "stablehlo.reduce"(%arg1, %3) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg5: tensor<i32>, %arg6: tensor<i32>):
      %5 = stablehlo.multiply %arg5, %arg6 : tensor<i32>
      "stablehlo.return"(%5) : (tensor<i32>) -> ()
    }) : (tensor<2x3x4xi32>, tensor<i32>) -> tensor<2x4xi32>
    %6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %7 = "stablehlo.reduce"(%arg0, %6) <{dimensions = array<i64: 2>}> ({
    ^bb0(%arg7: tensor<f32>, %arg8: tensor<f32>):
      %8 = stablehlo.maximum %arg7, %arg8 : tensor<f32>
      "stablehlo.return"(%8) : (tensor<f32>) -> ()
    }) : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x3xf32>
    %9 = stablehlo.constant dense<2147483647> : tensor<i32>
    %10 = "stablehlo.reduce"(%arg1, %9) <{dimensions = array<i64: 0, 1, 2>}> ({
    ^bb0(%arg9: tensor<i32>, %arg10: tensor<i32>):
      %11 = stablehlo.minimum %arg9, %arg10 : tensor<i32>
      "stablehlo.return"(%11) : (tensor<i32>) -> ()
    }) : (tensor<2x3x4xi32>, tensor<i32>) -> tensor<i32>
    %12 = stablehlo.constant dense<true> : tensor<i1>
    %13 = "stablehlo.reduce"(%arg2, %12) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg11: tensor<i1>, %arg12: tensor<i1>):
      %14 = stablehlo.and %arg11, %arg12 : tensor<i1>
      "stablehlo.return"(%14) : (tensor<i1>) -> ()
    }) : (tensor<5xi1>, tensor<i1>) -> tensor<i1>
    %15 = stablehlo.constant dense<false> : tensor<i1>
    %16 = "stablehlo.reduce"(%arg2, %15) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg13: tensor<i1>, %arg14: tensor<i1>):
      %17 = stablehlo.or %arg13, %arg14 : tensor<i1>
      "stablehlo.return"(%17) : (tensor<i1>) -> ()
    }) : (tensor<5xi1>, tensor<i1>) -> tensor<i1>
    %18 = stablehlo.constant dense<0> : tensor<i32>
    %19:2 = "stablehlo.reduce"(%arg0, %arg1, %6, %18) <{dimensions = array<i64: 2>}> ({
    ^bb0(%arg15: tensor<f32>, %arg16: tensor<i32>, %arg17: tensor<f32>, %arg18: tensor<i32>):
      %20 = "stablehlo.compare"(%arg15, %arg17) <{comparison_direction = #stablehlo<comparison_direction GE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %21 = "stablehlo.select"(%20, %arg15, %arg17) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %22 = "stablehlo.select"(%20, %arg16, %arg18) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%21, %22) : (tensor<f32>, tensor<i32>) -> ()
    }) : (tensor<2x3x4xf32>, tensor<2x3x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<2x3xf32>, tensor<2x3xi32>)
    return %1, %4, %7, %10, %13, %16, %19#0, %19#1 : tensor<3xf32>, tensor<2x4xi32>, tensor<2x3xf32>, tensor<i32>, tensor<i1>, tensor<i1>, tensor<2x3xf32>, tensor<2x3xi32>
  }
}
