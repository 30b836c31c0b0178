// Devices, layer advice, profiles and run-time information on one device, and what a TPU (the fake one) or no
// plugin at all changes. Several devices: tests/mesh/data_parallel_test.cc.
#include "tpubridge/backend/xla_integration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/backend/process.h"
#include "tests/device/check.h"
#include "tests/pjrt/fake.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/mesh/collectives.h"

namespace tpubridge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using torch::Tensor;

class TestXLAIntegration : public RestoresTheProcess {};

std::string env_text() {
  std::string out;
  for (char** e = environ; *e; ++e) out += std::string(*e) + "\n";
  return out;
}

TEST_F(TestXLAIntegration, DeviceManagerCreation) {
  XLADeviceManager m(TPUConfig{.version = TPUVersion::v5p});
  EXPECT_EQ(m.device(), torch::Device("tpu:0"));
  EXPECT_THAT(m.devices(), ElementsAre(torch::Device("tpu:0")));
  EXPECT_EQ(m.world_size(), 1);
  EXPECT_EQ(m.rank(), 0);
  EXPECT_FALSE(m.is_available()) << "XLA's CPU plugin is a simulation";
  EXPECT_TRUE(m.has_xla());
  EXPECT_EQ(m.config().version.value(), TPUVersion::v5p);
  EXPECT_EQ(m.config().topology.value(), TPUTopology::single);
  EXPECT_EQ((torch::ones({2}, m.device()) + 1).sum().item<float>(), 4) << "the device works";
  const log::Capture logged;
  for (const int bad : {1, -1, 99}) m.set_device(bad);
  EXPECT_EQ(m.device(), torch::Device("tpu:0"));
  ASSERT_EQ(logged.records("xla.no_such_device").size(), 3u);
  EXPECT_EQ(logged.records("xla.no_such_device")[2].field("what"),
            "Device 99 not available, using default device");
  m.set_device(0);
  EXPECT_EQ(logged.records("xla.no_such_device").size(), 3u);
  EXPECT_THROW(XLADeviceManager(TPUConfig{.enable_strict_validation = true}), TPUNotAvailableError);
  EXPECT_THROW(XLADeviceManager(TPUConfig{.memory_fraction = 3.0}), TPUConfigurationError);
}

TEST_F(TestXLAIntegration, DistributedTrainingInit) {
  const XLADistributedTraining alone(manager());
  EXPECT_FALSE(alone.is_distributed());
  const Tensor t = torch::tensor({1.0f, 2.0f});
  EXPECT_TRUE(alone.all_reduce(t).is_same(t)) << "alone a tensor is its own sum";
  EXPECT_TRUE(alone.all_reduce(t, "mean").is_same(t));
  EXPECT_THROW((void)alone.all_reduce(t, "median"), TPUDistributedError) << "also alone";
  const std::vector<Tensor> gathered = alone.all_gather(t);
  ASSERT_EQ(gathered.size(), 1u);
  EXPECT_TRUE(gathered[0].is_same(t));
  EXPECT_EQ(alone.all_reduce(std::vector<Tensor>{t.to(tpu())})[0].cpu().sum().item<float>(), 3);
  EXPECT_THROW((void)alone.all_reduce(std::vector<Tensor>{}), TPUDistributedError);
  EXPECT_NO_THROW(alone.barrier());
  torch::nn::Linear model(4, 2);
  auto wrapped = alone.wrap_model(model);
  EXPECT_EQ(wrapped.model().get(), model.get()) << "the same object";
  EXPECT_EQ(wrapped.size(), 1u);
  EXPECT_THROW(XLADistributedTraining(nullptr), ArgumentError);
}

TEST_F(TestXLAIntegration, OptimizationsInit) {
  const XLAOptimizations o(manager());
  torch::nn::Sequential good(torch::nn::Linear(64, 32), torch::nn::ReLU(), torch::nn::Linear(32, 8));
  EXPECT_TRUE(o.advice(*good).empty());
  EXPECT_THROW(XLAOptimizations(nullptr), ArgumentError);
  EXPECT_THROW(o.optimize_model_for_xla(std::shared_ptr<torch::nn::LinearImpl>()), ArgumentError);
}

TEST_F(TestXLAIntegration, CreateXlaIntegration) {
  const auto [device_manager, distributed, optimizations] =
      create_xla_integration(TPUConfig{.version = TPUVersion::v4});
  EXPECT_EQ(device_manager->config().version.value(), TPUVersion::v4);
  EXPECT_EQ(distributed.world_size(), device_manager->world_size());
  EXPECT_EQ(distributed.rank(), 0);
  torch::nn::Linear model(3, 3);
  optimizations.optimize_model_for_xla(model);
  EXPECT_EQ(model->weight.device(), device_manager->device());
  EXPECT_EQ(create_xla_integration(Config()).device_manager->world_size(), 1);
}

TEST_F(TestXLAIntegration, DeviceStats) {
  const XLADeviceStats s = manager()->get_device_stats();
  EXPECT_EQ(s.current_device, "tpu:0");
  EXPECT_TRUE(s.simulated);
  const auto json = nlohmann::json::parse(s.to_json());
  EXPECT_EQ(json["current_device"], "tpu:0");
  EXPECT_EQ(json["available_devices"], nlohmann::json({"tpu:0"}));
  EXPECT_EQ(json["world_size"], 1);
  EXPECT_EQ(json["rank"], 0);
  EXPECT_EQ(json["xla_device_count"], 1);
}

TEST_F(TestXLAIntegration, SyncAllDevices) {
  auto x = torch::full({300, 300}, 0.01f, tpu());
  for (int i = 0; i < 40; ++i) x = torch::mm(x, x).clamp(0, 0.01);
  manager()->sync_all_devices();
  const auto value = [&] {
    const exec::Lock lock(exec::mutex());
    return device::read(x);
  }();
  EXPECT_TRUE(exec::buffer_of(*value.node(), value.index()).ready().ready()) << "it is done";
}

struct Blocks : torch::nn::Module {
  torch::nn::Linear wide = register_module("wide", torch::nn::Linear(63, 32));
  torch::nn::Linear good = register_module("good", torch::nn::Linear(32, 64));
  torch::nn::MultiheadAttention heads = register_module("heads", torch::nn::MultiheadAttention(24, 2));
};

TEST_F(TestXLAIntegration, OptimizeModelForXla) {
  const XLAOptimizations o(manager());
  const auto model = std::make_shared<Blocks>();
  {
    torch::NoGradGuard no_grad;
    model->good->weight.set_data(torch::arange(64 * 32, torch::kFloat).view({32, 64}).t());
  }
  const Tensor want = model->good->weight.detach().clone();
  const log::Capture logged;
  EXPECT_EQ(o.optimize_model_for_xla(model), model);
  const auto advice = o.advice(*model);
  std::vector<std::string> layers;
  for (const auto& a : advice) layers.push_back(a.layer);
  EXPECT_THAT(layers, ElementsAre("wide", "heads"));
  EXPECT_EQ(
      advice[0].message,
      "Linear layer wide dimensions (63x32) not optimal for TPU. Consider padding to multiples of 8: 64x32.");
  EXPECT_THAT(advice[0].padded, ElementsAre(64, 32));
  EXPECT_DOUBLE_EQ(advice[0].waste, 1.0 / 64);
  EXPECT_EQ(advice[1].message,
            "Attention layer heads head dimension 12 not optimal for TPU. Consider using dimensions "
            "divisible by 8: "
            "16.");
  EXPECT_EQ(logged.records("xla.layer_size").size(), 2u);
  EXPECT_EQ(model->good->weight.device(), torch::Device("tpu:0"));
  EXPECT_TRUE(model->good->weight.is_contiguous());
  EXPECT_TRUE(torch::equal(model->good->weight.cpu(), want));
}

TEST_F(TestXLAIntegration, XlaUtilities) {
  const auto before = env_text();
  const XLAEnvInfo info = XLAUtilities::get_xla_env_info();
  EXPECT_TRUE(info.xla_available);
  EXPECT_TRUE(info.simulated);
  EXPECT_EQ(info.platform, "cpu");
  EXPECT_EQ(info.xla_device_count, 1);
  const auto json = nlohmann::json::parse(info.to_json());
  for (const char* key : {"XLA_FLAGS", "XLA_PYTHON_CLIENT_MEM_FRACTION", "TPU_TYPE", "TPU_NAME",
                          "xla_available", "torch_xla_version", "xla_device_count", "xrt_world_size"})
    EXPECT_TRUE(json.contains(key)) << key;

  torch::nn::Linear model(6, 4);
  model->to(tpu());
  const Tensor x = torch::ones({3, 6}, tpu());
  const std::string text = XLAUtilities::debug_xla_graph(model, x);
  EXPECT_THAT(text, HasSubstr("stablehlo.dot_general"));
  EXPECT_THAT(text, HasSubstr("tensor<3x4xf32>"));
  EXPECT_THAT(text, HasSubstr("3 inputs, 1 results, for cpu:0"));
  EXPECT_THAT(XLAUtilities::debug_xla_graph(torch::nn::Sequential(model), x), HasSubstr("tensor<3x4xf32>"));
  const XLAProfile p =
      XLAUtilities::profile_xla_compilation([&](const Tensor& in) { return model->forward(in) * 3; }, x);
  EXPECT_GT(p.compilation_time, 0);
  EXPECT_GT(p.avg_execution_time, 0);
  EXPECT_THAT(p.output_shape, ElementsAre(3, 4));
  EXPECT_EQ(p.device, "tpu:0");
  EXPECT_THROW(
      (void)XLAUtilities::profile_xla_compilation([](const Tensor& t) { return t; }, torch::ones({2})),
      ArgumentError);
  EXPECT_THROW((void)XLAUtilities::debug_xla_graph([](const Tensor& t) { return t; }, x), ArgumentError);

  // The options go with a compile and are taken by the compiler that is here.
  for (const auto& [version, level] : {std::pair{TPUVersion::v4, 1},
                                       {TPUVersion::v5e, 1},
                                       {TPUVersion::v5p, 2},
                                       {TPUVersion::v6e, 2},
                                       {TPUVersion::v7, 2}}) {
    const auto options = XLAUtilities::optimize_xla_flags(version);
    EXPECT_EQ(options.optimization_level, level);
    EXPECT_TRUE(options.overrides.empty()) << "the CPU's compiler does not know those of a TPU";
    const exec::Lock lock(exec::mutex());
    exec::set_compile_options(options);
    EXPECT_EQ((x + 2).sum().item<float>(), 54);
  }
  EXPECT_EQ(XLAUtilities::optimize_xla_flags(TPUVersion::v5e, "tpu").overrides.size(), 0u);
  EXPECT_GT(XLAUtilities::optimize_xla_flags(TPUVersion::v5p, "tpu").overrides.size(), 1u);
  EXPECT_EQ(env_text(), before) << "the environment is never changed";
}

// What a profile says it did, counted by the plugin.
TEST(XLAOnATpu, AProfileCompilesAndRunsTenTimes) {
  expect_in_new_process([]() -> std::string {
    const pjrt::FakePlugin fake("generation=v6e,chips=1");
    Config c;
    c.runtime.plugin = fake.path();
    const XLADeviceManager m(c);
    const Tensor x = torch::ones({4, 4}, m.device());
    sync({x});
    const auto f = [](const Tensor& t) { return t.mm(t); };
    (void)f(x).sum().item<float>();
    for (int i = 0; i < 2; ++i) {
      const int64_t compiles = fake.count("PJRT_Client_Compile"),
                    runs = fake.count("PJRT_LoadedExecutable_Execute");
      (void)XLAUtilities::profile_xla_compilation(f, x);
      if (fake.count("PJRT_Client_Compile") != compiles + 1) return "it did not compile";
      if (fake.count("PJRT_LoadedExecutable_Execute") != runs + 11)
        return "it did not run ten times after the first";
    }
    if (!xla_compat::is_tpu_device(x.device()) || xla_compat::is_simulation()) return "it is a TPU";
    if (xla_compat::get_device_hw_type(x.device()) != "TPU") return "it is called something else";
    if (xla_compat::get_memory_info(x.device()).bytes_limit != 33'546'041'344) return "another limit";
    return m.is_available() && m.config().version == TPUVersion::v6e ? "" : "the manager does not know it";
  });
}

TEST(XLAOnATpu, TheSameCollectiveIsCompiledOnce) {
  expect_in_new_process([]() -> std::string {
    const pjrt::FakePlugin fake("generation=v5e,chips=2");
    Config c;
    c.runtime.plugin = fake.path();
    const auto [m, distributed, o] = create_xla_integration(c);
    if (!distributed.is_distributed() || m->devices().size() != 2) return "there are two devices";
    int64_t compiles = 0;
    for (int i = 0; i < 4; ++i) {
      const std::vector<Tensor> in{torch::ones({2}, m->devices()[0]), torch::ones({2}, m->devices()[1]) * 2};
      const auto out = distributed.all_reduce(in, "mean");
      if (out[1].cpu()[0].item<float>() != 1.5f) return "not the mean";
      if (i == 1) compiles = fake.count("PJRT_Client_Compile");
    }
    return fake.count("PJRT_Client_Compile") == compiles ? "" : "compiled again";
  });
}

TEST(XLAOnATpu, DevicesOfOtherProcessesAreNotLeftOut) {
  expect_in_new_process([]() -> std::string {
    const pjrt::FakePlugin fake("generation=v5e,chips=8,hosts=2");
    Config c;
    c.runtime.plugin = fake.path();
    const auto made = create_xla_integration(c);
    const auto& m = made.device_manager;
    const auto& distributed = made.distributed;
    if (!distributed.is_distributed() || m->world_size() != 8) return "the world has eight";
    std::vector<Tensor> in;
    for (const auto& d : m->devices()) in.push_back(torch::ones({2}, d));
    torch::nn::Linear model(2, 2);
    const auto refused = [](const auto& f) {
      try {
        f();
      } catch (const TPUDistributedError&) {
        return true;
      }
      return false;
    };
    if (!refused([&] { (void)distributed.all_reduce(in); })) return "reduced over a part of the devices";
    if (!refused([&] { (void)distributed.all_gather(in); })) return "gathered from a part of the devices";
    if (!refused([&] { (void)distributed.all_reduce(in[0]); })) return "reduced a single tensor";
    if (!refused([&] { distributed.barrier(); })) return "waited for a part of the devices";
    if (!refused([&] { (void)distributed.wrap_model(model); })) return "wrapped over a part of the devices";
    return refused([&] { xla_compat::rendezvous("here"); }) ? "" : "met a part of the devices";
  });
}

TEST(XLAWithoutAPlugin, TheCpuIsThere) {
  expect_in_new_process([]() -> std::string {
    Config c;
    c.runtime.plugin = "/nowhere/plugin.so";
    const log::Capture logged;
    const auto [m, distributed, optimizations] = create_xla_integration(c);
    if (m->device() != torch::kCPU || m->devices().size() != 1 || m->has_xla()) return "not the CPU";
    if (logged.records("xla.no_plugin").empty()) return "nothing was said";
    m->sync_all_devices();
    torch::nn::Linear model(2, 2);
    optimizations.optimize_model_for_xla(model);
    const auto out = distributed.all_reduce(std::vector<Tensor>{model->forward(torch::ones({1, 2}))});
    if (out[0].numel() != 2) return "nothing works";
    if (xla_compat::is_xla_available() || xla_compat::get_device_count() != 0)
      return "XLA is said to be here";
    if (xla_compat::get_world_size() != 1 || xla_compat::get_ordinal() != 0) return "not alone";
    if (xla_compat::get_xla_device() != torch::kCPU) return "another device";
    if (xla_compat::get_torch_xla_version() != "not installed") return "installed";
    const auto profile = XLAUtilities::profile_xla_compilation([] { return torch::ones({1}); });
    if (profile.error != "PyTorch/XLA not available") return "a profile without XLA: " + profile.error;
    if (XLAUtilities::get_xla_env_info().xla_available) return "available";
    c.hardware.tpu.enable_strict_validation = true;
    try {
      const XLADeviceManager strict(c);
    } catch (const TPUNotAvailableError&) {
      return "";
    }
    return "strict mode gave a device";
  });
}

TEST(XlaCompat, ASimulationIsCalledOne) {
  const torch::Device device = xla_compat::get_xla_device();
  EXPECT_EQ(device, torch::Device("tpu:0"));
  EXPECT_TRUE(xla_compat::is_xla_available());
  EXPECT_TRUE(xla_compat::is_simulation());
  EXPECT_FALSE(xla_compat::is_tpu_device(device)) << "XLA's CPU plugin is no TPU";
  EXPECT_EQ(xla_compat::get_device_hw_type(device), "CPU");
  EXPECT_EQ(xla_compat::get_device_hw_type(torch::kCPU), "CPU");
  EXPECT_EQ(xla_compat::get_device_hw_type(torch::Device("cuda:0")), "GPU");
  EXPECT_EQ(xla_compat::get_device_hw_type(torch::Device("meta")), "UNKNOWN");
  EXPECT_EQ(xla_compat::get_device_count(), 1);
  EXPECT_EQ(xla_compat::get_world_size(), 1);
  EXPECT_EQ(xla_compat::get_ordinal(), 0);
  EXPECT_THROW((void)xla_compat::get_xla_device(7), TPUDeviceError);
  EXPECT_NE(xla_compat::get_torch_xla_version(), "not installed");
  xla_compat::sync();
  const auto before = xla_compat::get_memory_info(device);
  const Tensor x = torch::ones({1000}, device);
  const auto ran = metrics().executions;
  xla_compat::mark_step();
  EXPECT_EQ(metrics().executions, ran + 1) << "what was pending has run";
  EXPECT_EQ(xla_compat::get_memory_info(device).bytes_used - before.bytes_used, 4000);
  EXPECT_EQ(xla_compat::get_memory_info(torch::kCPU).bytes_used, 0);
  EXPECT_NO_THROW(xla_compat::rendezvous("end of the epoch"));
}

}  // namespace
}  // namespace tpubridge
