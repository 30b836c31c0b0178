// How much has run, without a copy of the whole record of metrics.h.
#pragma once

#include <cstdint>

namespace tpubridge::exec {

[[nodiscard]] int64_t execution_count();

}  // namespace tpubridge::exec
