// The configuration from the environment.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/base/scoped_env.h"
#include "tpubridge/base/env.h"
#include "tpubridge/config/config.h"
#include "tpubridge/config/fields.h"

namespace tpubridge {
namespace {

TEST(ConfigEnv, VariablesWinOverTheFile) {
  const TempFolder folder;
  const std::string path = (folder.path() / "run.json").string();
  write_file(path,
             R"({"mode": "inference", "hardware": {"tpu": {"version": "v4", "memory_fraction": 0.5}}})");
  const ScopedEnv file("TPUBRIDGE_CONFIG", path.c_str());
  EXPECT_EQ(Config::from_environment().hardware.tpu.version, TPUVersion::v4);
  const ScopedEnv version("TPUBRIDGE_TPU_VERSION", "V5p");
  const Config c = Config::from_environment();
  EXPECT_EQ(c.hardware.tpu.version, TPUVersion::v5p);
  EXPECT_TRUE(c.hardware.tpu.version.is_set());
  EXPECT_EQ(c.hardware.tpu.memory_fraction, 0.5);
  EXPECT_EQ(c.mode(), Mode::inference);
}

TEST(ConfigEnv, EveryVariable) {
  const ScopedEnv variables[] = {{"TPUBRIDGE_MODE", "development"},  {"TPUBRIDGE_TPU_VERSION", "v6e"},
                                 {"TPUBRIDGE_TPU_TOPOLOGY", "pod"},  {"TPUBRIDGE_XLA_FLAGS", "--xla_a=b"},
                                 {"TPUBRIDGE_PRECISION", "Float16"}, {"TPUBRIDGE_MEMORY_FRACTION", "0.75"},
                                 {"TPUBRIDGE_XLA_LEVEL", "3"},       {"TPUBRIDGE_COMPILE_TIMEOUT", "9"},
                                 {"TPUBRIDGE_STRICT", "no"},         {"TPUBRIDGE_CACHE", "off"},
                                 {"TPUBRIDGE_PLUGIN", "cpu"},        {"TPUBRIDGE_CPU_DEVICES", "3"},
                                 {"TPUBRIDGE_CACHE_DIR", "/x"},      {"TPUBRIDGE_CACHE_SIZE", "5"},
                                 {"TPUBRIDGE_FALLBACK", "error"},    {"TPUBRIDGE_GRAPH_LIMIT", "11"},
                                 {"TPUBRIDGE_LOG", "info"}};
  const Config c = Config::from_environment();
  const TPUConfig& t = c.hardware.tpu;
  EXPECT_EQ(c.mode(), Mode::development);
  EXPECT_TRUE(c.validation.strict) << "the mode's";
  EXPECT_EQ(t.version, TPUVersion::v6e);
  EXPECT_EQ(t.topology, TPUTopology::pod);
  EXPECT_EQ(t.xla_flags, "--xla_a=b");
  EXPECT_EQ(t.precision, TPUPrecision::float16);
  EXPECT_EQ(t.memory_fraction, 0.75);
  EXPECT_EQ(t.xla_optimization_level, 3) << "wins over the mode's";
  EXPECT_EQ(t.compilation_timeout_seconds, 9);
  EXPECT_FALSE(t.enable_strict_validation);
  EXPECT_FALSE(t.enable_xla_cache);
  EXPECT_EQ(c.runtime.plugin, "cpu");
  EXPECT_EQ(c.runtime.cpu_devices, 3);
  EXPECT_EQ(c.runtime.cache_dir, "/x");
  EXPECT_EQ(c.runtime.cache_size_mb, 5);
  EXPECT_EQ(c.runtime.fallback, FallbackMode::error);
  EXPECT_EQ(c.runtime.graph_limit, 11);
  EXPECT_EQ(c.runtime.log_level, log::Level::info);
  int fields = 0;
  for (const auto& section : config::sections())
    for (const auto& field : section.fields) fields += field.variable.empty() ? 0 : 1;
  EXPECT_EQ(fields + 1, static_cast<int>(std::size(variables))) << "a field got a variable: test it here";
}

TEST(ConfigEnv, WhatIsNotAllowedNamesTheVariableAndChangesNothing) {
  const ScopedEnv good("TPUBRIDGE_XLA_LEVEL", "1");
  for (const auto& [name, value] : {std::pair{"TPUBRIDGE_TPU_VERSION", "v9"},
                                    {"TPUBRIDGE_MEMORY_FRACTION", "1.5"},
                                    {"TPUBRIDGE_MEMORY_FRACTION", "half"},
                                    {"TPUBRIDGE_MEMORY_FRACTION", "nan"},
                                    {"TPUBRIDGE_XLA_LEVEL", "4"},
                                    {"TPUBRIDGE_STRICT", "maybe"},
                                    {"TPUBRIDGE_MODE", "fast"}}) {
    const ScopedEnv bad(name, value);
    Config c;
    try {
      c.override_from_environment();
      ADD_FAILURE() << name << "=" << value << " was taken";
    } catch (const TPUConfigurationError& e) {
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
      EXPECT_EQ(e.detail("value"), value);
      EXPECT_NE(e.detail("allowed"), "");
    }
    EXPECT_EQ(c, Config());
  }
}

TEST(ConfigEnv, CompletingLeavesWhatTheUserSet) {
  const ScopedEnv variables[] = {
      {"TPUBRIDGE_MODE", "inference"}, {"TPUBRIDGE_XLA_LEVEL", "3"}, {"TPUBRIDGE_GRAPH_LIMIT", "11"}};
  Config c;
  c.runtime.graph_limit = 5;
  c.complete_from_environment();
  EXPECT_EQ(c.runtime.graph_limit, 5);
  EXPECT_EQ(c.hardware.tpu.xla_optimization_level, 3);
  EXPECT_EQ(c.mode(), Mode::inference);
  Config training(Mode::training);
  training.complete_from_environment();
  EXPECT_EQ(training.mode(), Mode::training);
}

TEST(ConfigEnv, AMissingFileIsSaid) {
  const ScopedEnv file("TPUBRIDGE_CONFIG", "/no/such/run.json");
  EXPECT_THROW((void)Config::from_environment(), FileError);
}

// The registry's rows allow what the fields do, so that one of them cannot grow alone.
TEST(ConfigEnv, RegistryAndFieldsAgree) {
  for (const auto& section : config::sections())
    for (const auto& field : section.fields) {
      if (field.variable.empty()) continue;
      const auto row = std::ranges::find(env::all(), field.variable, &env::Variable::name);
      ASSERT_NE(row, env::all().end()) << field.variable;
      std::string choices;
      for (const auto c : field.choices) choices += (choices.empty() ? "" : "|") + std::string(c);
      if (row->type == env::Type::choice) {
        EXPECT_EQ(row->allowed, choices) << field.variable;
      }
      if (row->type == env::Type::integer) {
        std::string range = config::allowed(field);
        range.replace(range.find(" to "), 4, "..");
        EXPECT_EQ(row->allowed, range) << field.variable;
      }
    }
}

}  // namespace
}  // namespace tpubridge
