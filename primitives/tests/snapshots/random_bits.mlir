module @random_bits {
  func.func public @main(%arg0: tensor<2xui64>) -> (tensor<2xui64>, tensor<5xui32>, tensor<2xui64>, tensor<2x2xui64>, tensor<2xui64>, tensor<3xui8>) {
    %0:2 = "stablehlo.rng_bit_generator"(%arg0) <{rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<5xui32>)
    %1:2 = "stablehlo.rng_bit_generator"(%0#0) <{rng_algorithm = #stablehlo<rng_algorithm PHILOX>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2x2xui64>)
    %2:2 = "stablehlo.rng_bit_generator"(%1#0) <{rng_algorithm = #stablehlo<rng_algorithm DEFAULT>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui8>)
    return %0#0, %0#1, %1#0, %1#1, %2#0, %2#1 : tensor<2xui64>, tensor<5xui32>, tensor<2xui64>, tensor<2x2xui64>, tensor<2xui64>, tensor<3xui8>
  }
}
