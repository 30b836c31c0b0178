// Named values: options we pass to a plugin, attributes it tells about itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace tpubridge::pjrt {

using Value = std::variant<std::string, int64_t, std::vector<int64_t>, float, bool>;
using Values = std::map<std::string, Value>;
[[nodiscard]] std::string to_string(const Value& value);

}  // namespace tpubridge::pjrt
