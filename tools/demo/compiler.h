// The section about compiling, apart from the others: it is the one that measures.
#pragma once

#include "tools/demo/sections.h"

namespace tpubridge::tools {

[[nodiscard]] DemoSection compiler();

}  // namespace tpubridge::tools
