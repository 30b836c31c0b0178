#include "tpubridge/models/sampling.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "tpubridge/base/errors.h"
#include "tpubridge/device/generator.h"

namespace tpubridge {
namespace {

void demand(bool holds, const char* name, double value, const char* must) {
  if (!holds)
    throw ArgumentError(std::string(name) + " must be " + must, {{name, std::to_string(value)}}, {},
                        Code::invalid_argument);
}

at::Generator generator_of(at::Device device, uint64_t seed) {
  at::Generator g =
      device.is_cpu() ? at::detail::createCPUGenerator() : device::new_generator(device.index());
  g.set_current_seed(seed);
  return g;
}

// The fewest of the likeliest that have the chance `enough` together, and those equal to the last of them.
// Sorting a vocabulary takes as long as the whole model on some devices. So the least chance among them is
// searched for, bit by bit: floats that are not negative have the order of their bits.
at::Tensor likeliest(const at::Tensor& chances, double enough) {
  const at::Tensor bits = chances.view(at::kInt);
  at::Tensor least = at::zeros({chances.size(0), 1}, bits.options());
  at::Tensor step = at::full({}, 1 << 29, bits.options());  // 1.0 is 0x3f800000
  for (int bit = 29; bit >= 0; --bit) {
    const at::Tensor higher = least + step;
    const at::Tensor sum = at::where(bits >= higher, chances, 0.0).sum(-1, true);
    least = at::where(sum >= enough, higher, least);
    step = step.bitwise_right_shift(1);
  }
  return bits >= least;
}

}  // namespace

void check(const SamplingOptions& o) {
  demand(std::isfinite(o.temperature) && o.temperature >= 0, "temperature", o.temperature,
         "0 (greedy) or more");
  demand(o.top_k >= 0, "top_k", static_cast<double>(o.top_k), "0 (all) or more");
  demand(o.top_p > 0 && o.top_p <= 1, "top_p", o.top_p, "more than 0 and at most 1");
  demand(std::isfinite(o.repetition_penalty) && o.repetition_penalty > 0, "repetition_penalty",
         o.repetition_penalty, "more than 0");
}

Sampler::Sampler(const SamplingOptions& options, at::Device device, int64_t vocabulary,
                 const std::vector<std::vector<int64_t>>& before)
    : options_(options) {
  check(options);
  if (!options.greedy()) random_ = generator_of(device, options.seed);
  if (options.repetition_penalty == 1) return;
  seen_ = at::zeros({static_cast<int64_t>(before.size()), vocabulary}, at::kBool);
  auto at_token = seen_.accessor<bool, 2>();
  for (size_t r = 0; r < before.size(); ++r)
    for (const int64_t token : before[r])
      if (token >= 0 && token < vocabulary) at_token[static_cast<int64_t>(r)][token] = true;
  seen_ = seen_.to(device);
}

at::Tensor Sampler::next(const at::Tensor& logits) const {
  const at::Tensor scores = penalised(logits.to(at::kFloat));
  const at::Tensor token = options_.greedy() ? scores.argmax(-1, true) : drawn(scores);
  if (seen_.defined()) seen_.scatter_(1, token, true);
  return token;
}

at::Tensor Sampler::penalised(const at::Tensor& scores) const {
  if (!seen_.defined()) return scores;
  const double by = options_.repetition_penalty;
  return at::where(seen_, at::where(scores < 0, scores * by, scores / by), scores);
}

at::Tensor Sampler::drawn(at::Tensor scores) const {
  at::Tensor ids;  // of the scores, where these are no longer all
  if (options_.top_k > 0 && options_.top_k < scores.size(-1))
    std::tie(scores, ids) = at::topk(scores, options_.top_k);
  // From the best one on, so that no temperature makes them too large for their type.
  scores = (scores - scores.amax(-1, true)) / options_.temperature;
  if (options_.top_p < 1)
    scores = scores.masked_fill(~likeliest(at::softmax(scores, -1), options_.top_p),
                                -std::numeric_limits<double>::infinity());
  // The largest of scores with Gumbel's noise is drawn with the chances of a softmax.
  const at::Tensor place = (scores - at::empty_like(scores).exponential_(1, random_).log()).argmax(-1, true);
  return ids.defined() ? ids.gather(-1, place) : place;
}

}  // namespace tpubridge
