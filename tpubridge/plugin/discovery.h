// Which plugin to use. In this order: what the caller or TPUBRIDGE_PLUGIN names;
// PJRT_NAMES_AND_LIBRARY_PATHS, narrowed by PJRT_DEVICE; libtpu where TPU hardware is there; XLA's CUDA
// plugin where an NVIDIA GPU is there; the embedded CPU plugin.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tpubridge/capi/value.h"

namespace tpubridge::pjrt {

inline constexpr const char* kEmbedded = "embedded CPU plugin";

struct Candidate {
  std::string name;  // "tpu", "cuda", "cpu", or as named in PJRT_NAMES_AND_LIBRARY_PATHS
  std::string path;  // empty where no file was found
  // Who named it: "caller", "TPUBRIDGE_PLUGIN", "PJRT_NAMES_AND_LIBRARY_PATHS", "libtpu", kEmbedded, …
  std::string source;
  bool chosen = false;
  std::string reason;  // why it was or was not chosen, in words
};

// `wanted` is a path, a name ("tpu", "cuda", "cpu", …), or empty for the order above. Loads nothing.
[[nodiscard]] std::vector<Candidate> discover(const std::string& wanted = {});

// The chosen candidate. Throws PluginError (TPUNotAvailableError for "tpu") that lists what was looked at.
[[nodiscard]] Candidate choose(const std::string& wanted = {});

[[nodiscard]] bool is_cpu_plugin(const Candidate& plugin);  // the embedded one, or one so named
// How many virtual devices the embedded CPU plugin gets where nobody says: TPUBRIDGE_CPU_DEVICES, else
// CPU_NUM_DEVICES, else 1.
[[nodiscard]] int64_t cpu_device_count();
// Options of a client of that plugin where nobody says otherwise: the number of virtual devices of the
// embedded CPU plugin, and for a CUDA plugin what TPUBRIDGE_PREALLOCATE says.
[[nodiscard]] Values standard_options(const Candidate& plugin);

// A path relative to the folder that the library itself was loaded from; what comes with it lies in
// tpubridge/ there. Empty where the loader does not tell: never relative, which would be the current
// folder's.
[[nodiscard]] std::filesystem::path beside_library(const std::string& relative);

// What of this machine's hardware could be seen.
[[nodiscard]] bool tpu_hardware();
[[nodiscard]] bool nvidia_hardware();

}  // namespace tpubridge::pjrt
