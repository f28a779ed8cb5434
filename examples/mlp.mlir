// x + down(silu(gate(h)) * up(h)) with h = RMSNorm(x): the MLP of a decoder layer, as JAX exports it, for 4 tokens of
// width 8. Try:
//   hone compile examples/mlp.mlir                          what became of it
//   hone exec examples/mlp.mlir --random 1 --check          run it, and compare with the reference
//   hone compile examples/mlp.mlir -o mlp.hone && hone-exec exec mlp.hone --random 1 --check
module @mlp {
  func.func public @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %norm = stablehlo.constant dense<[1.125, 0.75, 1.25, 0.5, 0.625, 1.5, 0.625, 1.125]> : tensor<8xf32>
    %gate = stablehlo.constant dense<[[-0.875, 1, -0.25, -0.875, -0.75, 0.625, 0.625, -0.75, -0.125, -0.75, 0.625, -0.875, -0.625, -0.125, -0.875, 0.5], [-0.875, -0.125, -0.875, -0.5, 0.125, 0.625, -0.5, -0.625, 0.125, -0.375, -0.625, -0.25, 0.375, -0.625, -0.75, -0.875], [-0.25, 0.875, 0.625, 0.25, 0.75, 0.75, 0.375, 0.125, -0.125, -0.375, -0.125, -0.75, 0.125, 1, 0.875, 0.25], [0.75, 0.125, -0.75, -0.625, 1, 0.625, -0.375, 0.25, -0.5, 0.875, 0.625, -0.875, -0.75, 0.25, 0.25, 0.375], [0.875, 0.75, -0.75, -0.75, 0, 0.875, -0.75, -0.875, 0.125, 0.75, 0.125, 0.5, 0.375, -1, 0.75, 0.375], [-0.375, -0.625, 0.875, -0.875, -0.25, 0.125, -0.5, -0.125, 0.5, 0.5, 0.875, -0.75, -0.375, 0.75, 0.5, 0], [-0.5, 0.625, 0, 0.625, 0.375, 0.5, -0.125, -0.5, -0.75, -0.375, -0.5, -0.125, -0.125, -1, 0.875, -0.375], [0, 0.125, -1, -0.5, 0.625, 0.375, 0.25, -0.5, 1, -0.875, 0.75, 0.5, 0.5, 0.5, 0.5, -0.625]]> : tensor<8x16xf32>
    %up = stablehlo.constant dense<[[0.875, 0.5, -0.875, -0.25, -0.75, -0.25, 0.75, -0.375, -0.625, 0.25, -0.875, -0.625, -1, -0.5, -0.625, 0.375], [-1, -0.75, -0.25, 0.5, -0.5, 0, 0.375, 0.375, 0.875, -0.625, -0.625, 0.875, 0.75, 0.875, 0.875, 0.125], [-0.75, -0.5, -0.625, 0.25, 0, 0.875, -0.375, 1, -1, -0.25, 1, 0.375, -0.5, -1, 1, 0.125], [-0.75, 0, 1, 0.375, -0.375, 0.375, -0.125, 1, 0.25, -0.125, -0.25, -0.125, 0.5, -0.125, -0.25, 1], [0.875, 0.375, -1, -1, 0, 0.875, 0, -0.25, 0.375, 0.75, 0.375, 0.375, -0.75, -0.125, -0.625, -0.125], [0.875, -0.25, 0.25, -0.25, 0.875, -1, 0.875, 0.375, -0.75, -0.625, 0.5, -0.25, 0.875, -0.375, 0.625, 0.25], [-0.75, 0.5, 0.75, 0.5, -0.75, -0.375, -0.375, -0.5, -1, -0.5, 0.75, -0.5, 0.875, 0.375, -0.5, -0.5], [-1, -1, -0.625, 1, -0.5, 0.625, -0.25, -0.25, -1, 0, -0.25, 0.125, 1, -0.125, 0.25, 0]]> : tensor<8x16xf32>
    %down = stablehlo.constant dense<[[0.625, -0.5, -0.875, 0.375, 0.75, 1, 0.625, 1], [-0.5, -0.5, 1, 1, -1, 0.75, -0.375, -1], [-0.5, -0.375, -0.5, 0.875, -0.625, -0.875, 0.25, 1], [1, 0.875, -0.625, -0.875, -0.125, -0.25, 0, -0.875], [-0.625, 1, 0.75, -1, -0.75, 0.75, 0.25, 1], [1, -0.25, 0, 0.75, 1, 0.875, 1, -0.125], [1, 0, -0.25, 0.75, -0.5, 0.625, -0.625, 0.5], [0.75, 0.25, -0.75, -0.125, 0.625, -0.75, -0.25, 0.125], [-0.625, -0.5, 0.375, -0.5, 0, -0.5, 0.75, -0.125], [-0.625, 0.5, 0.875, -0.375, -0.125, -0.375, 0.625, 1], [0.5, 0.25, 0.625, -0.25, 0.375, 0.25, -0.75, 0.375], [-1, 0.25, 0.75, 0.75, -1, 0.5, 0.25, 1], [0.125, 1, -0.75, -0.625, -0.125, -0.625, -0.75, 0], [0, -0.875, -0.375, 0, -0.5, 0.625, 0, 0.5], [-0.5, 1, 0.875, 0.25, -0.75, 0, -0.875, -0.375], [0.625, -0.75, 0, -1, -0.75, 0, -0.75, -0.125]]> : tensor<16x8xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %width = stablehlo.constant dense<8.0> : tensor<4x1xf32>
    %eps = stablehlo.constant dense<1.0e-05> : tensor<4x1xf32>

    %0 = stablehlo.multiply %x, %x : tensor<4x8xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
    %3 = stablehlo.divide %2, %width : tensor<4x1xf32>
    %4 = stablehlo.add %3, %eps : tensor<4x1xf32>
    %5 = stablehlo.rsqrt %4 : tensor<4x1xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x8xf32>
    %7 = stablehlo.multiply %x, %6 : tensor<4x8xf32>
    %8 = stablehlo.broadcast_in_dim %norm, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
    %h = stablehlo.multiply %7, %8 : tensor<4x8xf32>

    %9 = stablehlo.dot_general %h, %gate, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %10 = stablehlo.logistic %9 : tensor<4x16xf32>
    %11 = stablehlo.multiply %9, %10 : tensor<4x16xf32>
    %12 = stablehlo.dot_general %h, %up, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %13 = stablehlo.multiply %11, %12 : tensor<4x16xf32>
    %14 = stablehlo.dot_general %13, %down, contracting_dims = [1] x [0] : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %15 = stablehlo.add %x, %14 : tensor<4x8xf32>
    return %15 : tensor<4x8xf32>
  }
}
