// The rows. Defaults stand in config.h alone; the manual's table reads them off a fresh Config.
#include "tpubridge/config/fields.h"

#include <array>

namespace tpubridge::config {
namespace {

constexpr std::array<std::string_view, 6> kVersions = {"auto", "v4", "v5e", "v5p", "v6e", "v7"};
constexpr std::array<std::string_view, 4> kTopologies = {"auto", "single", "pod", "superpod"};
constexpr std::array<std::string_view, 3> kCompilationModes = {"xla", "pjit", "torch_xla"};
constexpr std::array<std::string_view, 4> kPrecisions = {"bfloat16", "float16", "float32", "float64"};
constexpr std::array<std::string_view, 4> kModes = {"none", "inference", "training", "development"};
constexpr std::array<std::string_view, 3> kFallbacks = {"allow", "warn", "error"};
constexpr std::array<std::string_view, 6> kLogLevels = {"trace", "debug", "info", "warn", "error", "off"};
constexpr std::array<std::string_view, 3> kJaxBackends = {"tpu", "gpu", "cpu"};
constexpr std::array<std::string_view, 3> kOptimizations = {"conservative", "balanced", "aggressive"};
constexpr double kLong = 1e9;  // seconds, programs, MiB: more than anybody means

template <class S, class T>
S section_type(Setting<T> S::*);
template <class S, class T>
T value_type(Setting<T> S::*);

template <auto Member>
Slot at(void* section) {
  using S = decltype(section_type(Member));
  using T = decltype(value_type(Member));
  auto* setting = &(static_cast<S*>(section)->*Member);
  if constexpr (std::is_enum_v<T>)
    return Choice{
        setting, [](const void* s) { return static_cast<int>(static_cast<const Setting<T>*>(s)->value()); },
        [](const void* s) { return static_cast<const Setting<T>*>(s)->origin(); },
        [](void* s, int v, Origin o) { return static_cast<Setting<T>*>(s)->suggest(static_cast<T>(v), o); },
        [](void* to, const void* from) {
          *static_cast<Setting<T>*>(to) = *static_cast<const Setting<T>*>(from);
        }};
  else
    return setting;
}

constexpr Field kTpu[] = {
    {.name = "enabled",
     .slot = at<&TPUConfig::enabled>,
     .description = "use a TPU where one is",
     .effect = "apply(), open_client(): false opens the CPU plugin, where no plugin is named"},
    {.name = "version",
     .slot = at<&TPUConfig::version>,
     .choices = kVersions,
     .variable = "TPUBRIDGE_TPU_VERSION",
     .description = "the generation; auto: the device's own, v5e where there is none",
     .effect = "apply(): HBM of the simulation; resolved(): memory fraction, XLA level; validation"},
    {.name = "topology",
     .slot = at<&TPUConfig::topology>,
     .choices = kTopologies,
     .variable = "TPUBRIDGE_TPU_TOPOLOGY",
     .description = "auto: single up to 8 devices, pod up to 256, superpod beyond",
     .effect = "resolved(); validation warns of single where there are several devices"},
    {.name = "compilation_mode",
     .slot = at<&TPUConfig::compilation_mode>,
     .choices = kCompilationModes,
     .description = "of models: torch_xla traced, then replayed; xla ahead of time; pjit over all devices",
     .effect = "XLACompiler"},
    {.name = "xla_flags",
     .slot = at<&TPUConfig::xla_flags>,
     .variable = "TPUBRIDGE_XLA_FLAGS",
     .description = "XLA options for each compile, as --name=value with blanks between them",
     .effect = "apply(), for each compile; the environment's XLA_FLAGS is never changed"},
    {.name = "precision",
     .slot = at<&TPUConfig::precision>,
     .choices = kPrecisions,
     .variable = "TPUBRIDGE_PRECISION",
     .description = "what layers compute in where mixed_precision is on, and what data becomes",
     .effect = "TPUBackend::prepare_model(), prepare_data(), TPUOptimizer"},
    {.name = "mixed_precision",
     .slot = at<&TPUConfig::mixed_precision>,
     .description =
         "layers compute in `precision` as the level says, parameters stay f32; off: every type as it is",
     .effect = "TPUBackend::prepare_model(), prepare_data(), TPUOptimizer"},
    {.name = "memory_fraction",
     .slot = at<&TPUConfig::memory_fraction>,
     .low = 0.1,
     .high = 1.0,
     .variable = "TPUBRIDGE_MEMORY_FRACTION",
     .description =
         "the part of the HBM that programs may use; where nobody sets it, 0.95 on v5p, v6e and v7",
     .effect = "apply(): what goes past it throws TPUMemoryLimitError"},
    {.name = "gradient_checkpointing",
     .slot = at<&TPUConfig::gradient_checkpointing>,
     .description = "in backward, compute the inside of blocks again instead of keeping it",
     .effect = "TPUOptimizer, balanced and aggressive; validation warns where it is off"},
    {.name = "xla_optimization_level",
     .slot = at<&TPUConfig::xla_optimization_level>,
     .low = 0,
     .high = 3,
     .variable = "TPUBRIDGE_XLA_LEVEL",
     .description = "0 debug, 1 basic, 2 aggressive; where nobody sets it, 1 on v5e",
     .effect = "apply(), for each compile"},
    {.name = "enable_xla_dynamic_shapes",
     .slot = at<&TPUConfig::enable_xla_dynamic_shapes>,
     .description = "inputs of other shapes get a program of their own; false: they are an error",
     .effect = "XLACompiler"},
    {.name = "enable_jax_integration",
     .slot = at<&TPUConfig::enable_jax_integration>,
     .description = "there is no JAX in the process: true is refused",
     .effect = "check()",
     .instead = "Programs of JAX are run as StableHLO: export them there, then `tpubridge run`."},
    {.name = "jax_backend",
     .slot = at<&TPUConfig::jax_backend>,
     .choices = kJaxBackends,
     .description = "kept for whoever reads the file in JAX",
     .effect = "check()"},
    {.name = "cache_max_size",
     .slot = at<&TPUConfig::cache_max_size>,
     .low = 0,
     .high = kLong,
     .description = "most compiled programs, and most prepared and compiled models, kept in memory; 0: none",
     .effect = "apply(), TPUBackend, XLACompiler"},
    {.name = "compilation_timeout_seconds",
     .slot = at<&TPUConfig::compilation_timeout_seconds>,
     .low = 0,
     .high = 1e7,
     .variable = "TPUBRIDGE_COMPILE_TIMEOUT",
     .description = "after which a compile is given up with XLACompilationTimeoutError; 0: never",
     .effect = "apply(), XLACompiler"},
    {.name = "allocation_history_retention_seconds",
     .slot = at<&TPUConfig::allocation_history_retention_seconds>,
     .low = 0,
     .high = kLong,
     .description = "how long an allocation stays in the memory manager's history; 0: not at all",
     .effect = "TPUMemoryManager::allocate_tensor(), optimize_memory_usage()"},
    {.name = "monitoring_interval_seconds",
     .slot = at<&TPUConfig::monitoring_interval_seconds>,
     .low = 0.001,
     .high = kLong,
     .description = "between two samples of the device's memory",
     .effect = "TPUMemoryManager::monitor_memory(), start_monitoring()"},
    {.name = "monitoring_duration_seconds",
     .slot = at<&TPUConfig::monitoring_duration_seconds>,
     .low = 0.001,
     .high = kLong,
     .description = "how long monitor_memory() takes samples, and how far back start_monitoring() keeps them",
     .effect = "TPUMemoryManager::monitor_memory(), start_monitoring()"},
    {.name = "v6e_memory_gb",
     .slot = at<&TPUConfig::v6e_memory_gb>,
     .low = 1,
     .high = 4096,
     .description = "HBM of a v6e chip in GB; null: what the device has (32)",
     .effect = "apply(), with memory_fraction"},
    {.name = "v7_memory_gb",
     .slot = at<&TPUConfig::v7_memory_gb>,
     .low = 1,
     .high = 4096,
     .description = "HBM of a v7 chip in GB; null: what the device has (192)",
     .effect = "apply(), with memory_fraction"},
    {.name = "enable_strict_validation",
     .slot = at<&TPUConfig::enable_strict_validation>,
     .variable = "TPUBRIDGE_STRICT",
     .description = "a failed validation throws TPUValidationError",
     .effect = "validate_tpu_configuration(), apply(); TPUBackend: without a TPU, TPUNotAvailableError"},
    {.name = "enable_xla_cache",
     .slot = at<&TPUConfig::enable_xla_cache>,
     .variable = "TPUBRIDGE_CACHE",
     .description = "keep compiled programs on disk",
     .effect = "apply()"},
};

constexpr Field kRoot[] = {
    {.name = "seed",
     .slot = at<&Config::seed>,
     .low = 0,
     .high = 9007199254740992.0,
     .description = "of the random generators, the device's and the CPU's",
     .effect = "apply()"},
    {.name = "optimization_level",
     .slot = at<&Config::optimization_level>,
     .choices = kOptimizations,
     .description = "how far models are changed to go faster",
     .effect = "TPUBackend::prepare_model(), TPUOptimizer::optimize(), where no level is given"},
};

constexpr Field kValidation[] = {
    {.name = "enabled",
     .slot = at<&ValidationConfig::enabled>,
     .description = "validate the configuration before it is applied",
     .effect = "validate(), apply()"},
    {.name = "strict",
     .slot = at<&ValidationConfig::strict>,
     .description = "a failed validation throws TPUValidationError",
     .effect = "validate(), apply()"},
};

constexpr Field kRuntime[] = {
    {.name = "plugin",
     .slot = at<&RuntimeConfig::plugin>,
     .variable = "TPUBRIDGE_PLUGIN",
     .description = "path or name of the PJRT plugin; empty: what discovery finds",
     .effect = "apply(), before the first use of the device"},
    {.name = "cpu_devices",
     .slot = at<&RuntimeConfig::cpu_devices>,
     .low = 1,
     .high = 1024,
     .variable = "TPUBRIDGE_CPU_DEVICES",
     .description = "virtual devices of the CPU plugin",
     .effect = "apply(), before the first use of the device"},
    {.name = "cache_dir",
     .slot = at<&RuntimeConfig::cache_dir>,
     .variable = "TPUBRIDGE_CACHE_DIR",
     .description = "folder of compiled programs; empty: the user's cache folder",
     .effect = "apply()"},
    {.name = "cache_size_mb",
     .slot = at<&RuntimeConfig::cache_size_mb>,
     .low = 0,
     .high = kLong,
     .variable = "TPUBRIDGE_CACHE_SIZE",
     .description = "most MiB that compiled programs take on disk",
     .effect = "apply()"},
    {.name = "fallback",
     .slot = at<&RuntimeConfig::fallback>,
     .choices = kFallbacks,
     .variable = "TPUBRIDGE_FALLBACK",
     .description = "what happens when an op has no lowering and would run on the CPU",
     .effect = "apply()"},
    {.name = "graph_limit",
     .slot = at<&RuntimeConfig::graph_limit>,
     .low = 1,
     .high = 1e7,
     .variable = "TPUBRIDGE_GRAPH_LIMIT",
     .description = "traced ops after which the device computes by itself",
     .effect = "apply()"},
    {.name = "log_level",
     .slot = at<&RuntimeConfig::log_level>,
     .choices = kLogLevels,
     .variable = "TPUBRIDGE_LOG",
     .description = "least severe log record that is written",
     .effect = "apply()"},
};

constexpr std::array<Section, 4> kSections = {{
    {"", kRoot, [](Config& c) -> void* { return &c; }},
    {"validation", kValidation, [](Config& c) -> void* { return &c.validation; }},
    {"runtime", kRuntime, [](Config& c) -> void* { return &c.runtime; }},
    {"hardware.tpu", kTpu, [](Config& c) -> void* { return &c.hardware.tpu; }},
}};

template <class E>
std::string_view name_in(std::span<const std::string_view> names, E value) {
  const auto i = static_cast<size_t>(value);
  return i < names.size() ? names[i] : "invalid";
}

}  // namespace

std::span<const Section> sections() { return kSections; }
const Section& tpu_section() { return kSections[3]; }
std::span<const std::string_view> mode_names() { return kModes; }

}  // namespace tpubridge::config

namespace tpubridge {

std::string_view to_string(TPUVersion v) { return config::name_in(config::kVersions, v); }
std::string_view to_string(TPUTopology v) { return config::name_in(config::kTopologies, v); }
std::string_view to_string(CompilationMode v) { return config::name_in(config::kCompilationModes, v); }
std::string_view to_string(TPUPrecision v) { return config::name_in(config::kPrecisions, v); }
std::string_view to_string(Mode v) { return config::name_in(config::kModes, v); }
std::string_view to_string(Optimization v) { return config::name_in(config::kOptimizations, v); }

}  // namespace tpubridge
