module @gathers_and_scatters {
  func.func public @main(%arg0: tensor<5x4xf32>, %arg1: tensor<3xi64>, %arg2: tensor<5x2x1xi32>) -> (tensor<3x4xf32>, tensor<5x2xf32>, tensor<5x4xf32>, tensor<5x4xf32>) {
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>, indices_are_sorted = false}> : (tensor<5x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
    %1 = "stablehlo.gather"(%arg0, %arg2) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>, indices_are_sorted = true}> : (tensor<5x4xf32>, tensor<5x2x1xi32>) -> tensor<5x2xf32>
    %2 = "stablehlo.scatter"(%arg0, %arg1, %0) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %3 = stablehlo.add %arg3, %arg4 : tensor<f32>
      "stablehlo.return"(%3) : (tensor<f32>) -> ()
    }) : (tensor<5x4xf32>, tensor<3xi64>, tensor<3x4xf32>) -> tensor<5x4xf32>
    %4 = "stablehlo.scatter"(%arg0, %arg2, %1) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, indices_are_sorted = true, unique_indices = true}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      "stablehlo.return"(%arg6) : (tensor<f32>) -> ()
    }) : (tensor<5x4xf32>, tensor<5x2x1xi32>, tensor<5x2xf32>) -> tensor<5x4xf32>
    return %0, %1, %2, %4 : tensor<3x4xf32>, tensor<5x2xf32>, tensor<5x4xf32>, tensor<5x4xf32>
  }
}
