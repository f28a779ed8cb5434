// x [3, 8], weight [8], eps 1e-5.
module @jit_rms_norm attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x8xf32>) -> (tensor<3x8xf32> {jax.result_info = ""}) {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<3x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<3x8xf32>, tensor<f32>) -> tensor<3xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<3xf32>) -> tensor<3x1xf32>
    %cst_0 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<3x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x1xf32>
    %6 = stablehlo.add %4, %5 : tensor<3x1xf32>
    %7 = stablehlo.rsqrt %6 : tensor<3x1xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<3x1xf32>) -> tensor<3x8xf32>
    %9 = stablehlo.multiply %arg0, %8 : tensor<3x8xf32>
    %cst_2 = stablehlo.constant dense<[-3.125000e-01, 1.250000e-01, -5.000000e-01, -6.250000e-02, 3.750000e-01, -2.500000e-01, 1.875000e-01, -4.375000e-01]> : tensor<8xf32>
    %10 = stablehlo.broadcast_in_dim %cst_2, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<3x8xf32>
    %12 = stablehlo.multiply %9, %11 : tensor<3x8xf32>
    return %12 : tensor<3x8xf32>
  }
}
