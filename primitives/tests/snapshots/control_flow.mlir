module @control_flow {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>) {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = "stablehlo.while"(%0, %arg1) ({
    ^bb0(%arg2: tensor<i32>, %arg3: tensor<4xf32>):
      %2 = "stablehlo.compare"(%arg2, %arg0) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%2) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg4: tensor<i32>, %arg5: tensor<4xf32>):
      %3 = stablehlo.constant dense<1> : tensor<i32>
      %4 = stablehlo.add %arg4, %3 : tensor<i32>
      %5 = stablehlo.multiply %arg5, %arg1 : tensor<4xf32>
      "stablehlo.return"(%4, %5) : (tensor<i32>, tensor<4xf32>) -> ()
    }) : (tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>)
    %6 = "stablehlo.compare"(%arg0, %0) <{comparison_direction = #stablehlo<comparison_direction GT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %7:2 = "stablehlo.if"(%6) ({
      %8 = stablehlo.sine %arg1 : tensor<4xf32>
      "stablehlo.return"(%8, %arg0) : (tensor<4xf32>, tensor<i32>) -> ()
    }, {
      %9 = stablehlo.cosine %arg1 : tensor<4xf32>
      "stablehlo.return"(%9, %0) : (tensor<4xf32>, tensor<i32>) -> ()
    }) : (tensor<i1>) -> (tensor<4xf32>, tensor<i32>)
    %10 = stablehlo.constant dense<2> : tensor<i32>
    %11 = "stablehlo.compare"(%arg0, %0) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %12 = "stablehlo.select"(%11, %10, %arg0) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %13 = stablehlo.minimum %12, %10 : tensor<i32>
    %14 = "stablehlo.case"(%13) ({
      %15 = stablehlo.exponential %arg1 : tensor<4xf32>
      "stablehlo.return"(%15) : (tensor<4xf32>) -> ()
    }, {
      "stablehlo.return"(%arg1) : (tensor<4xf32>) -> ()
    }, {
      %16 = stablehlo.negate %arg1 : tensor<4xf32>
      "stablehlo.return"(%16) : (tensor<4xf32>) -> ()
    }) : (tensor<i32>) -> tensor<4xf32>
    %17:2 = "stablehlo.optimization_barrier"(%arg1, %arg0) : (tensor<4xf32>, tensor<i32>) -> (tensor<4xf32>, tensor<i32>)
    return %1#0, %1#1, %7#0, %7#1, %14, %17#0, %17#1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>
  }
}
