module @manual_computation attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%arg0: tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<4xui32>) {
    %0:2 = "sdy.manual_computation"(%arg0) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>, manual_axes = #sdy<manual_axes{"x", "y"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>, <@mesh, [{"x", "y"}]>]>}> ({
    ^bb0(%arg1: tensor<2x4xf32>):
      %1 = "stablehlo.all_reduce"(%arg1) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
      ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
        %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
        "stablehlo.return"(%2) : (tensor<f32>) -> ()
      }) : (tensor<2x4xf32>) -> tensor<2x4xf32>
      %3 = "stablehlo.partition_id"() : () -> tensor<ui32>
      %4 = "stablehlo.reshape"(%3) : (tensor<ui32>) -> tensor<1xui32>
      "sdy.return"(%1, %4) : (tensor<2x4xf32>, tensor<1xui32>) -> ()
    }) : (tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<4xui32>)
    return %0#0, %0#1 : tensor<4x4xf32>, tensor<4xui32>
  }
}
