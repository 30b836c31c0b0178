#include "tpubridge/train/metrics_log.h"

#include <fcntl.h>

#include "tpubridge/base/log.h"

namespace tpubridge {

MetricsLog::MetricsLog(const Path& json_lines, const Path& tensorboard) : path_(json_lines) {
  if (!json_lines.empty()) {
    if (json_lines.has_parent_path()) make_folder(json_lines.parent_path());
    lines_ = open_to_write(json_lines, O_CREAT | O_APPEND);
  }
  if (!tensorboard.empty()) events_.emplace(tensorboard);
}

void MetricsLog::write(int64_t step, const nlohmann::ordered_json& figures) {
  try {
    put(step, figures);
    if (lost_ > 0) log::warn("metrics.written_again", {{"lost", std::to_string(lost_)}});
    lost_ = 0;
  } catch (const FileError& e) {
    lose(e);
  }
}

void MetricsLog::lose(const FileError& why) {
  const auto now = std::chrono::steady_clock::now();
  if (++lost_ > 1 && now - warned_ < std::chrono::seconds(30)) return;
  warned_ = now;
  log::warn("metrics.not_written", {{"cause", why.what()}, {"lost", std::to_string(lost_)}});
}

void MetricsLog::put(int64_t step, const nlohmann::ordered_json& figures) {
  if (lines_) {
    nlohmann::ordered_json line{{"step", step}};
    line.update(figures);
    // In one write, so that lines of several processes do not mix.
    append_all(lines_, path_,
               line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  }
  if (!events_) return;
  for (const auto& [key, value] : figures.items())
    if (value.is_number()) events_->add(key, step, value.get<double>());
}

}  // namespace tpubridge
