// The same small program with other sizes again and again: one program serves them, its buffers are larger
// than the values in them, and every value is the CPU's.
#include <gmock/gmock.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/device/check.h"
#include "tpubridge/step/compile.h"

namespace tpubridge {
namespace {

using torch::Tensor;
using torch::indexing::Slice;

constexpr int64_t kTall = 4;  // of the other dimension
const std::vector<int64_t> kManySizes = {3, 5, 6, 9, 16, 17, 15, 1, 40};

// x [n, 4], w [4, 4], i [n] from 0 to 3.
struct SizedArgs {
  Tensor x, w, i;
  [[nodiscard]] SizedArgs on(torch::Device device) const {
    return {x.to(device).detach().requires_grad_(), w.to(device).detach().requires_grad_(), i.to(device)};
  }
};
SizedArgs args_of(int64_t n, int64_t seed) {
  torch::manual_seed(seed);
  return {torch::randn({n, kTall}), torch::randn({kTall, kTall}),
          torch::randint(0, kTall, {n}, torch::kLong)};
}

using SizedCall = Tensor (*)(const SizedArgs&);
struct SizedCase {
  const char* name;
  SizedCall call;
  bool one_program = true;  // false: each size has its own still
};

const std::vector<SizedCase>& sized_cases() {
  static const std::vector<SizedCase> all = {
      {"elementwise", [](const SizedArgs& a) { return (a.x * 2 + 1).tanh() * a.x; }},
      {"sum", [](const SizedArgs& a) { return a.x.exp().sum(0); }},
      {"mean", [](const SizedArgs& a) { return (a.x * a.x).mean() + a.x.mean(0); }},
      {"linear", [](const SizedArgs& a) { return torch::linear(a.x, a.w, a.w[0]).relu(); }},
      {"gram", [](const SizedArgs& a) { return a.x.t().matmul(a.x); }},
      {"attention", [](const SizedArgs& a) { return (a.x.matmul(a.x.t()) / 2).softmax(-1).matmul(a.x); }},
      {"softmax over it", [](const SizedArgs& a) { return a.x.softmax(0) * a.x.log_softmax(0); }},
      {"layer norm", [](const SizedArgs& a) { return torch::layer_norm(a.x, {kTall}, a.w[0], a.w[1]); }},
      {"grown",
       [](const SizedArgs& a) {
         return torch::cat({a.x, a.w});
       }},
      {"grown twice",
       [](const SizedArgs& a) {
         return torch::cat({a.x.tanh(), a.w, a.x}).cumsum(1);
       }},
      {"mean and more", [](const SizedArgs& a) { return (a.x - a.x.mean(0)) / (a.x.var(0) + 1); }},
      {"rows", [](const SizedArgs& a) { return a.w.index({a.i}) * a.x; }},
      {"embedding", [](const SizedArgs& a) { return torch::embedding(a.w, a.i).sum(0); }},
      {"loss", [](const SizedArgs& a) { return torch::nll_loss(a.x.log_softmax(1), a.i); }},
      {"classes", [](const SizedArgs& a) { return torch::one_hot(a.i, kTall) * a.x; }},
      {"extremes",
       [](const SizedArgs& a) { return a.x.amax(0) + a.x.amin(0) + std::get<0>(a.x.max(1)).sum(); }},
      {"chosen",
       [](const SizedArgs& a) { return torch::where(a.x > 0, a.x, a.x * 0.1).masked_fill(a.x > 1, 3); }},
      {"places",
       [](const SizedArgs& a) { return a.x * torch::arange(a.x.size(0), a.x.options()).unsqueeze(1); }},
      {"triangle", [](const SizedArgs& a) { return a.x.matmul(a.x.t()).tril().matmul(a.x); }},
      {"turned",
       [](const SizedArgs& a) {
         return a.x.t().contiguous().view({2, 2, -1}).transpose(0, 2).sum(1);
       }},
      {"flat", [](const SizedArgs& a) { return a.x.reshape({-1}).sin(); }},
      {"pairs", [](const SizedArgs& a) { return (a.x.unsqueeze(0) - a.x.unsqueeze(1)).square().sum(-1); }},
      {"last row", [](const SizedArgs& a) { return a.x.index({-1}) * 2 + a.x[0]; }},
      {"beginning",
       [](const SizedArgs& a) {
         return torch::arange(64, a.x.options()).index({Slice(0, a.x.size(0))}).unsqueeze(1) * a.x;
       }},
      {"running", [](const SizedArgs& a) { return a.x.cumsum(0); }, false},
      {"sorted", [](const SizedArgs& a) { return std::get<0>(a.x.sort(0)); }, false},
      {"turned round", [](const SizedArgs& a) { return a.x.flip({0}); }, false},
      {"padded",
       [](const SizedArgs& a) {
         return torch::constant_pad_nd(a.x, {1, 2}, 0.5);
       },
       false},
      {"ones",
       [](const SizedArgs& a) {
         return torch::ones_like(a.x).sum() + torch::full({a.x.size(0)}, 2., a.x.options()).sum() + a.x.sum();
       }},
      {"counts",
       [](const SizedArgs& a) { return (a.x > 0).sum(0).to(torch::kFloat) + a.i.sum() + a.x.sum(0); }},
      {"whole numbers",
       [](const SizedArgs& a) { return (a.i * 3 + 1).to(torch::kFloat).unsqueeze(1) * a.x; }},
      {"halves",
       [](const SizedArgs& a) { return a.x.to(torch::kBFloat16).sum(0).to(torch::kFloat) + a.x.sum(0); }},
      {"doubles",
       [](const SizedArgs& a) { return a.x.to(torch::kDouble).matmul(a.w.to(torch::kDouble)).sum(1); }},
      {"conv",
       [](const SizedArgs& a) {
         return torch::conv1d(a.x.t().unsqueeze(0), a.w.view({2, 4, 2}), {}, 1, 1);
       },
       false},
      {"written",
       [](const SizedArgs& a) {
         auto y = a.x.clone();
         y.index({Slice(), 1}) = 5;
         return y * a.x;
       }},
      {"product", [](const SizedArgs& a) { return (a.x.cos() * 0.5 + 1).prod(0); }},
      {"norm", [](const SizedArgs& a) { return a.x / a.x.norm(2, 1, true).clamp_min(1e-3); }},
      {"mse", [](const SizedArgs& a) { return torch::mse_loss(a.x, a.x.detach() * 0.5); }},
      {"added by place",
       [](const SizedArgs& a) {
         return torch::zeros({kTall, kTall}, a.x.options()).index_add(0, a.i, a.x);
       }},
      {"all",
       [](const SizedArgs& a) {
         return (a.x > -100).all().to(torch::kFloat) + (a.x > 100).any().to(torch::kFloat) + a.x.sum();
       }},
  };
  return all;
}

std::vector<Tensor> with_gradients(SizedCall call, const SizedArgs& a) {
  const Tensor y = call(a);
  (y * y * 0.5 + y).sum().backward();
  std::vector<Tensor> out{y.detach()};
  for (const Tensor& t : {a.x, a.w})
    if (t.grad().defined()) out.push_back(t.grad());
  return out;
}

TEST(ManySizes, OneProgramAndTheValuesOfTheCpu) {
  for (const auto& c : sized_cases()) {
    SCOPED_TRACE(c.name);
    const auto before = metrics();
    for (const int64_t n : kManySizes) {
      SCOPED_TRACE(n);
      const SizedArgs a = args_of(n, n);
      const auto want = with_gradients(c.call, a.on(torch::kCPU)), got = with_gradients(c.call, a.on(tpu()));
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], want[i], 20);
    }
    const int64_t sized = metrics().sized_executions - before.sized_executions;
    EXPECT_EQ(sized > 0, c.one_program) << sized;
  }
}

// Parts that every size has: of several elements XLA takes the end for the end of the whole.
TEST(ManySizes, PartsOfFixedSize) {
  const std::vector<std::function<Tensor(const Tensor&)>> all = {
      [](const Tensor& x) { return x.slice(0, 0, 2).clone(); },
      [](const Tensor& x) { return x.slice(0, 1, 3) * 2; },
      [](const Tensor& x) { return x.slice(0, 0, 4, 2).sum(0); },
      [](const Tensor& x) {
        return torch::cat({x.slice(0, 0, 3), x + 1});
      },
      [](const Tensor& x) {
        return torch::cat({x * 2, x.slice(0, 1, 3), x.slice(0, 0, 1)});
      },
      [](const Tensor& x) { return x.slice(0, 2, 4).matmul(x.slice(0, 0, 4).slice(1, 0, kTall)); },
      [](const Tensor& x) { return (x + 1).narrow(0, 1, 2).mean() + x.narrow(0, 0, 3); },
  };
  for (size_t f = 0; f < all.size(); ++f)
    for (const int64_t n : {4, 5, 6, 9, 16, 17, 7, 40, 4}) {
      SCOPED_TRACE(testing::Message() << "function " << f << ", size " << n);
      const Tensor x = torch::randn({n, kTall}), y = torch::randn({n});
      const bool product = f == 5;
      expect_close(all[f](x.to(tpu())), all[f](x), 20);
      if (!product) expect_close(all[f](y.to(tpu())), all[f](y), 20);
    }
}

// Programs of random ops one after the other, on what earlier runs left, too.
class RandomSized {
 public:
  RandomSized(uint64_t seed, torch::Device device) : seed_(seed), device_(device) {
    torch::manual_seed(static_cast<int64_t>(seed));
    w_ = (torch::randn({kTall, kTall}, torch::kDouble) / 2).to(device).requires_grad_();
    kept_ = torch::randn({2, kTall}, torch::kDouble).to(device);
  }
  std::vector<Tensor> run(const Tensor& x) {
    std::mt19937_64 random(seed_);
    std::vector<Tensor> all{x.to(device_), kept_};
    for (int i = 0; i < 10; ++i) all.push_back(op(all, random));
    Tensor loss = w_.sum();
    for (const Tensor& t : all) loss = loss + t.tanh().mean();
    w_.mutable_grad() = Tensor();
    loss.backward();
    const torch::NoGradGuard quiet;
    kept_ = torch::cat({kept_, all.back().detach().narrow(0, 0, 1)});
    if (kept_.size(0) > 20) kept_ = kept_.narrow(0, 18, 3).clone();
    std::vector<Tensor> out{loss.detach(), w_.grad(), kept_};
    for (const Tensor& t : all) out.push_back(t.detach());
    return out;
  }

 private:
  Tensor op(const std::vector<Tensor>& all, std::mt19937_64& random) const {
    const Tensor a = all[random() % all.size()], b = all[random() % all.size()];
    switch (random() % 12) {
      case 0:
        return a.matmul(w_).tanh();
      case 1:
        return (a.matmul(b.t()) / 4).softmax(-1).matmul(b);
      case 2:
        return torch::cat({a, b}).clamp(-9, 9).sin();
      case 3:
        return a - b.mean(0);
      case 4:
        return torch::layer_norm(a, {kTall}) * w_[0];
      case 5:
        return a / (b.abs().sum() + 1);
      case 6:
        return torch::where(a > b.amax(), a, a * 0.5);
      case 7:
        return a * torch::arange(a.size(0), a.options()).unsqueeze(1).cos();
      case 8:
        return a.t().contiguous().t() + b[0];
      case 9:
        return torch::stack({a, a * 2}, 1).sum(1) * (a.size(0) == b.size(0) ? b : a);
      case 10:
        return ((a.unsqueeze(1) - b.unsqueeze(0)).square().sum(1) / static_cast<double>(b.size(0)))
            .clamp(-4, 4);
      default:
        return a.softmax(0) + a.var(0, false);
    }
  }
  uint64_t seed_;
  torch::Device device_;
  Tensor w_, kept_;
};

void expect_random_right(uint64_t seed) {
  SCOPED_TRACE(seed);
  RandomSized host(seed, torch::kCPU), there(seed, tpu());
  for (const int64_t n : {3, 5, 4, 7, 11, 2, 1, 17, 16}) {
    SCOPED_TRACE(n);
    const Tensor x = torch::randn({n, kTall}, torch::kDouble);
    const auto want = host.run(x), got = there.run(x);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], want[i], 100);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ManySizes, RandomPrograms) {
  for (const uint64_t seed : {1, 2}) expect_random_right(seed);
}

// As Sizes.RandomProgramsForHours.
TEST(ManySizes, RandomProgramsForHours) {
  const char *seed = std::getenv("TPUBRIDGE_SIZES_SEED"), *cases = std::getenv("TPUBRIDGE_SIZES_CASES");
  if (!seed || !cases) GTEST_SKIP() << "asked for by TPUBRIDGE_SIZES_SEED and TPUBRIDGE_SIZES_CASES";
  for (uint64_t i = 0; i < std::stoull(cases); ++i) expect_random_right(std::stoull(seed) + i);
}

// A value of a program for many sizes, in the hands of everything else.
TEST(ManySizes, WhatItGivesIsATensorAsAnyOther) {
  const auto grown = [](torch::Device device, int64_t n) {
    Tensor t = torch::ones({1, 3}, device);
    for (int64_t i = 1; i < n; ++i) {
      t = torch::cat({t, t.amax(0, true) + 1});
      sync();
    }
    return t;
  };
  const int64_t before = metrics().sized_executions;
  const Tensor host = grown(torch::kCPU, 11), made = grown(tpu(), 11);
  EXPECT_GT(metrics().sized_executions, before);
  const auto fresh = [&] { return (made * 1).clone(); };
  expect_close(made, host);
  expect_close(grown(tpu(), 11).t(), host.t());
  expect_close(grown(tpu(), 11).narrow(0, 2, 4), host.narrow(0, 2, 4));
  expect_close(grown(tpu(), 11).to(torch::kDouble), host.to(torch::kDouble));
  EXPECT_EQ(grown(tpu(), 11)[10][0].item<float>(), 11);
  EXPECT_EQ(grown(tpu(), 11).nonzero().size(0), 33);  // computed on the CPU
  Tensor written = grown(tpu(), 11), want = host.clone();
  written[3].mul_(7), want[3].mul_(7);
  expect_close(written, want);
  // In compiled steps: an argument, and a captured tensor that is written.
  Tensor state = grown(tpu(), 11), state_host = host.clone();
  auto step = compile([&](const Tensor& x) {
    state.mul_(0.5).add_(x);
    return (state * x).sum();
  });
  for (int call = 0; call < 6; ++call) {
    const Tensor x = grown(tpu(), 11);
    state_host.mul_(0.5).add_(host);
    expect_close(step(x), (state_host * host).sum(), 20);
    expect_close(state, state_host, 20);
    if (call == 3) state = grown(tpu(), 11), state_host = host.clone();
  }
  expect_close(fresh(), host);
}

TEST(ManySizes, ThreadsWithSizesOfTheirOwn) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([t, &wrong] {
      for (int64_t n = 2 + t; n < 40; n += 3) {
        const Tensor x = torch::arange(n * 3, torch::kFloat).view({n, 3}) / 10;
        const Tensor want = (x.t().matmul(x)).sin(), got = (x.to(tpu()).t().matmul(x.to(tpu()))).sin().cpu();
        if (!torch::allclose(got, want, 1e-3, 1e-3)) ++wrong;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ManySizes, MemoryThatIsNotThere) {
  Tensor host = torch::ones({2, 64}), there = host.to(tpu());
  for (int i = 0; i < 12; ++i) {
    host = torch::cat({host, host.narrow(0, 0, 1) + 1}),
    there = torch::cat({there, there.narrow(0, 0, 1) + 1});
    if (i > 5) {
      const int64_t limit = set_memory_limit(device_memory().live + 100);
      EXPECT_THROW((void)there.cpu(), TPUOutOfMemoryError) << i;
      set_memory_limit(limit);
    }
    expect_close(there, host);
  }
}

}  // namespace
}  // namespace tpubridge
