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
    %14 = stablehlo.divide %11, %13 : tensor<f32>
    %15 = stablehlo.constant dense<1.0> : tensor<f32>
    %16 = stablehlo.constant dense<2.0> : tensor<5x2xf32>
    %17 = stablehlo.multiply %8, %16 : tensor<5x2xf32>
    %18 = stablehlo.divide %15, %13 : tensor<f32>
    %19 = "stablehlo.broadcast_in_dim"(%18) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5x2xf32>
    %20 = stablehlo.multiply %17, %19 : tensor<5x2xf32>
    %21 = "stablehlo.dot_general"(%20, %arg3) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<5x2xf32>, tensor<2x4xf32>) -> tensor<5x4xf32>
    %22 = "stablehlo.dot_general"(%20, %4) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<5x2xf32>, tensor<5x4xf32>) -> tensor<2x4xf32>
    %23 = "stablehlo.reduce"(%20, %10) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg9: tensor<f32>, %arg10: tensor<f32>):
      %24 = stablehlo.add %arg9, %arg10 : tensor<f32>
      "stablehlo.return"(%24) : (tensor<f32>) -> ()
    }) : (tensor<5x2xf32>, tensor<f32>) -> tensor<2xf32>
    %25 = "stablehlo.compare"(%4, %3) <{comparison_direction = #stablehlo<comparison_direction LE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xi1>
    %26 = "stablehlo.select"(%25, %3, %21) : (tensor<5x4xi1>, tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %27 = "stablehlo.dot_general"(%26, %arg0) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<5x4xf32>, tensor<5x3xf32>) -> tensor<4x3xf32>
    %28 = "stablehlo.reduce"(%26, %10) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg11: tensor<f32>, %arg12: tensor<f32>):
      %29 = stablehlo.add %arg11, %arg12 : tensor<f32>
      "stablehlo.return"(%29) : (tensor<f32>) -> ()
    }) : (tensor<5x4xf32>, tensor<f32>) -> tensor<4xf32>
    %30 = stablehlo.constant dense<-1.0> : tensor<f64>
    %31 = stablehlo.multiply %arg6, %30 : tensor<f64>
    %32 = "stablehlo.convert"(%31) : (tensor<f64>) -> tensor<f32>
    %33 = "stablehlo.broadcast_in_dim"(%32) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x3xf32>
    %34 = stablehlo.multiply %27, %33 : tensor<4x3xf32>
    %35 = stablehlo.add %arg1, %34 : tensor<4x3xf32>
    %36 = "stablehlo.broadcast_in_dim"(%32) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4xf32>
    %37 = stablehlo.multiply %28, %36 : tensor<4xf32>
    %38 = stablehlo.add %arg2, %37 : tensor<4xf32>
    %39 = "stablehlo.broadcast_in_dim"(%32) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x4xf32>
    %40 = stablehlo.multiply %22, %39 : tensor<2x4xf32>
    %41 = stablehlo.add %arg3, %40 : tensor<2x4xf32>
    %42 = "stablehlo.broadcast_in_dim"(%32) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2xf32>
    %43 = stablehlo.multiply %23, %42 : tensor<2xf32>
    %44 = stablehlo.add %arg4, %43 : tensor<2xf32>
    return %14, %35, %38, %41, %44 : tensor<f32>, tensor<4x3xf32>, tensor<4xf32>, tensor<2x4xf32>, tensor<2xf32>
  }
}
