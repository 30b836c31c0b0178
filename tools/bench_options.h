// What `tpubridge bench` is asked to do; read by `tpubridge`, for its help, and by `tpubridge-bench`.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tpubridge::tools {

struct BenchOptions {
  std::vector<std::string> groups;  // empty: all
  bool quick = false, json = false;
};

[[nodiscard]] const std::vector<std::string>& bench_groups();
void add_bench_options(CLI::App& app, BenchOptions& options);

}  // namespace tpubridge::tools
