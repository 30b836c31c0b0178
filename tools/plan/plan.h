// The part of `tpubridge fit` that sees torch.
#pragma once

#include "tools/plan_options.h"
#include "tpubridge/base/files.h"

namespace tpubridge::tools {

// Writes each program as HASH.mlir into the folder.
[[nodiscard]] PlannedModel plan_programs(const PlanOptions& options, const Path& folder);

}  // namespace tpubridge::tools
