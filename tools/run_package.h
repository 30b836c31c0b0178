// `tpubridge run` of a package: no torch, no tracing (docs/packages.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tpubridge::tools {

struct PackageRunOptions {
  std::string file, plugin, out;
  std::vector<std::string> inputs;
  std::optional<int> devices;
  int repeat = 0;
  bool no_compile = false, no_executable = false, trusted = false;
};

int run_package(const PackageRunOptions& options, bool json);
// What the child does first (untrusted.h): loads or compiles one of the programs, and runs nothing.
int check_package(const PackageRunOptions& options, size_t program);

}  // namespace tpubridge::tools
