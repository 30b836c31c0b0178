// Programs that XLA splits over the devices, against the same model on the CPU; pjit of the compiler.
#include "tpubridge/mesh/partitioned.h"

#include <gmock/gmock.h>

#include <memory>

#include "tests/backend/process.h"
#include "tests/device/check.h"
#include "tpubridge/backend/xla_compiler.h"
#include "tpubridge/base/backend_errors.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;

struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    up = register_module("up", torch::nn::Linear(8, 12));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({12})));
    down = register_module("down", torch::nn::Linear(12, 4));
  }
  Tensor forward(Tensor x) { return down(torch::gelu(norm(up(std::move(x))))); }
  torch::nn::Linear up{nullptr}, down{nullptr};
  torch::nn::LayerNorm norm{nullptr};
};
TORCH_MODULE(Block);

// Attention over a batch, so that products, softmax and a composite are split too.
struct AttendImpl : torch::nn::Module {
  AttendImpl() { qkv = register_module("qkv", torch::nn::Linear(8, 24)); }
  Tensor forward(Tensor x) {
    const auto parts = qkv(x).chunk(3, -1);
    const auto heads = [](const Tensor& t) { return t.unflatten(-1, {2, 4}).transpose(1, 2); };
    const auto y = at::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), {}, 0,
                                                    /*is_causal=*/true);
    return y.transpose(1, 2).flatten(2) + x;
  }
  torch::nn::Linear qkv{nullptr};
};
TORCH_MODULE(Attend);

template <class Model>
Model copy_of(const Model& model) {
  Model out;
  const torch::NoGradGuard no_grad;
  auto from = model->named_parameters();
  for (auto& p : out->named_parameters()) p.value().copy_(from[p.key()]);
  return out;
}

class Partition : public testing::Test {
 protected:
  void SetUp() override {
    if (device_count() != 4) GTEST_SKIP() << "needs four devices";
    torch::manual_seed(3);
  }
};

TEST_F(Partition, ValuesAreThoseOfTheCpu) {
  Block host;
  Block there = copy_of(host);
  there->to(tpu());
  auto forward = partition([&](const Tensor& x) { return there->forward(x); });
  for (const int64_t batch : {4, 8, 12}) {
    const auto x = torch::randn({batch, 8});
    expect_close(forward(x.to(tpu())), host->forward(x));
    expect_close(forward(x), host->forward(x));
  }
  EXPECT_EQ(forward.report().calls, 6);
  EXPECT_EQ(forward.report().devices, 4);
}

// Of the program that was compiled: one device takes a quarter of the batch and all of each parameter.
TEST_F(Partition, TheProgramIsSplit) {
  Block model;
  model->to(tpu());
  auto forward = partition([&](const Tensor& x) { return model->forward(x); });
  const auto y = forward(torch::randn({8, 8}));
  EXPECT_EQ(y.device(), torch::Device("tpu:0"));
  std::multiset<std::string> taken;
  for (const Shape& s : forward.report().parameters)
    if (s.elements() > 1) taken.insert(s.str());  // numbers come as vectors of one
  EXPECT_EQ(taken, (std::multiset<std::string>{"f32[2,8]", "f32[12,8]", "f32[12]", "f32[12]", "f32[12]",
                                               "f32[4,12]", "f32[4]"}));
}

TEST_F(Partition, Attention) {
  Attend host;
  Attend there = copy_of(host);
  there->to(tpu());
  auto forward = partition([&](const Tensor& x) { return there->forward(x); });
  const auto x = torch::randn({4, 5, 8});
  expect_close(forward(x), host->forward(x));
  EXPECT_THAT(forward.report().parameters, testing::Contains(Shape{DType::f32, {1, 5, 8}}));
}

TEST_F(Partition, ParametersAreCopiedOnceAndWhenTheyChange) {
  Block model;
  model->to(tpu());
  auto forward = partition([&](const Tensor& x) { return model->forward(x); });
  const auto x = torch::randn({4, 8});
  const auto first = forward(x).cpu();
  const int64_t once = forward.report().copies;
  EXPECT_EQ(once, 6 * 3) << "six parameters to three devices";
  EXPECT_TRUE(forward(x).cpu().equal(first));
  EXPECT_EQ(forward.report().copies, once);
  {
    const torch::NoGradGuard no_grad;
    model->down->bias.add_(1);
  }
  expect_close(forward(x), first + 1);
  EXPECT_EQ(forward.report().copies, once + 3);
  // A compiled step puts its new values into the same data.
  auto step = compile([&] {
    const torch::NoGradGuard no_grad;
    model->down->bias.add_(1);
  });
  for (int i = 2; i < 8; ++i) {
    step();
    expect_close(forward(x), first + i);
  }
}

// Nothing is compiled a second time, and the scope sees programs over several devices.
TEST_F(Partition, IsSeenByExpectNoCompile) {
  auto f = partition([](const Tensor& x) { return (x * 3 + 2).sum(1); });
  const auto x = torch::randn({8, 3}).to(tpu());
  const auto want = (x.cpu() * 3 + 2).sum(1);
  const int64_t before = metrics().compiles;
  {
    const auto scope = expect_no_compile();
    EXPECT_THROW((void)f(x), CompilationError);
  }
  EXPECT_EQ(metrics().compiles, before);
  expect_close(f(x), want);
  EXPECT_GT(metrics().compiles, before);
  const auto scope = expect_no_compile();
  expect_close(f(x), want);
}

TEST_F(Partition, ABatchThatDoesNotDivide) {
  auto f = partition([](const Tensor& x) { return x + 1; });
  try {
    (void)f(torch::ones({6, 2}));
    FAIL() << "six over four";
  } catch (const TPUDistributedError& e) {
    EXPECT_THAT(e.what(), HasSubstr("a batch of 6 cannot be split over 4 devices"));
    EXPECT_THAT(e.hint(), HasSubstr("8"));
  }
  expect_close(f(torch::ones({4, 2})), torch::full({4, 2}, 2.f));
  expect_close(f(torch::ones({})), torch::full({}, 2.f));  // nothing to split
}

TEST_F(Partition, WhatIsNotOfTheBatchIsEverywhere) {
  auto f = partition([](const Tensor& x, const Tensor& mask, const std::vector<Tensor>& more) {
    return x * mask + more.at(0).unsqueeze(1);
  });
  const auto x = torch::randn({8, 3}), mask = torch::randn({3}), more = torch::randn({8});
  expect_close(f(x, mask, std::vector<Tensor>{more}), x * mask + more.unsqueeze(1));
  expect_close(f(x.t().contiguous().t(), mask, std::vector<Tensor>{more}), x * mask + more.unsqueeze(1));
}

// A whole training step: the partitioner adds up the gradients, parameters come back changed.
TEST_F(Partition, ATrainingStep) {
  Block host;
  Block there = copy_of(host);
  there->to(tpu());
  torch::optim::SGD on_host(host->parameters(), 0.1), on_device(there->parameters(), 0.1);
  const auto step = [](Block model, torch::optim::SGD& opt, const Tensor& x, const Tensor& y) {
    opt.zero_grad();
    auto loss = torch::mse_loss(model->forward(x), y);
    loss.backward();
    opt.step();
    return loss;
  };
  auto split = partition([&](const Tensor& x, const Tensor& y) { return step(there, on_device, x, y); });
  int64_t copies = 0;
  for (int i = 0; i < 4; ++i) {
    const auto x = torch::randn({8, 8}), y = torch::randn({8, 4});
    expect_close(split(x, y), step(host, on_host, x, y).detach(), 10);
    if (i == 1) copies = split.report().copies;
  }
  EXPECT_EQ(split.report().copies, copies) << "new parameters are on every device already";
  for (const auto& p : host->named_parameters())
    expect_close(there->named_parameters()[p.key()].detach(), p.value().detach(), 10);
}

Tensor train_once(BlockImpl& model, torch::optim::AdamW& opt, const Tensor& x, const Tensor& y) {
  opt.zero_grad();
  auto loss = torch::mse_loss(model.forward(x), y);
  loss.backward();
  opt.step();
  return loss;
}

// Two calls are traced. Then nothing is: one program over all devices, beside one for each argument's parts.
TEST_F(Partition, FromTheThirdCallOnNothingIsTraced) {
  Block host;
  Block there = copy_of(host);
  there->to(tpu());
  torch::optim::AdamW on_host(host->parameters(), 0.01);
  const auto on_device = std::make_unique<torch::optim::AdamW>(there->parameters(), 0.01);
  // It captures two addresses of what is known, and no padding. What stands beside them may still change and
  // cost a traced call (docs/compile.md): those are counted, and the others are looked at.
  auto split = partition([model = there.get(), opt = on_device.get()](
                             const Tensor& x, const Tensor& y) { return train_once(*model, *opt, x, y); },
                         {.modules = {there.ptr()}, .optimizers = {on_device.get()}, .name = "split"});
  constexpr int kCalls = 7;
  int quiet = 0;
  for (int i = 0; i < kCalls; ++i) {
    const auto x = torch::randn({8, 8}), y = torch::randn({8, 4});
    if (i == 4) {  // a write from outside is seen
      const torch::NoGradGuard no_grad;
      there->down->bias.add_(0.5);
      host->down->bias.add_(0.5);
      sync();
    }
    const auto traced = split.report().traced;
    const Metrics before = metrics();
    const auto loss = split(x, y);
    const Metrics after = metrics();
    if (split.report().traced == traced) {
      ++quiet;
      EXPECT_EQ(after.traced_ops, before.traced_ops) << i;
      EXPECT_EQ(after.compiles, before.compiles) << i;
      EXPECT_EQ(after.executions, before.executions + 3) << i;
    }
    expect_close(loss, train_once(*host, on_host, x, y).detach(), 10);
    expect_close(there->down->bias.grad(), host->down->bias.grad(), 20);
  }
  EXPECT_GE(quiet, 3) << split.report().why_traced;
  EXPECT_EQ(split.report().replayed, quiet);
  EXPECT_EQ(split.report().traced, kCalls - quiet);
  for (const auto& p : host->named_parameters())
    expect_close(there->named_parameters()[p.key()].detach(), p.value().detach(), 20);
}

// What is overwritten gives its memory to what takes its place, on every device: a limit with no room for
// both is enough. What somebody else holds is kept.
TEST_F(Partition, WhatIsOverwrittenIsTakenOver) {
  const int64_t n = 1 << 18;  // 1 MiB
  auto state = torch::ones({n}).to(tpu());
  auto add = partition([&](const Tensor& x) {
    state.add_(x.sum());
    return x + 1;
  });
  const auto x = torch::ones({4}).to(tpu());
  for (int i = 0; i < 3; ++i) (void)add(x);
  sync({state});
  std::vector<int64_t> live;
  for (int d = 0; d < 4; ++d) live.push_back(device_memory(d).live);
  const int64_t most = *std::ranges::max_element(live);
  const int64_t old = set_memory_limit(most + n);  // a quarter of what a second one would take
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(expect_close(add(x), torch::full({4}, 2.f)));
  set_memory_limit(old);
  for (int d = 0; d < 4; ++d) EXPECT_LE(device_memory(d).live, live[static_cast<size_t>(d)] + 1024) << d;
  EXPECT_EQ(state[0].item<float>(), 1 + 4 * 6);
  EXPECT_EQ(add.report().replayed, 4);
  const auto kept = state.clone();
  sync({kept});
  (void)add(x);
  EXPECT_EQ(kept[n - 1].item<float>(), 25);
  EXPECT_EQ(state[n - 1].item<float>(), 29);
}

TEST_F(Partition, WhatFailsLeavesEverythingAsItWas) {
  const auto state = torch::ones({4}).to(tpu());
  auto f = partition([&](const Tensor& x) {
    state.add_(1);
    return x * x.sum().item<float>();
  });
  EXPECT_THROW((void)f(torch::ones({4})), UnsupportedError) << "a value on the host";
  expect_close(state, torch::ones({4}));
  auto g = partition([&](const Tensor& x) { return state.add_(1) + x; });
  expect_close(g(torch::ones({4})), torch::full({4}, 3.f));
  expect_close(state, torch::full({4}, 2.f));
}

TEST_F(Partition, MaximaAndMinimaKeepNaN) {
  const auto x = torch::arange(12.f).view({4, 3});
  x[1][0] = x[2][1] = std::nanf("");
  auto f = partition([](const Tensor& t) { return std::pair{t.amax(0), t.amin(0)}; });
  const auto [most, least] = f(x);
  expect_close(most, x.amax(0));
  expect_close(least, x.amin(0));
}

class CompilerPartitioned : public Partition {};

TEST_F(CompilerPartitioned, OverTheDevices) {
  XLACompiler compiler(TPUConfig{.compilation_mode = CompilationMode::pjit});
  Block host;
  Block there = copy_of(host);
  auto compiled = compiler.optimize_for_inference(there, torch::randn({8, 8}));
  EXPECT_EQ(there->up->weight.device(), torch::Device("tpu:0"));
  host->eval();
  const auto x = torch::randn({8, 8});
  {
    const auto scope = expect_no_compile();
    expect_close(compiled(x), host->forward(x));
  }
  EXPECT_THAT(compiled.core()->partition(), testing::Contains(Shape{DType::f32, {2, 8}}));
  EXPECT_GT(compiled.stats().compilation_time, 0);
  EXPECT_THROW((void)compiled(torch::randn({3, 8})), TPUDistributedError);
  EXPECT_THROW((void)compiler.compile_model(there, torch::randn({3, 8})), TPUDistributedError);
  const auto timed = compiler.benchmark_compilation(there, torch::randn({8, 8}), 2);
  EXPECT_EQ(timed.runs, 2);
  EXPECT_GT(timed.min_time, 0);
}

TEST(PartitionAlone, OverTwoDevices) {
  expect_in_new_process([]() -> std::string {
    setenv("TPUBRIDGE_CPU_DEVICES", "2", 1);
    if (device_count() != 2) return "there are " + std::to_string(device_count()) + " devices";
    Block host;
    Block there = copy_of(host);
    XLACompiler compiler(TPUConfig{.compilation_mode = CompilationMode::pjit});
    auto compiled = compiler.optimize_for_inference(there, torch::ones({6, 8}));
    const auto x = torch::randn({6, 8});
    if (!torch::allclose(compiled(x).cpu(), host->forward(x), 1e-4, 1e-5)) return "other values";
    const auto parts = compiled.core()->partition();
    return std::ranges::count(parts, Shape{DType::f32, {3, 8}}) == 1 ? "" : "no half of the batch";
  });
}

TEST(PartitionAlone, WithOneDeviceItSaysSoOnceAndWorks) {
  expect_in_new_process([]() -> std::string {
    setenv("TPUBRIDGE_CPU_DEVICES", "1", 1);
    const log::Capture log(log::Level::warn);
    XLACompiler compiler(TPUConfig{.compilation_mode = CompilationMode::pjit});
    Block host;
    Block there = copy_of(host);
    const auto x = torch::randn({3, 8});
    for (int i = 0; i < 2; ++i) {
      auto compiled = compiler.optimize_for_inference(there, x);
      if (!torch::allclose(compiled(x).cpu(), host->forward(x), 1e-4, 1e-5)) return "other values";
      if (compiled.stats().mode != "torch_xla") return "another mode: " + compiled.stats().mode;
    }
    return log.records("compiler.one_device").size() == 1 ? "" : "not said once";
  });
}

}  // namespace
}  // namespace tpubridge
