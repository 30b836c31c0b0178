// Which token comes next, chosen where the logits are: the host need not look at them.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tpubridge {

struct SamplingOptions {
  double temperature = 0;  // 0: always the best token (greedy)
  int64_t top_k = 0;       // 0: all
  double top_p = 1;
  double repetition_penalty = 1;  // on tokens that were there before
  uint64_t seed = 0;

  [[nodiscard]] bool greedy() const { return temperature == 0; }
};

// Throws ArgumentError with the name of what makes no sense.
void check(const SamplingOptions& options);

class Sampler {
 public:
  // The same seed gives the same tokens on one kind of device. `before`: the tokens of each row's text so
  // far.
  Sampler(const SamplingOptions& options, at::Device device, int64_t vocabulary,
          const std::vector<std::vector<int64_t>>& before);
  // Logits [batch, vocabulary] to tokens [batch, 1], which are remembered. May be part of a compiled step.
  [[nodiscard]] at::Tensor next(const at::Tensor& logits) const;

 private:
  [[nodiscard]] at::Tensor penalised(const at::Tensor& scores) const;
  [[nodiscard]] at::Tensor drawn(at::Tensor scores) const;

  SamplingOptions options_;
  at::Generator random_;
  at::Tensor seen_;  // [batch, vocabulary], where there is a penalty
};

}  // namespace tpubridge
