// From JSON to graphs. Not for users.
#pragma once

#include "tpubridge/pt2/fields.h"
#include "tpubridge/pt2/program.h"

namespace tpubridge::exported {

[[nodiscard]] Graph read_graph(const json& value, const Place& place, int depth = 0);
[[nodiscard]] TensorMeta read_tensor_meta(const json& value, const Place& place);
[[nodiscard]] Arg read_constant(const json& value, const Place& place);  // {"as_int": 3}, …
[[nodiscard]] double read_real(const json& value, const Place& place);  // also "Infinity", "-Infinity", "NaN"

}  // namespace tpubridge::exported
