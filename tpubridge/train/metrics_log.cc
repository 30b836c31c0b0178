#include "tpubridge/train/metrics_log.h"

#include <fcntl.h>

#include <cerrno>

namespace tpubridge {

MetricsLog::MetricsLog(const Path& json_lines, const Path& tensorboard) : path_(json_lines) {
  if (!json_lines.empty()) {
    if (json_lines.has_parent_path()) make_folder(json_lines.parent_path());
    lines_ = Fd(::open(json_lines.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (!lines_) throw file_error("write", json_lines, errno);
  }
  if (!tensorboard.empty()) events_.emplace(tensorboard);
}

void MetricsLog::write(int64_t step, const nlohmann::ordered_json& figures) {
  if (lines_) {
    nlohmann::ordered_json line{{"step", step}};
    line.update(figures);
    // In one write, so that lines of several processes do not mix.
    write_all(lines_, path_,
              line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  }
  if (!events_) return;
  for (const auto& [key, value] : figures.items())
    if (value.is_number()) events_->add(key, step, value.get<double>());
}

}  // namespace tpubridge
