module @jit_picture attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main() -> (tensor<400x1000xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<-1.250000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.250000e+00> : tensor<f32>
    %0 = call @_linspace(%cst, %cst_0) : (tensor<f32>, tensor<f32>) -> tensor<400xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<400xf32>) -> tensor<400x1xf32>
    %cst_1 = stablehlo.constant dense<-2.250000e+00> : tensor<f32>
    %cst_2 = stablehlo.constant dense<8.750000e-01> : tensor<f32>
    %2 = call @_linspace_0(%cst_1, %cst_2) : (tensor<f32>, tensor<f32>) -> tensor<1000xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<1000xf32>) -> tensor<1x1000xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<400x1000xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %5:6 = stablehlo.while(%iterArg = %3, %iterArg_4 = %1, %iterArg_5 = %c, %iterArg_6 = %4, %iterArg_7 = %4, %iterArg_8 = %4) : tensor<1x1000xf32>, tensor<400x1xf32>, tensor<i32>, tensor<400x1000xf32>, tensor<400x1000xf32>, tensor<400x1000xf32>
    cond {
      %c_9 = stablehlo.constant dense<200> : tensor<i32>
      %7 = stablehlo.compare LT, %iterArg_5, %c_9, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7 = stablehlo.multiply %iterArg_6, %iterArg_6 : tensor<400x1000xf32>
      %8 = stablehlo.multiply %iterArg_7, %iterArg_7 : tensor<400x1000xf32>
      %9 = stablehlo.subtract %7, %8 : tensor<400x1000xf32>
      %10 = stablehlo.broadcast_in_dim %iterArg, dims = [0, 1] : (tensor<1x1000xf32>) -> tensor<400x1000xf32>
      %11 = stablehlo.add %9, %10 : tensor<400x1000xf32>
      %cst_9 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
      %12 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<400x1000xf32>
      %13 = stablehlo.multiply %12, %iterArg_6 : tensor<400x1000xf32>
      %14 = stablehlo.multiply %13, %iterArg_7 : tensor<400x1000xf32>
      %15 = stablehlo.broadcast_in_dim %iterArg_4, dims = [0, 1] : (tensor<400x1xf32>) -> tensor<400x1000xf32>
      %16 = stablehlo.add %14, %15 : tensor<400x1000xf32>
      %17 = stablehlo.multiply %11, %11 : tensor<400x1000xf32>
      %18 = stablehlo.multiply %16, %16 : tensor<400x1000xf32>
      %19 = stablehlo.add %17, %18 : tensor<400x1000xf32>
      %cst_10 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
      %20 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<400x1000xf32>
      %21 = stablehlo.compare LE, %19, %20, FLOAT : (tensor<400x1000xf32>, tensor<400x1000xf32>) -> tensor<400x1000xi1>
      %c_11 = stablehlo.constant dense<1> : tensor<i32>
      %22 = stablehlo.add %iterArg_5, %c_11 : tensor<i32>
      %c_12 = stablehlo.constant dense<4> : tensor<i32>
      %23 = func.call @_where(%21, %11, %c_12) : (tensor<400x1000xi1>, tensor<400x1000xf32>, tensor<i32>) -> tensor<400x1000xf32>
      %c_13 = stablehlo.constant dense<4> : tensor<i32>
      %24 = func.call @_where(%21, %16, %c_13) : (tensor<400x1000xi1>, tensor<400x1000xf32>, tensor<i32>) -> tensor<400x1000xf32>
      %25 = stablehlo.convert %21 : (tensor<400x1000xi1>) -> tensor<400x1000xf32>
      %26 = stablehlo.add %iterArg_8, %25 : tensor<400x1000xf32>
      stablehlo.return %iterArg, %iterArg_4, %22, %23, %24, %26 : tensor<1x1000xf32>, tensor<400x1xf32>, tensor<i32>, tensor<400x1000xf32>, tensor<400x1000xf32>, tensor<400x1000xf32>
    }
    %6 = stablehlo.log_plus_one %5#5 : tensor<400x1000xf32>
    return %6 : tensor<400x1000xf32>
  }
  func.func private @_linspace(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<400xf32> {
    %0 = stablehlo.convert %arg0 : tensor<f32>
    %1 = stablehlo.convert %arg1 : tensor<f32>
    %2 = stablehlo.iota dim = 0 : tensor<399xf32>
    %cst = stablehlo.constant dense<3.990000e+02> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<399xf32>
    %4 = stablehlo.divide %2, %3 : tensor<399xf32>
    %5 = stablehlo.reshape %0 : (tensor<f32>) -> tensor<1xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<399xf32>
    %7 = stablehlo.subtract %6, %4 : tensor<399xf32>
    %8 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<1xf32>) -> tensor<399xf32>
    %9 = stablehlo.multiply %8, %7 : tensor<399xf32>
    %10 = stablehlo.reshape %1 : (tensor<f32>) -> tensor<1xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0] : (tensor<1xf32>) -> tensor<399xf32>
    %12 = stablehlo.multiply %11, %4 : tensor<399xf32>
    %13 = stablehlo.add %9, %12 : tensor<399xf32>
    %14 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %15 = stablehlo.concatenate %13, %14, dim = 0 : (tensor<399xf32>, tensor<1xf32>) -> tensor<400xf32>
    return %15 : tensor<400xf32>
  }
  func.func private @_linspace_0(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<1000xf32> {
    %0 = stablehlo.convert %arg0 : tensor<f32>
    %1 = stablehlo.convert %arg1 : tensor<f32>
    %2 = stablehlo.iota dim = 0 : tensor<999xf32>
    %cst = stablehlo.constant dense<9.990000e+02> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<999xf32>
    %4 = stablehlo.divide %2, %3 : tensor<999xf32>
    %5 = stablehlo.reshape %0 : (tensor<f32>) -> tensor<1xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<999xf32>
    %7 = stablehlo.subtract %6, %4 : tensor<999xf32>
    %8 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<1xf32>) -> tensor<999xf32>
    %9 = stablehlo.multiply %8, %7 : tensor<999xf32>
    %10 = stablehlo.reshape %1 : (tensor<f32>) -> tensor<1xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0] : (tensor<1xf32>) -> tensor<999xf32>
    %12 = stablehlo.multiply %11, %4 : tensor<999xf32>
    %13 = stablehlo.add %9, %12 : tensor<999xf32>
    %14 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %15 = stablehlo.concatenate %13, %14, dim = 0 : (tensor<999xf32>, tensor<1xf32>) -> tensor<1000xf32>
    return %15 : tensor<1000xf32>
  }
  func.func private @_where(%arg0: tensor<400x1000xi1>, %arg1: tensor<400x1000xf32>, %arg2: tensor<i32>) -> tensor<400x1000xf32> {
    %0 = stablehlo.convert %arg2 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<400x1000xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<400x1000xi1>, tensor<400x1000xf32>
    return %2 : tensor<400x1000xf32>
  }
}
