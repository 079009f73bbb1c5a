module @constants {
  func.func public @main() -> (tensor<2xi1>, tensor<2xui8>, tensor<2xi8>, tensor<2xui16>, tensor<2xi16>, tensor<2xui32>, tensor<2xi32>, tensor<2xui64>, tensor<2xi64>, tensor<2xf16>, tensor<2xbf16>, tensor<2xf32>, tensor<2xf64>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f64>>, tensor<2xf8E4M3FN>, tensor<2xf8E5M2>, tensor<f64>, tensor<f32>, tensor<bf16>, tensor<f16>, tensor<f64>, tensor<f32>, tensor<bf16>, tensor<f16>, tensor<f64>, tensor<f32>, tensor<bf16>, tensor<f16>, tensor<f64>, tensor<f32>, tensor<bf16>, tensor<f16>, tensor<f64>, tensor<f32>, tensor<bf16>, tensor<f16>, tensor<f64>, tensor<f32>, tensor<bf16>, tensor<f16>, tensor<f64>, tensor<f32>, tensor<bf16>, tensor<f16>, tensor<2x3xi32>, tensor<70xf32>, tensor<70xi1>, tensor<3xi1>, tensor<2x0xf32>, tensor<2xcomplex<f32>>, tensor<2xui8>, tensor<2x3xi64>, tensor<2xi1>, tensor<0xf32>) {
    %0 = stablehlo.constant dense<true> : tensor<2xi1>
    %1 = stablehlo.constant dense<1> : tensor<2xui8>
    %2 = stablehlo.constant dense<1> : tensor<2xi8>
    %3 = stablehlo.constant dense<1> : tensor<2xui16>
    %4 = stablehlo.constant dense<1> : tensor<2xi16>
    %5 = stablehlo.constant dense<1> : tensor<2xui32>
    %6 = stablehlo.constant dense<1> : tensor<2xi32>
    %7 = stablehlo.constant dense<1> : tensor<2xui64>
    %8 = stablehlo.constant dense<1> : tensor<2xi64>
    %9 = stablehlo.constant dense<1.0> : tensor<2xf16>
    %10 = stablehlo.constant dense<1.0> : tensor<2xbf16>
    %11 = stablehlo.constant dense<1.0> : tensor<2xf32>
    %12 = stablehlo.constant dense<1.0> : tensor<2xf64>
    %13 = stablehlo.constant dense<(1.0, 0.0)> : tensor<2xcomplex<f32>>
    %14 = stablehlo.constant dense<(1.0, 0.0)> : tensor<2xcomplex<f64>>
    %15 = stablehlo.constant dense<0x38> : tensor<2xf8E4M3FN>
    %16 = stablehlo.constant dense<0x3C> : tensor<2xf8E5M2>
    %17 = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %18 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %19 = stablehlo.constant dense<0x7FC0> : tensor<bf16>
    %20 = stablehlo.constant dense<0x7E00> : tensor<f16>
    %21 = stablehlo.constant dense<0x7FF0000000000000> : tensor<f64>
    %22 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %23 = stablehlo.constant dense<0x7F80> : tensor<bf16>
    %24 = stablehlo.constant dense<0x7C00> : tensor<f16>
    %25 = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %26 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %27 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %28 = stablehlo.constant dense<0xFC00> : tensor<f16>
    %29 = stablehlo.constant dense<-0.0> : tensor<f64>
    %30 = stablehlo.constant dense<-0.0> : tensor<f32>
    %31 = stablehlo.constant dense<-0.0> : tensor<bf16>
    %32 = stablehlo.constant dense<-0.0> : tensor<f16>
    %33 = stablehlo.constant dense<0.1> : tensor<f64>
    %34 = stablehlo.constant dense<0.1> : tensor<f32>
    %35 = stablehlo.constant dense<0.100097656> : tensor<bf16>
    %36 = stablehlo.constant dense<0.099975586> : tensor<f16>
    %37 = stablehlo.constant dense<1.0e30> : tensor<f64>
    %38 = stablehlo.constant dense<1.0e30> : tensor<f32>
    %39 = stablehlo.constant dense<1.00025555e30> : tensor<bf16>
    %40 = stablehlo.constant dense<5.0e-324> : tensor<f64>
    %41 = stablehlo.constant dense<0.0> : tensor<f32>
    %42 = stablehlo.constant dense<0.0> : tensor<bf16>
    %43 = stablehlo.constant dense<0.0> : tensor<f16>
    %44 = stablehlo.constant dense<[[0, 1, 2], [3, 4, 5]]> : tensor<2x3xi32>
    %45 = stablehlo.constant dense<"0x000000000000003F0000803F0000C03F0000004000002040000040400000604000008040000090400000A0400000B0400000C0400000D0400000E0400000F0400000004100000841000010410000184100002041000028410000304100003841000040410000484100005041000058410000604100006841000070410000784100008041000084410000884100008C4100009041000094410000984100009C410000A0410000A4410000A8410000AC410000B0410000B4410000B8410000BC410000C0410000C4410000C8410000CC410000D0410000D4410000D8410000DC410000E0410000E4410000E8410000EC410000F0410000F4410000F8410000FC41000000420000024200000442000006420000084200000A42"> : tensor<70xf32>
    %46 = stablehlo.constant dense<"0x01000001000001000001000001000001000001000001000001000001000001000001000001000001000001000001000001000001000001000001000001000001000001000001"> : tensor<70xui8>
    %47 = "stablehlo.convert"(%46) : (tensor<70xui8>) -> tensor<70xi1>
    %48 = stablehlo.constant dense<[true, false, false]> : tensor<3xi1>
    %49 = stablehlo.constant dense<> : tensor<2x0xf32>
    %50 = stablehlo.constant dense<[(0.0, 0.5), (1.0, 1.5)]> : tensor<2xcomplex<f32>>
    %51 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<2x3xi64>
    %52 = stablehlo.constant dense<false> : tensor<2xi1>
    %53 = stablehlo.constant dense<> : tensor<0xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %24, %40, %41, %42, %43, %44, %45, %47, %48, %49, %50, %1, %51, %52, %53 : tensor<2xi1>, tensor<2xui8>, tensor<2xi8>, tensor<2xui16>, tensor<2xi16>, tensor<2xui32>, tensor<2xi32>, tensor<2xui64>, tensor<2xi64>, tensor<2xf16>, tensor<2xbf16>, tensor<2xf32>, tensor<2xf64>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f64>>, tensor<2xf8E4M3FN>, tensor<2xf8E5M2>, tensor<f64>, tensor<f32>, tensor<bf16>, tensor<f16>, tensor<f64>, tensor<f32>, tensor<bf16>, tensor<f16>, tensor<f64>, tensor<f32>, tensor<bf16>, tensor<f16>, tensor<f64>, tensor<f32>, tensor<bf16>, tensor<f16>, tensor<f64>, tensor<f32>, tensor<bf16>, tensor<f16>, tensor<f64>, tensor<f32>, tensor<bf16>, tensor<f16>, tensor<f64>, tensor<f32>, tensor<bf16>, tensor<f16>, tensor<2x3xi32>, tensor<70xf32>, tensor<70xi1>, tensor<3xi1>, tensor<2x0xf32>, tensor<2xcomplex<f32>>, tensor<2xui8>, tensor<2x3xi64>, tensor<2xi1>, tensor<0xf32>
  }
}
