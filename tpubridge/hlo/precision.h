// Inside of hlo/: what dot_general and convolution share.
#pragma once

#include <string>
#include <string_view>

#include "tpubridge/hlo/linalg.h"

namespace tpubridge::hlo {

[[nodiscard]] std::string precision_text(Precision lhs, Precision rhs);
void check_product_types(std::string_view op, const Value& lhs, const Value& rhs, DType result);

}  // namespace tpubridge::hlo
