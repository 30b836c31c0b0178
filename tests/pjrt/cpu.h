// The XLA CPU plugin with four virtual devices, shared by the tests of a program.
#pragma once

#include "tpubridge/pjrt/client.h"

namespace tpubridge::pjrt {

inline std::shared_ptr<Client> cpu() {
  static const auto client = Client::create(Plugin::load(CPU_PLUGIN), {{"cpu_device_count", int64_t{4}}});
  return client;
}

inline const char* const kAdd = R"(module {
  func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.add %a, %b : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
})";

inline const char* const kDonateFirst = R"(module {
  func.func @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<i32>) {
    %0 = stablehlo.multiply %a, %b : tensor<4xf32>
    %1 = stablehlo.constant dense<7> : tensor<i32>
    return %0, %1 : tensor<4xf32>, tensor<i32>
  }
})";

}  // namespace tpubridge::pjrt
