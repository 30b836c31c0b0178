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
  if (lines_) try {
      put_line(step, figures);
      of_lines_.none(path_);
    } catch (const FileError& e) {
      of_lines_.one(path_, e);
    }
  if (events_) try {
      put_events(step, figures);
      of_events_.none(events_->path());
    } catch (const FileError& e) {
      of_events_.one(events_->path(), e);
    }
}

void MetricsLog::Losses::none(const Path& path) {
  if (lost > 0) log::warn("metrics.written_again", {{"path", path.string()}, {"lost", std::to_string(lost)}});
  lost = 0;
}

void MetricsLog::Losses::one(const Path& path, const FileError& why) {
  const auto now = std::chrono::steady_clock::now();
  if (++lost > 1 && now - warned < std::chrono::seconds(30)) return;
  warned = now;
  log::warn("metrics.not_written",
            {{"path", path.string()}, {"cause", why.what()}, {"lost", std::to_string(lost)}});
}

void MetricsLog::put_line(int64_t step, const nlohmann::ordered_json& figures) {
  nlohmann::ordered_json line{{"step", step}};
  line.update(figures);
  // In one write, so that lines of several processes do not mix.
  append_all(lines_, path_,
             line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void MetricsLog::put_events(int64_t step, const nlohmann::ordered_json& figures) {
  for (const auto& [key, value] : figures.items())
    if (value.is_number()) events_->add(key, step, value.get<double>());
}

}  // namespace tpubridge
