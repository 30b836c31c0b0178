// What a transposed value was made from, for ops that can read the original as well.
#pragma once

#include <vector>

#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

struct Transposition {
  Value of;
  std::vector<int64_t> permutation;  // dimension i of the result is dimension permutation[i] of `of`
};

[[nodiscard]] const Transposition* transposition_of(Value v);  // null where v is no result of transpose()

}  // namespace tpubridge::hlo
