// Where `tpubridge run` writes to.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace tpubridge::tools {

// What would fail only after a long compile is looked at before it: the ending of the name, and whether its
// folder can be written to. Throws ArgumentError or FileError.
void check_target(const std::string& file, std::initializer_list<std::string_view> endings);

}  // namespace tpubridge::tools
