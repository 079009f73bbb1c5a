module @sorts {
  func.func public @main(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xi32>, tensor<3x2xf32>, tensor<3x2xi32>) {
    %0 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<3x4xi32>
    %1:2 = "stablehlo.sort"(%arg0, %0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>, %arg3: tensor<i32>, %arg4: tensor<i32>):
      %2 = "stablehlo.compare"(%arg1, %arg2) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type TOTALORDER>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "stablehlo.return"(%2) : (tensor<i1>) -> ()
    }) : (tensor<3x4xf32>, tensor<3x4xi32>) -> (tensor<3x4xf32>, tensor<3x4xi32>)
    %3:2 = "chlo.top_k"(%arg0) <{k = 2 : i64}> : (tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
    return %1#0, %1#1, %3#0, %3#1 : tensor<3x4xf32>, tensor<3x4xi32>, tensor<3x2xf32>, tensor<3x2xi32>
  }
}
