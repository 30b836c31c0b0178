// A small model with an embedding, a norm and a buffer of whole numbers, and a configuration of a precision.
#pragma once

#include "tests/device/check.h"
#include "tpubridge/config/config.h"

namespace tpubridge {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    embed = register_module("embed", torch::nn::Embedding(10, 8));
    first = register_module("first", torch::nn::Linear(8, 16));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
    last = register_module("last", torch::nn::Linear(16, 4));
    steps = register_buffer("steps", torch::zeros({1}, torch::kLong));
  }
  torch::Tensor forward(torch::Tensor ids) { return last(torch::relu(norm(first(embed(std::move(ids)))))); }
  torch::nn::Embedding embed{nullptr};
  torch::nn::Linear first{nullptr}, last{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::Tensor steps;
};
TORCH_MODULE(Net);

inline Config in(TPUPrecision precision, bool mixed = true) {
  Config c;
  c.hardware.tpu.precision = precision;
  c.hardware.tpu.mixed_precision = mixed;
  return c;
}

}  // namespace tpubridge
