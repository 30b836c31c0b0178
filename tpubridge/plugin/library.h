// From a plugin's file to its function table. Internal.
#pragma once

#include <string>

struct PJRT_Api;

namespace tpubridge::pjrt {

// Below this minor version the functions of the table stand in another order.
inline constexpr int kOldestMinor = 57;

// Throws PluginError: no such file, not a library, foreign machine, cut off, XLA_FLAGS that would abort, no
// GetPjrtApi, a version we cannot speak, no error functions. The library is never unloaded.
[[nodiscard]] const PJRT_Api* load_library(const std::string& path);

}  // namespace tpubridge::pjrt
