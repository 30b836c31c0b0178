// The configuration's group of the seeds' test report, test by test.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tpubridge/config/runtime.h"

namespace tpubridge {
namespace {

TEST(TestTPUConfig, DefaultConfigCreation) {
  const TPUConfig c;
  EXPECT_EQ(c.enabled, true);
  EXPECT_EQ(c.version, TPUVersion::automatic);
  EXPECT_EQ(c.topology, TPUTopology::automatic);
  EXPECT_EQ(c.precision, TPUPrecision::bfloat16);
  EXPECT_EQ(c.mixed_precision, true);
  EXPECT_EQ(c.memory_fraction, 0.90);
  EXPECT_EQ(c.gradient_checkpointing, true);
  EXPECT_EQ(c.xla_optimization_level, 2);
  EXPECT_EQ(c.enable_jax_integration, false);
  EXPECT_EQ(c.jax_backend, "tpu");
  EXPECT_EQ(c.cache_max_size, 100);
  EXPECT_EQ(c.compilation_timeout_seconds, 300);
  EXPECT_EQ(c.allocation_history_retention_seconds, 3600);
  EXPECT_EQ(c.v6e_memory_gb, std::nullopt);
  EXPECT_EQ(c.v7_memory_gb, std::nullopt);
  EXPECT_EQ(c.enable_strict_validation, false);
  EXPECT_EQ(c.monitoring_interval_seconds, 1.0);
  EXPECT_EQ(c.monitoring_duration_seconds, 60.0);
  EXPECT_EQ(c.enable_xla_cache, true);
  EXPECT_FALSE(c.version.is_set()) << "nobody set it";
  EXPECT_EQ(Config().seed, 42);
  EXPECT_EQ(Config().mode(), Mode::none);
}

TEST(TestTPUConfig, V5eConfiguration) {
  const TPUConfig c = resolved({.version = TPUVersion::v5e});
  EXPECT_EQ(c.version, TPUVersion::v5e);
  EXPECT_EQ(c.topology, TPUTopology::single);
  EXPECT_EQ(c.memory_fraction, 0.90);
  EXPECT_EQ(c.xla_optimization_level, 1);
  EXPECT_EQ(compile_options(c).optimization_level, 1);
}

TEST(TestTPUConfig, V5pConfiguration) {
  const TPUConfig c = resolved({.version = TPUVersion::v5p});
  EXPECT_EQ(c.memory_fraction, 0.95);
  EXPECT_EQ(c.xla_optimization_level, 2);
  EXPECT_EQ(memory_budget({.version = TPUVersion::v5p}), static_cast<int64_t>(102'786'660'352 * 0.95));
  const TPUConfig own = resolved({.version = TPUVersion::v5p, .memory_fraction = 0.5});
  EXPECT_EQ(own.memory_fraction, 0.5) << "what the user set is kept";
}

TEST(TestTPUConfig, TopologySettings) {
  const auto of = [](int world) { return resolved({}, {true, "TPU v5", world, 0, ""}).topology.value(); };
  EXPECT_EQ(of(1), TPUTopology::single);
  EXPECT_EQ(of(8), TPUTopology::single);
  EXPECT_EQ(of(9), TPUTopology::pod);
  EXPECT_EQ(of(256), TPUTopology::pod);
  EXPECT_EQ(of(257), TPUTopology::superpod);
  EXPECT_EQ(resolved({.topology = TPUTopology::pod}).topology, TPUTopology::pod) << "the user's";
}

TEST(TestTPUConfig, OptimizationLevels) {
  for (const int level : {0, 1, 2, 3}) {
    const TPUConfig c{.xla_optimization_level = level};
    EXPECT_NO_THROW(c.check());
    EXPECT_EQ(compile_options(c).optimization_level, level);
    EXPECT_EQ(resolved(c).xla_optimization_level, level);
  }
  for (const int level : {-1, 4})
    EXPECT_THROW(TPUConfig{.xla_optimization_level = level}.check(), TPUConfigurationError);
}

TEST(TestTPUConfig, PrecisionSettings) {
  for (const auto* name : {"bfloat16", "float16", "float32", "float64"}) {
    const auto c = TPUConfig::from_json(std::string(R"({"precision": ")") + name + "\"}");
    EXPECT_EQ(to_string(c.precision), name);
    EXPECT_TRUE(c.precision.is_set());
  }
  EXPECT_THROW((void)TPUConfig::from_json(R"({"precision": "int8"})"), TPUConfigurationError);
}

TEST(TestTPUConfig, MemorySettings) {
  EXPECT_EQ(memory_budget({.memory_fraction = 0.5}, {true, "TPU v4", 1, 1'000'000, ""}), 500'000);
  EXPECT_EQ(memory_budget({.version = TPUVersion::v6e, .memory_fraction = 1.0, .v6e_memory_gb = 16.0}),
            16'000'000'000);
  EXPECT_EQ(memory_budget({.version = TPUVersion::v7, .memory_fraction = 1.0, .v7_memory_gb = 128.0}),
            64'000'000'000)
      << "of a device: a chip is two";
  for (const double good : {0.1, 1.0}) EXPECT_NO_THROW(TPUConfig{.memory_fraction = good}.check());
  for (const double bad : {0.0, 0.09, 1.01, -1.0})
    EXPECT_THROW(TPUConfig{.memory_fraction = bad}.check(), TPUConfigurationError) << bad;
}

TEST(TestTPUConfig, ConfigSerialization) {
  TPUConfig c{.version = TPUVersion::v6e, .precision = TPUPrecision::float32, .memory_fraction = 0.75};
  c.v6e_memory_gb = 24.0;
  const auto json = nlohmann::json::parse(c.to_json());
  EXPECT_EQ(json["version"], "v6e") << "the name, not the inside of an enum";
  EXPECT_EQ(json["topology"], "auto");
  EXPECT_EQ(json["precision"], "float32");
  EXPECT_EQ(json["memory_fraction"], 0.75);
  EXPECT_EQ(json["v6e_memory_gb"], 24.0);
  EXPECT_TRUE(json["v7_memory_gb"].is_null());
  EXPECT_TRUE(TPUConfig::from_json(c.to_json()) == c);
  EXPECT_FALSE(TPUConfig::from_json(c.to_json()) == TPUConfig());
}

}  // namespace
}  // namespace tpubridge
