#include "tools/bench_options.h"

#include <CLI/CLI.hpp>

namespace tpubridge::tools {

const std::vector<std::string>& bench_groups() {
  static const std::vector<std::string> groups = {"configuration", "backend",     "optimizer",  "compiler",
                                                  "memory",        "integration", "validation", "trainer"};
  return groups;
}

void add_bench_options(CLI::App& app, BenchOptions& o) {
  app.add_option("GROUP", o.groups, "Groups to measure; without any, all")
      ->check(CLI::IsMember(bench_groups()));
  app.add_flag("--quick", o.quick, "Few repetitions: shows that everything runs, not how fast");
  app.add_flag("--json", o.json, "Print one JSON document instead of text (keys: docs/command.md)");
  app.footer(
      "Examples:\n"
      "  tpubridge bench\n"
      "  tpubridge bench configuration backend --json");
}

}  // namespace tpubridge::tools
