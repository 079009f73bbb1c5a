module @attention {
  func.func public @main(%arg0: tensor<2x4x8x16xf32>, %arg1: tensor<2x4x8x16xf32>, %arg2: tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>) {
    %0 = "stablehlo.reshape"(%arg0) : (tensor<2x4x8x16xf32>) -> tensor<8x1x8x16xf32>
    %1 = "stablehlo.reshape"(%arg1) : (tensor<2x4x8x16xf32>) -> tensor<8x8x16xf32>
    %2 = "stablehlo.reshape"(%arg2) : (tensor<2x4x8x16xf32>) -> tensor<8x8x16xf32>
    %3 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [2]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<8x1x8x16xf32>, tensor<8x8x16xf32>) -> tensor<8x1x8x8xf32>
    %4 = stablehlo.constant dense<0.25> : tensor<8x1x8x8xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<8x1x8x8xf32>
    %6 = stablehlo.constant dense<0xFF800000> : tensor<8x1x8x8xf32>
    %7 = "stablehlo.iota"() <{iota_dimension = 2 : i64}> : () -> tensor<8x1x8x8xi32>
    %8 = "stablehlo.iota"() <{iota_dimension = 3 : i64}> : () -> tensor<8x1x8x8xi32>
    %9 = "stablehlo.compare"(%8, %7) <{comparison_direction = #stablehlo<comparison_direction LE>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<8x1x8x8xi32>, tensor<8x1x8x8xi32>) -> tensor<8x1x8x8xi1>
    %10 = "stablehlo.select"(%9, %5, %6) : (tensor<8x1x8x8xi1>, tensor<8x1x8x8xf32>, tensor<8x1x8x8xf32>) -> tensor<8x1x8x8xf32>
    %11 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %12 = "stablehlo.reduce"(%10, %11) <{dimensions = array<i64: 3>}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %13 = stablehlo.maximum %arg3, %arg4 : tensor<f32>
      "stablehlo.return"(%13) : (tensor<f32>) -> ()
    }) : (tensor<8x1x8x8xf32>, tensor<f32>) -> tensor<8x1x8xf32>
    %14 = stablehlo.constant dense<0xFF800000> : tensor<8x1x8xf32>
    %15 = "stablehlo.compare"(%12, %14) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<8x1x8xf32>, tensor<8x1x8xf32>) -> tensor<8x1x8xi1>
    %16 = stablehlo.constant dense<0.0> : tensor<8x1x8xf32>
    %17 = "stablehlo.select"(%15, %12, %16) : (tensor<8x1x8xi1>, tensor<8x1x8xf32>, tensor<8x1x8xf32>) -> tensor<8x1x8xf32>
    %18 = "stablehlo.broadcast_in_dim"(%17) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<8x1x8xf32>) -> tensor<8x1x8x8xf32>
    %19 = stablehlo.subtract %10, %18 : tensor<8x1x8x8xf32>
    %20 = stablehlo.exponential %19 : tensor<8x1x8x8xf32>
    %21 = stablehlo.constant dense<0.0> : tensor<f32>
    %22 = "stablehlo.reduce"(%20, %21) <{dimensions = array<i64: 3>}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      %23 = stablehlo.add %arg5, %arg6 : tensor<f32>
      "stablehlo.return"(%23) : (tensor<f32>) -> ()
    }) : (tensor<8x1x8x8xf32>, tensor<f32>) -> tensor<8x1x8xf32>
    %24 = stablehlo.constant dense<1.0> : tensor<8x1x8xf32>
    %25 = "stablehlo.select"(%15, %22, %24) : (tensor<8x1x8xi1>, tensor<8x1x8xf32>, tensor<8x1x8xf32>) -> tensor<8x1x8xf32>
    %26 = "stablehlo.broadcast_in_dim"(%25) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<8x1x8xf32>) -> tensor<8x1x8x8xf32>
    %27 = stablehlo.divide %20, %26 : tensor<8x1x8x8xf32>
    %28 = "stablehlo.dot_general"(%27, %2) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<8x1x8x8xf32>, tensor<8x8x16xf32>) -> tensor<8x1x8x16xf32>
    %29 = "stablehlo.reshape"(%28) : (tensor<8x1x8x16xf32>) -> tensor<2x4x8x16xf32>
    return %29 : tensor<2x4x8x16xf32>
  }
}
