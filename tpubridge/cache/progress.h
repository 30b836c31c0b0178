// One line on a terminal that says what takes its time, and is gone when it is done.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace tpubridge::cache {

// Appears on stderr after a second, then shows the seconds that passed. Nothing at all where stderr is no
// terminal (or TERM is "dumb").
class ProgressLine {
 public:
  explicit ProgressLine(const std::string& text);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

 private:
  void show();
  std::string text_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace tpubridge::cache
