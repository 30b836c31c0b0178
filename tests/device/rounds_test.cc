// Loops that read nothing for long: each round is a program of its own, and the same one.
#include <random>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

// A small model that is trained, on the device or on the CPU.
struct Training {
  explicit Training(torch::Device d) : device(d) {
    torch::manual_seed(5);
    net = torch::nn::Sequential(torch::nn::Linear(4, 6), torch::nn::Tanh(), torch::nn::Linear(6, 2));
    net->to(torch::kDouble);
    net->to(device);
    optimizer = std::make_unique<torch::optim::Adam>(net->parameters(), torch::optim::AdamOptions(0.01));
  }
  Tensor step(int64_t i, int64_t rows = 8) {
    const auto x = torch::sin(torch::arange(rows * 4, torch::kDouble).view({rows, 4}) *
                              (0.1 + 0.01 * static_cast<double>(i)));
    optimizer->zero_grad();
    const auto loss = net->forward(x.to(device)).square().mean();
    loss.backward();
    optimizer->step();
    return loss.detach();
  }
  const torch::Device device;
  torch::nn::Sequential net = nullptr;
  std::unique_ptr<torch::optim::Adam> optimizer;
};

void expect_same_parameters(Training& there, Training& here) {
  for (size_t i = 0; i < here.net->parameters().size(); ++i)
    expect_close(there.net->parameters()[i].detach(), here.net->parameters()[i].detach(), 1e4);
}

TEST(Rounds, CompilesDoNotDependOnTheLengthOfALoop) {
  std::vector<int64_t> compiles;
  for (const int64_t steps : {40, 120}) {
    Training there(tpu()), here(torch::kCPU);
    const int64_t before = metrics().compiles;
    Tensor loss, want;
    for (int64_t i = 0; i < steps; ++i) loss = there.step(i), want = here.step(i);
    expect_close(loss, want, 1e4);
    expect_same_parameters(there, here);
    compiles.push_back(metrics().compiles - before);
  }
  EXPECT_LE(compiles[0], 6);  // what comes before the rounds, a round (with offsets as inputs), what is left
  EXPECT_LE(compiles[1], 2);  // what is left, where the loop ends in another place
}

TEST(Rounds, ALoopThatIsReadNowAndThen) {
  Training there(tpu()), here(torch::kCPU);
  int64_t compiles = 0;
  for (int64_t i = 0; i < 200; ++i) {
    const Tensor loss = there.step(i), want = here.step(i);
    if (i % 40 == 39) expect_close(loss, want, 1e4);
    if (i == 125)
      compiles = metrics().compiles;  // what stands around a read was seen with other numbers, too
  }
  EXPECT_EQ(metrics().compiles, compiles);
  expect_same_parameters(there, here);
}

// Other ops, other sizes, another rate, another loop: whatever comes in between.
TEST(Rounds, ALoopThatChanges) {
  Training there(tpu()), here(torch::kCPU);
  Tensor sum = torch::zeros({}, torch::TensorOptions(torch::kDouble).device(tpu())),
         want = torch::zeros({}, torch::kDouble);
  for (int64_t i = 0; i < 120; ++i) {
    for (auto* t : {&there, &here}) {
      const int64_t rows = i >= 50 && i < 55 ? 3 : 8;
      if (i == 30)
        static_cast<torch::optim::AdamOptions&>(t->optimizer->param_groups()[0].options()).lr(0.003);
      if (i == 70)
        for (auto& p : t->net->parameters()) p.detach().mul_(0.5);
      auto& total = t == &there ? sum : want;
      total.add_(t->step(i, rows));
      if (i >= 90) total.mul_(0.9);
    }
  }
  expect_close(sum, want, 1e4);
  expect_same_parameters(there, here);
}

TEST(Rounds, TinyRoundsAreTakenTogether) {
  auto x = torch::zeros({4}, torch::kDouble).to(tpu());
  x.add_(1);
  (void)x.cpu();
  const auto before = metrics();
  for (int i = 0; i < 3000; ++i) x.add_(1);
  expect_close(x, torch::full({4}, 3001.0, torch::kDouble));
  const auto after = metrics();
  EXPECT_LE(after.compiles - before.compiles, 4);
  EXPECT_LE(after.executions - before.executions, 40);
}

// Layers that are alike write to storages of their own: one step stays one program.
TEST(Rounds, AStepOfManyLikeLayersIsOneProgram) {
  torch::nn::Sequential net;
  for (int i = 0; i < 40; ++i) net->push_back(torch::nn::Linear(4, 4)), net->push_back(torch::nn::Tanh());
  net->to(tpu());
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(0.01));
  const auto x = torch::ones({2, 4}).to(tpu());
  for (int i = 0; i < 4; ++i) {
    const auto before = metrics();
    optimizer.zero_grad();
    auto loss = net->forward(x).square().mean();
    loss.backward();
    optimizer.step();
    (void)loss.item<float>();
    EXPECT_GT(metrics().traced_ops - before.traced_ops, 600);
    EXPECT_EQ(metrics().executions - before.executions, 1) << i;
  }
}

// A round that cannot be computed is nobody's error until a value is asked for: no op throws, none is lost.
TEST(Rounds, ThatCannotBeComputedYet) {
  struct Side {
    explicit Side(torch::Device d)
        : a(torch::linspace(0, 1, 9, torch::kDouble).view({3, 3}).to(d)), b(torch::zeros_like(a)) {}
    void step(int i) {
      a.mul_(0.9).add_(b.sin(), 0.1);
      b.add_(a.matmul(a).tanh());
      a[i % 3].add_(0.01 * i);
    }
    Tensor a, b;
  };
  for (const bool memory : {true, false}) {
    Side there(tpu()), here(torch::kCPU);
    const auto both = [&](int from, int to) {
      for (int i = from; i < to; ++i) there.step(i), here.step(i);
    };
    both(0, 20);
    if (memory) {
      const int64_t old = set_memory_limit(device_memory().live + 8);
      EXPECT_NO_THROW(both(20, 100));
      EXPECT_THROW((void)there.a.cpu(), TPUOutOfMemoryError);
      set_memory_limit(old);
    } else {
      const exec::ExpectNoCompile none;
      EXPECT_NO_THROW(both(20, 100));
    }
    both(100, 150);
    expect_close(there.a, here.a, 1e4);
    expect_close(there.b, here.b, 1e4);
  }
}

// Random loops over a few tensors, in place and not, with reads in between, as on the CPU.
class RandomRounds : public testing::TestWithParam<uint32_t> {};

TEST_P(RandomRounds, AreAsOnTheCpu) {
  std::mt19937 random(GetParam());
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  struct Act {
    uint32_t kind, a, b;
  };
  const auto body = [&] {
    std::vector<Act> out;
    for (uint32_t i = 0, n = 8 + below(12); i < n; ++i) out.push_back({below(7), below(4), below(4)});
    return out;
  };
  const auto run = [](const std::vector<Act>& acts, Tensors& t, int64_t round) {
    for (const auto& [kind, a, b] : acts) {
      if (kind == 0) t[a].mul_(0.5).add_(t[b], 0.25);
      if (kind == 1) t[a] = (t[a] + t[b]).tanh();
      if (kind == 2) t[a].copy_(t[b]);
      if (kind == 3) t[a][round % 3].add_(t[b][0].tanh());
      if (kind == 4) t[a] = t[b].sin().detach();
      if (kind == 5) t[a].fill_(0.125 * static_cast<double>(round % 5));
      if (kind == 6) t[a].slice(0, 0, 2).mul_(t[b].slice(0, 1, 3).cos());
    }
  };
  Tensors there, here;
  for (int i = 0; i < 4; ++i) {
    here.push_back(torch::linspace(0, 1 + i, 9, torch::kDouble).view({3, 3}));
    there.push_back(here.back().to(tpu()));
  }
  for (int loop = 0; loop < 3; ++loop) {
    const auto acts = body();
    const int64_t rounds = 20 + below(120), reads = 7 + below(60);
    for (int64_t i = 0; i < rounds; ++i) {
      run(acts, here, i);
      run(acts, there, i);
      if (i % reads == reads - 1) expect_close(there[i % 4], here[i % 4], 1e4);
    }
  }
  for (size_t i = 0; i < 4; ++i) expect_close(there[i], here[i], 1e4);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRounds, testing::Range(0u, 4u));

}  // namespace
}  // namespace tpubridge
