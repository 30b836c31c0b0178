// How the child is started on this machine. Internal to the folder.
#pragma once

#include <string>
#include <vector>

#include "tpubridge/base/files.h"

namespace tpubridge::aot {

// The command that runs the child: itself, or qemu in front of it where it is built for another machine.
// Throws PluginError where qemu is missing.
[[nodiscard]] std::vector<std::string> child_command(const Path& child);

}  // namespace tpubridge::aot
