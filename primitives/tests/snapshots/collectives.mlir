module @collectives attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x16xf32>, tensor<2x8xf32>, tensor<2x16xf32>, tensor<4x8xf32>, tensor<ui32>, tensor<ui32>) {
    %0 = "stablehlo.all_reduce"(%arg0) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %1 = stablehlo.add %arg1, %arg2 : tensor<f32>
      "stablehlo.return"(%1) : (tensor<f32>) -> ()
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = "stablehlo.all_gather"(%arg0) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, all_gather_dim = 1 : i64}> : (tensor<4x8xf32>) -> tensor<4x16xf32>
    %3 = "stablehlo.reduce_scatter"(%arg0) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 0 : i64}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %4 = stablehlo.maximum %arg3, %arg4 : tensor<f32>
      "stablehlo.return"(%4) : (tensor<f32>) -> ()
    }) : (tensor<4x8xf32>) -> tensor<2x8xf32>
    %5 = "stablehlo.all_to_all"(%arg0) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 2 : i64}> : (tensor<4x8xf32>) -> tensor<2x16xf32>
    %6 = "stablehlo.collective_permute"(%arg0) <{source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %7 = "stablehlo.partition_id"() : () -> tensor<ui32>
    %8 = "stablehlo.replica_id"() : () -> tensor<ui32>
    return %0, %2, %3, %5, %6, %7, %8 : tensor<4x8xf32>, tensor<4x16xf32>, tensor<2x8xf32>, tensor<2x16xf32>, tensor<4x8xf32>, tensor<ui32>, tensor<ui32>
  }
}
