// Which build this is.
#pragma once

#include <string_view>

namespace tpubridge::tools {

extern const std::string_view kVersion;
extern const std::string_view kCommit;  // short; empty where the sources are no git checkout

}  // namespace tpubridge::tools
