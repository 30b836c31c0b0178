// What tpubridge-train does, without its command line.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/train_options.h"

namespace tpubridge::tools {

struct TrainReport {
  nlohmann::ordered_json json;  // docs/train.md
  int signal = 0;               // that ended it early
};

// Trains, and shows how it goes: a line that changes in place on a terminal, otherwise one now and then; with
// options.json nothing.
[[nodiscard]] TrainReport train_model(const TrainOptions& options);

}  // namespace tpubridge::tools
