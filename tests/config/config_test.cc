// The fields: their defaults, who may overwrite whom, what the modes say, what is out of range.
#include "tpubridge/config/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tpubridge/base/errors.h"

namespace tpubridge {
namespace {

TEST(TPUConfig, Defaults) {
  const TPUConfig c;
  EXPECT_TRUE(c.enabled);
  EXPECT_EQ(c.version.value(), TPUVersion::automatic);
  EXPECT_EQ(c.topology.value(), TPUTopology::automatic);
  EXPECT_EQ(c.compilation_mode.value(), CompilationMode::torch_xla);
  EXPECT_EQ(c.xla_flags.value(), "");
  EXPECT_EQ(c.precision.value(), TPUPrecision::bfloat16);
  EXPECT_TRUE(c.mixed_precision);
  EXPECT_EQ(c.memory_fraction.value(), 0.90);
  EXPECT_TRUE(c.gradient_checkpointing);
  EXPECT_EQ(c.xla_optimization_level.value(), 2);
  EXPECT_TRUE(c.enable_xla_dynamic_shapes);
  EXPECT_FALSE(c.enable_jax_integration);
  EXPECT_EQ(c.jax_backend.value(), "tpu");
  EXPECT_EQ(c.cache_max_size.value(), 100);
  EXPECT_EQ(c.compilation_timeout_seconds.value(), 300);
  EXPECT_FALSE(c.v6e_memory_gb.value().has_value());
  EXPECT_FALSE(c.v7_memory_gb.value().has_value());
  EXPECT_FALSE(c.enable_strict_validation);
  EXPECT_TRUE(c.enable_xla_cache);
  EXPECT_NO_THROW(c.check());
}

TEST(Config, Defaults) {
  const Config c;
  EXPECT_EQ(c.mode(), Mode::none);
  EXPECT_EQ(c.seed.value(), 42);
  EXPECT_EQ(c.optimization_level.value(), Optimization::balanced);
  EXPECT_TRUE(c.validation.enabled);
  EXPECT_FALSE(c.validation.strict);
  EXPECT_EQ(c.runtime.plugin.value(), "");
  EXPECT_EQ(c.runtime.cpu_devices.value(), 1);
  EXPECT_EQ(c.runtime.cache_size_mb.value(), 4096);
  EXPECT_EQ(c.runtime.fallback.value(), FallbackMode::warn);
  EXPECT_EQ(c.runtime.graph_limit.value(), 20000);
  EXPECT_EQ(c.runtime.log_level.value(), log::Level::warn);
}

TEST(Setting, KnowsWhoGaveIt) {
  TPUConfig c;
  EXPECT_FALSE(c.memory_fraction.is_set());
  c.memory_fraction = 0.90;  // the same value, but now the user's
  EXPECT_TRUE(c.memory_fraction.is_set());
  EXPECT_FALSE(c.memory_fraction.suggest(0.95, Origin::mode));
  EXPECT_EQ(c.memory_fraction, 0.90);
  const TPUConfig copy = c;
  EXPECT_TRUE(copy.memory_fraction.is_set());
}

TEST(Setting, InitialisersAreTheUsers) {
  const TPUConfig c{
      .xla_flags = "--xla_x=1", .memory_fraction = 0.5, .v7_memory_gb = 128, .enable_xla_cache = false};
  EXPECT_TRUE(c.xla_flags.is_set());
  EXPECT_TRUE(c.memory_fraction.is_set());
  EXPECT_FALSE(c.enable_xla_cache);
  EXPECT_EQ(c.v7_memory_gb, 128.0);
  EXPECT_FALSE(c.enabled.is_set());
}

TEST(Setting, ACopyOfATextIsNotTheUsers) {
  TPUConfig a;
  TPUConfig b = a;  // from one that is not const
  b.jax_backend = a.jax_backend;
  EXPECT_FALSE(b.jax_backend.is_set());
}

template <class T, class U>
concept Takes = requires(Setting<T> s, U u) {
  s = u;
};

TEST(Setting, TakesNothingOfAnotherKind) {
  EXPECT_TRUE((Takes<bool, bool>));
  EXPECT_FALSE((Takes<bool, const char*>)) << "\"false\" would be true";
  EXPECT_FALSE((Takes<bool, int>));
  EXPECT_FALSE((Takes<int64_t, double>));
  EXPECT_FALSE((Takes<int64_t, bool>));
  EXPECT_FALSE((Takes<double, bool>));
  EXPECT_TRUE((Takes<double, int>));
  EXPECT_FALSE((Takes<TPUVersion, int>));
  EXPECT_TRUE((Takes<std::string, const char*>));
}

TEST(Config, Inference) {
  const Config c = Config::for_inference();
  EXPECT_EQ(c.mode(), Mode::inference);
  EXPECT_TRUE(c.hardware.tpu.mixed_precision);
  EXPECT_EQ(c.hardware.tpu.cache_max_size, 200);
  EXPECT_FALSE(c.hardware.tpu.gradient_checkpointing);
  EXPECT_EQ(c.optimization_level, Optimization::aggressive);
  EXPECT_FALSE(c.validation.enabled);
}

TEST(Config, Training) {
  const Config c = Config::for_training();
  EXPECT_EQ(c.hardware.tpu.xla_optimization_level, 2);
  EXPECT_TRUE(c.hardware.tpu.gradient_checkpointing);
  EXPECT_EQ(c.optimization_level, Optimization::balanced);
  EXPECT_TRUE(c.validation.enabled);
}

TEST(Config, Development) {
  const Config c = Config::for_development();
  EXPECT_EQ(c.hardware.tpu.precision, TPUPrecision::float32);
  EXPECT_FALSE(c.hardware.tpu.mixed_precision);
  EXPECT_TRUE(c.hardware.tpu.enable_strict_validation);
  EXPECT_EQ(c.hardware.tpu.xla_optimization_level, 0);
  EXPECT_TRUE(c.validation.strict);
  EXPECT_EQ(c.optimization_level, Optimization::conservative);
  EXPECT_EQ(c.runtime.log_level, log::Level::debug);
}

TEST(Config, WhatTheUserSetSurvivesEveryMode) {
  Config c;
  c.validation.enabled = true;
  c.hardware.tpu.xla_optimization_level = 3;
  for (const Mode mode : {Mode::inference, Mode::training, Mode::development, Mode::none}) {
    c.set_mode(mode);
    EXPECT_EQ(c.hardware.tpu.xla_optimization_level, 3);
  }
}

TEST(Config, AModeLeavesNothingOfTheOneBefore) {
  Config c(Mode::development);
  c.set_mode(Mode::inference);
  EXPECT_EQ(c, Config(Mode::inference));
  c.set_mode(Mode::none);
  EXPECT_EQ(c, Config());
  EXPECT_THROW(c.set_mode(static_cast<Mode>(9)), TPUConfigurationError);
  EXPECT_EQ(c, Config());
}

TEST(Config, ComparesValues) {
  Config a, b;
  a.seed = 42;
  EXPECT_EQ(a, b) << "who gave it does not count";
  a.hardware.tpu.memory_fraction = 0.5;
  EXPECT_NE(a, b);
  EXPECT_NE(Config(Mode::training), Config());
}

// The field that check() names, the value and what is allowed.
template <class F>
std::array<std::string, 3> refused(F&& spoil) {
  Config c;
  spoil(c, c.hardware.tpu);
  try {
    c.check();
  } catch (const TPUBackendError& e) {
    EXPECT_EQ(e.type_name(), "TPUConfigurationError");
    EXPECT_EQ(e.code(), Code::invalid_argument);
    EXPECT_THROW((void)c.to_json(), TPUConfigurationError) << "what is wrong is not written";
    return {e.detail("parameter"), e.detail("value"), e.detail("allowed")};
  }
  return {};
}
using Three = std::array<std::string, 3>;
#define EXPECT_REFUSED(statement, ...)                                                             \
  EXPECT_EQ(refused([]([[maybe_unused]] Config& c, [[maybe_unused]] TPUConfig& t) { statement; }), \
            (Three{__VA_ARGS__}))

TEST(Config, EveryFieldOutOfRange) {
  EXPECT_REFUSED(t.version = static_cast<TPUVersion>(99), "hardware.tpu.version", "#99",
                 "auto, v4, v5e, v5p, v6e, v7");
  EXPECT_REFUSED(t.topology = static_cast<TPUTopology>(4), "hardware.tpu.topology", "#4",
                 "auto, single, pod, superpod");
  EXPECT_REFUSED(t.compilation_mode = static_cast<CompilationMode>(3), "hardware.tpu.compilation_mode", "#3",
                 "xla, pjit, torch_xla");
  EXPECT_REFUSED(t.precision = static_cast<TPUPrecision>(4), "hardware.tpu.precision", "#4",
                 "bfloat16, float16, float32, float64");
  EXPECT_REFUSED(t.memory_fraction = 0.0999, "hardware.tpu.memory_fraction", "0.0999", "0.1 to 1");
  EXPECT_REFUSED(t.memory_fraction = 1.01, "hardware.tpu.memory_fraction", "1.01", "0.1 to 1");
  EXPECT_REFUSED(t.memory_fraction = std::nan(""), "hardware.tpu.memory_fraction", "nan", "0.1 to 1");
  EXPECT_REFUSED(t.memory_fraction = HUGE_VAL, "hardware.tpu.memory_fraction", "inf", "0.1 to 1");
  EXPECT_REFUSED(t.xla_optimization_level = -1, "hardware.tpu.xla_optimization_level", "-1", "0 to 3");
  EXPECT_REFUSED(t.xla_optimization_level = 4, "hardware.tpu.xla_optimization_level", "4", "0 to 3");
  EXPECT_REFUSED(t.xla_flags = "\xff", "hardware.tpu.xla_flags", "\"\xef\xbf\xbd\"", "UTF-8");
  EXPECT_REFUSED(t.jax_backend = "\xc3", "hardware.tpu.jax_backend", "\"\xef\xbf\xbd\"", "tpu, gpu, cpu");
  EXPECT_REFUSED(t.jax_backend = "xla", "hardware.tpu.jax_backend", "\"xla\"", "tpu, gpu, cpu");
  EXPECT_REFUSED(t.enable_jax_integration = true, "hardware.tpu.enable_jax_integration", "true", "false");
  EXPECT_REFUSED(t.cache_max_size = -1, "hardware.tpu.cache_max_size", "-1", "0 to 1000000000");
  EXPECT_REFUSED(t.compilation_timeout_seconds = -1, "hardware.tpu.compilation_timeout_seconds", "-1",
                 "0 to 10000000");
  EXPECT_REFUSED(t.v6e_memory_gb = 0.5, "hardware.tpu.v6e_memory_gb", "0.5", "1 to 4096");
  EXPECT_REFUSED(t.v7_memory_gb = 5000, "hardware.tpu.v7_memory_gb", "5000", "1 to 4096");
  EXPECT_REFUSED(c.seed = -1, "seed", "-1", "0 to 9007199254740992");
  EXPECT_REFUSED(c.runtime.plugin = "\xff", "runtime.plugin", "\"\xef\xbf\xbd\"", "UTF-8");
  EXPECT_REFUSED(c.runtime.cache_dir = "\xff", "runtime.cache_dir", "\"\xef\xbf\xbd\"", "UTF-8");
  EXPECT_REFUSED(c.runtime.cpu_devices = 0, "runtime.cpu_devices", "0", "1 to 1024");
  EXPECT_REFUSED(c.runtime.cache_size_mb = std::numeric_limits<int64_t>::max(), "runtime.cache_size_mb",
                 "9223372036854775807", "0 to 1000000000");
  EXPECT_REFUSED(c.runtime.graph_limit = 0, "runtime.graph_limit", "0", "1 to 10000000");
  EXPECT_REFUSED(c.runtime.fallback = static_cast<FallbackMode>(3), "runtime.fallback", "#3",
                 "allow, warn, error");
  EXPECT_REFUSED(c.runtime.log_level = static_cast<log::Level>(6), "runtime.log_level", "#6",
                 "trace, debug, info, warn, error, off");
}

TEST(Config, WhatToDoInsteadOfJax) {
  try {
    TPUConfig{.enable_jax_integration = true}.check();
    FAIL() << "there is no JAX here";
  } catch (const TPUConfigurationError& e) {
    EXPECT_EQ(e.message(),
              "Invalid configuration for 'hardware.tpu.enable_jax_integration': true - it must be false");
    EXPECT_NE(e.hint().find("StableHLO"), std::string::npos);
  }
  EXPECT_NO_THROW((TPUConfig{.enable_jax_integration = false, .jax_backend = "gpu"}.check()));
}

TEST(Config, BoundsAreIncluded) {
  Config c;
  for (const double f : {0.1, 1.0}) {
    c.hardware.tpu.memory_fraction = f;
    EXPECT_NO_THROW(c.check());
  }
  c.hardware.tpu.xla_optimization_level = 3;
  c.hardware.tpu.cache_max_size = 0;
  EXPECT_NO_THROW(c.check());
}

}  // namespace
}  // namespace tpubridge
