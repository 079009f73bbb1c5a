module @fourier {
  func.func public @main(%arg0: tensor<4x8xf32>) -> (tensor<4x5xcomplex<f32>>, tensor<4x5xcomplex<f32>>, tensor<4x5xcomplex<f32>>, tensor<4x8xf32>) {
    %0 = "stablehlo.fft"(%arg0) <{fft_type = #stablehlo<fft_type RFFT>, fft_length = array<i64: 8>}> : (tensor<4x8xf32>) -> tensor<4x5xcomplex<f32>>
    %1 = "stablehlo.fft"(%0) <{fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 4, 5>}> : (tensor<4x5xcomplex<f32>>) -> tensor<4x5xcomplex<f32>>
    %2 = "stablehlo.fft"(%1) <{fft_type = #stablehlo<fft_type IFFT>, fft_length = array<i64: 5>}> : (tensor<4x5xcomplex<f32>>) -> tensor<4x5xcomplex<f32>>
    %3 = "stablehlo.fft"(%2) <{fft_type = #stablehlo<fft_type IRFFT>, fft_length = array<i64: 4, 8>}> : (tensor<4x5xcomplex<f32>>) -> tensor<4x8xf32>
    return %0, %1, %2, %3 : tensor<4x5xcomplex<f32>>, tensor<4x5xcomplex<f32>>, tensor<4x5xcomplex<f32>>, tensor<4x8xf32>
  }
}
