// Where a training's figures go: a file of JSON lines and a TensorBoard folder, each where it was asked for.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "tpubridge/train/tensorboard.h"

namespace tpubridge {

class MetricsLog {
 public:
  MetricsLog(const Path& json_lines, const Path& tensorboard);  // an empty path: not written
  // One line, with "step" first; numbers go to TensorBoard too, under their key. What cannot be written is
  // left out, with the warning "metrics.not_written" at once and every half minute: a full disk ends no
  // training, and where one of the two cannot be written the other is.
  void write(int64_t step, const nlohmann::ordered_json& figures);

 private:
  // What one of the two lost.
  struct Losses {
    int64_t lost = 0;  // since the last that could be written
    std::chrono::steady_clock::time_point warned;
    void none(const Path& path);
    void one(const Path& path, const FileError& why);
  };
  void put_line(int64_t step, const nlohmann::ordered_json& figures);
  void put_events(int64_t step, const nlohmann::ordered_json& figures);

  Path path_;
  Fd lines_;
  std::optional<EventFile> events_;
  Losses of_lines_, of_events_;
};

}  // namespace tpubridge
