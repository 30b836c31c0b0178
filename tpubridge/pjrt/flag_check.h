// An unknown flag in XLA_FLAGS makes XLA abort the process. Where the variable is set, the plugin is first
// tried in a forked child, so that the abort happens there and the caller gets an exception.
#pragma once

#include <string>

namespace tpubridge::pjrt {

// Throws PluginError with what XLA said. Returns at once where XLA_FLAGS is empty.
void check_xla_flags(const std::string& plugin_path);

}  // namespace tpubridge::pjrt
