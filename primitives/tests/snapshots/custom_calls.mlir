module @custom_calls {
  func.func public @main(%arg0: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<i32>) {
    %0 = "stablehlo.custom_call"(%arg0) <{call_target_name = "norm", api_version = 4 : i32, has_side_effect = false, backend_config = {eps = 1.0e-5 : f32}, output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %1:2 = "stablehlo.custom_call"(%arg0) <{call_target_name = "old", api_version = 2 : i32, has_side_effect = true, backend_config = "a \22b\22 \5C \0A", operand_layouts = [dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]}> : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<i32>)
    return %0, %1#0, %1#1 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<i32>
  }
}
