// The same ops with other sizes again and again: what does not hang on them is compiled once, and every value
// is the CPU's.
#include <gmock/gmock.h>

#include <random>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;

constexpr const char* kParts = "a part whose sizes change, or the rest beside it";
constexpr int64_t kWide = 4;

int64_t parts_run() {
  const auto m = metrics().materialisations;
  const auto found = m.find(kParts);
  return found == m.end() ? 0 : found->second;
}

Tensor f64(torch::Tensor t, torch::Device device) { return t.to(torch::kDouble).to(device); }

// A program of some hundred ops, the same for each seed, on tensors [4, 4] and on others [n, 4]. State, and
// what somebody holds from one run to the next, live on between runs.
class Made {
 public:
  Made(uint64_t seed, torch::Device device) : seed_(seed), device_(device) {
    torch::manual_seed(static_cast<int64_t>(seed));
    for (int i = 0; i < 4; ++i) {
      weights_.push_back(f64(torch::randn({kWide, kWide}) / 2, device).requires_grad_(i < 2));
      state_.push_back(f64(torch::randn({kWide, kWide}), device));
    }
  }

  std::vector<Tensor> run(const Tensor& rows) {
    std::mt19937_64 random(seed_);
    stay_ = {weights_.begin(), weights_.end()};
    change_ = {rows};
    std::vector<Tensor> out;
    for (int i = 0; i < 150; ++i) op(random, out);
    auto loss = (stay_.back() * weights_[0]).square().mean() + change_.back().square().mean();
    for (const auto& w : weights_)
      if (w.grad().defined()) w.mutable_grad() = Tensor();
    loss.backward();
    {
      const torch::NoGradGuard quiet;
      for (const auto& w : weights_)
        if (w.grad().defined()) w.sub_(w.grad().clamp(-1, 1), 0.01), out.push_back(w.grad());
    }
    out.insert(out.end(), {loss.detach(), stay_.back().detach(), change_.back().detach()});
    for (const auto& s : state_) out.push_back(s);
    held_ = {stay_[stay_.size() / 2].detach(), change_[change_.size() / 2].detach()};
    return out;
  }
  const std::vector<Tensor>& held() const { return held_; }

 private:
  Tensor pick(std::vector<Tensor>& of, std::mt19937_64& random) {
    const size_t last = std::min<size_t>(of.size(), 6);
    return of[of.size() - 1 - random() % last];
  }

  void op(std::mt19937_64& random, std::vector<Tensor>& out) {
    const Tensor s = pick(stay_, random), t = pick(stay_, random), c = pick(change_, random);
    switch (random() % 16) {
      case 0:
        return stay_.push_back((s.matmul(t) / 4).tanh());
      case 1:
        return stay_.push_back(torch::layer_norm(s, {kWide}));
      case 2:
        return stay_.push_back((s - t).sin() + std::get<0>(torch::var_mean(s, 1, true, true)));
      case 3:
        return stay_.push_back(std::get<0>(s.sort(1)) * 0.5 + t);
      case 4: {
        const torch::NoGradGuard quiet;
        state_[random() % state_.size()].mul_(0.5).add_(s.detach());
        return;
      }
      case 5:
        return stay_.push_back(s.clamp(-1, 1) + state_[random() % state_.size()].clamp(-1, 1));
      case 6:
        return change_.push_back((c.matmul(s) / 4).tanh());
      case 7:
        return change_.push_back(torch::layer_norm(c, {kWide}) + s[0]);
      case 8:
        return stay_.push_back(c.t().matmul(c) / static_cast<double>(c.size(0)) + s);
      case 9:
        return stay_.push_back(s + c.softmax(0).mean(0));
      case 10:
        return stay_.push_back(torch::stack({s[1], t[2], c[0], c.amax(0)}));
      case 11:
        return change_.push_back(c + torch::arange(c.size(0), c.options()).unsqueeze(1) / 10);
      case 12: {
        auto copy = s.clone();
        copy[1].mul_(2);
        return stay_.push_back(copy.clamp(-2, 2));
      }
      case 13:
        out.push_back(s.detach().t());
        return stay_.push_back(s.t() * 0.9);
      default:
        return stay_.push_back((s * 0.5 + t.cos()).clamp(-3, 3));
    }
  }

  uint64_t seed_;
  torch::Device device_;
  std::vector<Tensor> weights_, state_, stay_, change_, held_;
};

void expect_all_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(i);
    expect_close(got[i], want[i], 100);
  }
}

void expect_right_at_all_sizes(uint64_t seed) {
  SCOPED_TRACE(seed);
  Made host(seed, torch::kCPU), there(seed, tpu());
  const int64_t before = parts_run();
  std::vector<Tensor> held_host, held_there;
  for (const int64_t n : {3, 5, 6, 4, 9, 5, 1}) {
    SCOPED_TRACE(n);
    const auto rows = f64(torch::randn({n, kWide}), torch::kCPU);
    const auto want = host.run(rows), got = there.run(rows.to(tpu()));
    expect_all_close(held_there, held_host);  // from the run before
    if (n == 4) sync();
    expect_all_close(got, want);
    held_host = host.held(), held_there = there.held();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(parts_run(), before) << "no seed is of use whose program stays whole";
}

TEST(Sizes, RandomPrograms) { expect_right_at_all_sizes(3); }

// For hours: TPUBRIDGE_SIZES_SEED=1000 TPUBRIDGE_SIZES_CASES=500.
TEST(Sizes, RandomProgramsForHours) {
  const char *seed = std::getenv("TPUBRIDGE_SIZES_SEED"), *cases = std::getenv("TPUBRIDGE_SIZES_CASES");
  if (!seed || !cases) GTEST_SKIP() << "asked for by TPUBRIDGE_SIZES_SEED and TPUBRIDGE_SIZES_CASES";
  for (uint64_t i = 0; i < std::stoull(cases); ++i) expect_right_at_all_sizes(std::stoull(seed) + i);
}

// A net of many layers that all read and prolong their list of rows, as one that generates text does.
struct Growing {
  std::vector<Tensor> weights, kept;
  explicit Growing(torch::Device device) {
    torch::manual_seed(5);
    for (int i = 0; i < 12; ++i) {
      weights.push_back(f64(torch::randn({kWide, kWide}) / 2, device));
      kept.push_back(f64(torch::randn({2, kWide}), device));
    }
  }
  Tensor next(Tensor x) {
    for (size_t i = 0; i < weights.size(); ++i) {
      Tensor y = x;
      for (int k = 0; k < 8; ++k) y = (y.matmul(weights[i]) * 0.5 + x).tanh() * 1.1;
      kept[i] = torch::cat({kept[i], y});
      x = (y.matmul(kept[i].t()) / 2).softmax(1).matmul(kept[i]) + y;
    }
    return x;
  }
};

TEST(Sizes, WhatStaysIsCompiledOnce) {
  Growing host(torch::kCPU), there(tpu());
  auto x = f64(torch::ones({1, kWide}), torch::kCPU), y = x.to(tpu());
  size_t whole = 0;
  for (int i = 0; i < 8; ++i) {
    const int64_t before = metrics().compiles;
    x = host.next(x), y = there.next(y);
    expect_close(y, x, 100);
    const auto notes = recompiles();
    if (i == 1) whole = notes.back().ops;
    if (i < 5) continue;
    // One program serves the changing part of every layer but the last, which has another end.
    EXPECT_LE(metrics().compiles, before + 2) << explain();
    EXPECT_LT(notes.back().ops, whole / 10);
    EXPECT_EQ(notes.back().reason, kParts);
  }
}

// A part that finds no memory: whoever asks is told, and gets everything when there is some.
TEST(Sizes, APartThatFails) {
  Growing host(torch::kCPU), there(tpu());
  auto x = f64(torch::ones({1, kWide}), torch::kCPU), y = x.to(tpu());
  for (int i = 0; i < 8; ++i) {
    x = host.next(x), y = there.next(y);
    if (i >= 4) {
      const int64_t limit = set_memory_limit(device_memory().live + 600);
      EXPECT_THROW((void)y.cpu(), TPUOutOfMemoryError) << i;
      set_memory_limit(limit);
    }
    expect_close(y, x, 100);
    for (size_t k = 0; k < host.kept.size(); ++k) expect_close(there.kept[k], host.kept[k], 100);
  }
}

}  // namespace
}  // namespace tpubridge
