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
           const SamplingOptions& sampling, int64_t tokens_per_call = 1);
  Decoding(const Decoding&) = delete;
  Decoding& operator=(const Decoding&) = delete;

  // The next tokens of each row, [steps, batch, 1] on the device: one, and after the first as many as there
  // are in a call. Does not wait for them.
  [[nodiscard]] at::Tensor next();

 private:
  // What a compiled step looks at, and nothing that changes meanwhile.
  struct Step {
    const CausalLM& model;
    Sampler sampler;
    KeyValueCache cache;
    int64_t places;
    at::Tensor token, position;  // where the step of several tokens keeps them
    [[nodiscard]] std::vector<at::Tensor> operator()(const at::Tensor& token, const at::Tensor& position);
    [[nodiscard]] at::Tensor advance();
  };
  struct Call {
    Step* step;
    std::vector<at::Tensor> operator()(const at::Tensor& token, const at::Tensor& position) const {
      return (*step)(token, position);
    }
  };

  struct Advance {
    Step* step;
    at::Tensor operator()() const { return step->advance(); }
  };

  [[nodiscard]] at::Tensor prefill();
  [[nodiscard]] at::Tensor next_one();

  std::unique_ptr<Step> step_;
  CompiledStep<Call> compiled_;
  CompiledStep<Advance> several_;
  int64_t tokens_per_call_;
  at::Tensor prompts_, last_;  // [batch, bucket] and [batch], on the host
  at::Tensor tokens_, positions_;
};

}  // namespace tpubridge::models
