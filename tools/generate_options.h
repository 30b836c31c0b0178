// What `tpubridge generate` is asked for. Both programs read it, as of `tpubridge train`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tpubridge::tools {

struct TextOptions {
  std::string folder;
  std::vector<std::string> prompts, stop;
  int64_t tokens = 64, tokens_per_call = 1, top_k = 0;
  bool greedy = false, json = false;
  double temperature = 0, top_p = 1, repetition_penalty = 1;
  int64_t repeat = 0;
  uint64_t seed = 0;
  std::string type = "file", device = "tpu", weights = "file";
  int64_t group = 128;
};

void add_generate_options(CLI::App& app, TextOptions& options);

}  // namespace tpubridge::tools
