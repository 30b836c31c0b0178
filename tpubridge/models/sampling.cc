#include "tpubridge/models/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <unordered_set>

#include "tpubridge/base/errors.h"

namespace tpubridge {
namespace {

void demand(bool holds, const char* name, double value, const char* must) {
  if (!holds)
    throw ArgumentError(std::string(name) + " must be " + must, {{name, std::to_string(value)}}, {},
                        Code::invalid_argument);
}

void penalise(std::vector<double>& scores, std::span<const int64_t> before, double penalty) {
  const std::unordered_set<int64_t> tokens(before.begin(), before.end());
  for (const int64_t t : tokens) {
    if (t < 0 || t >= static_cast<int64_t>(scores.size())) continue;
    double& s = scores[static_cast<size_t>(t)];
    s = s < 0 ? s * penalty : s / penalty;
  }
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

Sampler::Sampler(const SamplingOptions& options, uint64_t row) : options_(options) {
  std::seed_seq seeds{static_cast<uint32_t>(options.seed), static_cast<uint32_t>(options.seed >> 32),
                      static_cast<uint32_t>(row)};
  random_.seed(seeds);
}

int64_t Sampler::next(std::span<const float> logits, std::span<const int64_t> before) {
  std::vector<double> scores(logits.begin(), logits.end());
  if (options_.repetition_penalty != 1) penalise(scores, before, options_.repetition_penalty);
  if (options_.greedy()) return std::ranges::max_element(scores) - scores.begin();

  // The best first; of equal ones the lower id, so that a seed means the same everywhere.
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto better = [&](int64_t a, int64_t b) {
    const double x = scores[static_cast<size_t>(a)], y = scores[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const size_t kept =
      options_.top_k > 0 ? std::min<size_t>(order.size(), static_cast<size_t>(options_.top_k)) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), better);
  order.resize(kept);

  const double best = scores[static_cast<size_t>(order[0])];
  std::vector<double> sums;  // of the chances so far
  double sum = 0;
  for (const int64_t t : order)
    sums.push_back(sum += std::exp((scores[static_cast<size_t>(t)] - best) / options_.temperature));
  const double enough = sum * options_.top_p;
  const auto cut = std::ranges::find_if(sums, [&](double s) { return s >= enough; });
  const auto last = cut == sums.end() ? sums.end() - 1 : cut;
  const double at = std::generate_canonical<double, 53>(random_) * *last;
  const auto chosen = std::upper_bound(sums.begin(), last, at);
  return order[static_cast<size_t>(chosen - sums.begin())];
}

}  // namespace tpubridge
