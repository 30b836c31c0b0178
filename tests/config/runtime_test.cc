// What a configuration means on a machine: detection, budgets, and what is handed to compiler and cache.
#include "tpubridge/config/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/pjrt/fake.h"
#include "tpubridge/base/errors.h"

namespace tpubridge {
namespace {

using pjrt::FakePlugin;

Config on(const std::string& plugin) {
  Config c;
  c.runtime.plugin = plugin;
  return c;
}

TPURuntime machine(std::string kind, int devices) { return {true, std::move(kind), devices, 0, ""}; }

TEST(Runtime, TheTpuThatIsHere) {
  const FakePlugin fake("generation=v5p,chips=4,hbm_mb=1000");
  const TPURuntime r = look_for_tpu(on(fake.path()));
  EXPECT_TRUE(r.available);
  EXPECT_EQ(r.device_kind, "TPU v5");
  EXPECT_EQ(r.world_size, 4);
  EXPECT_EQ(r.hbm_bytes, 1000 << 20);
  EXPECT_EQ(r.problem, "");
}

TEST(Runtime, TheCpuPluginIsNoTpu) {
  const TPURuntime r = look_for_tpu(on(CPU_PLUGIN));
  EXPECT_FALSE(r.available);
  EXPECT_EQ(r.problem, "");
  EXPECT_FALSE(look_for_tpu(on("cpu")).available);
}

TEST(Runtime, APluginThatFailsIsAProblemNotAnException) {
  const FakePlugin fake("fail=initialize_error");
  const TPURuntime r = look_for_tpu(on(fake.path()));
  EXPECT_FALSE(r.available);
  EXPECT_NE(r.problem, "");
  EXPECT_NE(look_for_tpu(on("/no/such/plugin.so")).problem, "");
}

TEST(Resolved, WithoutATpuItIsAV5e) {
  const TPUConfig c = resolved({});
  EXPECT_EQ(c.version, TPUVersion::v5e);
  EXPECT_EQ(c.topology, TPUTopology::single);
  EXPECT_EQ(c.memory_fraction, 0.90);
  EXPECT_EQ(c.xla_optimization_level, 1);
}

TEST(Resolved, ByTheDevice) {
  for (const auto& [kind, version, fraction, level] : {std::tuple{"TPU v4", TPUVersion::v4, 0.90, 2},
                                                       {"TPU v5 lite", TPUVersion::v5e, 0.90, 1},
                                                       {"TPU v5", TPUVersion::v5p, 0.95, 2},
                                                       {"TPU v6 lite", TPUVersion::v6e, 0.95, 2},
                                                       {"TPU7x", TPUVersion::v7, 0.95, 2},
                                                       {"TPU v3", TPUVersion::v5e, 0.90, 1}}) {
    const TPUConfig c = resolved({}, machine(kind, 1));
    EXPECT_EQ(c.version, version) << kind;
    EXPECT_EQ(c.memory_fraction, fraction) << kind;
    EXPECT_EQ(c.xla_optimization_level, level) << kind;
  }
}

TEST(Resolved, TopologyByTheNumberOfDevices) {
  for (const auto& [devices, topology] : {std::pair{1, TPUTopology::single},
                                          {8, TPUTopology::single},
                                          {9, TPUTopology::pod},
                                          {256, TPUTopology::pod},
                                          {257, TPUTopology::superpod}})
    EXPECT_EQ(resolved({}, machine("TPU v4", devices)).topology, topology) << devices;
  EXPECT_EQ(resolved({.topology = TPUTopology::pod}, machine("TPU v4", 1)).topology, TPUTopology::pod);
}

TEST(Resolved, WhatTheUserSetIsKept) {
  const TPUConfig c = resolved({.memory_fraction = 0.5, .xla_optimization_level = 0}, machine("TPU v5", 1));
  EXPECT_EQ(c.memory_fraction, 0.5);
  EXPECT_EQ(c.xla_optimization_level, 0);
  const TPUConfig same = resolved({.version = TPUVersion::v4, .memory_fraction = 0.90}, machine("TPU v5", 1));
  EXPECT_EQ(same.version, TPUVersion::v4) << "a version that was set is not detected";
  EXPECT_EQ(resolved({.memory_fraction = 0.90}, machine("TPU v5", 1)).memory_fraction, 0.90)
      << "set to the standard value is set";
}

TEST(Resolved, AModeWinsOverDetection) {
  EXPECT_EQ(resolved(Config(Mode::development).hardware.tpu, machine("TPU v5", 1)).xla_optimization_level, 0);
  EXPECT_EQ(resolved(Config(Mode::training).hardware.tpu).xla_optimization_level, 2);
}

TEST(Budget, HbmTimesTheFraction) {
  EXPECT_EQ(memory_budget({}), static_cast<int64_t>(16'909'336'064 * 0.9));
  EXPECT_EQ(memory_budget({.memory_fraction = 0.5}, {true, "TPU v5", 1, 1'000'000, ""}), 500'000);
  EXPECT_EQ(memory_budget({}, {true, "TPU v5", 1, 1'000'000, ""}), 950'000);
  EXPECT_EQ(memory_budget({.version = TPUVersion::v6e, .memory_fraction = 1.0, .v6e_memory_gb = 20.0}),
            20'000'000'000);
  EXPECT_EQ(memory_budget({.version = TPUVersion::v7, .memory_fraction = 1.0, .v7_memory_gb = 128.0}),
            64'000'000'000)
      << "a v7 chip is two devices";
  EXPECT_EQ(memory_budget({.version = TPUVersion::v5p, .memory_fraction = 1.0, .v7_memory_gb = 128.0}),
            102'786'660'352)
      << "another generation's size";
  EXPECT_THROW((void)memory_budget({.memory_fraction = 2.0}), TPUConfigurationError);
}

TEST(CompileOptions, LevelAndFlags) {
  const auto o = compile_options(
      {.xla_flags = "  --xla_a=1 --xla_b --xla_c=false\t--xla_d=x=y ", .xla_optimization_level = 3});
  EXPECT_EQ(o.optimization_level, 3);
  ASSERT_EQ(o.overrides.size(), 4u);
  EXPECT_EQ(std::get<std::string>(o.overrides.at("xla_a")), "1");
  EXPECT_EQ(std::get<std::string>(o.overrides.at("xla_b")), "True");
  EXPECT_EQ(std::get<std::string>(o.overrides.at("xla_c")), "False");
  EXPECT_EQ(std::get<std::string>(o.overrides.at("xla_d")), "x=y");
  EXPECT_TRUE(compile_options({}).overrides.empty());
  EXPECT_EQ(
      std::get<int64_t>(
          compile_options({.xla_optimization_level = 0}).overrides.at("xla_backend_optimization_level")),
      0);
  for (const char* bad : {"xla_a=1", "--a=1", "--xla_", "--xla_=1", "--xla_a=1 -x"})
    EXPECT_THROW((void)compile_options({.xla_flags = bad}), TPUConfigurationError) << bad;
}

TEST(CompileOptions, ReachTheCompiler) {
  const auto client = open_client(on(CPU_PLUGIN));
  const std::string program = pjrt::doubling(4);
  for (const int level : {0, 1, 2, 3})
    EXPECT_NO_THROW((void)client->compile({program}, compile_options({.xla_optimization_level = level})));
  EXPECT_NO_THROW((void)client->compile(
      {program},
      compile_options({.xla_flags = "--xla_cpu_enable_fast_math=true --xla_llvm_disable_expensive_passes"})));
  EXPECT_THROW((void)client->compile({program}, compile_options({.xla_flags = "--xla_no_such_flag=1"})),
               Error);
  EXPECT_THROW(
      (void)client->compile({program}, compile_options({.xla_flags = "--xla_cpu_enable_fast_math=maybe"})),
      Error);
}

TEST(OpenClient, PluginAndDevices) {
  Config c = on(CPU_PLUGIN);
  c.runtime.cpu_devices = 3;
  EXPECT_EQ(open_client(c)->devices().size(), 3u);
  const FakePlugin fake("generation=v4,chips=2");
  c.runtime.plugin = fake.path();
  EXPECT_EQ(open_client(c)->platform_name(), "tpu");
  EXPECT_EQ(open_client(c)->devices().size(), 2u) << "a TPU has as many as it has";
}

TEST(OpenClient, NotEnabledIsTheCpuPlugin) {
  Config c;
  c.hardware.tpu.enabled = false;
  EXPECT_EQ(open_client(c)->platform_name(), "cpu");
}

TEST(OpenPrograms, FolderSizeAndDeadline) {
  const TempFolder folder;
  Config c = on(CPU_PLUGIN);
  c.runtime.cache_dir = folder.path().string();
  c.runtime.cache_size_mb = 7;
  c.hardware.tpu.compilation_timeout_seconds = 123;
  const auto client = open_client(c);
  auto programs = open_programs(c, *client);
  EXPECT_EQ(programs.deadline(), std::chrono::seconds(123));
  EXPECT_EQ(programs.disk()->max_bytes(), 7 << 20);
  EXPECT_EQ(programs.get({pjrt::doubling(5)}).source, cache::Source::compiler);
  EXPECT_EQ(open_programs(c, *client).disk()->list().size(), 1u);
  EXPECT_EQ(open_programs(c, *client).get({pjrt::doubling(5)}).source, cache::Source::disk);
  c.hardware.tpu.enable_xla_cache = false;
  EXPECT_EQ(open_programs(c, *client).disk(), nullptr);
  EXPECT_EQ(open_programs(c, *client).get({pjrt::doubling(5)}).source, cache::Source::compiler);
}

TEST(OpenPrograms, TheDeadlineIsKept) {
  const FakePlugin fake("generation=v5e,fail=compile_hang");
  Config c = on(fake.path());
  c.hardware.tpu.enable_xla_cache = false;
  c.hardware.tpu.compilation_timeout_seconds = 1;
  const auto client = open_client(c);
  auto programs = open_programs(c, *client);
  EXPECT_THROW((void)programs.get({pjrt::doubling(6)}), XLACompilationTimeoutError);
  fake.configure("release");
}

}  // namespace
}  // namespace tpubridge
