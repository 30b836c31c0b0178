// Which plugin to use. In this order: what the caller or TPUBRIDGE_PLUGIN names;
// PJRT_NAMES_AND_LIBRARY_PATHS, narrowed by PJRT_DEVICE; libtpu where TPU hardware is there; XLA's CUDA
// plugin where an NVIDIA GPU is there; the embedded CPU plugin.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tpubridge/pjrt/client.h"

namespace tpubridge::pjrt {

struct Candidate {
  std::string name;  // "tpu", "cuda", "cpu", or as named in PJRT_NAMES_AND_LIBRARY_PATHS
  std::string path;  // empty where no file was found
  std::string
      source;  // who named it: "caller", "TPUBRIDGE_PLUGIN", "PJRT_NAMES_AND_LIBRARY_PATHS", "libtpu", …
  bool chosen = false;
  std::string reason;  // why it was or was not chosen, in words
};

// `wanted` is a path, a name ("tpu", "cuda", "cpu", …), or empty for the order above. Loads nothing.
[[nodiscard]] std::vector<Candidate> discover(const std::string& wanted = {});

// The chosen candidate. Throws PluginError (TPUNotAvailableError for "tpu") that lists what was looked at.
[[nodiscard]] Candidate choose(const std::string& wanted = {});

// Loads it and opens a client. On the CPU plugin the number of virtual devices is `cpu_device_count` in
// `options`, else TPUBRIDGE_CPU_DEVICES, else CPU_NUM_DEVICES, else 1.
[[nodiscard]] std::shared_ptr<Client> open(const std::string& wanted = {}, Values options = {},
                                           std::shared_ptr<KeyValueStore> store = nullptr);

// What of this machine's hardware could be seen.
[[nodiscard]] bool tpu_hardware();
[[nodiscard]] bool nvidia_hardware();

}  // namespace tpubridge::pjrt
