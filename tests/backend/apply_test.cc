// apply(): each field of a configuration changes what the process does.
#include "tpubridge/backend/apply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/backend/process.h"
#include "tests/base/scoped_env.h"
#include "tests/device/check.h"
#include "tests/pjrt/fake.h"
#include "tpubridge/base/backend_errors.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;

class Apply : public RestoresTheProcess {};

int64_t compiles() { return metrics().compiles; }

// Computes on the device; the size makes a program of its own.
float compute(int64_t size) { return (torch::ones({size}, tpu()) * 3).sum().item<float>(); }

TEST_F(Apply, TheMemoryFractionIsEnforced) {
  Config c;
  c.hardware.tpu.version = TPUVersion::v5p;  // of the simulation
  c.hardware.tpu.memory_fraction = 0.5;
  EXPECT_EQ(apply(c).memory_limit, 102'786'660'352 / 2);
  EXPECT_EQ(device_memory().limit, 102'786'660'352 / 2);
  c.hardware.tpu.version = TPUVersion::v7;
  c.hardware.tpu.v7_memory_gb = 1.0;
  c.hardware.tpu.memory_fraction = 0.1;  // of half a chip: 50 MB
  EXPECT_EQ(apply(c).memory_limit, 50'000'000);
  EXPECT_THROW((void)torch::ones({20'000'000}).to(tpu()), TPUMemoryLimitError);
  EXPECT_EQ(torch::ones({1000}).to(tpu()).sum().item<float>(), 1000);
}

TEST_F(Apply, TheSmallerOfBothMemoryLimitsCounts) {
  const ScopedEnv limit("TPUBRIDGE_MEMORY_LIMIT", "123456");
  EXPECT_EQ(apply({}).memory_limit, 123456);
}

TEST_F(Apply, ProgramsInMemory) {
  Config c;
  c.hardware.tpu.cache_max_size = 0;
  apply(c);
  EXPECT_EQ(exec::cache_size(), 0u);
  const int64_t before = compiles();
  // Nothing is kept: the same program is compiled again, but where the one before is still alive (its thread
  // has not ended) that one is shared.
  for (int i = 0; i < 50 && compiles() < before + 2; ++i) EXPECT_EQ(compute(101), 303);
  EXPECT_EQ(compiles(), before + 2) << "0 is off";
  EXPECT_EQ(exec::cache_size(), 0u);
  c.hardware.tpu.cache_max_size = 1;
  apply(c);
  const int64_t with_one = compiles();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(compute(101), 303);
  EXPECT_EQ(compiles(), with_one + 1);
  EXPECT_EQ(exec::cache_size(), 1u);
}

TEST_F(Apply, ProgramsOnDisk) {
  const TempFolder folder;
  Config c;
  c.hardware.tpu.cache_max_size = 0;
  c.hardware.tpu.enable_xla_cache = true;
  c.runtime.cache_dir = folder.path().string();
  c.runtime.cache_size_mb = 64;
  apply(c);
  EXPECT_EQ(exec::programs().disk()->max_bytes(), 64 << 20);
  EXPECT_EQ(compute(102), 306);
  EXPECT_EQ(exec::programs().disk()->list().size(), 1u);
  const int64_t before = compiles();
  EXPECT_EQ(compute(102), 306);
  EXPECT_EQ(compiles(), before) << "from the disk";
  c.hardware.tpu.enable_xla_cache = false;
  apply(c);
  EXPECT_EQ(exec::programs().disk(), nullptr);
  EXPECT_EQ(compute(102), 306);
  EXPECT_EQ(compiles(), before + 1);
}

TEST_F(Apply, ACacheFolderThatCannotBeUsedIsAnErrorInStrictMode) {
  const TempFolder folder;
  write_file(folder.path() / "file", "no folder");
  Config c;
  c.runtime.cache_dir = (folder.path() / "file").string();
  c.hardware.tpu.enable_xla_cache = true;
  EXPECT_NO_THROW(apply(c)) << "programs are compiled all the same";
  c.validation.strict = true;
  try {
    apply(c);
    FAIL() << "a file is no folder";
  } catch (const TPUCacheError& e) {
    EXPECT_EQ(e.detail("operation"), "open");
    EXPECT_THAT(e.hint(), HasSubstr("runtime.cache_dir"));
  }
}

TEST_F(Apply, TheDeadlineOfACompile) {
  apply({});
  EXPECT_EQ(exec::programs().deadline(), std::chrono::seconds(300));
  Config c;
  c.hardware.tpu.compilation_timeout_seconds = 7;
  apply(c);
  EXPECT_EQ(exec::programs().deadline(), std::chrono::seconds(7));
}

TEST_F(Apply, FlagsReachTheCompilerAndNotTheEnvironment) {
  const ScopedEnv flags("XLA_FLAGS", "");
  Config c;
  c.hardware.tpu.xla_flags = "--xla_there_is_no_such_flag=1";
  apply(c);
  try {
    (void)compute(103);
    FAIL() << "XLA took a flag that it does not know";
  } catch (const Error& e) {
    EXPECT_THAT(std::string(e.what()), HasSubstr("xla_there_is_no_such_flag"));
  }
  EXPECT_STREQ(getenv("XLA_FLAGS"), "");
  c.hardware.tpu.xla_flags = "--xla_llvm_disable_expensive_passes=true";
  apply(c);
  EXPECT_EQ(compute(103), 309);
}

// The compiler's account of the code that one program came to.
int64_t code_bytes(int64_t size) {
  const auto x = torch::linspace(0, 1, size, tpu());
  const auto y = (x.sin() * x.exp()).cumsum(0) + x.tanh();
  (void)y[0].item<float>();
  const auto found = exec::programs().disk()->list();
  int64_t bytes = 0;
  for (const auto& entry : found) bytes += static_cast<int64_t>(entry.bytes);
  return bytes;
}

TEST_F(Apply, TheLevelReachesTheCompiler) {
  int64_t bytes[2] = {};
  for (const int level : {0, 2}) {
    const TempFolder folder;
    Config c;
    c.hardware.tpu.enable_xla_cache = true;
    c.hardware.tpu.xla_optimization_level = level;
    c.runtime.cache_dir = folder.path().string();
    apply(c);
    bytes[level / 2] = code_bytes(104);
  }
  EXPECT_GT(bytes[0], 0);
  EXPECT_NE(bytes[0], bytes[1]) << "the same programs at level 0 and 2";
}

TEST_F(Apply, AnotherLevelIsAnotherProgram) {
  Config c;
  for (const int level : {1, 3, 1}) {
    c.hardware.tpu.xla_optimization_level = level;
    apply(c);
    const int64_t before = compiles();
    EXPECT_EQ(compute(105), 315);
    const int64_t first = compiles() - before;
    EXPECT_EQ(compute(105), 315);
    EXPECT_EQ(compiles() - before, first);
    static int round = 0;
    EXPECT_EQ(first, round++ < 2 ? 1 : 0) << "the third finds the first one's";
  }
}

TEST_F(Apply, Fallback) {
  Config c;
  c.runtime.fallback = FallbackMode::error;
  apply(c);
  const auto x = torch::eye(4, tpu()) * 2;
  EXPECT_THROW((void)torch::special_bessel_j0(x), UnsupportedError);
  c.runtime.fallback = FallbackMode::allow;
  apply(c);
  EXPECT_EQ(torch::special_bessel_j0(x)[0][1].item<float>(), 1);
}

TEST_F(Apply, TheGraphLimit) {
  Config c;
  c.runtime.graph_limit = 10;
  apply(c);
  const auto before = metrics().materialisations["graph limit"];
  auto x = torch::ones({3}, tpu());
  for (int i = 0; i < 50; ++i) x = x + 2;
  EXPECT_GT(metrics().materialisations["graph limit"], before);
  EXPECT_EQ(x[0].item<float>(), 101);
}

TEST_F(Apply, TheSeed) {
  Config c;
  c.seed = 7;
  apply(c);
  const auto a = torch::rand({5}, tpu()).cpu(), host = torch::rand({5});
  apply(c);
  EXPECT_TRUE(torch::rand({5}, tpu()).cpu().equal(a));
  EXPECT_TRUE(torch::rand({5}).equal(host));
  c.seed = 8;
  apply(c);
  EXPECT_FALSE(torch::rand({5}, tpu()).cpu().equal(a));
}

TEST_F(Apply, TheLogLevel) {
  Config c;
  c.runtime.log_level = log::Level::error;
  apply(c);
  EXPECT_EQ(log::level(), log::Level::error);
  apply(Config::for_development());
  EXPECT_EQ(log::level(), log::Level::debug);
}

TEST_F(Apply, TheEnvironmentCountsWhereNobodySetAnything) {
  const ScopedEnv limit("TPUBRIDGE_GRAPH_LIMIT", "77"), timeout("TPUBRIDGE_COMPILE_TIMEOUT", "5");
  Config c;
  c.hardware.tpu.compilation_timeout_seconds = 6;
  const Applied applied = apply(c);
  EXPECT_EQ(exec::graph_limit(), 77);
  EXPECT_EQ(applied.config.runtime.graph_limit, 77);
  EXPECT_EQ(exec::programs().deadline(), std::chrono::seconds(6)) << "what is set wins";
}

TEST_F(Apply, WhatIsWrongChangesNothing) {
  Config c;
  c.runtime.graph_limit = 10;
  c.hardware.tpu.memory_fraction = 3.0;
  EXPECT_THROW(apply(c), TPUConfigurationError);
  c.hardware.tpu.memory_fraction = 0.5;
  c.hardware.tpu.xla_flags = "nonsense";
  EXPECT_THROW(apply(c), TPUConfigurationError);
  c.validation.strict = true;
  EXPECT_THROW(apply(c), TPUValidationError) << "validation says it first";
  c.validation.enabled = false;
  EXPECT_THROW(apply(c), TPUConfigurationError);
  EXPECT_EQ(exec::graph_limit(), 20000);
  EXPECT_EQ(device_memory().limit, 0);
}

TEST_F(Apply, ResolvesWhatWasLeftToDetection) {
  const Applied applied = apply({});
  EXPECT_FALSE(applied.runtime.available) << "the CPU plugin is a simulation";
  EXPECT_EQ(applied.config.hardware.tpu.version, TPUVersion::v5e);
  EXPECT_EQ(applied.config.hardware.tpu.topology, TPUTopology::single);
}

TEST_F(Apply, AnotherPluginIsTooLate) {
  const pjrt::FakePlugin fake("generation=v5e");
  Config c;
  c.runtime.plugin = fake.path();
  try {
    apply(c);
    FAIL() << "the plugin was changed";
  } catch (const TPUConfigurationError& e) {
    EXPECT_EQ(e.detail("parameter"), "runtime.plugin");
    EXPECT_THAT(e.hint(), HasSubstr("before the first use"));
  }
  c.runtime.plugin = "cpu";
  EXPECT_NO_THROW(apply(c));
  c.runtime.cpu_devices = device_count() + 1;
  EXPECT_THROW(apply(c), TPUConfigurationError);
  c.runtime.cpu_devices = device_count();
  EXPECT_NO_THROW(apply(c));
  c.hardware.tpu.enabled = false;
  EXPECT_NO_THROW(apply(c)) << "it is the CPU plugin";
}

TEST(ApplyFirst, ChoosesPluginAndDevices) {
  expect_in_new_process([]() -> std::string {
    Config c;
    c.runtime.plugin = CPU_PLUGIN;
    c.runtime.cpu_devices = 3;
    apply(c);
    if (device_count() != 3) return "there are " + std::to_string(device_count()) + " devices";
    return torch::ones({2}, torch::Device("tpu:2")).sum().item<float>() == 2 ? "" : "a wrong sum";
  });
}

TEST(ApplyFirst, TheDevicesOwnMemoryAndGeneration) {
  expect_in_new_process([]() -> std::string {
    const pjrt::FakePlugin fake("generation=v5p,chips=2,hbm_mb=100");
    Config c;
    c.runtime.plugin = fake.path();
    const Applied applied = apply(c);
    if (!applied.runtime.available) return "the TPU is not seen";
    if (applied.config.hardware.tpu.version != TPUVersion::v5p) return "another version";
    if (applied.memory_limit != static_cast<int64_t>((100 << 20) * 0.95)) return "another limit";
    try {
      (void)torch::ones({30 << 20}).to(tpu());
    } catch (const TPUOutOfMemoryError&) {
      return torch::ones({2}, tpu()).sum().item<float>() == 2 ? "" : "a wrong sum";
    }
    return "120 MiB went into 95";
  });
}

TEST(ApplyFirst, NotEnabledIsTheCpuPlugin) {
  const pjrt::FakePlugin fake("generation=v5p");
  const ScopedEnv names("PJRT_NAMES_AND_LIBRARY_PATHS", ("tpu:" + fake.path()).c_str());
  expect_in_new_process([]() -> std::string {
    Config c;
    c.hardware.tpu.enabled = false;
    return apply(c).runtime.available ? "a TPU was opened" : "";
  });
}

}  // namespace
}  // namespace tpubridge
