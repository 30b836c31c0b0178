// The sizes of a model's layers, as the matrix unit sees them. For the sources of backend/.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tpubridge {

constexpr int64_t kSublanes = 8;  // rows of a TPU's vector register: other sizes are padded to it

[[nodiscard]] constexpr int64_t padded_size(int64_t size, int64_t to = kSublanes) {
  return (size + to - 1) / to * to;
}

// Features of a Linear, channels of a convolution.
struct LayerSizes {
  bool convolution = false;
  int64_t in = 0, out = 0;
  [[nodiscard]] bool fits() const { return in % kSublanes == 0 && out % kSublanes == 0; }
};
[[nodiscard]] std::optional<LayerSizes> sizes_of(const torch::nn::Module& layer);  // nothing of other layers

// The size of a head of MultiheadAttention or of an AttentionLayer; nothing of other layers.
[[nodiscard]] std::optional<int64_t> head_size_of(const torch::nn::Module& layer);

// Calls look(name, part) with the model, under the name `self`, and then with each of its parts.
template <class F>
void each_part(const torch::nn::Module& model, const char* self, F&& look) {
  look(std::string(self), model);
  for (const auto& m : model.named_modules({}, /*include_self=*/false)) look(m.key(), *m.value());
}

}  // namespace tpubridge
