module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<5xbf16>, %arg1: tensor<3x4xf16>, %arg2: tensor<3xi1>, %arg3: tensor<3xi8>, %arg4: tensor<2xui8>) -> (tensor<5xbf16> {jax.result_info = "result[0]"}, tensor<3x3xf16> {jax.result_info = "result[1]"}, tensor<3xi1> {jax.result_info = "result[2]"}, tensor<3xi8> {jax.result_info = "result[3]"}, tensor<2xui16> {jax.result_info = "result[4]"}, tensor<5xi1> {jax.result_info = "result[5]"}) {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<bf16>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<5xbf16>
    %1 = stablehlo.multiply %arg0, %0 : tensor<5xbf16>
    %2 = stablehlo.slice %arg0 [0:1] : (tensor<5xbf16>) -> tensor<1xbf16>
    %3 = stablehlo.reshape %2 : (tensor<1xbf16>) -> tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<bf16>) -> tensor<5xbf16>
    %5 = stablehlo.add %1, %4 : tensor<5xbf16>
    %6 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<3x4xf16>) -> tensor<4x3xf16>
    %7 = stablehlo.dot_general %arg1, %6, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4xf16>, tensor<4x3xf16>) -> tensor<3x3xf16>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %8 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<3xi1>
    %9 = stablehlo.xor %arg2, %8 : tensor<3xi1>
    %10 = stablehlo.add %arg3, %arg3 : tensor<3xi8>
    %c_0 = stablehlo.constant dense<1> : tensor<ui8>
    %11 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui8>) -> tensor<2xui8>
    %12 = stablehlo.shift_right_logical %arg4, %11 : tensor<2xui8>
    %13 = stablehlo.convert %12 : (tensor<2xui8>) -> tensor<2xui16>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %14 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<5xbf16>
    %15 = stablehlo.compare GT, %arg0, %14, FLOAT : (tensor<5xbf16>, tensor<5xbf16>) -> tensor<5xi1>
    return %5, %7, %9, %10, %13, %15 : tensor<5xbf16>, tensor<3x3xf16>, tensor<3xi1>, tensor<3xi8>, tensor<2xui16>, tensor<5xi1>
  }
}
