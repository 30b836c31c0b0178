// The tokens that follow given ones: the prompts at once, then step by step. Tokens stay on the device, where
// each step finds those of the one before; who wants to see them reads them when it likes.
#pragma once

#include <cstdint>
#include <vector>

#include "tpubridge/models/causal_lm.h"
#include "tpubridge/models/sampling.h"
#include "tpubridge/step/compile.h"

namespace tpubridge::models {

class Decoding {
 public:
  // Prompts of at least one token; `tokens` new ones follow at most. Throws ArgumentError where the model has
  // no place for so many, or does not know one of them.
  Decoding(const CausalLM& model, const std::vector<std::vector<int64_t>>& prompts, int64_t tokens,
           const SamplingOptions& sampling);
  Decoding(const Decoding&) = delete;
  Decoding& operator=(const Decoding&) = delete;

  // The next token of each row, [batch, 1] on the device. Does not wait for it.
  [[nodiscard]] at::Tensor next();

 private:
  // What a compiled step looks at, and nothing that changes meanwhile.
  struct Step {
    const CausalLM& model;
    Sampler sampler;
    KeyValueCache cache;
    int64_t places;
    [[nodiscard]] std::vector<at::Tensor> operator()(const at::Tensor& token, const at::Tensor& position);
  };
  struct Call {
    Step* step;
    std::vector<at::Tensor> operator()(const at::Tensor& token, const at::Tensor& position) const {
      return (*step)(token, position);
    }
  };

  [[nodiscard]] at::Tensor prefill();

  std::unique_ptr<Step> step_;
  CompiledStep<Call> compiled_;
  at::Tensor prompts_, last_;  // [batch, bucket] and [batch], on the host
  at::Tensor tokens_, positions_;
};

}  // namespace tpubridge::models
