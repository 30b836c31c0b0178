// torch::nn::MultiheadAttention whose products and softmax are one op of the device: same options, same
// parameters under the same names, same results.
//
//   auto heads = register_module("heads", tpubridge::FusedMultiheadAttention(512, 8));
//   auto [y, none] = heads->forward(x, x, x, /*key_padding_mask=*/{}, /*need_weights=*/false);
//
// torch's own class computes product by product, and compares query, key and value with each other at every
// call, which waits for the device. It cannot be changed from outside (its forward is no virtual function),
// so a model says by their type which layers are fused; TPUOptimizer has them fused at balanced and
// aggressive, and not at conservative. Calls that ask for the weights, bias_k, add_zero_attn, and masks other
// than a float attn_mask of two dimensions and a bool key_padding_mask are torch's own code.
#pragma once

#include <torch/nn/modules/activation.h>

namespace tpubridge {

class FusedMultiheadAttentionImpl : public torch::nn::MultiheadAttentionImpl {
 public:
  using torch::nn::MultiheadAttentionImpl::MultiheadAttentionImpl;

  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& query, const torch::Tensor& key,
                                                   const torch::Tensor& value,
                                                   const torch::Tensor& key_padding_mask = {},
                                                   bool need_weights = true,
                                                   const torch::Tensor& attn_mask = {},
                                                   bool average_attn_weights = true);
  // The inherited one would be a layer of torch's class.
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& device = std::nullopt) const override;

  bool fused = true;  // false: torch's own code, always

 private:
  [[nodiscard]] std::array<torch::Tensor, 3> projected(const torch::Tensor& query, const torch::Tensor& key,
                                                       const torch::Tensor& value) const;
};
TORCH_MODULE(FusedMultiheadAttention);

}  // namespace tpubridge
