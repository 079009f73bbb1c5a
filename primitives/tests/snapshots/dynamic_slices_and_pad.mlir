module @dynamic_slices_and_pad {
  func.func public @main(%arg0: tensor<4x5xf32>, %arg1: tensor<i32>) -> (tensor<2x5xf32>, tensor<4x5xf32>, tensor<8x6xf32>) {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = "stablehlo.dynamic_slice"(%arg0, %arg1, %0) <{slice_sizes = array<i64: 2, 5>}> : (tensor<4x5xf32>, tensor<i32>, tensor<i32>) -> tensor<2x5xf32>
    %2 = "stablehlo.dynamic_update_slice"(%arg0, %1, %0, %arg1) : (tensor<4x5xf32>, tensor<2x5xf32>, tensor<i32>, tensor<i32>) -> tensor<4x5xf32>
    %3 = stablehlo.constant dense<0.0> : tensor<f32>
    %4 = "stablehlo.pad"(%arg0, %3) <{edge_padding_low = array<i64: 1, -1>, edge_padding_high = array<i64: 0, 2>, interior_padding = array<i64: 1, 0>}> : (tensor<4x5xf32>, tensor<f32>) -> tensor<8x6xf32>
    return %1, %2, %4 : tensor<2x5xf32>, tensor<4x5xf32>, tensor<8x6xf32>
  }
}
