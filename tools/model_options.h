// What `tpubridge run` is asked for where its file is a model. Both programs read it, as of `tpubridge
// train`.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tpubridge::tools {

struct ModelOptions {
  std::string file, out, plugin;
  std::vector<std::string> inputs;
  int repeat = 0;
  bool json = false;
};

void add_model_options(CLI::App& app, ModelOptions& options);

}  // namespace tpubridge::tools
