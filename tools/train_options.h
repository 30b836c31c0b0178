// What `tpubridge train` is asked to do. Both programs read it: `tpubridge`, for its help, its completion and
// the check of the command line, and `tpubridge-train`, which does it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tpubridge::tools {

struct TrainOptions {
  std::string model;  // "gpt" or "mlp"
  std::string data, device = "tpu", checkpoint, metrics, tensorboard;
  int64_t steps = 500, epochs = 0, batch = 16, accumulate = 1, warmup = -1;  // warmup -1: a 25th of the steps
  int64_t log_every = 10, evaluate_every = 100, patience = 0, checkpoint_every = 100, keep = 3;
  uint64_t seed = 1;
  double rate = 3e-3, clip = 1, weight_decay = 0.1, hold_out = 0.1;
  bool resume = false, restart = false, json = false;
  int64_t layers = 3, width = 128, heads = 4, context = 64;  // of gpt
  std::vector<int64_t> hidden = {128};                       // of mlp
};

// The subcommands gpt and mlp with all their options; the one that is chosen sets `model`.
void add_train_options(CLI::App& app, TrainOptions& options);

}  // namespace tpubridge::tools
