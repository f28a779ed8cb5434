// RoPE, interleaved (2j with 2j + 1), of x [5, 2, 8] (rows, heads, head_dim) at positions 0 .. 4.
"builtin.module"() <{sym_name = "jit_rope"}> ({
  "func.func"() <{function_type = (tensor<5x2x8xf32>) -> (tensor<5x2x8xf32>), sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<5x2x8xf32>):
    %cst = "stablehlo.constant"() <{value = dense<[1.000000e+00, 1.000000e-01, 0.00999999977, 1.000000e-03]> : tensor<4xf32>}> : () -> tensor<4xf32>
    %0 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<5xf32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64: 0>}> : (tensor<5xf32>) -> tensor<5x1xf32>
    %2 = "stablehlo.broadcast_in_dim"(%cst) <{broadcast_dimensions = array<i64: 1>}> : (tensor<4xf32>) -> tensor<1x4xf32>
    %3 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<5x1xf32>) -> tensor<5x4xf32>
    %4 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x4xf32>) -> tensor<5x4xf32>
    %5 = "stablehlo.multiply"(%3, %4) : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %6 = "stablehlo.cosine"(%5) : (tensor<5x4xf32>) -> tensor<5x4xf32>
    %7 = "stablehlo.broadcast_in_dim"(%6) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<5x4xf32>) -> tensor<5x1x4xf32>
    %8 = "stablehlo.sine"(%5) : (tensor<5x4xf32>) -> tensor<5x4xf32>
    %9 = "stablehlo.broadcast_in_dim"(%8) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<5x4xf32>) -> tensor<5x1x4xf32>
    %10 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<5x1x4xf32>) -> tensor<5x2x4xf32>
    %11 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<5x1x4xf32>) -> tensor<5x2x4xf32>
    %x1 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 5, 2, 8>, start_indices = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 2>}> : (tensor<5x2x8xf32>) -> tensor<5x2x4xf32>
    %12 = "stablehlo.reshape"(%arg0) : (tensor<5x2x8xf32>) -> tensor<5x2x4x2xf32>
    %13 = "stablehlo.slice"(%12) <{limit_indices = array<i64: 5, 2, 4, 2>, start_indices = array<i64: 0, 0, 0, 1>, strides = array<i64: 1, 1, 1, 1>}> : (tensor<5x2x4x2xf32>) -> tensor<5x2x4x1xf32>
    %x2 = "stablehlo.reshape"(%13) : (tensor<5x2x4x1xf32>) -> tensor<5x2x4xf32>
    %21 = "stablehlo.multiply"(%x1, %10) : (tensor<5x2x4xf32>, tensor<5x2x4xf32>) -> tensor<5x2x4xf32>
    %22 = "stablehlo.multiply"(%x2, %11) : (tensor<5x2x4xf32>, tensor<5x2x4xf32>) -> tensor<5x2x4xf32>
    %23 = "stablehlo.subtract"(%21, %22) : (tensor<5x2x4xf32>, tensor<5x2x4xf32>) -> tensor<5x2x4xf32>
    %24 = "stablehlo.multiply"(%x2, %10) : (tensor<5x2x4xf32>, tensor<5x2x4xf32>) -> tensor<5x2x4xf32>
    %25 = "stablehlo.multiply"(%x1, %11) : (tensor<5x2x4xf32>, tensor<5x2x4xf32>) -> tensor<5x2x4xf32>
    %26 = "stablehlo.add"(%24, %25) : (tensor<5x2x4xf32>, tensor<5x2x4xf32>) -> tensor<5x2x4xf32>
    %27 = "stablehlo.broadcast_in_dim"(%23) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<5x2x4xf32>) -> tensor<5x2x4x1xf32>
    %28 = "stablehlo.broadcast_in_dim"(%26) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<5x2x4xf32>) -> tensor<5x2x4x1xf32>
    %29 = "stablehlo.concatenate"(%27, %28) <{dimension = 3 : i64}> : (tensor<5x2x4x1xf32>, tensor<5x2x4x1xf32>) -> tensor<5x2x4x2xf32>
    %30 = "stablehlo.reshape"(%29) : (tensor<5x2x4x2xf32>) -> tensor<5x2x8xf32>
    "func.return"(%30) : (tensor<5x2x8xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
