module @step {
  func.func public @main(%arg0: tensor<5x3xf32>, %arg1: tensor<4x3xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<4xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<2x4xf32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<2xf32> {tf.aliasing_output = 4 : i32}, %arg5: tensor<5x2xf32>, %arg6: tensor<f64>) -> (tensor<f32>, tensor<4x3xf32>, tensor<4xf32>, tensor<2x4xf32>, tensor<2xf32>) {
    %0 = "stablehlo.dot_general"(%arg0, %arg1) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<5x3xf32>, tensor<4x3xf32>) -> tensor<5x4xf32>
    %1 = "stablehlo.broadcast_in_dim"(%arg2) <{broadcast_dimensions = array<i64: 1>}> : (tensor<4xf32>) -> tensor<5x4xf32>
    %2 = stablehlo.add %0, %1 : tensor<5x4xf32>
    %3 = stablehlo.constant dense<0.0> : tensor<5x4xf32>
    %4 = stablehlo.maximum %2, %3 : tensor<5x4xf32>
    %5 = "stablehlo.dot_general"(%4, %arg3) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<5x4xf32>, tensor<2x4xf32>) -> tensor<5x2xf32>
    %6 = "stablehlo.broadcast_in_dim"(%arg4) <{broadcast_dimensions = array<i64: 1>}> : (tensor<2xf32>) -> tensor<5x2xf32>
    %7 = stablehlo.add %5, %6 : tensor<5x2xf32>
    %8 = stablehlo.subtract %7, %arg5 : tensor<5x2xf32>
    %9 = stablehlo.multiply %8, %8 : tensor<5x2xf32>
    %10 = stablehlo.constant dense<0.0> : tensor<f32>
    %11 = "stablehlo.reduce"(%9, %10) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%arg7: tensor<f32>, %arg8: tensor<f32>):
      %12 = stablehlo.add %arg7, %arg8 : tensor<f32>
      "stablehlo.return"(%12) : (tensor<f32>) -> ()
    }) : (tensor<5x2xf32>, tensor<f32>) -> tensor<f32>
    %13 = stablehlo.constant dense<10.0> : tensor<f32>
    %14 = "stablehlo.compare"(%11, %11) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %15 = "stablehlo.select"(%14, %11, %13) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %16 = stablehlo.divide %11, %15 : tensor<f32>
    %17 = stablehlo.constant dense<1.0> : tensor<f32>
    %18 = stablehlo.constant dense<2.0> : tensor<5x2xf32>
    %19 = stablehlo.multiply %8, %18 : tensor<5x2xf32>
    %20 = stablehlo.divide %17, %13 : tensor<f32>
    %21 = "stablehlo.broadcast_in_dim"(%20) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5x2xf32>
    %22 = stablehlo.multiply %19, %21 : tensor<5x2xf32>
    %23 = "stablehlo.dot_general"(%22, %arg3) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<5x2xf32>, tensor<2x4xf32>) -> tensor<5x4xf32>
    %24 = "stablehlo.dot_general"(%22, %4) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<5x2xf32>, tensor<5x4xf32>) -> tensor<2x4xf32>
    %25 = "stablehlo.reduce"(%22, %10) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg9: tensor<f32>, %arg10: tensor<f32>):
      %26 = stablehlo.add %arg9, %arg10 : tensor<f32>
      "stablehlo.return"(%26) : (tensor<f32>) -> ()
    }) : (tensor<5x2xf32>, tensor<f32>) -> tensor<2xf32>
    %27 = "stablehlo.compare"(%4, %3) <{comparison_direction = #stablehlo<comparison_direction LE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xi1>
    %28 = "stablehlo.select"(%27, %3, %23) : (tensor<5x4xi1>, tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %29 = "stablehlo.dot_general"(%28, %arg0) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<5x4xf32>, tensor<5x3xf32>) -> tensor<4x3xf32>
    %30 = "stablehlo.reduce"(%28, %10) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg11: tensor<f32>, %arg12: tensor<f32>):
      %31 = stablehlo.add %arg11, %arg12 : tensor<f32>
      "stablehlo.return"(%31) : (tensor<f32>) -> ()
    }) : (tensor<5x4xf32>, tensor<f32>) -> tensor<4xf32>
    %32 = stablehlo.constant dense<-1.0> : tensor<f64>
    %33 = stablehlo.multiply %arg6, %32 : tensor<f64>
    %34 = "stablehlo.convert"(%33) : (tensor<f64>) -> tensor<f32>
    %35 = "stablehlo.broadcast_in_dim"(%34) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x3xf32>
    %36 = stablehlo.multiply %29, %35 : tensor<4x3xf32>
    %37 = stablehlo.add %arg1, %36 : tensor<4x3xf32>
    %38 = "stablehlo.broadcast_in_dim"(%34) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4xf32>
    %39 = stablehlo.multiply %30, %38 : tensor<4xf32>
    %40 = stablehlo.add %arg2, %39 : tensor<4xf32>
    %41 = "stablehlo.broadcast_in_dim"(%34) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x4xf32>
    %42 = stablehlo.multiply %24, %41 : tensor<2x4xf32>
    %43 = stablehlo.add %arg3, %42 : tensor<2x4xf32>
    %44 = "stablehlo.broadcast_in_dim"(%34) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2xf32>
    %45 = stablehlo.multiply %25, %44 : tensor<2xf32>
    %46 = stablehlo.add %arg4, %45 : tensor<2xf32>
    return %16, %37, %40, %43, %46 : tensor<f32>, tensor<4x3xf32>, tensor<4xf32>, tensor<2x4xf32>, tensor<2xf32>
  }
}
