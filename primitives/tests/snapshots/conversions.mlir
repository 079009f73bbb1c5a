module @conversions {
  func.func public @main(%arg0: tensor<2xf32>, %arg1: tensor<3x4xi8>) -> (tensor<2xi1>, tensor<2xui8>, tensor<2xi8>, tensor<2xui16>, tensor<2xi16>, tensor<2xui32>, tensor<2xi32>, tensor<2xui64>, tensor<2xi64>, tensor<2xf16>, tensor<2xbf16>, tensor<2xf64>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f64>>, tensor<2xf8E4M3FN>, tensor<2xf8E5M2>, tensor<2xi32>, tensor<2x4xui8>, tensor<3xf32>, tensor<2xf32>) {
    %0 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xi1>
    %1 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xui8>
    %2 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xi8>
    %3 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xui16>
    %4 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xi16>
    %5 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xui32>
    %6 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xi32>
    %7 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xui64>
    %8 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xi64>
    %9 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xf16>
    %10 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xbf16>
    %11 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xf64>
    %12 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xcomplex<f32>>
    %13 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xcomplex<f64>>
    %14 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xf8E4M3FN>
    %15 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xf8E5M2>
    %16 = "stablehlo.bitcast_convert"(%arg0) : (tensor<2xf32>) -> tensor<2xi32>
    %17 = "stablehlo.bitcast_convert"(%arg0) : (tensor<2xf32>) -> tensor<2x4xui8>
    %18 = "stablehlo.bitcast_convert"(%arg1) : (tensor<3x4xi8>) -> tensor<3xf32>
    %19 = "stablehlo.reduce_precision"(%arg0) <{exponent_bits = 8 : i32, mantissa_bits = 7 : i32}> : (tensor<2xf32>) -> tensor<2xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19 : tensor<2xi1>, tensor<2xui8>, tensor<2xi8>, tensor<2xui16>, tensor<2xi16>, tensor<2xui32>, tensor<2xi32>, tensor<2xui64>, tensor<2xi64>, tensor<2xf16>, tensor<2xbf16>, tensor<2xf64>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f64>>, tensor<2xf8E4M3FN>, tensor<2xf8E5M2>, tensor<2xi32>, tensor<2x4xui8>, tensor<3xf32>, tensor<2xf32>
  }
}
