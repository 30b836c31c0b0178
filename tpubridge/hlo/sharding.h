// How arrays are split over a mesh of devices, in the words of Shardy (the `sdy` dialect).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

struct Mesh {
  std::string name;
  std::vector<std::pair<std::string, int64_t>> axes;  // {{"data", 2}, {"model", 4}}
  std::vector<int64_t> device_ids = {};               // in the order of the mesh, empty: 0, 1, 2, …
};

// One entry per dimension of the array: the axes that split it, major first; empty: not split. An open
// dimension may be split further by propagation.
struct Sharding {
  std::string mesh;
  std::vector<std::vector<std::string>> dims;
  bool open = false;
  std::vector<std::string> replicated = {};  // axes that propagation must not use
};

// `x`, which the partitioner must lay out so.
[[nodiscard]] Value sharding_constraint(Value x, const Sharding& sharding);
// The same for GSPMD: "{devices=[2,1]<=[2]}", "{replicated}", …
[[nodiscard]] Value mhlo_sharding_constraint(Value x, const std::string& sharding);

}  // namespace tpubridge::hlo
