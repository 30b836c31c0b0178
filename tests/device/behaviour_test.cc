// How the device behaves around the ops: random numbers, autocast, threads, errors, and its account of
// itself.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "tests/device/check.h"
#include "tests/device/models.h"

namespace tpubridge {
namespace {

// Two devices on the CPU plugin; read when the first test opens the client.
const int kTwoDevices = setenv("TPUBRIDGE_CPU_DEVICES", "2", 0);

TEST(Random, IsReproducibleAndMovesOn) {
  torch::manual_seed(11);
  const auto a = torch::rand({100}, tpu()), b = torch::rand({100}, tpu());
  EXPECT_FALSE(a.equal(b));
  torch::manual_seed(11);
  EXPECT_TRUE(torch::rand({100}, tpu()).equal(a));
  EXPECT_TRUE(torch::rand({100}, tpu()).equal(b));
}

TEST(Random, DrawsWithoutCompiling) {
  const auto first = torch::randn({64}, tpu()).cpu();
  const auto scope = expect_no_compile();
  EXPECT_FALSE(torch::randn({64}, tpu()).cpu().equal(first));
}

TEST(Random, HasTheRightDistributions) {
  torch::manual_seed(3);
  const auto u = torch::rand({100000}, tpu()).cpu(), n = torch::randn({100000}, tpu()).cpu();
  EXPECT_NEAR(u.mean().item<double>(), 0.5, 0.01);
  EXPECT_NEAR(u.var().item<double>(), 1.0 / 12, 0.01);
  EXPECT_GE(u.min().item<double>(), 0);
  EXPECT_LT(u.max().item<double>(), 1);
  EXPECT_NEAR(n.mean().item<double>(), 0, 0.02);
  EXPECT_NEAR(n.std().item<double>(), 1, 0.02);
  const auto i = torch::randint(-3, 5, {10000}, torch::TensorOptions(tpu()).dtype(torch::kLong)).cpu();
  EXPECT_EQ(i.min().item<int64_t>(), -3);
  EXPECT_EQ(i.max().item<int64_t>(), 4);
  EXPECT_NEAR(torch::bernoulli(torch::full({100000}, 0.3, tpu())).mean().item<double>(), 0.3, 0.01);
}

TEST(Random, GeneratorsSaveAndRestoreTheirState) {
  auto g = at::globalContext().defaultGenerator(tpu());
  const auto state = g.get_state();
  const auto a = torch::rand({10}, tpu());
  g.set_state(state);
  EXPECT_TRUE(torch::rand({10}, tpu()).equal(a));
}

TEST(Random, DropoutScalesWhatItKeeps) {
  torch::manual_seed(5);
  const auto x = torch::ones({10000}, tpu()).requires_grad_();
  const auto y = torch::dropout(x, 0.25, true);
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.03);
  EXPECT_NEAR((y == 0).to(torch::kFloat).mean().item<double>(), 0.25, 0.03);
  const auto g = torch::autograd::grad({y.sum()}, {x})[0];
  EXPECT_TRUE(g.equal(y.detach()));
}

TEST(Autocast, RunsProductsInBf16) {
  const auto x = torch::randn({4, 8}), w = torch::randn({8, 3});
  at::autocast::set_autocast_enabled(at::kPrivateUse1, true);
  at::autocast::set_autocast_dtype(at::kPrivateUse1, at::kBFloat16);
  const auto y = x.to(tpu()).mm(w.to(tpu()));
  const auto s = torch::softmax(y, 1);
  at::autocast::set_autocast_enabled(at::kPrivateUse1, false);
  at::autocast::clear_cache();
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(s.scalar_type(), torch::kFloat);
  EXPECT_TRUE(torch::allclose(y.cpu().to(torch::kFloat), x.mm(w), 5e-2, 5e-2));
}

TEST(Devices, AreSeveralAndCopyToEachOther) {
  if (device_count() < 2) GTEST_SKIP() << "this plugin has one device";
  const torch::Device second("tpu:1");
  const auto a = torch::arange(4, torch::kFloat).to(tpu());
  const auto b = (a * 2).to(second);
  EXPECT_EQ(b.device(), second);
  expect_close(b + torch::ones({4}, second), torch::arange(4, torch::kFloat) * 2 + 1);
  EXPECT_THROW(a + b, c10::Error);
  EXPECT_THROW(torch::ones({1}, torch::Device("tpu:63")), TPUDeviceError);
}

// Which threads' ops meet in one program is chance, and with it the last digits.
TEST(Threads, TrainAtTheSameTime) {
  auto train = [](torch::Device device) {
    auto w = torch::full({8, 8}, 0.1).to(device).requires_grad_();
    const auto x = torch::ones({4, 8}).to(device);
    double last = 0;
    for (int step = 0; step < 5; ++step) {
      const auto loss = (x.mm(w) - 3).pow(2).mean();
      w.mutable_grad() = torch::Tensor();
      loss.backward();
      torch::NoGradGuard no_grad;
      w.sub_(w.grad() * 0.1);
      last = loss.item<double>();
    }
    return last;
  };
  std::vector<double> losses(4);
  std::vector<std::thread> threads;
  for (double& l : losses) threads.emplace_back([&] { l = train(tpu()); });
  for (auto& t : threads) t.join();
  const double want = train(torch::kCPU);
  for (double l : losses) EXPECT_NEAR(l, want, 1e-5 * want);
}

TEST(Trace, LongLoopsMaterialiseByThemselves) {
  const auto old = exec::set_graph_limit(1000);
  auto x = torch::zeros({4}, tpu());
  for (int i = 0; i < 5000; ++i) x = x + 1;
  exec::set_graph_limit(old);
  expect_close(x, torch::full({4}, 5000.0));
  EXPECT_GE(metrics().materialisations["graph limit"], 4);
}

TEST(Trace, DeadValuesAreNotComputed) {
  auto a = torch::ones({4}, tpu());
  sync();
  const auto before = metrics();
  { auto dead = (a + 1).exp(); }
  sync();
  EXPECT_EQ(metrics().executions, before.executions);
}

TEST(Trace, EagerModeRunsEveryOp) {
  exec::set_eager(true);
  const auto before = metrics().executions;
  const auto a = torch::ones({4}, tpu());
  const auto b = a + 1, c = b * 2;
  exec::set_eager(false);
  EXPECT_GE(metrics().executions - before, 3);
  expect_close(c, torch::full({4}, 4.0));
}

TEST(Trace, ExpectNoCompileThrowsAndLosesNothing) {
  const auto x = torch::arange(7, torch::kFloat).to(tpu());
  const auto y = x.sin().cos().exp();
  {
    const auto scope = expect_no_compile();
    EXPECT_THROW(y.cpu(), CompilationError);
  }
  expect_close(y, torch::arange(7, torch::kFloat).sin().cos().exp());
}

TEST(Trace, AFailedProgramPoisonsItsValuesAlone) {
  const auto good = torch::ones({4}, tpu());
  sync();
  {
    const auto huge = torch::ones({int64_t{1} << 40}, tpu());
    EXPECT_THROW(huge.cpu(), std::exception);
    EXPECT_THROW((huge + 1).sum().item<float>(), std::exception);
  }
  expect_close(good + 1, torch::full({4}, 2.0));
}

TEST(Memory, IsFreedAndDonated) {
  sync();
  const auto before = metrics().live_device_bytes;
  {
    auto x = torch::zeros({1000, 1000}, tpu());
    sync();
    EXPECT_EQ(metrics().live_device_bytes - before, 4000000);
    for (int i = 0; i < 3; ++i) {
      x.add_(1.5);
      sync();
    }
    EXPECT_EQ(metrics().live_device_bytes - before, 4000000);
    EXPECT_FLOAT_EQ(x[7][7].item<float>(), 4.5f);
  }
  EXPECT_EQ(metrics().live_device_bytes, before);
}

TEST(Report, SaysWhatHappened) {
  FallbackScope quiet(Fallback::allow);
  (void)torch::histc(torch::eye(2, tpu()));
  const std::string text = report();
  for (const char* word : {"traced ops", "compiles", "histc", "device memory"})
    EXPECT_NE(text.find(word), text.npos) << text;
  EXPECT_EQ(tpubridge_compile_count(), metrics().compiles);
  EXPECT_EQ(tpubridge_cpu_fallback_count(), metrics().fallback_count());
}

TEST(Fallback, WritesListsBack) {
  FallbackScope quiet(Fallback::allow);
  std::vector<torch::Tensor> list{torch::ones({2}, tpu()), torch::ones({3}, tpu())};
  at::_foreach_add_(list, 2);
  expect_close(list[0], torch::full({2}, 3.0));
  expect_close(list[1], torch::full({3}, 3.0));
}

TEST(DataDependent, OpsSynchroniseAndWork) {
  const auto x = torch::tensor({1.0f, -2.0f, 3.0f, -4.0f}), y = x.to(tpu());
  expect_close(y.nonzero(), x.nonzero());
  expect_close(y.masked_select(y > 0), x.masked_select(x > 0));
  expect_close(y.index({y < 0}), x.index({x < 0}));
  EXPECT_GE(metrics().synchronising.size(), 2u);
}

TEST(Values, NanComesThroughMaximaAndMinima) {
  const auto x = torch::tensor({1.0f, NAN, -2.0f}), y = torch::tensor({NAN, 1.0f, 3.0f});
  const auto a = x.to("tpu"), b = y.to("tpu");
  const auto same = [](const torch::Tensor& device, const torch::Tensor& cpu) {
    EXPECT_TRUE(torch::allclose(device.cpu(), cpu, 0, 0, /*equal_nan=*/true)) << device.cpu() << cpu;
  };
  same(torch::maximum(a, b), torch::maximum(x, y));
  same(torch::minimum(a, b), torch::minimum(x, y));
  same(torch::relu(a), torch::relu(x));
  same(torch::clamp(a, -1, 1), torch::clamp(x, -1, 1));
  same(a.max(), x.max());
  same(a.min(), x.min());
  same(torch::amax(a, 0), torch::amax(x, 0));
}

}  // namespace
}  // namespace tpubridge
