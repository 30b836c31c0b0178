// Where a training's figures go: a file of JSON lines and a TensorBoard folder, each where it was asked for.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "tpubridge/train/tensorboard.h"

namespace tpubridge {

class MetricsLog {
 public:
  MetricsLog(const Path& json_lines, const Path& tensorboard);  // an empty path: not written
  // One line, with "step" first; numbers go to TensorBoard too, under their key.
  void write(int64_t step, const nlohmann::ordered_json& figures);

 private:
  Path path_;
  Fd lines_;
  std::optional<EventFile> events_;
};

}  // namespace tpubridge
