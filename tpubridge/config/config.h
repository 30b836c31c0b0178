// The configuration: what a program may say about its TPU, and the modes that say it for you.
//
//   Config config(Mode::training);
//   config.hardware.tpu.memory_fraction = 0.8;
//   config.save("run.json");
//   Config same = Config::from_file("run.json");
//
// Fields are plain values; each knows whether the user gave it (setting.h), and what the user gave wins over
// modes and detection. Nothing is checked on assignment: check(), to_json() and everything that reads text
// throw TPUConfigurationError with the field, the value and what is allowed. docs/configuration.md says of
// each field what it does.
#pragma once

#include <string_view>

#include "tpubridge/base/files.h"
#include "tpubridge/base/log.h"
#include "tpubridge/config/setting.h"

namespace tpubridge {

enum class TPUVersion : uint8_t { automatic, v4, v5e, v5p, v6e, v7 };
enum class TPUTopology : uint8_t { automatic, single, pod, superpod };
enum class CompilationMode : uint8_t { xla, pjit, torch_xla };
enum class TPUPrecision : uint8_t { bfloat16, float16, float32, float64 };
enum class Mode : uint8_t { none, inference, training, development };
enum class FallbackMode : uint8_t { allow, warn, error };
enum class Optimization : uint8_t { conservative, balanced, aggressive };

// As they stand in JSON ("auto", "v5e", …); "invalid" where the number is none of the enum's.
[[nodiscard]] std::string_view to_string(TPUVersion version);
[[nodiscard]] std::string_view to_string(TPUTopology topology);
[[nodiscard]] std::string_view to_string(CompilationMode mode);
[[nodiscard]] std::string_view to_string(TPUPrecision precision);
[[nodiscard]] std::string_view to_string(Mode mode);
[[nodiscard]] std::string_view to_string(Optimization level);

// Which fields are written: `all` pins every value for whoever reads the text; `chosen` has only what the
// user set, and leaves the rest to modes and detection.
enum class Fields : uint8_t { all, chosen };

struct TPUConfig {
  Setting<bool> enabled = standard(true);
  Setting<TPUVersion> version = standard(TPUVersion::automatic);
  Setting<TPUTopology> topology = standard(TPUTopology::automatic);
  Setting<CompilationMode> compilation_mode = standard(CompilationMode::torch_xla);
  Setting<std::string> xla_flags = standard(std::string());  // empty: none
  Setting<TPUPrecision> precision = standard(TPUPrecision::bfloat16);
  Setting<bool> mixed_precision = standard(true);
  Setting<double> memory_fraction = standard(0.90);
  Setting<bool> gradient_checkpointing = standard(true);
  Setting<int64_t> xla_optimization_level = standard(2);  // 0 debug, 1 basic, 2 and 3 aggressive
  Setting<bool> enable_xla_dynamic_shapes = standard(true);
  Setting<bool> enable_jax_integration = standard(false);
  Setting<std::string> jax_backend = standard("tpu");
  Setting<int64_t> cache_max_size = standard(100);                         // programs; 0: off
  Setting<int64_t> compilation_timeout_seconds = standard(300);            // 0: none
  Setting<int64_t> allocation_history_retention_seconds = standard(3600);  // 0: nothing is kept
  Setting<double> monitoring_interval_seconds = standard(1.0);
  Setting<double> monitoring_duration_seconds = standard(60.0);
  Setting<std::optional<double>> v6e_memory_gb = standard(std::nullopt);  // of a chip; without it 32
  Setting<std::optional<double>> v7_memory_gb = standard(std::nullopt);   // of a chip; without it 192
  Setting<bool> enable_strict_validation = standard(false);
  Setting<bool> enable_xla_cache = standard(true);

  // `source` names the text in errors. A file that cannot be read is a FileError.
  [[nodiscard]] static TPUConfig from_json(std::string_view text, std::string_view source = "JSON");
  [[nodiscard]] static TPUConfig from_file(const Path& path);
  [[nodiscard]] std::string to_json(Fields which = Fields::all) const;
  void save(const Path& path, Fields which = Fields::all) const;  // whole or not at all
  void check() const;                                             // throws at the first field out of range
  bool operator==(const TPUConfig&) const = default;              // the values, whoever gave them
};

struct HardwareConfig {
  TPUConfig tpu = {};
  bool operator==(const HardwareConfig&) const = default;
};

struct ValidationConfig {
  Setting<bool> enabled = standard(true);
  Setting<bool> strict = standard(false);
  bool operator==(const ValidationConfig&) const = default;
};

// What runs the programs; beside the fields of the specification.
struct RuntimeConfig {
  Setting<std::string> plugin = standard(std::string());  // path or name; empty: discovery
  Setting<int64_t> cpu_devices = standard(1);             // virtual devices of the CPU plugin
  Setting<std::string> cache_dir = standard(std::string());
  Setting<int64_t> cache_size_mb = standard(4096);
  Setting<FallbackMode> fallback = standard(FallbackMode::warn);
  Setting<int64_t> graph_limit = standard(20000);
  Setting<log::Level> log_level = standard(log::Level::warn);
  bool operator==(const RuntimeConfig&) const = default;
};

class Config {
 public:
  Config() = default;
  explicit Config(Mode mode) { set_mode(mode); }
  [[nodiscard]] static Config for_inference() { return Config(Mode::inference); }
  [[nodiscard]] static Config for_training() { return Config(Mode::training); }
  [[nodiscard]] static Config for_development() { return Config(Mode::development); }

  Setting<int64_t> seed = standard(42);
  Setting<Optimization> optimization_level = standard(Optimization::balanced);
  ValidationConfig validation;
  RuntimeConfig runtime;
  HardwareConfig hardware;

  [[nodiscard]] Mode mode() const { return mode_; }
  void set_mode(Mode mode);  // every field that the user did not set becomes the mode's

  [[nodiscard]] static Config from_json(std::string_view text, std::string_view source = "JSON");
  [[nodiscard]] static Config from_file(const Path& path);
  // The file that TPUBRIDGE_CONFIG names (none: the standard values), then the other variables over it.
  [[nodiscard]] static Config from_environment();
  void override_from_environment();  // variables that are set win over what stands here
  void complete_from_environment();  // the same, but what the user set here stays
  [[nodiscard]] std::string to_json(Fields which = Fields::all) const;
  void save(const Path& path, Fields which = Fields::all) const;
  void check() const;
  bool operator==(const Config&) const = default;

 private:
  Mode mode_ = Mode::none;
};

}  // namespace tpubridge
