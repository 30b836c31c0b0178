// What `tpubridge demo` is asked to show. Both programs read it, as of `tpubridge train`.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tpubridge::tools {

struct DemoOptions {
  std::vector<std::string> sections;  // empty: all
  bool json = false;
};

// In the order they are shown.
[[nodiscard]] const std::vector<std::string>& demo_sections();
void add_demo_options(CLI::App& app, DemoOptions& options);

}  // namespace tpubridge::tools
