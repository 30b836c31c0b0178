// The backend's group and the error paths of the seeds' test report, test by test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/backend/net.h"
#include "tests/backend/process.h"
#include "tests/pjrt/fake.h"
#include "tpubridge/backend/memory_manager.h"
#include "tpubridge/backend/xla_integration.h"
#include "tpubridge/base/backend_errors.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;

class TestTPUBackend : public RestoresTheProcess {};
class TestTPUErrorPaths : public RestoresTheProcess {
 protected:
  void SetUp() override {}  // one of them opens another device, in a process of its own
};

TEST_F(TestTPUBackend, BackendCreation) {
  const TPUBackend b;
  EXPECT_EQ(b.name(), "tpu");
  EXPECT_EQ(b.world_size(), 1);
  EXPECT_EQ(b.rank(), 0);
  EXPECT_FALSE(b.is_distributed());
  EXPECT_EQ(b.config().hardware.tpu.version, TPUVersion::v5e) << "nothing is left to detection";
}

TEST_F(TestTPUBackend, BackendCreationWithConfig) {
  const TPUBackend b(TPUConfig{.version = TPUVersion::v5p, .memory_fraction = 0.25, .cache_max_size = 7});
  EXPECT_EQ(b.repr(), "TPUBackend(device=tpu:0, version=v5p, topology=single, world_size=1)");
  const MemoryStats s = b.get_memory_stats();
  EXPECT_EQ(s.memory_fraction, 0.25);
  EXPECT_EQ(s.model_cache_stats.max_size, 7u);
  EXPECT_EQ(s.allocated_memory + s.available_memory, 102'786'660'352 / 4) << "the budget";
}

TEST_F(TestTPUBackend, PrepareModel) {
  TPUBackend b(in(TPUPrecision::float32));
  Net model;
  const auto ids = torch::tensor({{1, 2, 3}});
  const auto before = model->forward(ids);
  EXPECT_EQ(b.prepare_model(model).ptr(), model.ptr()) << "the same model, in place";
  for (const auto& p : model->parameters()) EXPECT_EQ(p.device(), torch::Device("tpu:0"));
  EXPECT_TRUE(torch::allclose(model->forward(ids.to(b.device())).cpu(), before, 1e-5, 1e-6));
  b.prepare_model(model);
  EXPECT_EQ(b.get_memory_stats().model_cache_stats.hits, 1u);
}

TEST_F(TestTPUBackend, PrepareDataTensor) {
  TPUBackend b;
  const auto x = torch::tensor({1.5F, -2.25F});
  const auto y = b.prepare_data(x);
  EXPECT_EQ(y.device(), torch::Device("tpu:0"));
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(torch::equal(y.cpu().to(torch::kFloat32), x)) << "these numbers are bf16's too";
  EXPECT_EQ(b.prepare_data(torch::tensor({1, 2})).scalar_type(), torch::kLong) << "whole numbers stay";
}

TEST_F(TestTPUBackend, PrepareDataDict) {
  TPUBackend b(in(TPUPrecision::float32));
  const std::map<std::string, torch::Tensor> batch{{"ids", torch::arange(4)}, {"mask", torch::ones({4})}};
  const auto out = b.prepare_data(batch);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out.at("ids").device(), torch::Device("tpu:0"));
  EXPECT_TRUE(torch::equal(out.at("ids").cpu(), torch::arange(4)));
  EXPECT_EQ(out.at("mask").scalar_type(), torch::kFloat32);
  EXPECT_EQ(batch.at("ids").device(), torch::Device("cpu")) << "what was given is as it was";
}

TEST_F(TestTPUBackend, Synchronize) {
  TPUBackend b;
  const auto pending = torch::ones({8}, b.device()) * 3;
  const auto ran = metrics().executions;
  b.synchronize();
  const auto after = metrics().executions;
  EXPECT_GT(after, ran) << "what was pending has run";
  b.synchronize();
  EXPECT_EQ(metrics().executions, after) << "and nothing is left";
  EXPECT_EQ(pending.cpu()[7].item<float>(), 3);
}

TEST_F(TestTPUBackend, GetMemoryStats) {
  TPUBackend b(in(TPUPrecision::float32));
  b.synchronize();
  const int64_t before = b.get_memory_stats().allocated_memory;
  auto x = b.to_device(torch::randn({1000}));
  b.synchronize();
  EXPECT_EQ(b.get_memory_stats().allocated_memory, before + 4000) << "live bytes";
  x = torch::Tensor();
  EXPECT_EQ(b.get_memory_stats().allocated_memory, before) << "and not the history";
  const MemoryStats s = b.get_memory_stats();
  EXPECT_EQ(s.device, "tpu:0");
  EXPECT_EQ(s.device_count, 1);
  EXPECT_GE(s.peak_memory, before + 4000);
}

TEST_F(TestTPUBackend, DeviceProperty) {
  const TPUBackend b;
  EXPECT_EQ(b.device(), torch::Device("tpu:0"));
  EXPECT_EQ(b.device_count(), 1);
  EXPECT_FALSE(b.is_available()) << "XLA's CPU plugin is no TPU";
}

TEST_F(TestTPUErrorPaths, XlaNotAvailableFallback) {
  const TPUBackend b;  // no TPU: the simulation, and it works
  EXPECT_FALSE(b.is_available());
  EXPECT_EQ((torch::ones({2}, b.device()) + 1).cpu()[0].item<float>(), 2);
  EXPECT_THROW(TPUBackend(Config(), /*require_tpu=*/true), TPUNotAvailableError);
}

TEST_F(TestTPUErrorPaths, InvalidTopology) {
  try {
    (void)TPUConfig::from_json(R"({"topology": "ring"})");
    FAIL() << "there is no such topology";
  } catch (const TPUConfigurationError& e) {
    EXPECT_EQ(e.detail("parameter"), "topology");
    EXPECT_THAT(e.detail("allowed"), HasSubstr("superpod"));
  }
  TPUConfig c;
  c.topology = static_cast<TPUTopology>(9);
  EXPECT_THROW(TPUBackend{c}, TPUConfigurationError);
}

TEST_F(TestTPUErrorPaths, MemoryAllocationError) {
  TPUMemoryManager m(TPUConfig{.version = TPUVersion::v5e, .memory_fraction = 0.5});
  const int64_t before = m.get_memory_stats().allocated_memory;
  try {
    (void)m.allocate_tensor({1 << 20, 1 << 20});  // 4 TB
    FAIL() << "it does not fit";
  } catch (const TPUOutOfMemoryError& e) {
    EXPECT_EQ(e.detail("needed"), "4398046511104");
  }
  EXPECT_EQ(m.get_memory_stats().allocated_memory, before);
  EXPECT_NO_THROW((void)m.allocate_tensor({8, 8})) << "the manager goes on";
}

TEST_F(TestTPUErrorPaths, CompilationErrorHandling) {
  TPUBackend b(TPUConfig{.xla_flags = "--xla_no_such_option=1"});
  const auto x = torch::ones({3}, b.device()) * 41;
  try {
    b.synchronize();
    FAIL() << "XLA knows no such option";
  } catch (const XLACompilationError& e) {
    EXPECT_THAT(e.what(), HasSubstr("xla_no_such_option"));
  }
  const TPUBackend mended{TPUConfig()};
  EXPECT_THROW((void)(x + 1).cpu(), XLACompilationError) << "what depended on it has no value";
  EXPECT_EQ((torch::ones({3}, b.device()) * 42).cpu()[0].item<float>(), 42) << "and the device goes on";
}

TEST_F(TestTPUErrorPaths, DistributedInitError) {
  const auto manager = std::make_shared<XLADeviceManager>();
  const XLADistributedTraining alone(manager);
  EXPECT_FALSE(alone.is_distributed());
  const auto t = torch::ones({2}, manager->device());
  EXPECT_THROW((void)alone.all_reduce({t, t}, "sum"), TPUDistributedError) << "more tensors than devices";
  EXPECT_THROW((void)alone.all_reduce(t, "product"), TPUDistributedError);
  EXPECT_TRUE(alone.all_reduce(t, "sum").is_same(t));
}

// One v5e chip: a single device with 16 GB, nothing to reduce over.
TEST_F(TestTPUErrorPaths, V5litepod1Specific) {
  expect_in_new_process([]() -> std::string {
    const pjrt::FakePlugin fake("generation=v5e,chips=1");
    Config c;
    c.runtime.plugin = fake.path();
    TPUBackend b(c, /*require_tpu=*/true);
    if (b.repr() != "TPUBackend(device=tpu:0, version=v5e, topology=single, world_size=1)") return b.repr();
    if (b.is_distributed()) return "one chip is not several";
    if (b.get_device_info().total_memory_bytes != 16'909'334'528) return b.get_device_info().to_json();
    if (b.config().hardware.tpu.xla_optimization_level != 1) return "not the level of a v5e";
    torch::nn::Linear model(8, 8);
    b.optimize_for_training(model);
    const auto loss = model->forward(b.prepare_data(torch::ones({4, 8}))).sum();
    loss.backward();
    if (model->weight.grad().cpu()[0][0].item<float>() != 4) return "a wrong gradient";
    return "";
  });
}

// What went wrong in the originals (docs/contract.md, section 11) and has no other place.
class NeverAgain : public RestoresTheProcess {};

TEST_F(NeverAgain, AProgramIsNotKnownByItsName) {
  const TPUBackend b;
  const auto x = torch::tensor({2.0F, 3.0F}).to(b.device());
  auto twice = compile([](torch::Tensor t) { return t * 2; }, {.name = "f"});
  auto squared = compile([](torch::Tensor t) { return t * t; }, {.name = "f"});
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(torch::equal(twice(x).cpu(), torch::tensor({4.0F, 6.0F})));
    EXPECT_TRUE(torch::equal(squared(x).cpu(), torch::tensor({4.0F, 9.0F})));
  }
  EXPECT_GT(twice.report().replayed, 0);
  EXPECT_GT(squared.report().replayed, 0);
}

TEST_F(NeverAgain, AProgramIsAsGoodAsItsWeightsTypesAndMode) {
  const TPUBackend b;
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::Dropout(0.999));
  model->to(b.device());
  const auto x = torch::ones({64, 4}, b.device());
  auto step = compile([&](torch::Tensor t) { return model->forward(t); }, {.modules = {model.ptr()}});
  torch::NoGradGuard no_grad;
  model->eval();
  for (const float w : {1.0F, 2.0F, 3.0F}) {
    for (auto& p : model->parameters()) p.fill_(w);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(step(x).cpu()[5][2].item<float>(), 5 * w) << "these weights";
  }
  model->train();
  EXPECT_GT((step(x).cpu() == 0).sum().item<int64_t>(), 200) << "dropout is on again";
  model->eval();
  EXPECT_EQ(step(x).cpu().sum().item<float>(), 64 * 4 * 15);
  model->to(torch::kDouble);
  EXPECT_EQ(step(x.to(torch::kDouble)).scalar_type(), torch::kDouble);
}

// data/checkpoint_v1 is what save_model() wrote in the first version of the format: it must load for ever.
TEST_F(NeverAgain, ACheckpointOfTheFirstFormatLoads) {
  TPUBackend b(in(TPUPrecision::float32));
  torch::nn::Linear model(3, 2);
  b.prepare_model(model);
  torch::optim::AdamW optimizer(model->parameters(), 0.5);
  b.load_model(*model, TEST_DATA "/checkpoint_v1", &optimizer);
  EXPECT_TRUE(torch::equal(model->weight.detach().cpu(), torch::arange(6).view({2, 3}) * 0.25));
  EXPECT_TRUE(torch::equal(model->bias.detach().cpu(), torch::tensor({-1.0F, 7.5F})));
  EXPECT_EQ(static_cast<torch::optim::AdamWOptions&>(optimizer.param_groups()[0].options()).lr(), 0.125);
}

}  // namespace
}  // namespace tpubridge
