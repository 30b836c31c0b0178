module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<512xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<10xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<784x512xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<512x10xf32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<512xf32> {tf.aliasing_output = 4 : i32}, %arg5: tensor<10xf32> {tf.aliasing_output = 5 : i32}, %arg6: tensor<784x512xf32> {tf.aliasing_output = 6 : i32}, %arg7: tensor<512x10xf32> {tf.aliasing_output = 7 : i32}, %arg8: tensor<256x784xf32>, %arg9: tensor<256xi32>, %arg10: tensor<f32>) -> (tensor<512xf32> {jax.result_info = "result[0]['b1']"}, tensor<10xf32> {jax.result_info = "result[0]['b2']"}, tensor<784x512xf32> {jax.result_info = "result[0]['w1']"}, tensor<512x10xf32> {jax.result_info = "result[0]['w2']"}, tensor<512xf32> {jax.result_info = "result[1]['b1']"}, tensor<10xf32> {jax.result_info = "result[1]['b2']"}, tensor<784x512xf32> {jax.result_info = "result[1]['w1']"}, tensor<512x10xf32> {jax.result_info = "result[1]['w2']"}, tensor<f32> {jax.result_info = "result[2]"}) {
    %0 = stablehlo.dot_general %arg8, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<256x784xf32>, tensor<784x512xf32>) -> tensor<256x512xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<512xf32>) -> tensor<1x512xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x512xf32>) -> tensor<256x512xf32>
    %3 = stablehlo.add %0, %2 : tensor<256x512xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<256x512xf32>
    %5 = stablehlo.maximum %3, %4 : tensor<256x512xf32>
    %6 = stablehlo.compare EQ, %3, %5, FLOAT : (tensor<256x512xf32>, tensor<256x512xf32>) -> tensor<256x512xi1>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<256x512xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<256x512xf32>
    %9 = stablehlo.select %6, %7, %8 : tensor<256x512xi1>, tensor<256x512xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<256x512xf32>
    %11 = stablehlo.compare EQ, %10, %5, FLOAT : (tensor<256x512xf32>, tensor<256x512xf32>) -> tensor<256x512xi1>
    %cst_3 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<256x512xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<256x512xf32>
    %14 = stablehlo.select %11, %12, %13 : tensor<256x512xi1>, tensor<256x512xf32>
    %15 = stablehlo.divide %9, %14 : tensor<256x512xf32>
    %16 = stablehlo.dot_general %5, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<256x512xf32>, tensor<512x10xf32>) -> tensor<256x10xf32>
    %17 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<10xf32>) -> tensor<1x10xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<1x10xf32>) -> tensor<256x10xf32>
    %19 = stablehlo.add %16, %18 : tensor<256x10xf32>
    %20:3 = call @log_softmax(%19) : (tensor<256x10xf32>) -> (tensor<256x10xf32>, tensor<256x10xf32>, tensor<256x1xf32>)
    %21 = call @_one_hot(%arg9) : (tensor<256xi32>) -> tensor<256x10xf32>
    %22 = stablehlo.multiply %20#0, %21 : tensor<256x10xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %23 = stablehlo.reduce(%22 init: %cst_5) applies stablehlo.add across dimensions = [1] : (tensor<256x10xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %24 = stablehlo.reduce(%23 init: %cst_6) applies stablehlo.add across dimensions = [0] : (tensor<256xf32>, tensor<f32>) -> tensor<f32>
    %cst_7 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %25 = stablehlo.divide %24, %cst_7 : tensor<f32>
    %26 = stablehlo.negate %25 : tensor<f32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %27 = stablehlo.negate %cst_8 : tensor<f32>
    %cst_9 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %28 = stablehlo.divide %27, %cst_9 : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0] : (tensor<256xf32>) -> tensor<256x10xf32>
    %31 = stablehlo.multiply %30, %21 : tensor<256x10xf32>
    %32 = call @log_softmax_0(%20#1, %20#2, %31) : (tensor<256x10xf32>, tensor<256x1xf32>, tensor<256x10xf32>) -> tensor<256x10xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %33 = stablehlo.reduce(%32 init: %cst_10) applies stablehlo.add across dimensions = [0] : (tensor<256x10xf32>, tensor<f32>) -> tensor<10xf32>
    %34 = stablehlo.reshape %33 : (tensor<10xf32>) -> tensor<1x10xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %35 = stablehlo.reduce(%34 init: %cst_11) applies stablehlo.add across dimensions = [0] : (tensor<1x10xf32>, tensor<f32>) -> tensor<10xf32>
    %36 = stablehlo.dot_general %32, %5, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<256x10xf32>, tensor<256x512xf32>) -> tensor<10x512xf32>
    %37 = stablehlo.transpose %36, dims = [1, 0] : (tensor<10x512xf32>) -> tensor<512x10xf32>
    %38 = stablehlo.dot_general %32, %arg3, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<256x10xf32>, tensor<512x10xf32>) -> tensor<256x512xf32>
    %39 = stablehlo.multiply %38, %15 : tensor<256x512xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %40 = stablehlo.reduce(%39 init: %cst_12) applies stablehlo.add across dimensions = [0] : (tensor<256x512xf32>, tensor<f32>) -> tensor<512xf32>
    %41 = stablehlo.reshape %40 : (tensor<512xf32>) -> tensor<1x512xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %42 = stablehlo.reduce(%41 init: %cst_13) applies stablehlo.add across dimensions = [0] : (tensor<1x512xf32>, tensor<f32>) -> tensor<512xf32>
    %43 = stablehlo.dot_general %39, %arg8, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<256x512xf32>, tensor<256x784xf32>) -> tensor<512x784xf32>
    %44 = stablehlo.transpose %43, dims = [1, 0] : (tensor<512x784xf32>) -> tensor<784x512xf32>
    %cst_14 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %46 = stablehlo.multiply %45, %arg4 : tensor<512xf32>
    %47 = stablehlo.add %46, %42 : tensor<512xf32>
    %cst_15 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<10xf32>
    %49 = stablehlo.multiply %48, %arg5 : tensor<10xf32>
    %50 = stablehlo.add %49, %35 : tensor<10xf32>
    %cst_16 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<784x512xf32>
    %52 = stablehlo.multiply %51, %arg6 : tensor<784x512xf32>
    %53 = stablehlo.add %52, %44 : tensor<784x512xf32>
    %cst_17 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %54 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<512x10xf32>
    %55 = stablehlo.multiply %54, %arg7 : tensor<512x10xf32>
    %56 = stablehlo.add %55, %37 : tensor<512x10xf32>
    %57 = stablehlo.broadcast_in_dim %arg10, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %58 = stablehlo.multiply %57, %47 : tensor<512xf32>
    %59 = stablehlo.subtract %arg0, %58 : tensor<512xf32>
    %60 = stablehlo.broadcast_in_dim %arg10, dims = [] : (tensor<f32>) -> tensor<10xf32>
    %61 = stablehlo.multiply %60, %50 : tensor<10xf32>
    %62 = stablehlo.subtract %arg1, %61 : tensor<10xf32>
    %63 = stablehlo.broadcast_in_dim %arg10, dims = [] : (tensor<f32>) -> tensor<784x512xf32>
    %64 = stablehlo.multiply %63, %53 : tensor<784x512xf32>
    %65 = stablehlo.subtract %arg2, %64 : tensor<784x512xf32>
    %66 = stablehlo.broadcast_in_dim %arg10, dims = [] : (tensor<f32>) -> tensor<512x10xf32>
    %67 = stablehlo.multiply %66, %56 : tensor<512x10xf32>
    %68 = stablehlo.subtract %arg3, %67 : tensor<512x10xf32>
    return %59, %62, %65, %68, %47, %50, %53, %56, %26 : tensor<512xf32>, tensor<10xf32>, tensor<784x512xf32>, tensor<512x10xf32>, tensor<512xf32>, tensor<10xf32>, tensor<784x512xf32>, tensor<512x10xf32>, tensor<f32>
  }
  func.func private @log_softmax(%arg0: tensor<256x10xf32>) -> (tensor<256x10xf32>, tensor<256x10xf32>, tensor<256x1xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<256x10xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<256xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<256xf32>) -> tensor<256x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<256x1xf32>) -> tensor<256x10xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<256x10xf32>
    %6 = stablehlo.exponential %5 : tensor<256x10xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<256x10xf32>, tensor<f32>) -> tensor<256xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<256xf32>) -> tensor<256x1xf32>
    %9 = stablehlo.log %8 : tensor<256x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<256x1xf32>) -> tensor<256x10xf32>
    %11 = stablehlo.subtract %5, %10 : tensor<256x10xf32>
    return %11, %6, %8 : tensor<256x10xf32>, tensor<256x10xf32>, tensor<256x1xf32>
  }
  func.func private @_one_hot(%arg0: tensor<256xi32>) -> tensor<256x10xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<256xi32>) -> tensor<256x1xi32>
    %1 = stablehlo.iota dim = 1 : tensor<1x10xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<256x1xi32>) -> tensor<256x10xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x10xi32>) -> tensor<256x10xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<256x10xi32>, tensor<256x10xi32>) -> tensor<256x10xi1>
    %5 = stablehlo.convert %4 : (tensor<256x10xi1>) -> tensor<256x10xf32>
    return %5 : tensor<256x10xf32>
  }
  func.func private @log_softmax_0(%arg0: tensor<256x10xf32>, %arg1: tensor<256x1xf32>, %arg2: tensor<256x10xf32>) -> tensor<256x10xf32> {
    %0 = stablehlo.negate %arg2 : tensor<256x10xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<256x10xf32>, tensor<f32>) -> tensor<256xf32>
    %2 = stablehlo.reshape %1 : (tensor<256xf32>) -> tensor<256x1xf32>
    %3 = stablehlo.divide %2, %arg1 : tensor<256x1xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<256x1xf32>, tensor<f32>) -> tensor<256xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<256xf32>) -> tensor<256x10xf32>
    %6 = stablehlo.multiply %5, %arg0 : tensor<256x10xf32>
    %7 = stablehlo.add %arg2, %6 : tensor<256x10xf32>
    return %7 : tensor<256x10xf32>
  }
}
