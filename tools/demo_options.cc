#include "tools/demo_options.h"

#include <CLI/CLI.hpp>

namespace tpubridge::tools {

const std::vector<std::string>& demo_sections() {
  static const std::vector<std::string> all = {"configuration", "backend", "optimizer",
                                               "compiler",      "memory",  "validation"};
  return all;
}

void add_demo_options(CLI::App& app, DemoOptions& options) {
  app.add_option("SECTION", options.sections, "What to show (default: all)")
      ->type_name("NAME")
      ->check(CLI::IsMember(demo_sections()));
  app.add_flag("--json", options.json, "Print one JSON document instead of text (keys: docs/command.md)");
  app.footer(
      "Examples:\n"
      "  tpubridge demo\n"
      "  tpubridge demo compiler memory");
}

}  // namespace tpubridge::tools
