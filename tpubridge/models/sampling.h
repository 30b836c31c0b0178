// Which token comes next, chosen on the host from the logits.
#pragma once

#include <cstdint>
#include <random>
#include <span>
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
  // The same seed gives the same tokens; a row of a batch has a stream of its own.
  Sampler(const SamplingOptions& options, uint64_t row);
  // `before`: all tokens of the text so far.
  [[nodiscard]] int64_t next(std::span<const float> logits, std::span<const int64_t> before);

 private:
  SamplingOptions options_;
  std::mt19937_64 random_;
};

}  // namespace tpubridge
