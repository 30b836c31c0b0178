// Reads what a compiled program takes and gives out of its HLO protobuf.
#pragma once

#include <optional>
#include <string_view>

#include "tpubridge/pjrt/executable.h"

namespace tpubridge::pjrt {

// Empty where the text is not an HLO module we can read, or a parameter is not an array.
[[nodiscard]] std::optional<Signature> hlo_signature(std::string_view code, std::string_view format);

}  // namespace tpubridge::pjrt
