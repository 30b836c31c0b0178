// Shows a plugin the CPU as it is, where the machine hides a part of it. Internal.
#pragma once

#include <string>

namespace tpubridge::pjrt {

// LLVM inside the XLA CPU plugin concludes from the CPU's model that it has SVE. A virtual machine may hide
// SVE: then the first vectorised program kills the process (SIGILL). Where that is so, `library` (of dlopen)
// is made to read a model of the same family without SVE from /proc/cpuinfo. Does nothing anywhere else.
void hide_sve_if_missing(void* library);

// /proc/cpuinfo as a plugin reads it; empty where it cannot be read.
[[nodiscard]] std::string cpuinfo_for_plugins();

}  // namespace tpubridge::pjrt
