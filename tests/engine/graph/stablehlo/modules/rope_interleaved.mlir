// RoPE, interleaved (2j with 2j + 1), of x [5, 2, 8] (rows, heads, head_dim) at positions 0 .. 4.
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
    %x1 = stablehlo.slice %arg0 [0:5, 0:2, 0:8:2] : (tensor<5x2x8xf32>) -> tensor<5x2x4xf32>
    %12 = stablehlo.reshape %arg0 : (tensor<5x2x8xf32>) -> tensor<5x2x4x2xf32>
    %13 = stablehlo.slice %12 [0:5, 0:2, 0:4, 1:2] : (tensor<5x2x4x2xf32>) -> tensor<5x2x4x1xf32>
    %x2 = stablehlo.reshape %13 : (tensor<5x2x4x1xf32>) -> tensor<5x2x4xf32>
    %21 = stablehlo.multiply %x1, %10 : tensor<5x2x4xf32>
    %22 = stablehlo.multiply %x2, %11 : tensor<5x2x4xf32>
    %23 = stablehlo.subtract %21, %22 : tensor<5x2x4xf32>
    %24 = stablehlo.multiply %x2, %10 : tensor<5x2x4xf32>
    %25 = stablehlo.multiply %x1, %11 : tensor<5x2x4xf32>
    %26 = stablehlo.add %24, %25 : tensor<5x2x4xf32>
    %27 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<5x2x4xf32>) -> tensor<5x2x4x1xf32>
    %28 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2] : (tensor<5x2x4xf32>) -> tensor<5x2x4x1xf32>
    %29 = stablehlo.concatenate %27, %28, dim = 3 : (tensor<5x2x4x1xf32>, tensor<5x2x4x1xf32>) -> tensor<5x2x4x2xf32>
    %30 = stablehlo.reshape %29 : (tensor<5x2x4x2xf32>) -> tensor<5x2x8xf32>
    return %30 : tensor<5x2x8xf32>
  }
}
