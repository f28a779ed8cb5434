// RoPE, halves (j with j + 4), of x [5, 2, 8] (rows, heads, head_dim) at positions 0 .. 4.
module @jit_rope attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<5x2x8xf32>) -> (tensor<5x2x8xf32> {jax.result_info = ""}) {
    %cst = stablehlo.constant dense<[1.000000e+00, 1.000000e-01, 0.00999999977, 1.000000e-03]> : tensor<4xf32>
    %0 = stablehlo.iota dim = 0 : tensor<5xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<5xf32>) -> tensor<5x1xf32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<5x1xf32>) -> tensor<5x4xf32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<5x4xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<5x4xf32>
    %6 = stablehlo.cosine %5 : tensor<5x4xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 2] : (tensor<5x4xf32>) -> tensor<5x1x4xf32>
    %8 = stablehlo.sine %5 : tensor<5x4xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 2] : (tensor<5x4xf32>) -> tensor<5x1x4xf32>
    %10 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<5x1x4xf32>) -> tensor<5x2x4xf32>
    %11 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<5x1x4xf32>) -> tensor<5x2x4xf32>
    %x1 = stablehlo.slice %arg0 [0:5, 0:2, 0:4] : (tensor<5x2x8xf32>) -> tensor<5x2x4xf32>
    %x2 = stablehlo.slice %arg0 [0:5, 0:2, 4:8] : (tensor<5x2x8xf32>) -> tensor<5x2x4xf32>
    %21 = stablehlo.multiply %x1, %10 : tensor<5x2x4xf32>
    %22 = stablehlo.multiply %x2, %11 : tensor<5x2x4xf32>
    %23 = stablehlo.subtract %21, %22 : tensor<5x2x4xf32>
    %24 = stablehlo.multiply %x2, %10 : tensor<5x2x4xf32>
    %25 = stablehlo.multiply %x1, %11 : tensor<5x2x4xf32>
    %26 = stablehlo.add %24, %25 : tensor<5x2x4xf32>
    %27 = stablehlo.concatenate %23, %26, dim = 2 : (tensor<5x2x4xf32>, tensor<5x2x4xf32>) -> tensor<5x2x8xf32>
    return %27 : tensor<5x2x8xf32>
  }
}
