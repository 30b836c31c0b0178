// Which ops a compiled program is made of, read off its HLO protobuf.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace tpubridge::pjrt {

// Names as HLO has them ("add", "all-reduce"), of all computations. `format` as in pjrt::Program. Empty where
// the program cannot be read.
[[nodiscard]] std::set<std::string> hlo_opcodes(std::string_view code, std::string_view format);

}  // namespace tpubridge::pjrt
