module @collectives_over_partitions attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x32xf32>, tensor<1x8xf32>, tensor<1x32xf32>, tensor<4x8xf32>) {
    %0 = "stablehlo.all_reduce"(%arg0) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %1 = stablehlo.add %arg1, %arg2 : tensor<f32>
      "stablehlo.return"(%1) : (tensor<f32>) -> ()
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = "stablehlo.all_gather"(%arg0) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, use_global_device_ids, all_gather_dim = 1 : i64}> : (tensor<4x8xf32>) -> tensor<4x32xf32>
    %3 = "stablehlo.reduce_scatter"(%arg0) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, use_global_device_ids, scatter_dimension = 0 : i64}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %4 = stablehlo.add %arg3, %arg4 : tensor<f32>
      "stablehlo.return"(%4) : (tensor<f32>) -> ()
    }) : (tensor<4x8xf32>) -> tensor<1x8xf32>
    %5 = "stablehlo.all_to_all"(%arg0) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 4 : i64}> : (tensor<4x8xf32>) -> tensor<1x32xf32>
    %6 = "stablehlo.collective_permute"(%arg0) <{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %0, %2, %3, %5, %6 : tensor<4x8xf32>, tensor<4x32xf32>, tensor<1x8xf32>, tensor<1x32xf32>, tensor<4x8xf32>
  }
}
