// What the TPU compiler says when a program needs more HBM than there is.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tpubridge::aot {

struct Overflow {
  int64_t needed = 0, available = 0;  // bytes, as the compiler rounds them ("24.00G")
};

// Empty where the message is about something else, or about another memory than the HBM.
[[nodiscard]] std::optional<Overflow> parse_overflow(std::string_view message);

// "24.00G", "512.0M", "1.5K", "17B", in powers of 1024.
[[nodiscard]] std::optional<int64_t> parse_bytes(std::string_view text);

}  // namespace tpubridge::aot
