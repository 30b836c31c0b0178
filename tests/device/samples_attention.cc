// Samples of scaled dot-product attention: masks, scales, groups of heads, different lengths.
#include "tests/device/samples.h"

namespace tpubridge {
namespace {

torch::Tensor attend(const Tensors& t, const std::optional<torch::Tensor>& mask = {}, bool causal = false,
                     std::optional<double> scale = {}, bool gqa = false) {
  return torch::scaled_dot_product_attention(t[0], t[1], t[2], mask, 0.0, causal, scale, gqa);
}

// The third row of queries may look at nothing.
torch::Tensor some_rows(const torch::Tensor& like) {
  auto mask = torch::ones({4, 6}, torch::kBool);
  mask[1].slice(0, 2, 5).fill_(false);
  mask[2].fill_(false);
  return mask.to(like.device());
}

constexpr const char* kRow = "_scaled_dot_product_fused_attention_overrideable";

}  // namespace

std::vector<Sample> attention_samples() {
  const std::vector<int64_t> q{2, 4, 4, 3}, same{2, 4, 4, 3}, k{2, 4, 6, 3}, wide{2, 4, 6, 5},
      few{2, 2, 6, 3};
  return {
      SAMPLE(kRow, attend(t), Sizes({q, same, same}), "fbhd"),
      SAMPLE(kRow, attend(t, {}, true), Sizes({q, same, same}), "fbh"),
      SAMPLE(kRow, attend(t, {}, true), Sizes({q, k, wide})),
      SAMPLE(kRow, attend(t, {}, false, 0.3), Sizes({q, k, wide}), "fb"),
      SAMPLE(kRow, attend(t, t[3]), Sizes({q, k, k, {2, 4, 4, 6}}), "fb"),
      SAMPLE(kRow, attend(t, t[3]), Sizes({q, k, k, {4, 1, 6}})),
      SAMPLE(kRow, attend(t, some_rows(t[0])), Sizes({q, k, k}), "fb"),
      SAMPLE(kRow, attend(t, {}, true, {}, true), Sizes({q, few, few}), "fb"),
      SAMPLE(kRow, attend(t, t[3], false, {}, true), Sizes({q, few, few, {2, 4, 4, 6}})),
      SAMPLE(kRow, attend(t), Sizes({{3, 4, 3}, {3, 6, 3}, {3, 6, 2}})),
  };
}

}  // namespace tpubridge
