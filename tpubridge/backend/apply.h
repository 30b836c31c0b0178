// The one place where a configuration becomes what the process does.
//
//   Config config(Mode::training);
//   config.runtime.cpu_devices = 2;
//   tpubridge::apply(config);          // before the first use of the device
//
// Sets, for the whole process: the plugin and the number of virtual devices (these two only before the device
// is used: afterwards another choice is a TPUConfigurationError), the options of later compiles, the deadline
// of a compile, programs kept in memory and on disk, the device memory that may be used, what happens to ops
// without a lowering, the graph limit, the level of the log, the seed. May be called again; the last one
// counts. The environment is read, where the user set nothing, and never changed.
#pragma once

#include "tpubridge/config/runtime.h"

namespace tpubridge {

// What the configuration came to on this machine.
struct Applied {
  Config config;             // nothing left to detection
  TPURuntime runtime;        // the device that runs programs
  int64_t memory_limit = 0;  // bytes of each device
};

// Opens the device. Throws TPUConfigurationError for a value out of range, TPUValidationError for a failed
// validation in strict mode, and what opening the plugin throws; then nothing is changed, but the device may
// be open.
Applied apply(const Config& config);

}  // namespace tpubridge
