// Training over four virtual devices, against one device and against the CPU with the whole batch.
#include "tpubridge/backend/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/device/check.h"
#include "tpubridge/backend/xla_integration.h"
#include "tpubridge/base/backend_errors.h"

namespace tpubridge {
namespace {

using torch::Tensor;
using Pair = std::pair<Tensor, Tensor>;

[[maybe_unused]] const int four_devices = setenv("TPUBRIDGE_CPU_DEVICES", "4", 1);

class DataParallelTest : public testing::Test {
 protected:
  void SetUp() override {
    if (device_count() < 4) GTEST_SKIP() << "needs four devices";
  }
};

struct NetImpl : torch::nn::Cloneable<NetImpl> {
  NetImpl() { reset(); }
  void reset() override {
    a = register_module("a", torch::nn::Linear(6, 16));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
    b = register_module("b", torch::nn::Linear(16, 3));
    unused = register_module("unused", torch::nn::Linear(2, 2));
  }
  Tensor loss(const Pair& batch) {
    return torch::cross_entropy_loss(b(torch::gelu(norm(a(batch.first)))), batch.second);
  }
  torch::nn::Linear a{nullptr}, b{nullptr}, unused{nullptr};
  torch::nn::LayerNorm norm{nullptr};
};
TORCH_MODULE(Net);

Net net() {
  torch::manual_seed(1);
  return Net();
}
Pair batch(int64_t rows, uint64_t seed) {
  torch::manual_seed(seed);
  const Tensor x = torch::randn({rows, 6});
  return {x, (x.sum(1) > 0).to(torch::kLong)};
}
std::vector<torch::Device> four() { return XLADeviceManager().devices(); }

auto adam = [](const std::vector<Tensor>& parameters) {
  return std::make_shared<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(0.01));
};
auto mean_loss = [](NetImpl& model, const Pair& part) { return model.loss(part); };

void expect_equal_replicas(const DataParallel<NetImpl>& parallel) {
  for (size_t i = 1; i < parallel.size(); ++i)
    for (const auto& p : parallel.model()->named_parameters())
      EXPECT_TRUE(torch::equal(p.value().cpu(), parallel.replica(i).named_parameters()[p.key()].cpu()))
          << p.key() << " of replica " << i;
}

// Rows that divide by four, that do not, and fewer than devices.
TEST_F(DataParallelTest, TheSameAsTheWholeBatchOnTheCpu) {
  const Net model = net();
  DataParallel<NetImpl> parallel(model.ptr(), four());
  EXPECT_EQ(parallel.model().get(), model.get());
  ASSERT_EQ(parallel.size(), 4u);
  parallel.make_optimizers(adam);
  Net host = net();
  const auto optimizer = adam(host->parameters());
  for (const int64_t rows : {16, 10, 3}) {
    const Pair all = batch(rows, static_cast<uint64_t>(rows));
    const Tensor loss = parallel.train_step(all, mean_loss);
    optimizer->zero_grad();
    const Tensor want = host->loss(all);
    want.backward();
    optimizer->step();
    expect_close(loss, want.detach(), 5);
    EXPECT_EQ(loss.device(), torch::Device("tpu:0"));
  }
  for (const auto& p : host->named_parameters())
    expect_close(model->named_parameters()[p.key()], p.value(), 50);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(parallel.replica(i).a->weight.device().index(), static_cast<int>(i))
        << "each on its own device";
  expect_equal_replicas(parallel);
}

// Two steps are traced; then each replica is replayed, and the values are those of the CPU all the same.
TEST_F(DataParallelTest, FromTheThirdStepOnNothingIsTraced) {
  const Net model = net();
  DataParallel<NetImpl> parallel(model.ptr(), four());
  parallel.make_optimizers(adam);
  Net host = net();
  const auto optimizer = adam(host->parameters());
  int64_t ops = 0, compiles = 0, runs = 0;
  for (uint64_t i = 0; i < 6; ++i) {
    const Pair all = batch(16, i);
    if (i >= 2) ops = metrics().traced_ops, compiles = metrics().compiles, runs = metrics().executions;
    const Tensor loss = parallel.train_step(all, mean_loss);
    if (i >= 2) {
      EXPECT_EQ(metrics().traced_ops, ops) << "step " << i;
      EXPECT_EQ(metrics().compiles, compiles) << "step " << i;
      EXPECT_EQ(metrics().executions, runs + 4 * 2 + 1) << "two for each replica, one over all";
    }
    optimizer->zero_grad();
    const Tensor want = host->loss(all);
    want.backward();
    optimizer->step();
    expect_close(loss, want.detach(), 5);
    for (size_t r = 0; r < 4; ++r)
      expect_close(parallel.replica(r).a->weight.grad(), host->a->weight.grad(), 20);
    EXPECT_FALSE(model->unused->weight.grad().defined());
  }
  EXPECT_EQ(parallel.traced(), 2 * 4 * 2) << report();
  for (const auto& p : host->named_parameters())
    expect_close(model->named_parameters()[p.key()], p.value(), 50);
  expect_equal_replicas(parallel);
}

// Another function for the loss, one that holds another number, and one that cannot be compared.
TEST_F(DataParallelTest, AnotherLossIsAnotherProgram) {
  const Net model = net();
  DataParallel<NetImpl> parallel(model.ptr(), {tpu()});
  parallel.make_optimizers([](const std::vector<Tensor>& parameters) {
    return std::make_shared<torch::optim::SGD>(parameters, 0.0);  // the model stays as it is
  });
  const Pair all = batch(8, 1);
  const double plain = net()->loss(all).item<double>();
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(parallel.train_step(all, mean_loss).item<double>(), plain, 1e-5);
    for (const double by : {2.0, 3.0}) {
      const auto scaled = [by](NetImpl& m, const Pair& part) { return m.loss(part) * by; };
      EXPECT_NEAR(parallel.train_step(all, scaled).item<double>(), by * plain, 1e-4);
    }
    const int64_t before = parallel.traced();
    const std::function<Tensor(NetImpl&, const Pair&)> any = [&](NetImpl& m, const Pair& part) {
      return m.loss(part) * static_cast<double>(i);
    };
    EXPECT_NEAR(parallel.train_step(all, any).item<double>(), i * plain, 1e-4);
    parallel.set_compiled(false);
    EXPECT_NEAR(parallel.train_step(all, mean_loss).item<double>(), plain, 1e-5);
    parallel.set_compiled(true);
    EXPECT_EQ(parallel.traced(), before) << "these are not compiled steps";
  }
}

TEST_F(DataParallelTest, GradientsAddUp) {
  const Net model = net();
  Net host = net();
  DataParallel<NetImpl> parallel(model.ptr(), four());
  for (const uint64_t seed : {3, 4}) {
    (void)parallel.backward(batch(8, seed), mean_loss);
    host->loss(batch(8, seed)).backward();
  }
  for (size_t i = 0; i < 4; ++i)
    expect_close(parallel.replica(i).a->weight.grad(), host->a->weight.grad(), 5);
  EXPECT_FALSE(model->unused->weight.grad().defined()) << "what has no gradient gets none";
  parallel.zero_grad();
  EXPECT_THROW(parallel.step(), TPUDistributedError) << "there are no optimizers";
}

TEST_F(DataParallelTest, AModelThatIsChangedIsBroadcast) {
  const Net model = net();
  DataParallel<NetImpl> parallel(model.ptr(), four());
  {
    torch::NoGradGuard no_grad;
    model->a->weight.fill_(0.25);
  }
  EXPECT_FALSE(torch::equal(parallel.replica(3).a->weight.cpu(), model->a->weight.cpu()));
  parallel.broadcast();
  expect_equal_replicas(parallel);
}

// Running statistics are the first replica's, of its rows; the others follow before the next batch.
TEST_F(DataParallelTest, RunningStatistics) {
  torch::nn::Sequential model(torch::nn::BatchNorm1d(2));
  torch::nn::BatchNorm1d host(2);
  DataParallel<torch::nn::SequentialImpl> parallel(model.ptr(), four());
  const Tensor x = torch::arange(16, torch::kFloat).view({8, 2});
  const auto loss = [](torch::nn::SequentialImpl& m, const Tensor& part) {
    return m.forward(part).square().mean();
  };
  for (int i = 0; i < 2; ++i) {
    (void)parallel.backward(x, loss);
    (void)host(x.slice(0, 0, 2));
  }
  const auto mean_of_replica = [&](size_t i) { return parallel.replica(i).buffers()[0].cpu(); };
  expect_close(mean_of_replica(0), host->running_mean, 2);
  EXPECT_FALSE(torch::equal(mean_of_replica(1), mean_of_replica(0)));
  parallel.broadcast();
  EXPECT_TRUE(torch::equal(mean_of_replica(1), mean_of_replica(0)));
}

struct Plain : torch::nn::Module {  // no clone()
  explicit Plain(int64_t n = 2) : w(register_parameter("w", torch::full({n}, 3.0f))) {}
  Tensor w;
};

TEST_F(DataParallelTest, AModelWithoutClone) {
  const auto model = std::make_shared<Plain>();
  EXPECT_THROW(DataParallel<Plain>(model, four()), TPUDistributedError);
  EXPECT_TRUE(model->w.device().is_cpu()) << "nothing was changed";
  DataParallel<Plain> parallel(model, four(), [] { return std::make_shared<Plain>(); });
  const auto loss = [](Plain& m, const Tensor& x) { return (x * m.w).mean(); };
  (void)parallel.backward(torch::ones({4, 2}), loss);
  EXPECT_EQ(parallel.replica(2).w.grad().sum().item<float>(), 1);
  EXPECT_THROW(DataParallel<Plain>(model, four(), [] { return std::make_shared<Plain>(5); }),
               TPUDistributedError)
      << "another structure";
  EXPECT_THROW(DataParallel<Plain>(nullptr, four()), ArgumentError);
  EXPECT_THROW(parallel.backward(torch::ones({0, 2}), loss), TPUDistributedError);
}

TEST_F(DataParallelTest, ThroughTheIntegration) {
  const auto [manager, distributed, optimizations] = create_xla_integration();
  ASSERT_TRUE(distributed.is_distributed());
  EXPECT_EQ(distributed.world_size(), 4);
  auto parallel = distributed.wrap_model(net());
  EXPECT_EQ(parallel.size(), 4u);
  std::vector<Tensor> each;
  for (int i = 0; i < 4; ++i)
    each.push_back(torch::full({2}, i + 1.0f, manager->devices()[static_cast<size_t>(i)]));
  for (const auto& [op, want] : {std::pair{"sum", 10.0f}, {"mean", 2.5f}, {"max", 4.0f}, {"min", 1.0f}})
    for (const Tensor& t : distributed.all_reduce(each, op)) EXPECT_EQ(t.cpu()[1].item<float>(), want) << op;
  const std::vector<std::vector<Tensor>> gathered = distributed.all_gather(each);
  ASSERT_EQ(gathered.size(), 4u);
  EXPECT_EQ(gathered[3][2].cpu()[0].item<float>(), 3);
  distributed.barrier();
  EXPECT_THROW((void)distributed.all_reduce(each[0]), TPUDistributedError) << "never silently local";
  EXPECT_THROW((void)distributed.all_gather(each[0]), TPUDistributedError);
  each.pop_back();
  EXPECT_THROW((void)distributed.all_reduce(each), TPUDistributedError) << "one device is missing";
  manager->set_device(2);
  EXPECT_EQ(torch::ones({1}, torch::Device("tpu")).device().index(), 2);
  manager->set_device(0);
  EXPECT_EQ(manager->get_device_stats().available_devices.size(), 4u);
  xla_compat::rendezvous("all four");
}

}  // namespace
}  // namespace tpubridge
