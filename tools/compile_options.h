// What `tpubridge compile` is asked for. Both programs read it, as of `tpubridge train`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace tpubridge::tools {

struct CompileOptions {
  std::string model, out, plugin;
  std::vector<std::string> buckets, tpus;
  bool no_executable = false, json = false;
};

void add_compile_options(CLI::App& app, CompileOptions& options);

// An input with the sizes that --buckets gives it: one list for all programs, or one for each of them.
struct Bucket {
  std::string input;
  std::vector<std::vector<int64_t>> sizes;
};
// "input_ids=1x16,1x32". Throws ArgumentError that shows the form.
[[nodiscard]] std::vector<Bucket> parse_buckets(const std::vector<std::string>& texts);
[[nodiscard]] size_t count_buckets(const std::vector<Bucket>& buckets);  // throws where they do not agree

}  // namespace tpubridge::tools
