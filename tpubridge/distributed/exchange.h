// The op behind every collective: a C++ function that the program calls.
#pragma once

#include "tpubridge/kernels/kernels.h"

namespace tpubridge::distributed {

// exchange(x, token, group, kind, reduction, other, tag) gives the result and the next token.
[[nodiscard]] const UserOp& exchange_op();

}  // namespace tpubridge::distributed
