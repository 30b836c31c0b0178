// What loading a plugin could kill the process with is found out before it is loaded. Internal.
#pragma once

#include <string>

namespace tpubridge::pjrt {

// PluginError: this library cannot be loaded as a plugin, why, and what to do.
[[noreturn]] void refuse_library(const std::string& path, const std::string& why, std::string hint);

// The dynamic loader dies of a library that was cut off. Throws PluginError: not an ELF library, for another
// machine, or shorter than its own header says.
void check_library_file(const std::string& path);

// An unknown flag in XLA_FLAGS makes XLA abort. Where the variable is set, the plugin is first tried in a
// forked child. Throws PluginError with what XLA said.
void check_xla_flags(const std::string& path);

// XLA starts as many threads as PJRT_NPROC and NPROC say, and ends the process where it cannot. Throws
// TPUConfigurationError where they are no numbers that make sense.
void check_thread_variables();

}  // namespace tpubridge::pjrt
