// What a configuration means on this machine: the TPU that is here, the values that were left to detection,
// and the settings handed to what runs programs.
//
//   const TPURuntime here = look_for_tpu(config);
//   const TPUConfig tpu = resolved(config.hardware.tpu, here);
//   auto client = open_client(config);
//   auto programs = open_programs(config, *client);
//   auto found = programs.get({text}, compile_options(tpu));
#pragma once

#include <string>

#include "tpubridge/cache/programs.h"
#include "tpubridge/config/config.h"
#include "tpubridge/pjrt/client.h"

namespace tpubridge {

// What of a TPU can be used here. XLA's CPU plugin is a simulation, no TPU.
struct TPURuntime {
  bool available = false;
  std::string device_kind;  // as PJRT names it: "TPU v5 lite"
  int world_size = 1;       // devices of all processes
  int64_t hbm_bytes = 0;    // of one device, by its own account, whatever it is; 0: not told
  std::string problem;      // a TPU seems to be here, but could not be opened: why
};
[[nodiscard]] TPURuntime runtime_of(const pjrt::Client& client);
// Opens the plugin that the configuration leads to, where that may be a TPU's; never throws for its failing.
[[nodiscard]] TPURuntime look_for_tpu(const Config& config = {});

// A copy in which nothing is left to detection: version and topology, and the memory fraction and XLA level
// that go with the version, where neither the user nor a mode gave them.
[[nodiscard]] TPUConfig resolved(const TPUConfig& config, const TPURuntime& runtime = {});

// Bytes of one device that programs may use: HBM × memory_fraction. The HBM is v6e_memory_gb or v7_memory_gb
// where set, else the device's own account, else the generation's.
[[nodiscard]] int64_t memory_budget(const TPUConfig& config, const TPURuntime& runtime = {});

// xla_optimization_level and xla_flags as they stand: pass what resolved() gave. Throws TPUConfigurationError
// where a flag is no --name=value.
[[nodiscard]] pjrt::CompileOptions compile_options(const TPUConfig& config);

// The plugin that runtime.plugin and `enabled` lead to, as pjrt::choose() takes it; empty: discovery's.
[[nodiscard]] std::string plugin_of(const Config& config);
// That plugin, with runtime.cpu_devices where set (else as pjrt::open() does).
[[nodiscard]] std::shared_ptr<pjrt::Client> open_client(const Config& config);

// compilation_timeout_seconds, enable_xla_cache, runtime.cache_dir and runtime.cache_size_mb.
[[nodiscard]] cache::ProgramCache open_programs(const Config& config, const pjrt::Client& client);

}  // namespace tpubridge
