// What a compiled program moves between devices, read off the optimized HLO protobuf.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tpubridge::pjrt {

struct HloCollective {
  std::string kind;   // "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", …
  int64_t count = 0;  // in the text: one in a loop counts once
  int64_t bytes = 0;  // of all their results, on one device
};
// Sorted by kind; one that is in two halves (start and done) counts once. Empty where the code is no HLO.
[[nodiscard]] std::vector<HloCollective> hlo_collectives(std::string_view code, std::string_view format);

}  // namespace tpubridge::pjrt
