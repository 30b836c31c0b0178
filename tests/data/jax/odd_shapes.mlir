module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<f32>, %arg1: tensor<0x3xf32>, %arg2: tensor<1x1x2x1xf32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<0x3xf32> {jax.result_info = "result[1]"}, tensor<1x1x4x1xf32> {jax.result_info = "result[2]"}, tensor<4xf32> {jax.result_info = "result[3]"}) {
    %cst = stablehlo.constant dense<[0x7FC00000, 0x7F800000, 0xFF800000, 1.000000e+00]> : tensor<4xf32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %0 = stablehlo.multiply %arg0, %cst_0 : tensor<f32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<0x3xf32>
    %2 = stablehlo.add %arg1, %1 : tensor<0x3xf32>
    %3 = stablehlo.concatenate %arg2, %arg2, dim = 2 : (tensor<1x1x2x1xf32>, tensor<1x1x2x1xf32>) -> tensor<1x1x4x1xf32>
    %4 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %5 = stablehlo.multiply %cst, %4 : tensor<4xf32>
    return %0, %2, %3, %5 : tensor<f32>, tensor<0x3xf32>, tensor<1x1x4x1xf32>, tensor<4xf32>
  }
}
