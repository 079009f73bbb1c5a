module @sharding attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}", jax.buffer_donor = true}) -> (tensor<4x8xf32> {mhlo.sharding = "{devices=[1,2]<=[2]}"}) {
    %0 = stablehlo.sine %arg0 : tensor<4x8xf32>
    %1 = "stablehlo.custom_call"(%0) <{call_target_name = "Sharding"}> {mhlo.sharding = "{devices=[1,2]<=[2]}"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}
