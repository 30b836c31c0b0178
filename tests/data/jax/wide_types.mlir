module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3xi64>, %arg1: tensor<2xui64>, %arg2: tensor<2x3xf64>) -> (tensor<3xi64> {jax.result_info = "result[0]"}, tensor<2xui64> {jax.result_info = "result[1]"}, tensor<2x3xf64> {jax.result_info = "result[2]"}) {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<3xi64>
    %c = stablehlo.constant dense<1> : tensor<i64>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<3xi64>
    %2 = stablehlo.add %0, %1 : tensor<3xi64>
    %c_0 = stablehlo.constant dense<3> : tensor<i64>
    %3 = call @floor_divide(%arg1, %c_0) : (tensor<2xui64>, tensor<i64>) -> tensor<2xui64>
    %4 = stablehlo.sqrt %arg2 : tensor<2x3xf64>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %5 = stablehlo.reduce(%arg2 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf64>, tensor<f64>) -> tensor<f64>
    %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f64>) -> tensor<2x3xf64>
    %7 = stablehlo.add %4, %6 : tensor<2x3xf64>
    return %2, %3, %7 : tensor<3xi64>, tensor<2xui64>, tensor<2x3xf64>
  }
  func.func private @floor_divide(%arg0: tensor<2xui64>, %arg1: tensor<i64>) -> tensor<2xui64> {
    %0 = stablehlo.convert %arg1 : (tensor<i64>) -> tensor<ui64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<ui64>) -> tensor<2xui64>
    %2 = stablehlo.divide %arg0, %1 : tensor<2xui64>
    return %2 : tensor<2xui64>
  }
}
