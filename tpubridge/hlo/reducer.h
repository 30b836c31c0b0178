// Inside of hlo/: the region of a reducer that is one op, written without building it.
#pragma once

#include <string>
#include <string_view>

#include "tpubridge/hlo/reduction.h"

namespace tpubridge::hlo {

// For the scalar type; throws where the reducer does not take it. The text has no braces.
[[nodiscard]] std::string reducer_text(std::string_view op, Reducer reducer, const Type* scalar);

}  // namespace tpubridge::hlo
