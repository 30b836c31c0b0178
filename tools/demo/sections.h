// The sections of `tpubridge demo`. Each does something real, shows it and says whether it came out right.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tpubridge::tools {

struct DemoSection {
  std::string name;
  bool ok = true;
  std::vector<std::pair<std::string, std::string>> lines = {};  // what, and its value
};

[[nodiscard]] DemoSection show(const std::string& name);

}  // namespace tpubridge::tools
