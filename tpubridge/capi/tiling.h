// How a compiled program lays its results out over its devices, read out of its HLO protobuf.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tpubridge::pjrt {

// An array cut into tiles, the same number along each dimension for all devices.
struct Tiling {
  std::vector<int64_t> tiles = {};            // per dimension; empty: every device has the whole
  std::vector<std::vector<int64_t>> at = {};  // per device: which tile it has, along each dimension
};

// Of each result of a program over so many devices. Empty where it does not say, or says something that is
// no tiling.
[[nodiscard]] std::optional<std::vector<Tiling>> hlo_result_tilings(std::string_view code,
                                                                    std::string_view format, int64_t devices);

}  // namespace tpubridge::pjrt
