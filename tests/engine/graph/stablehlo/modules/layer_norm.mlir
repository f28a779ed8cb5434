// x [3, 8], weight and bias [8], eps 1e-5.
module @jit_layer_norm attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x8xf32>) -> (tensor<3x8xf32> {jax.result_info = ""}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<3x8xf32>, tensor<f32>) -> tensor<3xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<3xf32>) -> tensor<3x1xf32>
    %cst_0 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<3x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<3x1xf32>) -> tensor<3x8xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<3x8xf32>
    %6 = stablehlo.multiply %5, %5 : tensor<3x8xf32>
    %7 = stablehlo.reduce(%6 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<3x8xf32>, tensor<f32>) -> tensor<3xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<3xf32>) -> tensor<3x1xf32>
    %9 = stablehlo.divide %8, %2 : tensor<3x1xf32>
    %10 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<3x1xf32>) -> tensor<3x8xf32>
    %11 = stablehlo.subtract %arg0, %10 : tensor<3x8xf32>
    %cst_1 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x1xf32>
    %13 = stablehlo.add %9, %12 : tensor<3x1xf32>
    %14 = stablehlo.rsqrt %13 : tensor<3x1xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1] : (tensor<3x1xf32>) -> tensor<3x8xf32>
    %16 = stablehlo.multiply %11, %15 : tensor<3x8xf32>
    %cst_2 = stablehlo.constant dense<[-3.125000e-01, 1.250000e-01, -5.000000e-01, -6.250000e-02, 3.750000e-01, -2.500000e-01, 1.875000e-01, -4.375000e-01]> : tensor<8xf32>
    %17 = stablehlo.broadcast_in_dim %cst_2, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<3x8xf32>
    %19 = stablehlo.multiply %16, %18 : tensor<3x8xf32>
    %cst_3 = stablehlo.constant dense<[0.000000e+00, 4.375000e-01, -1.875000e-01, 2.500000e-01, -3.750000e-01, 6.250000e-02, 5.000000e-01, -1.250000e-01]> : tensor<8xf32>
    %20 = stablehlo.broadcast_in_dim %cst_3, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<3x8xf32>
    %22 = stablehlo.add %19, %21 : tensor<3x8xf32>
    return %22 : tensor<3x8xf32>
  }
}
