// A path from the root on. Not for users.
#pragma once

#include "tpubridge/base/files.h"

namespace tpubridge {

// Throws FileError where the path is relative and the current folder is gone.
[[nodiscard]] Path absolute_path(const Path& path);

}  // namespace tpubridge
