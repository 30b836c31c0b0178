module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<12x3072x768xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<12x768xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<12x768xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<12x768x768xf32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<12x768x2304xf32> {tf.aliasing_output = 4 : i32}, %arg5: tensor<12x768x3072xf32> {tf.aliasing_output = 5 : i32}, %arg6: tensor<50304x768xf32> {tf.aliasing_output = 6 : i32}, %arg7: tensor<768xf32> {tf.aliasing_output = 7 : i32}, %arg8: tensor<1024x768xf32> {tf.aliasing_output = 8 : i32}, %arg9: tensor<12x3072x768xf32> {tf.aliasing_output = 9 : i32}, %arg10: tensor<12x768xf32> {tf.aliasing_output = 10 : i32}, %arg11: tensor<12x768xf32> {tf.aliasing_output = 11 : i32}, %arg12: tensor<12x768x768xf32> {tf.aliasing_output = 12 : i32}, %arg13: tensor<12x768x2304xf32> {tf.aliasing_output = 13 : i32}, %arg14: tensor<12x768x3072xf32> {tf.aliasing_output = 14 : i32}, %arg15: tensor<50304x768xf32> {tf.aliasing_output = 15 : i32}, %arg16: tensor<768xf32> {tf.aliasing_output = 16 : i32}, %arg17: tensor<1024x768xf32> {tf.aliasing_output = 17 : i32}, %arg18: tensor<12x3072x768xf32> {tf.aliasing_output = 18 : i32}, %arg19: tensor<12x768xf32> {tf.aliasing_output = 19 : i32}, %arg20: tensor<12x768xf32> {tf.aliasing_output = 20 : i32}, %arg21: tensor<12x768x768xf32> {tf.aliasing_output = 21 : i32}, %arg22: tensor<12x768x2304xf32> {tf.aliasing_output = 22 : i32}, %arg23: tensor<12x768x3072xf32> {tf.aliasing_output = 23 : i32}, %arg24: tensor<50304x768xf32> {tf.aliasing_output = 24 : i32}, %arg25: tensor<768xf32> {tf.aliasing_output = 25 : i32}, %arg26: tensor<1024x768xf32> {tf.aliasing_output = 26 : i32}, %arg27: tensor<f32>, %arg28: tensor<4x1025xi32>) -> (tensor<12x3072x768xf32> {jax.result_info = "result[0]['blocks']['down']"}, tensor<12x768xf32> {jax.result_info = "result[0]['blocks']['norm1']"}, tensor<12x768xf32> {jax.result_info = "result[0]['blocks']['norm2']"}, tensor<12x768x768xf32> {jax.result_info = "result[0]['blocks']['out']"}, tensor<12x768x2304xf32> {jax.result_info = "result[0]['blocks']['qkv']"}, tensor<12x768x3072xf32> {jax.result_info = "result[0]['blocks']['up']"}, tensor<50304x768xf32> {jax.result_info = "result[0]['embed']"}, tensor<768xf32> {jax.result_info = "result[0]['norm']"}, tensor<1024x768xf32> {jax.result_info = "result[0]['place']"}, tensor<12x3072x768xf32> {jax.result_info = "result[1]['blocks']['down']"}, tensor<12x768xf32> {jax.result_info = "result[1]['blocks']['norm1']"}, tensor<12x768xf32> {jax.result_info = "result[1]['blocks']['norm2']"}, tensor<12x768x768xf32> {jax.result_info = "result[1]['blocks']['out']"}, tensor<12x768x2304xf32> {jax.result_info = "result[1]['blocks']['qkv']"}, tensor<12x768x3072xf32> {jax.result_info = "result[1]['blocks']['up']"}, tensor<50304x768xf32> {jax.result_info = "result[1]['embed']"}, tensor<768xf32> {jax.result_info = "result[1]['norm']"}, tensor<1024x768xf32> {jax.result_info = "result[1]['place']"}, tensor<12x3072x768xf32> {jax.result_info = "result[2]['blocks']['down']"}, tensor<12x768xf32> {jax.result_info = "result[2]['blocks']['norm1']"}, tensor<12x768xf32> {jax.result_info = "result[2]['blocks']['norm2']"}, tensor<12x768x768xf32> {jax.result_info = "result[2]['blocks']['out']"}, tensor<12x768x2304xf32> {jax.result_info = "result[2]['blocks']['qkv']"}, tensor<12x768x3072xf32> {jax.result_info = "result[2]['blocks']['up']"}, tensor<50304x768xf32> {jax.result_info = "result[2]['embed']"}, tensor<768xf32> {jax.result_info = "result[2]['norm']"}, tensor<1024x768xf32> {jax.result_info = "result[2]['place']"}, tensor<f32> {jax.result_info = "result[3]"}) {
    %0 = stablehlo.slice %arg28 [0:4, 0:1024] : (tensor<4x1025xi32>) -> tensor<4x1024xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x1024xi32>
    %2 = stablehlo.compare LT, %0, %1, SIGNED : (tensor<4x1024xi32>, tensor<4x1024xi32>) -> tensor<4x1024xi1>
    %c_0 = stablehlo.constant dense<50304> : tensor<i32>
    %3 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4x1024xi32>
    %4 = stablehlo.add %0, %3 : tensor<4x1024xi32>
    %5 = stablehlo.select %2, %4, %0 : tensor<4x1024xi1>, tensor<4x1024xi32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<4x1024xi32>) -> tensor<4x1024x1xi32>
    %7 = "stablehlo.gather"(%arg6, %6) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 768>}> : (tensor<50304x768xf32>, tensor<4x1024x1xi32>) -> tensor<4x1024x768xf32>
    %8 = stablehlo.broadcast_in_dim %arg8, dims = [1, 2] : (tensor<1024x768xf32>) -> tensor<1x1024x768xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x1024x768xf32>) -> tensor<4x1024x768xf32>
    %10 = stablehlo.add %7, %9 : tensor<4x1024x768xf32>
    %11 = stablehlo.convert %10 : (tensor<4x1024x768xf32>) -> tensor<4x1024x768xbf16>
    %c_1 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i1>) -> tensor<1024x1024xi1>
    %13 = call @tril(%12) : (tensor<1024x1024xi1>) -> tensor<1024x1024xi1>
    %cst = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %14:2 = call @_where(%13, %cst) : (tensor<1024x1024xi1>, tensor<f32>) -> (tensor<4x12x1024x1024xi1>, tensor<4x12x1024x1024xf32>)
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %15 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<bf16>) -> tensor<12x4x1024x768xbf16>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %16:11 = stablehlo.while(%iterArg = %arg0, %iterArg_105 = %arg1, %iterArg_106 = %arg2, %iterArg_107 = %arg3, %iterArg_108 = %arg4, %iterArg_109 = %arg5, %iterArg_110 = %14#0, %iterArg_111 = %14#1, %iterArg_112 = %c_3, %iterArg_113 = %11, %iterArg_114 = %15) : tensor<12x3072x768xf32>, tensor<12x768xf32>, tensor<12x768xf32>, tensor<12x768x768xf32>, tensor<12x768x2304xf32>, tensor<12x768x3072xf32>, tensor<4x12x1024x1024xi1>, tensor<4x12x1024x1024xf32>, tensor<i32>, tensor<4x1024x768xbf16>, tensor<12x4x1024x768xbf16>
    cond {
      %c_115 = stablehlo.constant dense<12> : tensor<i32>
      %361 = stablehlo.compare LT, %iterArg_112, %c_115, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %361 : tensor<i1>
    } do {
      %361 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_112) : (tensor<12x3072x768xf32>, tensor<i32>) -> tensor<3072x768xf32>
      %362 = func.call @dynamic_index_in_dim_0(%iterArg_105, %iterArg_112) : (tensor<12x768xf32>, tensor<i32>) -> tensor<768xf32>
      %363 = func.call @dynamic_index_in_dim_0(%iterArg_106, %iterArg_112) : (tensor<12x768xf32>, tensor<i32>) -> tensor<768xf32>
      %364 = func.call @dynamic_index_in_dim_1(%iterArg_107, %iterArg_112) : (tensor<12x768x768xf32>, tensor<i32>) -> tensor<768x768xf32>
      %365 = func.call @dynamic_index_in_dim_2(%iterArg_108, %iterArg_112) : (tensor<12x768x2304xf32>, tensor<i32>) -> tensor<768x2304xf32>
      %366 = func.call @dynamic_index_in_dim_3(%iterArg_109, %iterArg_112) : (tensor<12x768x3072xf32>, tensor<i32>) -> tensor<768x3072xf32>
      %367:2 = func.call @closed_call(%iterArg_110, %iterArg_111, %iterArg_113, %361, %362, %363, %364, %365, %366) : (tensor<4x12x1024x1024xi1>, tensor<4x12x1024x1024xf32>, tensor<4x1024x768xbf16>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<768x2304xf32>, tensor<768x3072xf32>) -> (tensor<4x1024x768xbf16>, tensor<4x1024x768xbf16>)
      %368 = func.call @dynamic_update_index_in_dim(%iterArg_114, %367#1, %iterArg_112) : (tensor<12x4x1024x768xbf16>, tensor<4x1024x768xbf16>, tensor<i32>) -> tensor<12x4x1024x768xbf16>
      %c_115 = stablehlo.constant dense<1> : tensor<i32>
      %369 = stablehlo.add %iterArg_112, %c_115 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_105, %iterArg_106, %iterArg_107, %iterArg_108, %iterArg_109, %iterArg_110, %iterArg_111, %369, %367#0, %368 : tensor<12x3072x768xf32>, tensor<12x768xf32>, tensor<12x768xf32>, tensor<12x768x768xf32>, tensor<12x768x2304xf32>, tensor<12x768x3072xf32>, tensor<4x12x1024x1024xi1>, tensor<4x12x1024x1024xf32>, tensor<i32>, tensor<4x1024x768xbf16>, tensor<12x4x1024x768xbf16>
    }
    %17 = stablehlo.convert %16#9 : (tensor<4x1024x768xbf16>) -> tensor<4x1024x768xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %18 = stablehlo.reduce(%17 init: %cst_4) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %cst_5 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %21 = stablehlo.divide %19, %20 : tensor<4x1024x1xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<4x1024x1xf32>) -> tensor<4x1024x768xf32>
    %23 = stablehlo.subtract %17, %22 : tensor<4x1024x768xf32>
    %24 = stablehlo.multiply %23, %23 : tensor<4x1024x768xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %25 = stablehlo.reduce(%24 init: %cst_6) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %cst_7 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %28 = stablehlo.divide %26, %27 : tensor<4x1024x1xf32>
    %cst_8 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %30 = stablehlo.add %28, %29 : tensor<4x1024x1xf32>
    %31 = stablehlo.rsqrt %30 : tensor<4x1024x1xf32>
    %32 = stablehlo.divide %31, %30 : tensor<4x1024x1xf32>
    %cst_9 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %34 = stablehlo.multiply %33, %32 : tensor<4x1024x1xf32>
    %35 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<4x1024x1xf32>) -> tensor<4x1024x768xf32>
    %36 = stablehlo.multiply %23, %35 : tensor<4x1024x768xf32>
    %37 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<4x1024x768xf32>
    %39 = stablehlo.multiply %36, %38 : tensor<4x1024x768xf32>
    %40 = stablehlo.convert %39 : (tensor<4x1024x768xf32>) -> tensor<4x1024x768xbf16>
    %41 = stablehlo.transpose %arg6, dims = [1, 0] : (tensor<50304x768xf32>) -> tensor<768x50304xf32>
    %42 = stablehlo.convert %41 : (tensor<768x50304xf32>) -> tensor<768x50304xbf16>
    %43 = stablehlo.dot_general %40, %42, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x768xbf16>, tensor<768x50304xbf16>) -> tensor<4x1024x50304xbf16>
    %44 = stablehlo.convert %43 : (tensor<4x1024x50304xbf16>) -> tensor<4x1024x50304xf32>
    %45 = stablehlo.slice %arg28 [0:4, 1:1025] : (tensor<4x1025xi32>) -> tensor<4x1024xi32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [0, 1] : (tensor<4x1024xi32>) -> tensor<4x1024x1xi32>
    %47:2 = call @take_along_axis(%44, %46) : (tensor<4x1024x50304xf32>, tensor<4x1024x1xi32>) -> (tensor<4x1024x1xf32>, tensor<4x1024x1x1xi32>)
    %48 = stablehlo.reshape %47#0 : (tensor<4x1024x1xf32>) -> tensor<4x1024xf32>
    %cst_10 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %49 = stablehlo.reduce(%44 init: %cst_10) applies stablehlo.maximum across dimensions = [2] : (tensor<4x1024x50304xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %cst_11 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %50 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<4x1024xf32>
    %51 = stablehlo.maximum %50, %49 : tensor<4x1024xf32>
    %52 = stablehlo.is_finite %51 : (tensor<4x1024xf32>) -> tensor<4x1024xi1>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<4x1024xf32>
    %54 = stablehlo.select %52, %51, %53 : tensor<4x1024xi1>, tensor<4x1024xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2] : (tensor<4x1024x1xf32>) -> tensor<4x1024x50304xf32>
    %57 = stablehlo.subtract %44, %56 : tensor<4x1024x50304xf32>
    %58 = stablehlo.exponential %57 : tensor<4x1024x50304xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %59 = stablehlo.reduce(%58 init: %cst_13) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x50304xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %60 = stablehlo.abs %59 : tensor<4x1024xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %61 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<4x1024xf32>
    %62 = stablehlo.compare GE, %59, %61, FLOAT : (tensor<4x1024xf32>, tensor<4x1024xf32>) -> tensor<4x1024xi1>
    %63 = stablehlo.log %60 : tensor<4x1024xf32>
    %64 = stablehlo.add %63, %54 : tensor<4x1024xf32>
    %65 = stablehlo.subtract %64, %48 : tensor<4x1024xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %66 = stablehlo.reduce(%65 init: %cst_15) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x1024xf32>, tensor<f32>) -> tensor<f32>
    %cst_16 = stablehlo.constant dense<4.096000e+03> : tensor<f32>
    %67 = stablehlo.divide %66, %cst_16 : tensor<f32>
    %cst_17 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_18 = stablehlo.constant dense<4.096000e+03> : tensor<f32>
    %68 = stablehlo.divide %cst_17, %cst_18 : tensor<f32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [] : (tensor<f32>) -> tensor<4x1024xf32>
    %70 = stablehlo.negate %69 : tensor<4x1024xf32>
    %71 = stablehlo.divide %69, %60 : tensor<4x1024xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %72 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<4x1024xf32>
    %73 = stablehlo.select %62, %72, %71 : tensor<4x1024xi1>, tensor<4x1024xf32>
    %74 = stablehlo.select %62, %71, %72 : tensor<4x1024xi1>, tensor<4x1024xf32>
    %75 = stablehlo.negate %73 : tensor<4x1024xf32>
    %76 = stablehlo.add %74, %75 : tensor<4x1024xf32>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x50304xf32>
    %78 = stablehlo.multiply %77, %58 : tensor<4x1024x50304xf32>
    %79 = stablehlo.broadcast_in_dim %70, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %80 = call @take_along_axis_5(%47#1, %79) : (tensor<4x1024x1x1xi32>, tensor<4x1024x1xf32>) -> tensor<4x1024x50304xf32>
    %81 = stablehlo.add %78, %80 : tensor<4x1024x50304xf32>
    %82 = stablehlo.convert %81 : (tensor<4x1024x50304xf32>) -> tensor<4x1024x50304xbf16>
    %83 = stablehlo.dot_general %82, %40, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x50304xbf16>, tensor<4x1024x768xbf16>) -> tensor<50304x768xbf16>
    %84 = stablehlo.transpose %83, dims = [1, 0] : (tensor<50304x768xbf16>) -> tensor<768x50304xbf16>
    %85 = stablehlo.dot_general %82, %42, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x50304xbf16>, tensor<768x50304xbf16>) -> tensor<4x1024x768xbf16>
    %86 = stablehlo.convert %84 : (tensor<768x50304xbf16>) -> tensor<768x50304xf32>
    %87 = stablehlo.transpose %86, dims = [1, 0] : (tensor<768x50304xf32>) -> tensor<50304x768xf32>
    %88 = stablehlo.convert %85 : (tensor<4x1024x768xbf16>) -> tensor<4x1024x768xf32>
    %89 = stablehlo.multiply %36, %88 : tensor<4x1024x768xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %90 = stablehlo.reduce(%89 init: %cst_20) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<768xf32>
    %91 = stablehlo.reshape %90 : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %92 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<4x1024x768xf32>
    %93 = stablehlo.multiply %88, %92 : tensor<4x1024x768xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %94 = stablehlo.reduce(%91 init: %cst_21) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x768xf32>, tensor<f32>) -> tensor<768xf32>
    %95 = stablehlo.multiply %23, %93 : tensor<4x1024x768xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %96 = stablehlo.reduce(%95 init: %cst_22) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %97 = stablehlo.reshape %96 : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %98 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<4x1024x1xf32>) -> tensor<4x1024x768xf32>
    %99 = stablehlo.multiply %93, %98 : tensor<4x1024x768xf32>
    %100 = stablehlo.multiply %97, %34 : tensor<4x1024x1xf32>
    %cst_23 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %101 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %102 = stablehlo.divide %100, %101 : tensor<4x1024x1xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %103 = stablehlo.reduce(%102 init: %cst_24) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x1xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x768xf32>
    %105 = stablehlo.multiply %23, %104 : tensor<4x1024x768xf32>
    %106 = stablehlo.add %99, %105 : tensor<4x1024x768xf32>
    %107 = stablehlo.multiply %104, %23 : tensor<4x1024x768xf32>
    %108 = stablehlo.add %106, %107 : tensor<4x1024x768xf32>
    %109 = stablehlo.negate %108 : tensor<4x1024x768xf32>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %110 = stablehlo.reduce(%109 init: %cst_25) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %111 = stablehlo.reshape %110 : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %cst_26 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %112 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %113 = stablehlo.divide %111, %112 : tensor<4x1024x1xf32>
    %cst_27 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %114 = stablehlo.reduce(%113 init: %cst_27) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x1xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %115 = stablehlo.broadcast_in_dim %114, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x768xf32>
    %116 = stablehlo.add %108, %115 : tensor<4x1024x768xf32>
    %117 = stablehlo.convert %116 : (tensor<4x1024x768xf32>) -> tensor<4x1024x768xbf16>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %118 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<12x3072x768xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %119 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %120 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %121 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<12x768x768xf32>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %122 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<12x768x2304xf32>
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %123 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<12x768x3072xf32>
    %c_34 = stablehlo.constant dense<0> : tensor<i32>
    %124:15 = stablehlo.while(%iterArg = %16#10, %iterArg_105 = %arg0, %iterArg_106 = %arg1, %iterArg_107 = %arg2, %iterArg_108 = %arg3, %iterArg_109 = %arg4, %iterArg_110 = %arg5, %iterArg_111 = %c_34, %iterArg_112 = %117, %iterArg_113 = %118, %iterArg_114 = %119, %iterArg_115 = %120, %iterArg_116 = %121, %iterArg_117 = %122, %iterArg_118 = %123) : tensor<12x4x1024x768xbf16>, tensor<12x3072x768xf32>, tensor<12x768xf32>, tensor<12x768xf32>, tensor<12x768x768xf32>, tensor<12x768x2304xf32>, tensor<12x768x3072xf32>, tensor<i32>, tensor<4x1024x768xbf16>, tensor<12x3072x768xf32>, tensor<12x768xf32>, tensor<12x768xf32>, tensor<12x768x768xf32>, tensor<12x768x2304xf32>, tensor<12x768x3072xf32>
    cond {
      %c_119 = stablehlo.constant dense<12> : tensor<i32>
      %361 = stablehlo.compare LT, %iterArg_111, %c_119, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %361 : tensor<i1>
    } do {
      %c_119 = stablehlo.constant dense<12> : tensor<i32>
      %361 = stablehlo.subtract %c_119, %iterArg_111 : tensor<i32>
      %c_120 = stablehlo.constant dense<1> : tensor<i32>
      %362 = stablehlo.subtract %361, %c_120 : tensor<i32>
      %363 = func.call @dynamic_index_in_dim_6(%iterArg, %362) : (tensor<12x4x1024x768xbf16>, tensor<i32>) -> tensor<4x1024x768xbf16>
      %364 = func.call @dynamic_index_in_dim(%iterArg_105, %362) : (tensor<12x3072x768xf32>, tensor<i32>) -> tensor<3072x768xf32>
      %365 = func.call @dynamic_index_in_dim_0(%iterArg_106, %362) : (tensor<12x768xf32>, tensor<i32>) -> tensor<768xf32>
      %366 = func.call @dynamic_index_in_dim_0(%iterArg_107, %362) : (tensor<12x768xf32>, tensor<i32>) -> tensor<768xf32>
      %367 = func.call @dynamic_index_in_dim_1(%iterArg_108, %362) : (tensor<12x768x768xf32>, tensor<i32>) -> tensor<768x768xf32>
      %368 = func.call @dynamic_index_in_dim_2(%iterArg_109, %362) : (tensor<12x768x2304xf32>, tensor<i32>) -> tensor<768x2304xf32>
      %369 = func.call @dynamic_index_in_dim_3(%iterArg_110, %362) : (tensor<12x768x3072xf32>, tensor<i32>) -> tensor<768x3072xf32>
      %370:7 = func.call @closed_call_7(%iterArg_112, %363, %364, %365, %366, %367, %368, %369) : (tensor<4x1024x768xbf16>, tensor<4x1024x768xbf16>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<768x2304xf32>, tensor<768x3072xf32>) -> (tensor<4x1024x768xbf16>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<768x2304xf32>, tensor<768x3072xf32>)
      %371 = func.call @dynamic_update_index_in_dim_11(%iterArg_113, %370#1, %362) : (tensor<12x3072x768xf32>, tensor<3072x768xf32>, tensor<i32>) -> tensor<12x3072x768xf32>
      %372 = func.call @dynamic_update_index_in_dim_12(%iterArg_114, %370#2, %362) : (tensor<12x768xf32>, tensor<768xf32>, tensor<i32>) -> tensor<12x768xf32>
      %373 = func.call @dynamic_update_index_in_dim_12(%iterArg_115, %370#3, %362) : (tensor<12x768xf32>, tensor<768xf32>, tensor<i32>) -> tensor<12x768xf32>
      %374 = func.call @dynamic_update_index_in_dim_13(%iterArg_116, %370#4, %362) : (tensor<12x768x768xf32>, tensor<768x768xf32>, tensor<i32>) -> tensor<12x768x768xf32>
      %375 = func.call @dynamic_update_index_in_dim_14(%iterArg_117, %370#5, %362) : (tensor<12x768x2304xf32>, tensor<768x2304xf32>, tensor<i32>) -> tensor<12x768x2304xf32>
      %376 = func.call @dynamic_update_index_in_dim_15(%iterArg_118, %370#6, %362) : (tensor<12x768x3072xf32>, tensor<768x3072xf32>, tensor<i32>) -> tensor<12x768x3072xf32>
      %c_121 = stablehlo.constant dense<1> : tensor<i32>
      %377 = stablehlo.add %iterArg_111, %c_121 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_105, %iterArg_106, %iterArg_107, %iterArg_108, %iterArg_109, %iterArg_110, %377, %370#0, %371, %372, %373, %374, %375, %376 : tensor<12x4x1024x768xbf16>, tensor<12x3072x768xf32>, tensor<12x768xf32>, tensor<12x768xf32>, tensor<12x768x768xf32>, tensor<12x768x2304xf32>, tensor<12x768x3072xf32>, tensor<i32>, tensor<4x1024x768xbf16>, tensor<12x3072x768xf32>, tensor<12x768xf32>, tensor<12x768xf32>, tensor<12x768x768xf32>, tensor<12x768x2304xf32>, tensor<12x768x3072xf32>
    }
    %125 = stablehlo.convert %124#8 : (tensor<4x1024x768xbf16>) -> tensor<4x1024x768xf32>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %126 = stablehlo.reduce(%125 init: %cst_35) applies stablehlo.add across dimensions = [0] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<1024x768xf32>
    %127 = stablehlo.reshape %126 : (tensor<1024x768xf32>) -> tensor<1x1024x768xf32>
    %cst_36 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %128 = stablehlo.reduce(%127 init: %cst_36) applies stablehlo.add across dimensions = [0] : (tensor<1x1024x768xf32>, tensor<f32>) -> tensor<1024x768xf32>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %129 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<50304x768xf32>
    %130 = "stablehlo.scatter"(%129, %6, %125) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg29: tensor<f32>, %arg30: tensor<f32>):
      %361 = stablehlo.add %arg29, %arg30 : tensor<f32>
      stablehlo.return %361 : tensor<f32>
    }) : (tensor<50304x768xf32>, tensor<4x1024x1xi32>, tensor<4x1024x768xf32>) -> tensor<50304x768xf32>
    %131 = stablehlo.add %87, %130 : tensor<50304x768xf32>
    %cst_38 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %132 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<12x3072x768xf32>
    %133 = stablehlo.multiply %132, %arg9 : tensor<12x3072x768xf32>
    %cst_39 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %134 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<12x3072x768xf32>
    %135 = stablehlo.multiply %134, %124#9 : tensor<12x3072x768xf32>
    %136 = stablehlo.add %133, %135 : tensor<12x3072x768xf32>
    %cst_40 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %137 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %138 = stablehlo.multiply %137, %arg10 : tensor<12x768xf32>
    %cst_41 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %139 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %140 = stablehlo.multiply %139, %124#10 : tensor<12x768xf32>
    %141 = stablehlo.add %138, %140 : tensor<12x768xf32>
    %cst_42 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %142 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %143 = stablehlo.multiply %142, %arg11 : tensor<12x768xf32>
    %cst_43 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %144 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %145 = stablehlo.multiply %144, %124#11 : tensor<12x768xf32>
    %146 = stablehlo.add %143, %145 : tensor<12x768xf32>
    %cst_44 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %147 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f32>) -> tensor<12x768x768xf32>
    %148 = stablehlo.multiply %147, %arg12 : tensor<12x768x768xf32>
    %cst_45 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %149 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<12x768x768xf32>
    %150 = stablehlo.multiply %149, %124#12 : tensor<12x768x768xf32>
    %151 = stablehlo.add %148, %150 : tensor<12x768x768xf32>
    %cst_46 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %152 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<12x768x2304xf32>
    %153 = stablehlo.multiply %152, %arg13 : tensor<12x768x2304xf32>
    %cst_47 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %154 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f32>) -> tensor<12x768x2304xf32>
    %155 = stablehlo.multiply %154, %124#13 : tensor<12x768x2304xf32>
    %156 = stablehlo.add %153, %155 : tensor<12x768x2304xf32>
    %cst_48 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %157 = stablehlo.broadcast_in_dim %cst_48, dims = [] : (tensor<f32>) -> tensor<12x768x3072xf32>
    %158 = stablehlo.multiply %157, %arg14 : tensor<12x768x3072xf32>
    %cst_49 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %159 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<12x768x3072xf32>
    %160 = stablehlo.multiply %159, %124#14 : tensor<12x768x3072xf32>
    %161 = stablehlo.add %158, %160 : tensor<12x768x3072xf32>
    %cst_50 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %162 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f32>) -> tensor<50304x768xf32>
    %163 = stablehlo.multiply %162, %arg15 : tensor<50304x768xf32>
    %cst_51 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %164 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<50304x768xf32>
    %165 = stablehlo.multiply %164, %131 : tensor<50304x768xf32>
    %166 = stablehlo.add %163, %165 : tensor<50304x768xf32>
    %cst_52 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %167 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<f32>) -> tensor<768xf32>
    %168 = stablehlo.multiply %167, %arg16 : tensor<768xf32>
    %cst_53 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %169 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<768xf32>
    %170 = stablehlo.multiply %169, %94 : tensor<768xf32>
    %171 = stablehlo.add %168, %170 : tensor<768xf32>
    %cst_54 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %172 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<1024x768xf32>
    %173 = stablehlo.multiply %172, %arg17 : tensor<1024x768xf32>
    %cst_55 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %174 = stablehlo.broadcast_in_dim %cst_55, dims = [] : (tensor<f32>) -> tensor<1024x768xf32>
    %175 = stablehlo.multiply %174, %128 : tensor<1024x768xf32>
    %176 = stablehlo.add %173, %175 : tensor<1024x768xf32>
    %cst_56 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %177 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f32>) -> tensor<12x3072x768xf32>
    %178 = stablehlo.multiply %177, %arg18 : tensor<12x3072x768xf32>
    %cst_57 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %179 = stablehlo.broadcast_in_dim %cst_57, dims = [] : (tensor<f32>) -> tensor<12x3072x768xf32>
    %180 = stablehlo.multiply %179, %124#9 : tensor<12x3072x768xf32>
    %181 = stablehlo.multiply %180, %124#9 : tensor<12x3072x768xf32>
    %182 = stablehlo.add %178, %181 : tensor<12x3072x768xf32>
    %cst_58 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %183 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %184 = stablehlo.multiply %183, %arg19 : tensor<12x768xf32>
    %cst_59 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %185 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %186 = stablehlo.multiply %185, %124#10 : tensor<12x768xf32>
    %187 = stablehlo.multiply %186, %124#10 : tensor<12x768xf32>
    %188 = stablehlo.add %184, %187 : tensor<12x768xf32>
    %cst_60 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %189 = stablehlo.broadcast_in_dim %cst_60, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %190 = stablehlo.multiply %189, %arg20 : tensor<12x768xf32>
    %cst_61 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %191 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %192 = stablehlo.multiply %191, %124#11 : tensor<12x768xf32>
    %193 = stablehlo.multiply %192, %124#11 : tensor<12x768xf32>
    %194 = stablehlo.add %190, %193 : tensor<12x768xf32>
    %cst_62 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %195 = stablehlo.broadcast_in_dim %cst_62, dims = [] : (tensor<f32>) -> tensor<12x768x768xf32>
    %196 = stablehlo.multiply %195, %arg21 : tensor<12x768x768xf32>
    %cst_63 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %197 = stablehlo.broadcast_in_dim %cst_63, dims = [] : (tensor<f32>) -> tensor<12x768x768xf32>
    %198 = stablehlo.multiply %197, %124#12 : tensor<12x768x768xf32>
    %199 = stablehlo.multiply %198, %124#12 : tensor<12x768x768xf32>
    %200 = stablehlo.add %196, %199 : tensor<12x768x768xf32>
    %cst_64 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %201 = stablehlo.broadcast_in_dim %cst_64, dims = [] : (tensor<f32>) -> tensor<12x768x2304xf32>
    %202 = stablehlo.multiply %201, %arg22 : tensor<12x768x2304xf32>
    %cst_65 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %203 = stablehlo.broadcast_in_dim %cst_65, dims = [] : (tensor<f32>) -> tensor<12x768x2304xf32>
    %204 = stablehlo.multiply %203, %124#13 : tensor<12x768x2304xf32>
    %205 = stablehlo.multiply %204, %124#13 : tensor<12x768x2304xf32>
    %206 = stablehlo.add %202, %205 : tensor<12x768x2304xf32>
    %cst_66 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %207 = stablehlo.broadcast_in_dim %cst_66, dims = [] : (tensor<f32>) -> tensor<12x768x3072xf32>
    %208 = stablehlo.multiply %207, %arg23 : tensor<12x768x3072xf32>
    %cst_67 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %209 = stablehlo.broadcast_in_dim %cst_67, dims = [] : (tensor<f32>) -> tensor<12x768x3072xf32>
    %210 = stablehlo.multiply %209, %124#14 : tensor<12x768x3072xf32>
    %211 = stablehlo.multiply %210, %124#14 : tensor<12x768x3072xf32>
    %212 = stablehlo.add %208, %211 : tensor<12x768x3072xf32>
    %cst_68 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %213 = stablehlo.broadcast_in_dim %cst_68, dims = [] : (tensor<f32>) -> tensor<50304x768xf32>
    %214 = stablehlo.multiply %213, %arg24 : tensor<50304x768xf32>
    %cst_69 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %215 = stablehlo.broadcast_in_dim %cst_69, dims = [] : (tensor<f32>) -> tensor<50304x768xf32>
    %216 = stablehlo.multiply %215, %131 : tensor<50304x768xf32>
    %217 = stablehlo.multiply %216, %131 : tensor<50304x768xf32>
    %218 = stablehlo.add %214, %217 : tensor<50304x768xf32>
    %cst_70 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %219 = stablehlo.broadcast_in_dim %cst_70, dims = [] : (tensor<f32>) -> tensor<768xf32>
    %220 = stablehlo.multiply %219, %arg25 : tensor<768xf32>
    %cst_71 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %221 = stablehlo.broadcast_in_dim %cst_71, dims = [] : (tensor<f32>) -> tensor<768xf32>
    %222 = stablehlo.multiply %221, %94 : tensor<768xf32>
    %223 = stablehlo.multiply %222, %94 : tensor<768xf32>
    %224 = stablehlo.add %220, %223 : tensor<768xf32>
    %cst_72 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %225 = stablehlo.broadcast_in_dim %cst_72, dims = [] : (tensor<f32>) -> tensor<1024x768xf32>
    %226 = stablehlo.multiply %225, %arg26 : tensor<1024x768xf32>
    %cst_73 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %227 = stablehlo.broadcast_in_dim %cst_73, dims = [] : (tensor<f32>) -> tensor<1024x768xf32>
    %228 = stablehlo.multiply %227, %128 : tensor<1024x768xf32>
    %229 = stablehlo.multiply %228, %128 : tensor<1024x768xf32>
    %230 = stablehlo.add %226, %229 : tensor<1024x768xf32>
    %cst_74 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %231 = stablehlo.power %cst_74, %arg27 : tensor<f32>
    %cst_75 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %232 = stablehlo.subtract %cst_75, %231 : tensor<f32>
    %cst_76 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %233 = stablehlo.power %cst_76, %arg27 : tensor<f32>
    %cst_77 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %234 = stablehlo.subtract %cst_77, %233 : tensor<f32>
    %235 = stablehlo.broadcast_in_dim %232, dims = [] : (tensor<f32>) -> tensor<12x3072x768xf32>
    %236 = stablehlo.divide %136, %235 : tensor<12x3072x768xf32>
    %237 = stablehlo.broadcast_in_dim %234, dims = [] : (tensor<f32>) -> tensor<12x3072x768xf32>
    %238 = stablehlo.divide %182, %237 : tensor<12x3072x768xf32>
    %239 = stablehlo.sqrt %238 : tensor<12x3072x768xf32>
    %cst_78 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %240 = stablehlo.broadcast_in_dim %cst_78, dims = [] : (tensor<f32>) -> tensor<12x3072x768xf32>
    %241 = stablehlo.add %239, %240 : tensor<12x3072x768xf32>
    %242 = stablehlo.divide %236, %241 : tensor<12x3072x768xf32>
    %cst_79 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %243 = stablehlo.broadcast_in_dim %cst_79, dims = [] : (tensor<f32>) -> tensor<12x3072x768xf32>
    %244 = stablehlo.multiply %243, %arg0 : tensor<12x3072x768xf32>
    %245 = stablehlo.add %242, %244 : tensor<12x3072x768xf32>
    %cst_80 = stablehlo.constant dense<3.000000e-04> : tensor<f32>
    %246 = stablehlo.broadcast_in_dim %cst_80, dims = [] : (tensor<f32>) -> tensor<12x3072x768xf32>
    %247 = stablehlo.multiply %246, %245 : tensor<12x3072x768xf32>
    %248 = stablehlo.subtract %arg0, %247 : tensor<12x3072x768xf32>
    %249 = stablehlo.broadcast_in_dim %232, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %250 = stablehlo.divide %141, %249 : tensor<12x768xf32>
    %251 = stablehlo.broadcast_in_dim %234, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %252 = stablehlo.divide %188, %251 : tensor<12x768xf32>
    %253 = stablehlo.sqrt %252 : tensor<12x768xf32>
    %cst_81 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %254 = stablehlo.broadcast_in_dim %cst_81, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %255 = stablehlo.add %253, %254 : tensor<12x768xf32>
    %256 = stablehlo.divide %250, %255 : tensor<12x768xf32>
    %cst_82 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %257 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %258 = stablehlo.multiply %257, %arg1 : tensor<12x768xf32>
    %259 = stablehlo.add %256, %258 : tensor<12x768xf32>
    %cst_83 = stablehlo.constant dense<3.000000e-04> : tensor<f32>
    %260 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %261 = stablehlo.multiply %260, %259 : tensor<12x768xf32>
    %262 = stablehlo.subtract %arg1, %261 : tensor<12x768xf32>
    %263 = stablehlo.broadcast_in_dim %232, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %264 = stablehlo.divide %146, %263 : tensor<12x768xf32>
    %265 = stablehlo.broadcast_in_dim %234, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %266 = stablehlo.divide %194, %265 : tensor<12x768xf32>
    %267 = stablehlo.sqrt %266 : tensor<12x768xf32>
    %cst_84 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %268 = stablehlo.broadcast_in_dim %cst_84, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %269 = stablehlo.add %267, %268 : tensor<12x768xf32>
    %270 = stablehlo.divide %264, %269 : tensor<12x768xf32>
    %cst_85 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %271 = stablehlo.broadcast_in_dim %cst_85, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %272 = stablehlo.multiply %271, %arg2 : tensor<12x768xf32>
    %273 = stablehlo.add %270, %272 : tensor<12x768xf32>
    %cst_86 = stablehlo.constant dense<3.000000e-04> : tensor<f32>
    %274 = stablehlo.broadcast_in_dim %cst_86, dims = [] : (tensor<f32>) -> tensor<12x768xf32>
    %275 = stablehlo.multiply %274, %273 : tensor<12x768xf32>
    %276 = stablehlo.subtract %arg2, %275 : tensor<12x768xf32>
    %277 = stablehlo.broadcast_in_dim %232, dims = [] : (tensor<f32>) -> tensor<12x768x768xf32>
    %278 = stablehlo.divide %151, %277 : tensor<12x768x768xf32>
    %279 = stablehlo.broadcast_in_dim %234, dims = [] : (tensor<f32>) -> tensor<12x768x768xf32>
    %280 = stablehlo.divide %200, %279 : tensor<12x768x768xf32>
    %281 = stablehlo.sqrt %280 : tensor<12x768x768xf32>
    %cst_87 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %282 = stablehlo.broadcast_in_dim %cst_87, dims = [] : (tensor<f32>) -> tensor<12x768x768xf32>
    %283 = stablehlo.add %281, %282 : tensor<12x768x768xf32>
    %284 = stablehlo.divide %278, %283 : tensor<12x768x768xf32>
    %cst_88 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %285 = stablehlo.broadcast_in_dim %cst_88, dims = [] : (tensor<f32>) -> tensor<12x768x768xf32>
    %286 = stablehlo.multiply %285, %arg3 : tensor<12x768x768xf32>
    %287 = stablehlo.add %284, %286 : tensor<12x768x768xf32>
    %cst_89 = stablehlo.constant dense<3.000000e-04> : tensor<f32>
    %288 = stablehlo.broadcast_in_dim %cst_89, dims = [] : (tensor<f32>) -> tensor<12x768x768xf32>
    %289 = stablehlo.multiply %288, %287 : tensor<12x768x768xf32>
    %290 = stablehlo.subtract %arg3, %289 : tensor<12x768x768xf32>
    %291 = stablehlo.broadcast_in_dim %232, dims = [] : (tensor<f32>) -> tensor<12x768x2304xf32>
    %292 = stablehlo.divide %156, %291 : tensor<12x768x2304xf32>
    %293 = stablehlo.broadcast_in_dim %234, dims = [] : (tensor<f32>) -> tensor<12x768x2304xf32>
    %294 = stablehlo.divide %206, %293 : tensor<12x768x2304xf32>
    %295 = stablehlo.sqrt %294 : tensor<12x768x2304xf32>
    %cst_90 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %296 = stablehlo.broadcast_in_dim %cst_90, dims = [] : (tensor<f32>) -> tensor<12x768x2304xf32>
    %297 = stablehlo.add %295, %296 : tensor<12x768x2304xf32>
    %298 = stablehlo.divide %292, %297 : tensor<12x768x2304xf32>
    %cst_91 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %299 = stablehlo.broadcast_in_dim %cst_91, dims = [] : (tensor<f32>) -> tensor<12x768x2304xf32>
    %300 = stablehlo.multiply %299, %arg4 : tensor<12x768x2304xf32>
    %301 = stablehlo.add %298, %300 : tensor<12x768x2304xf32>
    %cst_92 = stablehlo.constant dense<3.000000e-04> : tensor<f32>
    %302 = stablehlo.broadcast_in_dim %cst_92, dims = [] : (tensor<f32>) -> tensor<12x768x2304xf32>
    %303 = stablehlo.multiply %302, %301 : tensor<12x768x2304xf32>
    %304 = stablehlo.subtract %arg4, %303 : tensor<12x768x2304xf32>
    %305 = stablehlo.broadcast_in_dim %232, dims = [] : (tensor<f32>) -> tensor<12x768x3072xf32>
    %306 = stablehlo.divide %161, %305 : tensor<12x768x3072xf32>
    %307 = stablehlo.broadcast_in_dim %234, dims = [] : (tensor<f32>) -> tensor<12x768x3072xf32>
    %308 = stablehlo.divide %212, %307 : tensor<12x768x3072xf32>
    %309 = stablehlo.sqrt %308 : tensor<12x768x3072xf32>
    %cst_93 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %310 = stablehlo.broadcast_in_dim %cst_93, dims = [] : (tensor<f32>) -> tensor<12x768x3072xf32>
    %311 = stablehlo.add %309, %310 : tensor<12x768x3072xf32>
    %312 = stablehlo.divide %306, %311 : tensor<12x768x3072xf32>
    %cst_94 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %313 = stablehlo.broadcast_in_dim %cst_94, dims = [] : (tensor<f32>) -> tensor<12x768x3072xf32>
    %314 = stablehlo.multiply %313, %arg5 : tensor<12x768x3072xf32>
    %315 = stablehlo.add %312, %314 : tensor<12x768x3072xf32>
    %cst_95 = stablehlo.constant dense<3.000000e-04> : tensor<f32>
    %316 = stablehlo.broadcast_in_dim %cst_95, dims = [] : (tensor<f32>) -> tensor<12x768x3072xf32>
    %317 = stablehlo.multiply %316, %315 : tensor<12x768x3072xf32>
    %318 = stablehlo.subtract %arg5, %317 : tensor<12x768x3072xf32>
    %319 = stablehlo.broadcast_in_dim %232, dims = [] : (tensor<f32>) -> tensor<50304x768xf32>
    %320 = stablehlo.divide %166, %319 : tensor<50304x768xf32>
    %321 = stablehlo.broadcast_in_dim %234, dims = [] : (tensor<f32>) -> tensor<50304x768xf32>
    %322 = stablehlo.divide %218, %321 : tensor<50304x768xf32>
    %323 = stablehlo.sqrt %322 : tensor<50304x768xf32>
    %cst_96 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %324 = stablehlo.broadcast_in_dim %cst_96, dims = [] : (tensor<f32>) -> tensor<50304x768xf32>
    %325 = stablehlo.add %323, %324 : tensor<50304x768xf32>
    %326 = stablehlo.divide %320, %325 : tensor<50304x768xf32>
    %cst_97 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %327 = stablehlo.broadcast_in_dim %cst_97, dims = [] : (tensor<f32>) -> tensor<50304x768xf32>
    %328 = stablehlo.multiply %327, %arg6 : tensor<50304x768xf32>
    %329 = stablehlo.add %326, %328 : tensor<50304x768xf32>
    %cst_98 = stablehlo.constant dense<3.000000e-04> : tensor<f32>
    %330 = stablehlo.broadcast_in_dim %cst_98, dims = [] : (tensor<f32>) -> tensor<50304x768xf32>
    %331 = stablehlo.multiply %330, %329 : tensor<50304x768xf32>
    %332 = stablehlo.subtract %arg6, %331 : tensor<50304x768xf32>
    %333 = stablehlo.broadcast_in_dim %232, dims = [] : (tensor<f32>) -> tensor<768xf32>
    %334 = stablehlo.divide %171, %333 : tensor<768xf32>
    %335 = stablehlo.broadcast_in_dim %234, dims = [] : (tensor<f32>) -> tensor<768xf32>
    %336 = stablehlo.divide %224, %335 : tensor<768xf32>
    %337 = stablehlo.sqrt %336 : tensor<768xf32>
    %cst_99 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %338 = stablehlo.broadcast_in_dim %cst_99, dims = [] : (tensor<f32>) -> tensor<768xf32>
    %339 = stablehlo.add %337, %338 : tensor<768xf32>
    %340 = stablehlo.divide %334, %339 : tensor<768xf32>
    %cst_100 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %341 = stablehlo.broadcast_in_dim %cst_100, dims = [] : (tensor<f32>) -> tensor<768xf32>
    %342 = stablehlo.multiply %341, %arg7 : tensor<768xf32>
    %343 = stablehlo.add %340, %342 : tensor<768xf32>
    %cst_101 = stablehlo.constant dense<3.000000e-04> : tensor<f32>
    %344 = stablehlo.broadcast_in_dim %cst_101, dims = [] : (tensor<f32>) -> tensor<768xf32>
    %345 = stablehlo.multiply %344, %343 : tensor<768xf32>
    %346 = stablehlo.subtract %arg7, %345 : tensor<768xf32>
    %347 = stablehlo.broadcast_in_dim %232, dims = [] : (tensor<f32>) -> tensor<1024x768xf32>
    %348 = stablehlo.divide %176, %347 : tensor<1024x768xf32>
    %349 = stablehlo.broadcast_in_dim %234, dims = [] : (tensor<f32>) -> tensor<1024x768xf32>
    %350 = stablehlo.divide %230, %349 : tensor<1024x768xf32>
    %351 = stablehlo.sqrt %350 : tensor<1024x768xf32>
    %cst_102 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %352 = stablehlo.broadcast_in_dim %cst_102, dims = [] : (tensor<f32>) -> tensor<1024x768xf32>
    %353 = stablehlo.add %351, %352 : tensor<1024x768xf32>
    %354 = stablehlo.divide %348, %353 : tensor<1024x768xf32>
    %cst_103 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %355 = stablehlo.broadcast_in_dim %cst_103, dims = [] : (tensor<f32>) -> tensor<1024x768xf32>
    %356 = stablehlo.multiply %355, %arg8 : tensor<1024x768xf32>
    %357 = stablehlo.add %354, %356 : tensor<1024x768xf32>
    %cst_104 = stablehlo.constant dense<3.000000e-04> : tensor<f32>
    %358 = stablehlo.broadcast_in_dim %cst_104, dims = [] : (tensor<f32>) -> tensor<1024x768xf32>
    %359 = stablehlo.multiply %358, %357 : tensor<1024x768xf32>
    %360 = stablehlo.subtract %arg8, %359 : tensor<1024x768xf32>
    return %248, %262, %276, %290, %304, %318, %332, %346, %360, %136, %141, %146, %151, %156, %161, %166, %171, %176, %182, %188, %194, %200, %206, %212, %218, %224, %230, %67 : tensor<12x3072x768xf32>, tensor<12x768xf32>, tensor<12x768xf32>, tensor<12x768x768xf32>, tensor<12x768x2304xf32>, tensor<12x768x3072xf32>, tensor<50304x768xf32>, tensor<768xf32>, tensor<1024x768xf32>, tensor<12x3072x768xf32>, tensor<12x768xf32>, tensor<12x768xf32>, tensor<12x768x768xf32>, tensor<12x768x2304xf32>, tensor<12x768x3072xf32>, tensor<50304x768xf32>, tensor<768xf32>, tensor<1024x768xf32>, tensor<12x3072x768xf32>, tensor<12x768xf32>, tensor<12x768xf32>, tensor<12x768x768xf32>, tensor<12x768x2304xf32>, tensor<12x768x3072xf32>, tensor<50304x768xf32>, tensor<768xf32>, tensor<1024x768xf32>, tensor<f32>
  }
  func.func private @tril(%arg0: tensor<1024x1024xi1>) -> tensor<1024x1024xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<1024x1024xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<1024x1024xi32>
    %2 = stablehlo.add %0, %1 : tensor<1024x1024xi32>
    %3 = stablehlo.iota dim = 1 : tensor<1024x1024xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<1024x1024xi32>, tensor<1024x1024xi32>) -> tensor<1024x1024xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<1024x1024xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<1024x1024xi1>, tensor<1024x1024xi1>
    return %6 : tensor<1024x1024xi1>
  }
  func.func private @_where(%arg0: tensor<1024x1024xi1>, %arg1: tensor<f32>) -> (tensor<4x12x1024x1024xi1>, tensor<4x12x1024x1024xf32>) {
    %0 = stablehlo.convert %arg1 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<1024x1024xi1>) -> tensor<4x12x1024x1024xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x12x1024x1024xf32>
    return %1, %2 : tensor<4x12x1024x1024xi1>, tensor<4x12x1024x1024xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<12x3072x768xf32>, %arg1: tensor<i32>) -> tensor<3072x768xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 3072, 768] : (tensor<12x3072x768xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3072x768xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x3072x768xf32>) -> tensor<3072x768xf32>
    return %1 : tensor<3072x768xf32>
  }
  func.func private @dynamic_index_in_dim_0(%arg0: tensor<12x768xf32>, %arg1: tensor<i32>) -> tensor<768xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, sizes = [1, 768] : (tensor<12x768xf32>, tensor<i32>, tensor<i32>) -> tensor<1x768xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x768xf32>) -> tensor<768xf32>
    return %1 : tensor<768xf32>
  }
  func.func private @dynamic_index_in_dim_1(%arg0: tensor<12x768x768xf32>, %arg1: tensor<i32>) -> tensor<768x768xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 768, 768] : (tensor<12x768x768xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x768x768xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x768x768xf32>) -> tensor<768x768xf32>
    return %1 : tensor<768x768xf32>
  }
  func.func private @dynamic_index_in_dim_2(%arg0: tensor<12x768x2304xf32>, %arg1: tensor<i32>) -> tensor<768x2304xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 768, 2304] : (tensor<12x768x2304xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x768x2304xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x768x2304xf32>) -> tensor<768x2304xf32>
    return %1 : tensor<768x2304xf32>
  }
  func.func private @dynamic_index_in_dim_3(%arg0: tensor<12x768x3072xf32>, %arg1: tensor<i32>) -> tensor<768x3072xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 768, 3072] : (tensor<12x768x3072xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x768x3072xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x768x3072xf32>) -> tensor<768x3072xf32>
    return %1 : tensor<768x3072xf32>
  }
  func.func private @closed_call(%arg0: tensor<4x12x1024x1024xi1>, %arg1: tensor<4x12x1024x1024xf32>, %arg2: tensor<4x1024x768xbf16>, %arg3: tensor<3072x768xf32>, %arg4: tensor<768xf32>, %arg5: tensor<768xf32>, %arg6: tensor<768x768xf32>, %arg7: tensor<768x2304xf32>, %arg8: tensor<768x3072xf32>) -> (tensor<4x1024x768xbf16>, tensor<4x1024x768xbf16>) {
    %0 = stablehlo.convert %arg2 : (tensor<4x1024x768xbf16>) -> tensor<4x1024x768xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %cst_0 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<4x1024x1xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<4x1024x1xf32>) -> tensor<4x1024x768xf32>
    %6 = stablehlo.subtract %0, %5 : tensor<4x1024x768xf32>
    %7 = stablehlo.multiply %6, %6 : tensor<4x1024x768xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.reduce(%7 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %cst_2 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %11 = stablehlo.divide %9, %10 : tensor<4x1024x1xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %13 = stablehlo.add %11, %12 : tensor<4x1024x1xf32>
    %14 = stablehlo.rsqrt %13 : tensor<4x1024x1xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<4x1024x1xf32>) -> tensor<4x1024x768xf32>
    %16 = stablehlo.multiply %6, %15 : tensor<4x1024x768xf32>
    %17 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<4x1024x768xf32>
    %19 = stablehlo.multiply %16, %18 : tensor<4x1024x768xf32>
    %20 = stablehlo.convert %19 : (tensor<4x1024x768xf32>) -> tensor<4x1024x768xbf16>
    %21 = stablehlo.convert %arg7 : (tensor<768x2304xf32>) -> tensor<768x2304xbf16>
    %22 = stablehlo.dot_general %20, %21, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x768xbf16>, tensor<768x2304xbf16>) -> tensor<4x1024x2304xbf16>
    %23 = stablehlo.reshape %22 : (tensor<4x1024x2304xbf16>) -> tensor<4x1024x3x12x64xbf16>
    %24 = stablehlo.transpose %23, dims = [2, 0, 1, 3, 4] : (tensor<4x1024x3x12x64xbf16>) -> tensor<3x4x1024x12x64xbf16>
    %25 = stablehlo.slice %24 [0:1, 0:4, 0:1024, 0:12, 0:64] : (tensor<3x4x1024x12x64xbf16>) -> tensor<1x4x1024x12x64xbf16>
    %26 = stablehlo.reshape %25 : (tensor<1x4x1024x12x64xbf16>) -> tensor<4x1024x12x64xbf16>
    %27 = stablehlo.slice %24 [1:2, 0:4, 0:1024, 0:12, 0:64] : (tensor<3x4x1024x12x64xbf16>) -> tensor<1x4x1024x12x64xbf16>
    %28 = stablehlo.reshape %27 : (tensor<1x4x1024x12x64xbf16>) -> tensor<4x1024x12x64xbf16>
    %29 = stablehlo.slice %24 [2:3, 0:4, 0:1024, 0:12, 0:64] : (tensor<3x4x1024x12x64xbf16>) -> tensor<1x4x1024x12x64xbf16>
    %30 = stablehlo.reshape %29 : (tensor<1x4x1024x12x64xbf16>) -> tensor<4x1024x12x64xbf16>
    %31 = stablehlo.dot_general %26, %28, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x12x64xbf16>, tensor<4x1024x12x64xbf16>) -> tensor<4x12x1024x1024xbf16>
    %32 = stablehlo.convert %31 : (tensor<4x12x1024x1024xbf16>) -> tensor<4x12x1024x1024xf32>
    %cst_4 = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<4x12x1024x1024xf32>
    %34 = stablehlo.multiply %32, %33 : tensor<4x12x1024x1024xf32>
    %35 = call @_where_4(%34, %arg0, %arg1) : (tensor<4x12x1024x1024xf32>, tensor<4x12x1024x1024xi1>, tensor<4x12x1024x1024xf32>) -> tensor<4x12x1024x1024xf32>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %36 = stablehlo.reduce(%35 init: %cst_5) applies stablehlo.maximum across dimensions = [3] : (tensor<4x12x1024x1024xf32>, tensor<f32>) -> tensor<4x12x1024xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %37 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4x12x1024xf32>
    %38 = stablehlo.maximum %37, %36 : tensor<4x12x1024xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2] : (tensor<4x12x1024xf32>) -> tensor<4x12x1024x1xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 2, 3] : (tensor<4x12x1024x1xf32>) -> tensor<4x12x1024x1024xf32>
    %41 = stablehlo.subtract %35, %40 : tensor<4x12x1024x1024xf32>
    %42 = stablehlo.exponential %41 : tensor<4x12x1024x1024xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %43 = stablehlo.reduce(%42 init: %cst_7) applies stablehlo.add across dimensions = [3] : (tensor<4x12x1024x1024xf32>, tensor<f32>) -> tensor<4x12x1024xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2] : (tensor<4x12x1024xf32>) -> tensor<4x12x1024x1xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2, 3] : (tensor<4x12x1024x1xf32>) -> tensor<4x12x1024x1024xf32>
    %46 = stablehlo.divide %42, %45 : tensor<4x12x1024x1024xf32>
    %47 = stablehlo.convert %46 : (tensor<4x12x1024x1024xf32>) -> tensor<4x12x1024x1024xbf16>
    %48 = stablehlo.dot_general %30, %47, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x12x64xbf16>, tensor<4x12x1024x1024xbf16>) -> tensor<4x12x64x1024xbf16>
    %49 = stablehlo.transpose %48, dims = [0, 3, 1, 2] : (tensor<4x12x64x1024xbf16>) -> tensor<4x1024x12x64xbf16>
    %50 = stablehlo.reshape %49 : (tensor<4x1024x12x64xbf16>) -> tensor<4x1024x768xbf16>
    %51 = stablehlo.convert %arg6 : (tensor<768x768xf32>) -> tensor<768x768xbf16>
    %52 = stablehlo.dot_general %50, %51, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x768xbf16>, tensor<768x768xbf16>) -> tensor<4x1024x768xbf16>
    %53 = stablehlo.add %arg2, %52 : tensor<4x1024x768xbf16>
    %54 = stablehlo.convert %53 : (tensor<4x1024x768xbf16>) -> tensor<4x1024x768xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %55 = stablehlo.reduce(%54 init: %cst_8) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %cst_9 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %58 = stablehlo.divide %56, %57 : tensor<4x1024x1xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2] : (tensor<4x1024x1xf32>) -> tensor<4x1024x768xf32>
    %60 = stablehlo.subtract %54, %59 : tensor<4x1024x768xf32>
    %61 = stablehlo.multiply %60, %60 : tensor<4x1024x768xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %62 = stablehlo.reduce(%61 init: %cst_10) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %cst_11 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %65 = stablehlo.divide %63, %64 : tensor<4x1024x1xf32>
    %cst_12 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %66 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %67 = stablehlo.add %65, %66 : tensor<4x1024x1xf32>
    %68 = stablehlo.rsqrt %67 : tensor<4x1024x1xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2] : (tensor<4x1024x1xf32>) -> tensor<4x1024x768xf32>
    %70 = stablehlo.multiply %60, %69 : tensor<4x1024x768xf32>
    %71 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<4x1024x768xf32>
    %73 = stablehlo.multiply %70, %72 : tensor<4x1024x768xf32>
    %74 = stablehlo.convert %73 : (tensor<4x1024x768xf32>) -> tensor<4x1024x768xbf16>
    %75 = stablehlo.convert %arg8 : (tensor<768x3072xf32>) -> tensor<768x3072xbf16>
    %76 = stablehlo.dot_general %74, %75, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x768xbf16>, tensor<768x3072xbf16>) -> tensor<4x1024x3072xbf16>
    %77 = stablehlo.multiply %76, %76 : tensor<4x1024x3072xbf16>
    %78 = stablehlo.multiply %77, %76 : tensor<4x1024x3072xbf16>
    %cst_13 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %79 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<bf16>) -> tensor<4x1024x3072xbf16>
    %80 = stablehlo.multiply %79, %78 : tensor<4x1024x3072xbf16>
    %81 = stablehlo.add %76, %80 : tensor<4x1024x3072xbf16>
    %cst_14 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %82 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<bf16>) -> tensor<4x1024x3072xbf16>
    %83 = stablehlo.multiply %82, %81 : tensor<4x1024x3072xbf16>
    %84 = stablehlo.tanh %83 : tensor<4x1024x3072xbf16>
    %cst_15 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %85 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<bf16>) -> tensor<4x1024x3072xbf16>
    %86 = stablehlo.add %85, %84 : tensor<4x1024x3072xbf16>
    %cst_16 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %87 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<bf16>) -> tensor<4x1024x3072xbf16>
    %88 = stablehlo.multiply %87, %86 : tensor<4x1024x3072xbf16>
    %89 = stablehlo.multiply %76, %88 : tensor<4x1024x3072xbf16>
    %90 = stablehlo.convert %arg3 : (tensor<3072x768xf32>) -> tensor<3072x768xbf16>
    %91 = stablehlo.dot_general %89, %90, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x3072xbf16>, tensor<3072x768xbf16>) -> tensor<4x1024x768xbf16>
    %92 = stablehlo.add %53, %91 : tensor<4x1024x768xbf16>
    return %92, %arg2 : tensor<4x1024x768xbf16>, tensor<4x1024x768xbf16>
  }
  func.func private @_where_4(%arg0: tensor<4x12x1024x1024xf32>, %arg1: tensor<4x12x1024x1024xi1>, %arg2: tensor<4x12x1024x1024xf32>) -> tensor<4x12x1024x1024xf32> {
    %0 = stablehlo.select %arg1, %arg0, %arg2 : tensor<4x12x1024x1024xi1>, tensor<4x12x1024x1024xf32>
    return %0 : tensor<4x12x1024x1024xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<12x4x1024x768xbf16>, %arg1: tensor<4x1024x768xbf16>, %arg2: tensor<i32>) -> tensor<12x4x1024x768xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<4x1024x768xbf16>) -> tensor<1x4x1024x768xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1 : (tensor<12x4x1024x768xbf16>, tensor<1x4x1024x768xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<12x4x1024x768xbf16>
    return %1 : tensor<12x4x1024x768xbf16>
  }
  func.func private @take_along_axis(%arg0: tensor<4x1024x50304xf32>, %arg1: tensor<4x1024x1xi32>) -> (tensor<4x1024x1xf32>, tensor<4x1024x1x1xi32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x1024x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<4x1024x1xi32>, tensor<4x1024x1xi32>) -> tensor<4x1024x1xi1>
    %c_0 = stablehlo.constant dense<50304> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4x1024x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<4x1024x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<4x1024x1xi1>, tensor<4x1024x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<4x1024x1xi32>) -> tensor<4x1024x1x1xi32>
    %c_1 = stablehlo.constant dense<50303> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<4x1024x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<4x1024x1x1xi32>, tensor<4x1024x1x1xi32>) -> tensor<4x1024x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [3] : (tensor<1xi32>) -> tensor<1x1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xi32>) -> tensor<4x1024x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<4x1024x1x1xi32>, tensor<4x1024x1x1xi32>) -> tensor<4x1024x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<4x1024x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [3] : (tensor<4x1024x1x1xi1>, tensor<i1>) -> tensor<4x1024x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [2], operand_batching_dims = [0, 1], start_indices_batching_dims = [0, 1], start_index_map = [2], index_vector_dim = 3>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<4x1024x50304xf32>, tensor<4x1024x1x1xi32>) -> tensor<4x1024x1xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<4x1024x1xi1>, tensor<4x1024x1xf32>
    return %15, %5 : tensor<4x1024x1xf32>, tensor<4x1024x1x1xi32>
  }
  func.func private @take_along_axis_5(%arg0: tensor<4x1024x1x1xi32>, %arg1: tensor<4x1024x1xf32>) -> tensor<4x1024x50304xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x1024x50304xf32>
    %1 = "stablehlo.scatter"(%0, %arg0, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<4x1024x50304xf32>, tensor<4x1024x1x1xi32>, tensor<4x1024x1xf32>) -> tensor<4x1024x50304xf32>
    return %1 : tensor<4x1024x50304xf32>
  }
  func.func private @dynamic_index_in_dim_6(%arg0: tensor<12x4x1024x768xbf16>, %arg1: tensor<i32>) -> tensor<4x1024x768xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 4, 1024, 768] : (tensor<12x4x1024x768xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x1024x768xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x4x1024x768xbf16>) -> tensor<4x1024x768xbf16>
    return %1 : tensor<4x1024x768xbf16>
  }
  func.func private @closed_call_7(%arg0: tensor<4x1024x768xbf16>, %arg1: tensor<4x1024x768xbf16>, %arg2: tensor<3072x768xf32>, %arg3: tensor<768xf32>, %arg4: tensor<768xf32>, %arg5: tensor<768x768xf32>, %arg6: tensor<768x2304xf32>, %arg7: tensor<768x3072xf32>) -> (tensor<4x1024x768xbf16>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<768x2304xf32>, tensor<768x3072xf32>) {
    %0:8 = stablehlo.optimization_barrier %arg1, %arg2, %arg3, %arg4, %arg5, %arg6, %arg7, %arg0 : tensor<4x1024x768xbf16>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<768x2304xf32>, tensor<768x3072xf32>, tensor<4x1024x768xbf16>
    %1 = stablehlo.convert %0#0 : (tensor<4x1024x768xbf16>) -> tensor<4x1024x768xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %cst_0 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %5 = stablehlo.divide %3, %4 : tensor<4x1024x1xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<4x1024x1xf32>) -> tensor<4x1024x768xf32>
    %7 = stablehlo.subtract %1, %6 : tensor<4x1024x768xf32>
    %8 = stablehlo.multiply %7, %7 : tensor<4x1024x768xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %cst_2 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %12 = stablehlo.divide %10, %11 : tensor<4x1024x1xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %14 = stablehlo.add %12, %13 : tensor<4x1024x1xf32>
    %15 = stablehlo.rsqrt %14 : tensor<4x1024x1xf32>
    %16 = stablehlo.divide %15, %14 : tensor<4x1024x1xf32>
    %cst_4 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %18 = stablehlo.multiply %17, %16 : tensor<4x1024x1xf32>
    %19 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<4x1024x1xf32>) -> tensor<4x1024x768xf32>
    %20 = stablehlo.multiply %7, %19 : tensor<4x1024x768xf32>
    %21 = stablehlo.broadcast_in_dim %0#2, dims = [2] : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<4x1024x768xf32>
    %23 = stablehlo.multiply %20, %22 : tensor<4x1024x768xf32>
    %24 = stablehlo.convert %23 : (tensor<4x1024x768xf32>) -> tensor<4x1024x768xbf16>
    %25 = stablehlo.convert %0#5 : (tensor<768x2304xf32>) -> tensor<768x2304xbf16>
    %26 = stablehlo.dot_general %24, %25, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x768xbf16>, tensor<768x2304xbf16>) -> tensor<4x1024x2304xbf16>
    %27 = stablehlo.reshape %26 : (tensor<4x1024x2304xbf16>) -> tensor<4x1024x3x12x64xbf16>
    %28 = stablehlo.transpose %27, dims = [2, 0, 1, 3, 4] : (tensor<4x1024x3x12x64xbf16>) -> tensor<3x4x1024x12x64xbf16>
    %29 = stablehlo.slice %28 [0:1, 0:4, 0:1024, 0:12, 0:64] : (tensor<3x4x1024x12x64xbf16>) -> tensor<1x4x1024x12x64xbf16>
    %30 = stablehlo.reshape %29 : (tensor<1x4x1024x12x64xbf16>) -> tensor<4x1024x12x64xbf16>
    %31 = stablehlo.slice %28 [1:2, 0:4, 0:1024, 0:12, 0:64] : (tensor<3x4x1024x12x64xbf16>) -> tensor<1x4x1024x12x64xbf16>
    %32 = stablehlo.reshape %31 : (tensor<1x4x1024x12x64xbf16>) -> tensor<4x1024x12x64xbf16>
    %33 = stablehlo.slice %28 [2:3, 0:4, 0:1024, 0:12, 0:64] : (tensor<3x4x1024x12x64xbf16>) -> tensor<1x4x1024x12x64xbf16>
    %34 = stablehlo.reshape %33 : (tensor<1x4x1024x12x64xbf16>) -> tensor<4x1024x12x64xbf16>
    %35 = stablehlo.dot_general %30, %32, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x12x64xbf16>, tensor<4x1024x12x64xbf16>) -> tensor<4x12x1024x1024xbf16>
    %36 = stablehlo.convert %35 : (tensor<4x12x1024x1024xbf16>) -> tensor<4x12x1024x1024xf32>
    %cst_5 = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %37 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<4x12x1024x1024xf32>
    %38 = stablehlo.multiply %36, %37 : tensor<4x12x1024x1024xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %39 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<1024x1024xi1>
    %40 = call @tril_8(%39) : (tensor<1024x1024xi1>) -> tensor<1024x1024xi1>
    %cst_6 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %41:2 = call @_where_9(%40, %38, %cst_6) : (tensor<1024x1024xi1>, tensor<4x12x1024x1024xf32>, tensor<f32>) -> (tensor<4x12x1024x1024xf32>, tensor<4x12x1024x1024xi1>)
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %42 = stablehlo.reduce(%41#0 init: %cst_7) applies stablehlo.maximum across dimensions = [3] : (tensor<4x12x1024x1024xf32>, tensor<f32>) -> tensor<4x12x1024xf32>
    %cst_8 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<4x12x1024xf32>
    %44 = stablehlo.maximum %43, %42 : tensor<4x12x1024xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2] : (tensor<4x12x1024xf32>) -> tensor<4x12x1024x1xf32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2, 3] : (tensor<4x12x1024x1xf32>) -> tensor<4x12x1024x1024xf32>
    %47 = stablehlo.subtract %41#0, %46 : tensor<4x12x1024x1024xf32>
    %48 = stablehlo.exponential %47 : tensor<4x12x1024x1024xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %49 = stablehlo.reduce(%48 init: %cst_9) applies stablehlo.add across dimensions = [3] : (tensor<4x12x1024x1024xf32>, tensor<f32>) -> tensor<4x12x1024xf32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2] : (tensor<4x12x1024xf32>) -> tensor<4x12x1024x1xf32>
    %51 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2, 3] : (tensor<4x12x1024x1xf32>) -> tensor<4x12x1024x1024xf32>
    %52 = stablehlo.divide %48, %51 : tensor<4x12x1024x1024xf32>
    %53 = stablehlo.multiply %50, %50 : tensor<4x12x1024x1xf32>
    %cst_10 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %54 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<4x12x1024x1xf32>
    %55 = stablehlo.divide %54, %53 : tensor<4x12x1024x1xf32>
    %56 = stablehlo.convert %52 : (tensor<4x12x1024x1024xf32>) -> tensor<4x12x1024x1024xbf16>
    %57 = stablehlo.dot_general %34, %56, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x12x64xbf16>, tensor<4x12x1024x1024xbf16>) -> tensor<4x12x64x1024xbf16>
    %58 = stablehlo.transpose %57, dims = [0, 3, 1, 2] : (tensor<4x12x64x1024xbf16>) -> tensor<4x1024x12x64xbf16>
    %59 = stablehlo.reshape %58 : (tensor<4x1024x12x64xbf16>) -> tensor<4x1024x768xbf16>
    %60 = stablehlo.convert %0#4 : (tensor<768x768xf32>) -> tensor<768x768xbf16>
    %61 = stablehlo.dot_general %59, %60, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x768xbf16>, tensor<768x768xbf16>) -> tensor<4x1024x768xbf16>
    %62 = stablehlo.add %0#0, %61 : tensor<4x1024x768xbf16>
    %63 = stablehlo.convert %62 : (tensor<4x1024x768xbf16>) -> tensor<4x1024x768xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %64 = stablehlo.reduce(%63 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %65 = stablehlo.broadcast_in_dim %64, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %cst_12 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %66 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %67 = stablehlo.divide %65, %66 : tensor<4x1024x1xf32>
    %68 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 2] : (tensor<4x1024x1xf32>) -> tensor<4x1024x768xf32>
    %69 = stablehlo.subtract %63, %68 : tensor<4x1024x768xf32>
    %70 = stablehlo.multiply %69, %69 : tensor<4x1024x768xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %71 = stablehlo.reduce(%70 init: %cst_13) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %cst_14 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %73 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %74 = stablehlo.divide %72, %73 : tensor<4x1024x1xf32>
    %cst_15 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %75 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %76 = stablehlo.add %74, %75 : tensor<4x1024x1xf32>
    %77 = stablehlo.rsqrt %76 : tensor<4x1024x1xf32>
    %78 = stablehlo.divide %77, %76 : tensor<4x1024x1xf32>
    %cst_16 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %79 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %80 = stablehlo.multiply %79, %78 : tensor<4x1024x1xf32>
    %81 = stablehlo.broadcast_in_dim %77, dims = [0, 1, 2] : (tensor<4x1024x1xf32>) -> tensor<4x1024x768xf32>
    %82 = stablehlo.multiply %69, %81 : tensor<4x1024x768xf32>
    %83 = stablehlo.broadcast_in_dim %0#3, dims = [2] : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %84 = stablehlo.broadcast_in_dim %83, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<4x1024x768xf32>
    %85 = stablehlo.multiply %82, %84 : tensor<4x1024x768xf32>
    %86 = stablehlo.convert %85 : (tensor<4x1024x768xf32>) -> tensor<4x1024x768xbf16>
    %87 = stablehlo.convert %0#6 : (tensor<768x3072xf32>) -> tensor<768x3072xbf16>
    %88 = stablehlo.dot_general %86, %87, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x768xbf16>, tensor<768x3072xbf16>) -> tensor<4x1024x3072xbf16>
    %89 = stablehlo.multiply %88, %88 : tensor<4x1024x3072xbf16>
    %90 = stablehlo.multiply %89, %88 : tensor<4x1024x3072xbf16>
    %91 = stablehlo.multiply %88, %88 : tensor<4x1024x3072xbf16>
    %cst_17 = stablehlo.constant dense<3.000000e+00> : tensor<bf16>
    %92 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<bf16>) -> tensor<4x1024x3072xbf16>
    %93 = stablehlo.multiply %92, %91 : tensor<4x1024x3072xbf16>
    %cst_18 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %94 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<bf16>) -> tensor<4x1024x3072xbf16>
    %95 = stablehlo.multiply %94, %90 : tensor<4x1024x3072xbf16>
    %96 = stablehlo.add %88, %95 : tensor<4x1024x3072xbf16>
    %cst_19 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %97 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<bf16>) -> tensor<4x1024x3072xbf16>
    %98 = stablehlo.multiply %97, %96 : tensor<4x1024x3072xbf16>
    %99 = stablehlo.tanh %98 : tensor<4x1024x3072xbf16>
    %cst_20 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %100 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<bf16>) -> tensor<4x1024x3072xbf16>
    %101 = stablehlo.subtract %100, %99 : tensor<4x1024x3072xbf16>
    %cst_21 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %102 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<bf16>) -> tensor<4x1024x3072xbf16>
    %103 = stablehlo.add %102, %99 : tensor<4x1024x3072xbf16>
    %cst_22 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %104 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<bf16>) -> tensor<4x1024x3072xbf16>
    %105 = stablehlo.multiply %104, %103 : tensor<4x1024x3072xbf16>
    %106 = stablehlo.multiply %88, %105 : tensor<4x1024x3072xbf16>
    %107 = stablehlo.convert %0#1 : (tensor<3072x768xf32>) -> tensor<3072x768xbf16>
    %108 = stablehlo.dot_general %0#7, %106, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x768xbf16>, tensor<4x1024x3072xbf16>) -> tensor<768x3072xbf16>
    %109 = stablehlo.transpose %108, dims = [1, 0] : (tensor<768x3072xbf16>) -> tensor<3072x768xbf16>
    %110 = stablehlo.dot_general %0#7, %107, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x768xbf16>, tensor<3072x768xbf16>) -> tensor<4x1024x3072xbf16>
    %111 = stablehlo.convert %109 : (tensor<3072x768xbf16>) -> tensor<3072x768xf32>
    %112 = stablehlo.multiply %88, %110 : tensor<4x1024x3072xbf16>
    %113 = stablehlo.multiply %110, %105 : tensor<4x1024x3072xbf16>
    %cst_23 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %114 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<bf16>) -> tensor<4x1024x3072xbf16>
    %115 = stablehlo.multiply %114, %112 : tensor<4x1024x3072xbf16>
    %116 = stablehlo.multiply %115, %101 : tensor<4x1024x3072xbf16>
    %117 = stablehlo.multiply %116, %99 : tensor<4x1024x3072xbf16>
    %118 = stablehlo.add %116, %117 : tensor<4x1024x3072xbf16>
    %cst_24 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %119 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<bf16>) -> tensor<4x1024x3072xbf16>
    %120 = stablehlo.multiply %119, %118 : tensor<4x1024x3072xbf16>
    %121 = stablehlo.add %113, %120 : tensor<4x1024x3072xbf16>
    %cst_25 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %122 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<bf16>) -> tensor<4x1024x3072xbf16>
    %123 = stablehlo.multiply %122, %120 : tensor<4x1024x3072xbf16>
    %124 = stablehlo.multiply %123, %93 : tensor<4x1024x3072xbf16>
    %125 = stablehlo.add %121, %124 : tensor<4x1024x3072xbf16>
    %126 = stablehlo.dot_general %125, %86, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x3072xbf16>, tensor<4x1024x768xbf16>) -> tensor<3072x768xbf16>
    %127 = stablehlo.transpose %126, dims = [1, 0] : (tensor<3072x768xbf16>) -> tensor<768x3072xbf16>
    %128 = stablehlo.dot_general %125, %87, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x3072xbf16>, tensor<768x3072xbf16>) -> tensor<4x1024x768xbf16>
    %129 = stablehlo.convert %127 : (tensor<768x3072xbf16>) -> tensor<768x3072xf32>
    %130 = stablehlo.convert %128 : (tensor<4x1024x768xbf16>) -> tensor<4x1024x768xf32>
    %131 = stablehlo.multiply %82, %130 : tensor<4x1024x768xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %132 = stablehlo.reduce(%131 init: %cst_26) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<768xf32>
    %133 = stablehlo.reshape %132 : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %134 = stablehlo.broadcast_in_dim %83, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<4x1024x768xf32>
    %135 = stablehlo.multiply %130, %134 : tensor<4x1024x768xf32>
    %cst_27 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %136 = stablehlo.reduce(%133 init: %cst_27) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x768xf32>, tensor<f32>) -> tensor<768xf32>
    %137 = stablehlo.multiply %69, %135 : tensor<4x1024x768xf32>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %138 = stablehlo.reduce(%137 init: %cst_28) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %139 = stablehlo.reshape %138 : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %140 = stablehlo.broadcast_in_dim %77, dims = [0, 1, 2] : (tensor<4x1024x1xf32>) -> tensor<4x1024x768xf32>
    %141 = stablehlo.multiply %135, %140 : tensor<4x1024x768xf32>
    %142 = stablehlo.multiply %139, %80 : tensor<4x1024x1xf32>
    %cst_29 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %143 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %144 = stablehlo.divide %142, %143 : tensor<4x1024x1xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %145 = stablehlo.reduce(%144 init: %cst_30) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x1xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %146 = stablehlo.broadcast_in_dim %145, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x768xf32>
    %147 = stablehlo.multiply %69, %146 : tensor<4x1024x768xf32>
    %148 = stablehlo.add %141, %147 : tensor<4x1024x768xf32>
    %149 = stablehlo.multiply %146, %69 : tensor<4x1024x768xf32>
    %150 = stablehlo.add %148, %149 : tensor<4x1024x768xf32>
    %151 = stablehlo.negate %150 : tensor<4x1024x768xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %152 = stablehlo.reduce(%151 init: %cst_31) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %153 = stablehlo.reshape %152 : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %cst_32 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %154 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %155 = stablehlo.divide %153, %154 : tensor<4x1024x1xf32>
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %156 = stablehlo.reduce(%155 init: %cst_33) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x1xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %157 = stablehlo.broadcast_in_dim %156, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x768xf32>
    %158 = stablehlo.add %150, %157 : tensor<4x1024x768xf32>
    %159 = stablehlo.convert %158 : (tensor<4x1024x768xf32>) -> tensor<4x1024x768xbf16>
    %160 = stablehlo.add %0#7, %159 : tensor<4x1024x768xbf16>
    %161 = stablehlo.dot_general %160, %59, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x768xbf16>, tensor<4x1024x768xbf16>) -> tensor<768x768xbf16>
    %162 = stablehlo.transpose %161, dims = [1, 0] : (tensor<768x768xbf16>) -> tensor<768x768xbf16>
    %163 = stablehlo.dot_general %160, %60, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x768xbf16>, tensor<768x768xbf16>) -> tensor<4x1024x768xbf16>
    %164 = stablehlo.convert %162 : (tensor<768x768xbf16>) -> tensor<768x768xf32>
    %165 = stablehlo.reshape %163 : (tensor<4x1024x768xbf16>) -> tensor<4x1024x12x64xbf16>
    %166 = stablehlo.transpose %165, dims = [0, 2, 3, 1] : (tensor<4x1024x12x64xbf16>) -> tensor<4x12x64x1024xbf16>
    %167 = stablehlo.dot_general %166, %34, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x12x64x1024xbf16>, tensor<4x1024x12x64xbf16>) -> tensor<4x12x1024x1024xbf16>
    %168 = stablehlo.dot_general %166, %56, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x12x64x1024xbf16>, tensor<4x12x1024x1024xbf16>) -> tensor<4x12x64x1024xbf16>
    %169 = stablehlo.transpose %168, dims = [0, 3, 1, 2] : (tensor<4x12x64x1024xbf16>) -> tensor<4x1024x12x64xbf16>
    %170 = stablehlo.convert %167 : (tensor<4x12x1024x1024xbf16>) -> tensor<4x12x1024x1024xf32>
    %171 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2, 3] : (tensor<4x12x1024x1xf32>) -> tensor<4x12x1024x1024xf32>
    %172 = stablehlo.multiply %170, %171 : tensor<4x12x1024x1024xf32>
    %173 = stablehlo.multiply %172, %48 : tensor<4x12x1024x1024xf32>
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %174 = stablehlo.reduce(%173 init: %cst_34) applies stablehlo.add across dimensions = [3] : (tensor<4x12x1024x1024xf32>, tensor<f32>) -> tensor<4x12x1024xf32>
    %175 = stablehlo.reshape %174 : (tensor<4x12x1024xf32>) -> tensor<4x12x1024x1xf32>
    %176 = stablehlo.negate %175 : tensor<4x12x1024x1xf32>
    %177 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2, 3] : (tensor<4x12x1024x1xf32>) -> tensor<4x12x1024x1024xf32>
    %178 = stablehlo.divide %170, %177 : tensor<4x12x1024x1024xf32>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %179 = stablehlo.reduce(%176 init: %cst_35) applies stablehlo.add across dimensions = [3] : (tensor<4x12x1024x1xf32>, tensor<f32>) -> tensor<4x12x1024xf32>
    %180 = stablehlo.broadcast_in_dim %179, dims = [0, 1, 2] : (tensor<4x12x1024xf32>) -> tensor<4x12x1024x1024xf32>
    %181 = stablehlo.add %178, %180 : tensor<4x12x1024x1024xf32>
    %182 = stablehlo.multiply %181, %48 : tensor<4x12x1024x1024xf32>
    %183 = call @_where_10(%41#1, %182) : (tensor<4x12x1024x1024xi1>, tensor<4x12x1024x1024xf32>) -> tensor<4x12x1024x1024xf32>
    %cst_36 = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %184 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<4x12x1024x1024xf32>
    %185 = stablehlo.multiply %183, %184 : tensor<4x12x1024x1024xf32>
    %186 = stablehlo.convert %185 : (tensor<4x12x1024x1024xf32>) -> tensor<4x12x1024x1024xbf16>
    %187 = stablehlo.dot_general %186, %30, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x12x1024x1024xbf16>, tensor<4x1024x12x64xbf16>) -> tensor<4x12x1024x64xbf16>
    %188 = stablehlo.transpose %187, dims = [0, 2, 1, 3] : (tensor<4x12x1024x64xbf16>) -> tensor<4x1024x12x64xbf16>
    %189 = stablehlo.dot_general %186, %32, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x12x1024x1024xbf16>, tensor<4x1024x12x64xbf16>) -> tensor<4x12x1024x64xbf16>
    %190 = stablehlo.transpose %189, dims = [0, 2, 1, 3] : (tensor<4x12x1024x64xbf16>) -> tensor<4x1024x12x64xbf16>
    %191 = stablehlo.broadcast_in_dim %169, dims = [1, 2, 3, 4] : (tensor<4x1024x12x64xbf16>) -> tensor<1x4x1024x12x64xbf16>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %192 = stablehlo.pad %191, %cst_37, low = [2, 0, 0, 0, 0], high = [0, 0, 0, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<1x4x1024x12x64xbf16>, tensor<bf16>) -> tensor<3x4x1024x12x64xbf16>
    %193 = stablehlo.broadcast_in_dim %188, dims = [1, 2, 3, 4] : (tensor<4x1024x12x64xbf16>) -> tensor<1x4x1024x12x64xbf16>
    %cst_38 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %194 = stablehlo.pad %193, %cst_38, low = [1, 0, 0, 0, 0], high = [1, 0, 0, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<1x4x1024x12x64xbf16>, tensor<bf16>) -> tensor<3x4x1024x12x64xbf16>
    %195 = stablehlo.add %192, %194 : tensor<3x4x1024x12x64xbf16>
    %196 = stablehlo.broadcast_in_dim %190, dims = [1, 2, 3, 4] : (tensor<4x1024x12x64xbf16>) -> tensor<1x4x1024x12x64xbf16>
    %cst_39 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %197 = stablehlo.pad %196, %cst_39, low = [0, 0, 0, 0, 0], high = [2, 0, 0, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<1x4x1024x12x64xbf16>, tensor<bf16>) -> tensor<3x4x1024x12x64xbf16>
    %198 = stablehlo.add %195, %197 : tensor<3x4x1024x12x64xbf16>
    %199 = stablehlo.transpose %198, dims = [1, 2, 0, 3, 4] : (tensor<3x4x1024x12x64xbf16>) -> tensor<4x1024x3x12x64xbf16>
    %200 = stablehlo.reshape %199 : (tensor<4x1024x3x12x64xbf16>) -> tensor<4x1024x2304xbf16>
    %201 = stablehlo.dot_general %200, %24, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x2304xbf16>, tensor<4x1024x768xbf16>) -> tensor<2304x768xbf16>
    %202 = stablehlo.transpose %201, dims = [1, 0] : (tensor<2304x768xbf16>) -> tensor<768x2304xbf16>
    %203 = stablehlo.dot_general %200, %25, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x1024x2304xbf16>, tensor<768x2304xbf16>) -> tensor<4x1024x768xbf16>
    %204 = stablehlo.convert %202 : (tensor<768x2304xbf16>) -> tensor<768x2304xf32>
    %205 = stablehlo.convert %203 : (tensor<4x1024x768xbf16>) -> tensor<4x1024x768xf32>
    %206 = stablehlo.multiply %20, %205 : tensor<4x1024x768xf32>
    %cst_40 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %207 = stablehlo.reduce(%206 init: %cst_40) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<768xf32>
    %208 = stablehlo.reshape %207 : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %209 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<4x1024x768xf32>
    %210 = stablehlo.multiply %205, %209 : tensor<4x1024x768xf32>
    %cst_41 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %211 = stablehlo.reduce(%208 init: %cst_41) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x768xf32>, tensor<f32>) -> tensor<768xf32>
    %212 = stablehlo.multiply %7, %210 : tensor<4x1024x768xf32>
    %cst_42 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %213 = stablehlo.reduce(%212 init: %cst_42) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %214 = stablehlo.reshape %213 : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %215 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<4x1024x1xf32>) -> tensor<4x1024x768xf32>
    %216 = stablehlo.multiply %210, %215 : tensor<4x1024x768xf32>
    %217 = stablehlo.multiply %214, %18 : tensor<4x1024x1xf32>
    %cst_43 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %218 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %219 = stablehlo.divide %217, %218 : tensor<4x1024x1xf32>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %220 = stablehlo.reduce(%219 init: %cst_44) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x1xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %221 = stablehlo.broadcast_in_dim %220, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x768xf32>
    %222 = stablehlo.multiply %7, %221 : tensor<4x1024x768xf32>
    %223 = stablehlo.add %216, %222 : tensor<4x1024x768xf32>
    %224 = stablehlo.multiply %221, %7 : tensor<4x1024x768xf32>
    %225 = stablehlo.add %223, %224 : tensor<4x1024x768xf32>
    %226 = stablehlo.negate %225 : tensor<4x1024x768xf32>
    %cst_45 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %227 = stablehlo.reduce(%226 init: %cst_45) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x768xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %228 = stablehlo.reshape %227 : (tensor<4x1024xf32>) -> tensor<4x1024x1xf32>
    %cst_46 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %229 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<4x1024x1xf32>
    %230 = stablehlo.divide %228, %229 : tensor<4x1024x1xf32>
    %cst_47 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %231 = stablehlo.reduce(%230 init: %cst_47) applies stablehlo.add across dimensions = [2] : (tensor<4x1024x1xf32>, tensor<f32>) -> tensor<4x1024xf32>
    %232 = stablehlo.broadcast_in_dim %231, dims = [0, 1] : (tensor<4x1024xf32>) -> tensor<4x1024x768xf32>
    %233 = stablehlo.add %225, %232 : tensor<4x1024x768xf32>
    %234 = stablehlo.convert %233 : (tensor<4x1024x768xf32>) -> tensor<4x1024x768xbf16>
    %235 = stablehlo.add %160, %234 : tensor<4x1024x768xbf16>
    return %235, %111, %211, %136, %164, %204, %129 : tensor<4x1024x768xbf16>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<768x2304xf32>, tensor<768x3072xf32>
  }
  func.func private @tril_8(%arg0: tensor<1024x1024xi1>) -> tensor<1024x1024xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<1024x1024xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<1024x1024xi32>
    %2 = stablehlo.add %0, %1 : tensor<1024x1024xi32>
    %3 = stablehlo.iota dim = 1 : tensor<1024x1024xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<1024x1024xi32>, tensor<1024x1024xi32>) -> tensor<1024x1024xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<1024x1024xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<1024x1024xi1>, tensor<1024x1024xi1>
    return %6 : tensor<1024x1024xi1>
  }
  func.func private @_where_9(%arg0: tensor<1024x1024xi1>, %arg1: tensor<4x12x1024x1024xf32>, %arg2: tensor<f32>) -> (tensor<4x12x1024x1024xf32>, tensor<4x12x1024x1024xi1>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<1024x1024xi1>) -> tensor<4x12x1024x1024xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x12x1024x1024xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<4x12x1024x1024xi1>, tensor<4x12x1024x1024xf32>
    return %3, %1 : tensor<4x12x1024x1024xf32>, tensor<4x12x1024x1024xi1>
  }
  func.func private @_where_10(%arg0: tensor<4x12x1024x1024xi1>, %arg1: tensor<4x12x1024x1024xf32>) -> tensor<4x12x1024x1024xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x12x1024x1024xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<4x12x1024x1024xi1>, tensor<4x12x1024x1024xf32>
    return %1 : tensor<4x12x1024x1024xf32>
  }
  func.func private @dynamic_update_index_in_dim_11(%arg0: tensor<12x3072x768xf32>, %arg1: tensor<3072x768xf32>, %arg2: tensor<i32>) -> tensor<12x3072x768xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<3072x768xf32>) -> tensor<1x3072x768xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<12x3072x768xf32>, tensor<1x3072x768xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<12x3072x768xf32>
    return %1 : tensor<12x3072x768xf32>
  }
  func.func private @dynamic_update_index_in_dim_12(%arg0: tensor<12x768xf32>, %arg1: tensor<768xf32>, %arg2: tensor<i32>) -> tensor<12x768xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<768xf32>) -> tensor<1x768xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c : (tensor<12x768xf32>, tensor<1x768xf32>, tensor<i32>, tensor<i32>) -> tensor<12x768xf32>
    return %1 : tensor<12x768xf32>
  }
  func.func private @dynamic_update_index_in_dim_13(%arg0: tensor<12x768x768xf32>, %arg1: tensor<768x768xf32>, %arg2: tensor<i32>) -> tensor<12x768x768xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<768x768xf32>) -> tensor<1x768x768xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<12x768x768xf32>, tensor<1x768x768xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<12x768x768xf32>
    return %1 : tensor<12x768x768xf32>
  }
  func.func private @dynamic_update_index_in_dim_14(%arg0: tensor<12x768x2304xf32>, %arg1: tensor<768x2304xf32>, %arg2: tensor<i32>) -> tensor<12x768x2304xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<768x2304xf32>) -> tensor<1x768x2304xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<12x768x2304xf32>, tensor<1x768x2304xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<12x768x2304xf32>
    return %1 : tensor<12x768x2304xf32>
  }
  func.func private @dynamic_update_index_in_dim_15(%arg0: tensor<12x768x3072xf32>, %arg1: tensor<768x3072xf32>, %arg2: tensor<i32>) -> tensor<12x768x3072xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<768x3072xf32>) -> tensor<1x768x3072xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<12x768x3072xf32>, tensor<1x768x3072xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<12x768x3072xf32>
    return %1 : tensor<12x768x3072xf32>
  }
}
