// Tensors that begin with zeros: the first step of a loop is the program of all others.
#include <functional>
#include <random>

#include "tests/device/check.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge {
namespace {

using torch::Tensor;
using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<Tensor>)>;

// The loss of each step, and the compiles of each.
struct FirstLosses {
  std::vector<Tensor> losses;
  std::vector<int64_t> compiles;
};

FirstLosses train(torch::Device device, const MakeOptimizer& make) {
  torch::manual_seed(3);
  torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::Tanh(), torch::nn::Linear(8, 2));
  net->to(torch::kDouble);
  net->to(device);
  const auto optimizer = make(net->parameters());
  FirstLosses out;
  for (int i = 0; i < 5; ++i) {
    const int64_t before = metrics().compiles;
    const auto x = torch::sin(torch::arange(32, torch::kDouble).view({8, 4}) * (0.1 + 0.05 * i)).to(device);
    optimizer->zero_grad();
    const auto loss = net->forward(x).square().mean();
    loss.backward();
    optimizer->step();
    out.losses.push_back(loss.detach().cpu());
    out.compiles.push_back(metrics().compiles - before);
  }
  return out;
}

struct Named {
  const char* name;
  MakeOptimizer make;
};
std::vector<Named> optimizers_with_state() {
  using namespace torch::optim;
  const auto of = [](auto type, auto options) -> MakeOptimizer {
    return [options](std::vector<Tensor> p) {
      return std::make_unique<typename decltype(type)::type>(std::move(p), options);
    };
  };
  return {{"Adam", of(std::type_identity<Adam>(), AdamOptions(0.01))},
          {"Adam with amsgrad", of(std::type_identity<Adam>(), AdamOptions(0.01).amsgrad(true))},
          {"AdamW", of(std::type_identity<AdamW>(), AdamWOptions(0.01))},
          {"RMSprop", of(std::type_identity<RMSprop>(), RMSpropOptions(0.01).momentum(0.9).centered(true))},
          {"Adagrad", of(std::type_identity<Adagrad>(), AdagradOptions(0.01))}};
}

TEST(FirstSteps, OfOptimizersAreTheProgramOfAllOthers) {
  for (const auto& [name, make] : optimizers_with_state()) {
    SCOPED_TRACE(name);
    const FirstLosses there = train(tpu(), make), here = train(torch::kCPU, make);
    for (size_t i = 0; i < here.losses.size(); ++i) expect_close(there.losses[i], here.losses[i], 1e3);
    EXPECT_EQ(there.compiles, (std::vector<int64_t>{1, 0, 0, 0, 0}));
  }
}

TEST(FirstSteps, SumsThatALoopAddsTo) {
  const auto x = torch::arange(6, torch::kFloat);
  std::vector<int64_t> compiles;
  for (int epoch = 0; epoch < 3; ++epoch) {
    auto there = torch::zeros({}, tpu()), here = torch::zeros({});
    for (int i = 0; i < 3; ++i) {
      const int64_t before = metrics().compiles;
      there += (x.to(tpu()) * 2).sum();
      here += (x * 2).sum();
      EXPECT_EQ(there.item<float>(), here.item<float>());
      compiles.push_back(metrics().compiles - before);
    }
  }
  EXPECT_EQ(compiles, (std::vector<int64_t>{1, 0, 0, 0, 0, 0, 0, 0, 0}));
}

// What a loop makes anew in each round, and much of it, is not copied for ever.
TEST(FirstSteps, LargeOnesOfEachRoundAreMadeOnTheDevice) {
  constexpr int64_t kRows = 512, kClasses = 1024;  // 2 MiB
  const auto labels = torch::arange(kRows).remainder(7).unsqueeze(1), there = labels.to(tpu());
  std::vector<int64_t> copied;
  for (int i = 0; i < 6; ++i) {
    const int64_t before = metrics().host_to_device_bytes;
    auto hot = torch::zeros({kRows, kClasses}, tpu());
    hot.scatter_(1, there, 1.0);
    expect_close(hot.sum(0), torch::zeros({kRows, kClasses}).scatter_(1, labels, 1.0).sum(0));
    copied.push_back(metrics().host_to_device_bytes - before);
  }
  EXPECT_LE(copied.back(), 1 << 16) << copied;
}

// They need not fit beside everything else.
TEST(FirstSteps, ThatDoNotFitAsData) {
  auto x = torch::ones({1024}, tpu());
  (void)x.cpu();
  const int64_t limit = set_memory_limit(device_memory().live + 6000);
  auto sum = torch::zeros({1024}, tpu());  // 4096 bytes; as data and as a result they would be twice as many
  sum.add_(x);
  auto second = torch::zeros({1024}, tpu());
  second.add_(x).mul_(2);
  EXPECT_THROW((void)(second + sum).cpu(), TPUOutOfMemoryError);
  set_memory_limit(limit);
  expect_close(second + sum, torch::full({1024}, 3.0F));
  expect_close(sum, torch::ones({1024}));
}

TEST(FirstZeros, OfEveryType) {
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16, torch::kInt,
                          torch::kLong, torch::kShort, torch::kChar, torch::kByte}) {
    auto there = torch::zeros({3, 2}, torch::TensorOptions(tpu()).dtype(type)),
         here = torch::zeros({3, 2}, type);
    for (auto* t : {&there, &here}) t->sub_(1).select(0, 1).sub_(2);  // bytes wrap around
    expect_close(there, here);
    for (auto* t : {&there, &here}) t->mul_(3);
    expect_close(there, here);
  }
  auto there = torch::zeros({4}, torch::TensorOptions(tpu()).dtype(torch::kBool)),
       here = torch::zeros({4}, torch::kBool);
  for (auto* t : {&there, &here}) t->select(0, 2).logical_not_();
  expect_close(there, here);
}

TEST(FirstZeros, NegativeOnesKeepTheirSign) {
  const auto sign = [](torch::Device d) {
    auto x = torch::full({2}, -0.0, d);
    x.mul_(1.0);
    return (1 / x).cpu();
  };
  EXPECT_TRUE(torch::equal(sign(tpu()), sign(torch::kCPU))) << sign(tpu());
  auto step = tpubridge::compile([](const Tensor& in) {
    auto x = torch::full({2}, -0.0, in.options());
    x.mul_(in);
    return 1 / x;
  });
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(torch::equal(step(torch::ones({2}, tpu())).cpu(), torch::full({2}, -INFINITY)));
}

// Zeros that are cloned, written through views, swapped, dropped and read at any time, beside the CPU.
class RandomZeros {
 public:
  explicit RandomZeros(uint64_t seed) : random_(seed) {}
  void expect_the_cpus_values() {
    for (int i = 0; i < 4; ++i) make(i);
    for (int i = 0; i < 60; ++i) {
      change();
      if (pick(6) == 0) {
        const auto k = pick(4);
        expect_close(there_[k], here_[k]);
      }
    }
    for (size_t k = 0; k < 4; ++k) expect_close(there_[k], here_[k]);
  }

 private:
  size_t pick(size_t n) { return random_() % n; }
  void make(size_t k) {
    const std::vector<int64_t> sizes = {4, 3};
    const double with = std::array{0.0, 0.0, -0.0, 1.0}[pick(4)];
    there_[k] =
        with == 0 && !std::signbit(with) ? torch::zeros(sizes, tpu()) : torch::full(sizes, with, tpu());
    here_[k] = with == 0 && !std::signbit(with) ? torch::zeros(sizes) : torch::full(sizes, with);
  }
  void change() {
    const size_t k = pick(4), l = pick(4);
    const auto row = static_cast<int64_t>(pick(4));
    const double number = 0.25 * static_cast<double>(pick(5));
    const size_t what = pick(9);
    for (auto* t : {&there_, &here_}) {
      Tensor &a = (*t)[k], &b = (*t)[l];
      switch (what) {
        case 0:
          a.add_(number);
          break;
        case 1:
          a.mul_(0.5).add_(b);
          break;
        case 2:
          a.select(0, row).add_(number);
          break;
        case 3:
          a.select(0, row).copy_(b.select(0, 0));
          break;
        case 4:
          a = b.clone();
          break;
        case 5:
          std::swap(a, b);
          break;
        case 6:
          a.copy_(b);
          break;
        case 7:
          a.zero_();
          break;
        default:
          a = b + number;
          break;
      }
    }
    if (pick(5) == 0) make(k);
  }
  std::mt19937_64 random_;
  std::array<Tensor, 4> there_, here_;
};

TEST(FirstZeros, Random) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    RandomZeros(seed).expect_the_cpus_values();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tpubridge
