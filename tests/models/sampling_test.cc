// Drawn tokens beside the chances that they should have, computed on the host.
#include "tpubridge/models/sampling.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tpubridge/tpubridge.h"

namespace tpubridge {
namespace {

const std::vector<double> kLogits = {1.0, 2.0, -4.0, 1.9, 0.5, 2.0, -0.3};

std::vector<double> chances(const SamplingOptions& o, const std::vector<int64_t>& before) {
  std::vector<double> scores = kLogits;
  for (const int64_t t : before) {
    double& s = scores[static_cast<size_t>(t)];
    s = s < 0 ? s * o.repetition_penalty : s / o.repetition_penalty;
  }
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  if (o.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(o.top_k)));
  std::vector<double> out(scores.size(), 0);
  const auto weight = [&](size_t i) { return std::exp((scores[i] - scores[order[0]]) / o.temperature); };
  double sum = 0, kept = 0;
  for (const size_t i : order) sum += weight(i);
  for (const size_t i : order) {
    if (kept >= o.top_p * sum) break;
    kept += out[i] = weight(i);
  }
  for (double& p : out) p /= kept;
  return out;
}

torch::Tensor logits_of(int64_t rows, const char* device) {
  return torch::tensor(kLogits, torch::kFloat).expand({rows, -1}).contiguous().to(torch::Device(device));
}

std::vector<double> drawn(const SamplingOptions& o, const std::vector<int64_t>& before, const char* device) {
  constexpr int64_t rows = 40000;
  const auto width = static_cast<int64_t>(kLogits.size());
  const Sampler sampler(o, torch::Device(device), width, std::vector<std::vector<int64_t>>(rows, before));
  const auto ids = sampler.next(logits_of(rows, device)).cpu();
  EXPECT_EQ(ids.sizes(), (std::vector<int64_t>{rows, 1}));
  const auto count = torch::bincount(ids.flatten(), {}, width).to(torch::kDouble) / rows;
  return {count.const_data_ptr<double>(), count.const_data_ptr<double>() + width};
}

class Draws : public testing::TestWithParam<const char*> {};

TEST_P(Draws, HaveTheirChances) {
  const std::vector<SamplingOptions> all = {
      {.temperature = 1},
      {.temperature = 0.5},
      {.temperature = 3},
      {.temperature = 1, .top_k = 3},
      {.temperature = 1, .top_k = 100},
      {.temperature = 1, .top_p = 0.6},
      {.temperature = 2, .top_p = 0.9},
      {.temperature = 1, .top_k = 4, .top_p = 0.7},
      {.temperature = 1, .repetition_penalty = 1.7},
      {.temperature = 1, .top_k = 2, .repetition_penalty = 0.4},
      {.temperature = 1e-30},
  };
  for (const SamplingOptions& o : all) {
    const std::vector<int64_t> before =
        o.repetition_penalty == 1 ? std::vector<int64_t>{} : std::vector<int64_t>{1, 6};
    const auto want = chances(o, before), got = drawn(o, before, GetParam());
    for (size_t i = 0; i < want.size(); ++i) {
      // Of 40000 draws: five times the spread.
      EXPECT_NEAR(got[i], want[i], 5 * std::sqrt(want[i] * (1 - want[i]) / 40000))
          << "token " << i << ", temperature " << o.temperature << ", top_k " << o.top_k << ", top_p "
          << o.top_p;
    }
  }
}

TEST_P(Draws, HangOnTheSeedAlone) {
  const auto some = [&](uint64_t seed) {
    const Sampler s({.temperature = 1, .seed = seed}, torch::Device(GetParam()), 7, {{}, {}});
    const auto x = logits_of(2, GetParam());
    std::vector<torch::Tensor> ids;
    for (int i = 0; i < 20; ++i) ids.push_back(s.next(x).cpu());
    return torch::cat(ids, 1);
  };
  const auto first = some(5);
  torch::manual_seed(99);
  (void)torch::rand({3}, torch::Device(GetParam()));
  EXPECT_TRUE(torch::equal(some(5), first));
  EXPECT_FALSE(torch::equal(some(6), first));
  EXPECT_FALSE(torch::equal(first[0], first[1]));
}

TEST_P(Draws, WhatWasChosenIsPenalised) {
  const Sampler s({.repetition_penalty = 10}, torch::Device(GetParam()), 7, {{1}, {}});
  const auto x = logits_of(2, GetParam());
  std::vector<std::vector<int64_t>> got(2);
  for (int i = 0; i < 4; ++i) {
    const auto ids = s.next(x).cpu();
    for (int64_t r = 0; r < 2; ++r) got[static_cast<size_t>(r)].push_back(ids[r][0].item<int64_t>());
  }
  EXPECT_EQ(got[0], (std::vector<int64_t>{5, 3, 0, 4}));
  EXPECT_EQ(got[1], (std::vector<int64_t>{1, 5, 3, 0}));
}

TEST_P(Draws, NarrowLogitsAndAnEmptyEnd) {
  const Sampler s({.temperature = 1, .top_p = 0.99}, torch::Device(GetParam()), 7, {{}});
  auto x = logits_of(1, GetParam()).to(torch::kBFloat16);
  x.slice(1, 0, 6).fill_(-std::numeric_limits<float>::infinity());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(s.next(x).item<int64_t>(), 6);
}

INSTANTIATE_TEST_SUITE_P(On, Draws, testing::Values("tpu", "cpu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tpubridge
