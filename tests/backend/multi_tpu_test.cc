// Run configurations, several cores set up together, functions compiled once, devices with a fallback: on the
// simulated device, and on the fake TPU in processes of their own.
#include "tpubridge/backend/multi_tpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>

#include "tests/backend/process.h"
#include "tests/device/check.h"
#include "tests/pjrt/fake.h"
#include "tpubridge/backend/config_manager.h"
#include "tpubridge/backend/data_parallel.h"
#include "tpubridge/backend/xla_compiler.h"
#include "tpubridge/backend/xla_optimizer.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/train/error_handler.h"

namespace tpubridge {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using torch::Tensor;

class ConfigManager : public RestoresTheProcess {};

TEST_F(ConfigManager, TheTableOfSizes) {
  const TPUConfigManager m;
  EXPECT_EQ(m.config().max_retries, 3);
  EXPECT_EQ(m.config().memory_fraction, 0.9);
  EXPECT_EQ(m.config().compilation_timeout, 300);
  EXPECT_EQ(m.config().synchronization_interval, 10);
  EXPECT_TRUE(m.config().enable_async_execution);
  const auto row = [&](const char* size) {
    const TPURunConfig c = m.get_optimal_config(size);
    return std::tuple(c.batch_size.value(), c.gradient_accumulation_steps.value(),
                      c.max_sequence_length.value());
  };
  EXPECT_EQ(row("small"), std::tuple(8, 1, 512));
  EXPECT_EQ(row("medium"), std::tuple(4, 2, 1024));
  EXPECT_EQ(row("large"), std::tuple(2, 4, 2048));
  EXPECT_FALSE(m.config().enable_dynamic_shapes);
  EXPECT_EQ(json::parse(m.get_optimal_config("large").to_json()).size(), 9u);
  EXPECT_EQ(json::parse(m.config().to_json()).size(), 6u);
  EXPECT_EQ(m.get_optimal_config("huge").to_json(), m.config().to_json()) << "the base alone";
}

// By hand: 16 bytes of state for a parameter, 34 × layers × width for a token.
TEST_F(ConfigManager, SizesFromParametersAndMemory) {
  const TPUConfigManager m({.memory_fraction = 1.0});
  const auto row = [&](const ModelFacts& model, int64_t bytes) {
    const TPURunConfig c = m.get_optimal_config(model, bytes);
    return std::tuple(c.batch_size.value(), c.gradient_accumulation_steps.value(),
                      c.max_sequence_length.value());
  };
  constexpr int64_t kGB = 1'000'000'000;
  // State 1.36 GB of 16: small. A sequence of 512 takes 160 MB: 8 have room.
  EXPECT_EQ(row({85'000'000, 12, 768}, 16 * kGB), std::tuple(8, 1, 512));
  // State 4.8 GB of 16: medium. 1024 tokens take 1024 × 34 × 24 × 1024 = 856 MB: 13 have room, 8 are enough.
  EXPECT_EQ(row({300'000'000, 24, 1024}, 16 * kGB), std::tuple(8, 1, 1024));
  // State 12.8 GB of 16: large. 2048 tokens take 2048 × 34 × 36 × 1280 = 3.208 GB, 3.2 GB are left: 1024.
  EXPECT_EQ(row({800'000'000, 36, 1280}, 16 * kGB), std::tuple(1, 8, 1024));
  // The same where only half of the memory may be used.
  const TPUConfigManager half({.memory_fraction = 0.5});
  EXPECT_THROW((void)half.get_optimal_config({800'000'000, 36, 1280}, 16 * kGB), TPUOutOfMemoryError);
  try {
    (void)m.get_optimal_config({2'000'000'000}, 16 * kGB);
    FAIL() << "32 GB of state do not fit";
  } catch (const TPUOutOfMemoryError& e) {
    EXPECT_GT(std::stoll(e.detail("required_bytes")), 32 * kGB);
    EXPECT_EQ(e.detail("available_bytes"), std::to_string(16 * kGB));
  }
  // GPT-2 small's proportions: 85 M parameters are 12 layers of 768.
  EXPECT_EQ(row({12 * 12 * 768 * 768}, 3 * kGB), row({12 * 12 * 768 * 768, 12, 768}, 3 * kGB));
  torch::nn::Linear model(8, 8);
  EXPECT_EQ(m.get_optimal_config(*model).batch_size, 8);
  EXPECT_THROW((void)m.get_optimal_config({1}, 0), ArgumentError);
}

TEST_F(ConfigManager, WrongValues) {
  const auto refused = [](TPURunConfig c) {
    try {
      const TPUConfigManager m(c);
    } catch (const TPUConfigurationError& e) {
      return e.detail("parameter");
    }
    return std::string("nothing");
  };
  EXPECT_EQ(refused({.max_retries = -1}), "max_retries");
  EXPECT_EQ(refused({.memory_fraction = 1.5}), "memory_fraction");
  EXPECT_EQ(refused({.compilation_timeout = -1}), "compilation_timeout");
  EXPECT_EQ(refused({.synchronization_interval = 0}), "synchronization_interval");
}

TEST_F(ConfigManager, InitializingAppliesAndTests) {
  TPUConfigManager m({.memory_fraction = 0.5, .compilation_timeout = 77});
  EXPECT_FALSE(m.is_initialized());
  const auto before = metrics().executions;
  EXPECT_TRUE(m.initialize_tpu_environment());
  EXPECT_TRUE(m.is_initialized());
  EXPECT_EQ(m.problem(), "");
  EXPECT_GT(metrics().executions, before) << "something was computed";
  EXPECT_EQ(device_memory().limit, 16'909'336'064 / 2);
  EXPECT_EQ(exec::programs().deadline(), std::chrono::seconds(77));
  EXPECT_TRUE(initialize_tpu_kernels());
  EXPECT_EQ(exec::programs().deadline(), std::chrono::seconds(300));
}

TEST_F(ConfigManager, ShapesThatMayVaryOrNot) {
  for (const bool dynamic : {false, true}) {
    XLACompiler compiler(TPUConfigManager({.enable_dynamic_shapes = dynamic}).tpu_config());
    torch::nn::Linear model(4, 2);
    model->eval();
    auto compiled = compiler.compile_model(model, torch::ones({3, 4}));
    EXPECT_EQ(compiled(torch::ones({3, 4})).size(0), 3);
    if (dynamic)
      EXPECT_EQ(compiled(torch::ones({5, 4})).size(0), 5);
    else
      EXPECT_THROW((void)compiled(torch::ones({5, 4})), XLACompilationError);
  }
}

TEST_F(ConfigManager, WaitsAtIntervals) {
  TPUConfigManager every3({.synchronization_interval = 3}), always({.enable_async_execution = false});
  std::vector<bool> waited;
  for (int i = 0; i < 6; ++i) waited.push_back(every3.step_done());
  EXPECT_THAT(waited, testing::ElementsAre(false, false, true, false, false, true));
  EXPECT_TRUE(always.step_done());
}

TEST(ConfigManagerOnATpu, ErrorsThatPassAreTriedAgain) {
  struct Case {
    int times, retries;
    bool works;
  };
  for (const Case& it : {Case{2, 3, true}, {2, 1, false}})
    expect_in_new_process([it]() -> std::string {
      const pjrt::FakePlugin fake("generation=v5e,chips=1");
      setenv("TPUBRIDGE_PLUGIN", fake.path().c_str(), 1);
      fake.configure("fail=execute_error:times=" + std::to_string(it.times));
      TPUConfigManager m({.max_retries = it.retries});
      if (m.initialize_tpu_environment() != it.works) return it.works ? m.problem() : "it gave up too late";
      return it.works == m.problem().empty() ? "" : "the problem is not told";
    });
}

class MultiTpu : public RestoresTheProcess {
 protected:
  void TearDown() override {
    cleanup_multi_tpu();
    RestoresTheProcess::TearDown();
  }
};

TEST_F(MultiTpu, WithoutATpu) {
  EXPECT_EQ(MultiTPUConfig().num_cores, 8);
  EXPECT_TRUE(MultiTPUConfig().auto_device_map);
  EXPECT_THROW(setup_multi_tpu(), TPUNotAvailableError);
  EXPECT_FALSE(is_tpu_available());
  EXPECT_FALSE(is_tpu_initialized());
  EXPECT_EQ(get_tpu_rank(), 0);
  EXPECT_EQ(get_tpu_world_size(), 1);
  EXPECT_TRUE(is_tpu_main_process());
  EXPECT_FALSE(get_tpu_device());
  EXPECT_FALSE(synchronize_tpu());
  EXPECT_FALSE(optimize_tpu_memory());
  EXPECT_EQ(json::parse(get_tpu_memory_info().to_json()), json({{"error", "TPU not available"}}));
  const json status = json::parse(get_tpu_status().to_json());
  EXPECT_EQ(status["available"], false);
  EXPECT_THAT(status["error"].get<std::string>(), HasSubstr("TPU not available"));
  EXPECT_EQ(status.size(), 2u);
  const json kernels = json::parse(get_tpu_status().to_kernel_json());
  EXPECT_EQ(kernels["available"], false);
  EXPECT_TRUE(kernels["xla_device"].is_null());
  EXPECT_NO_THROW(cleanup_multi_tpu());
}

TEST_F(MultiTpu, FewerCoresWhereThereAreNotSoMany) {
  const log::Capture logged;
  const auto setup = setup_multi_tpu({.num_cores = 8, .allow_simulation = true});
  ASSERT_EQ(setup.devices.size(), 1u);
  EXPECT_EQ(setup.devices[0], torch::Device("tpu:0"));
  EXPECT_TRUE(setup.simulated);
  ASSERT_EQ(setup.problems.size(), 3u) << "8, 4, 2";
  EXPECT_THAT(setup.problems[0], HasSubstr("8 cores were asked for, and there are 1"));
  EXPECT_EQ(logged.records("multi_tpu.fewer").size(), 3u);
  EXPECT_EQ(tpu_error_handler().error_count(), 3);
  EXPECT_TRUE(is_tpu_initialized());
  EXPECT_EQ(get_tpu_device(), torch::Device("tpu:0"));
  EXPECT_TRUE(synchronize_tpu());
  const Tensor x = torch::ones({1024}, tpu());
  sync({x});
  const json memory = json::parse(get_tpu_memory_info().to_json());
  EXPECT_EQ(memory["device"], "tpu:0");
  EXPECT_EQ(memory["bytes_in_use"].get<int64_t>(), device_memory().live);
  EXPECT_EQ(memory["bytes_limit"], 15218402457);  // 0.9 of a v5e's
  EXPECT_EQ(memory["gb_limit"], 14.173);
  const json status = json::parse(get_tpu_status().to_json());
  for (const char* key : {"available", "initialized", "device", "memory_info", "error_count", "rank",
                          "world_size", "is_main_process", "compiled_functions"})
    EXPECT_TRUE(status.contains(key)) << key;
  EXPECT_EQ(status["available"], false) << "a simulation is no TPU";
  EXPECT_EQ(status["initialized"], true);
  EXPECT_EQ(status["error_count"], 3);
  EXPECT_EQ(json::parse(get_tpu_status().to_kernel_json())["xla_device"], "tpu:0");
  EXPECT_TRUE(optimize_tpu_memory());
  EXPECT_EQ(exec::cache_size(), 0u);
  cleanup_multi_tpu();
  EXPECT_EQ(tpu_error_handler().error_count(), 0);
  EXPECT_TRUE(tpu_error_handler().error_log().empty());
  EXPECT_FALSE(is_tpu_initialized());
}

TEST_F(MultiTpu, AScope) {
  {
    const TPUContext tpu({.num_cores = 1, .allow_simulation = true});
    EXPECT_TRUE(tpu->problems.empty());
    EXPECT_TRUE(is_tpu_initialized());
    EXPECT_TRUE(tpu->config.hardware.tpu.gradient_checkpointing);
  }
  EXPECT_FALSE(is_tpu_initialized());
}

// A forked process has none of the device's threads: any use of it there is an error, and the status says so.
TEST_F(MultiTpu, AStatusThatCannotBeRead) {
  const TPUContext tpu({.num_cores = 1, .allow_simulation = true});
  const pid_t child = fork();
  if (child == 0) {
    const std::string text = get_tpu_status().to_json();
    _exit(text.find("Status check failed: ") != std::string::npos && text.find("forked") != std::string::npos
              ? 0
              : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(get_tpu_status().error, "") << "here it can be read";
}

TEST_F(MultiTpu, CheckpointingReachesTheOptimizer) {
  MultiTPUConfig c{.num_cores = 1, .use_gradient_checkpointing = false, .allow_simulation = true};
  EXPECT_FALSE(setup_multi_tpu(c).config.hardware.tpu.gradient_checkpointing);
  c.config.hardware.tpu.gradient_checkpointing = true;
  EXPECT_TRUE(setup_multi_tpu(c).config.hardware.tpu.gradient_checkpointing) << "what the user set is kept";
}

TEST_F(MultiTpu, WrongConfigurations) {
  const auto refused = [](const MultiTPUConfig& c) {
    try {
      (void)setup_multi_tpu(c);
    } catch (const TPUConfigurationError& e) {
      return e.detail("parameter");
    }
    return std::string("nothing");
  };
  EXPECT_EQ(refused({.num_cores = 0}), "num_cores");
  EXPECT_EQ(refused({.auto_device_map = false}), "device_map");
  EXPECT_EQ(refused({.device_map = {0}}), "device_map");
}

// Four chips: all of them work together; a map of two; and one that is lost at every run.
TEST(MultiTpuOnATpu, AllCoresOrFewer) {
  expect_in_new_process([]() -> std::string {
    const pjrt::FakePlugin fake("generation=v6e,chips=4");
    MultiTPUConfig c{.num_cores = 4};
    c.config.runtime.plugin = fake.path();
    const auto all = setup_multi_tpu(c);
    if (all.devices.size() != 4 || !all.problems.empty() || all.simulated) return "not all four";
    if (!is_tpu_available() || get_tpu_world_size() != 4) return "the TPU is not told of";
    c.auto_device_map = false;
    c.device_map = {3, 1};
    c.num_cores = 2;
    const auto two = setup_multi_tpu(c);
    if (two.devices != std::vector{torch::Device("tpu:3"), torch::Device("tpu:1")}) return "another map";
    torch::nn::Linear model(4, 2);
    DataParallel<torch::nn::LinearImpl> parallel(model.ptr(), two.devices);
    (void)parallel.backward(torch::ones({4, 4}), [](auto& m, auto& x) { return m.forward(x).mean(); });
    if (parallel.replica(1).bias.grad().sum().item<float>() != 1) return "gradients are not averaged";
    if (get_tpu_memory_info().bytes_limit <= 0) return "no limit";
    fake.configure("fail=execute_error:times=always");
    try {
      (void)setup_multi_tpu(c);
      return "set up although nothing runs";
    } catch (const TPUDistributedError& e) {
      if (std::string(e.what()).find("setup failed") == std::string::npos) return e.what();
    }
    if (synchronize_tpu()) return "all is well where nothing runs";
    cleanup_multi_tpu();
    return "";
  });
}

Tensor square(const Tensor& x) { return x * x; }
Tensor cube(const Tensor& x) { return x * x * x; }

TEST(XlaOptimizer, FunctionsAreKnownByThemselves) {
  XLAOptimizer xla;
  EXPECT_TRUE(xla.is_xla_available());
  EXPECT_EQ(xla.get_xla_device(), torch::Device("tpu:0"));
  auto first = xla.compile_for_tpu(&square), again = xla.compile_for_tpu(&square),
       other = xla.compile_for_tpu(&cube);
  EXPECT_EQ(xla.compiled_functions(), 2u);
  const Tensor x = torch::full({2}, 3.0f, tpu());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(first(x).sum().item<float>(), 18);
    EXPECT_EQ(other(x).sum().item<float>(), 54) << "another function, though it looks alike";
  }
  EXPECT_EQ(again(x).sum().item<float>(), 18);
  // Two lambdas of one type with different state.
  std::vector<std::function<Tensor(const Tensor&)>> scaled;
  for (const double by : {2.0, 5.0})
    scaled.push_back(xla.compile_for_tpu([by](const Tensor& t) { return t * by; }));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(scaled[0](x).sum().item<float>(), 12);
    EXPECT_EQ(scaled[1](x).sum().item<float>(), 30);
  }
  EXPECT_EQ(xla.compiled_functions(), 2u) << "what has state is not kept";
  for (int i = 0; i < 2; ++i) (void)xla.compile_for_tpu([](const Tensor& t) { return t + 1; });
  EXPECT_EQ(xla.compiled_functions(), 3u) << "without state, known by its type";
  EXPECT_EQ(first(torch::full({2}, 3.0f)).sum().item<float>(), 18) << "also with tensors of the CPU";
  EXPECT_EQ(first(torch::full({2}, 4.0f)).sum().item<float>(), 32);
  xla.clear();
  EXPECT_EQ(xla.compiled_functions(), 0u);
}

TEST(XlaOptimizer, TensorsOnTheDeviceAndDense) {
  const XLAOptimizer xla;
  const Tensor t = torch::arange(6, torch::kFloat).view({2, 3}).t();
  const Tensor there = xla.optimize_tensor_operations(t);
  EXPECT_EQ(there.device(), torch::Device("tpu:0"));
  EXPECT_TRUE(there.is_contiguous());
  EXPECT_TRUE(torch::equal(there.cpu(), t));
  EXPECT_FALSE(xla.optimize_tensor_operations(Tensor()).defined());
}

}  // namespace
}  // namespace tpubridge
