#include "tpubridge/cache/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include "tpubridge/base/env.h"
#include "tpubridge/base/text.h"

namespace tpubridge::cache {
namespace {

bool somebody_watches() {
  return ::isatty(STDERR_FILENO) == 1 && env::raw("TERM").value_or("dumb") != "dumb";
}

// In one write, so that lines of others are not cut into.
void write_line(const std::string& text) {
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

ProgressLine::ProgressLine(const std::string& text) : text_(printable(text)) {
  if (somebody_watches()) thread_ = std::thread([this] { show(); });
}

ProgressLine::~ProgressLine() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void ProgressLine::show() {
  const auto start = std::chrono::steady_clock::now();
  bool shown = false;
  std::unique_lock lock(mutex_);
  for (int seconds = 1;
       !wake_.wait_until(lock, start + std::chrono::seconds(seconds), [this] { return over_; }); ++seconds) {
    write_line(fmt::format("\r{} … {} s\033[K", text_, seconds));
    shown = true;
  }
  if (shown) write_line("\r\033[K");
}

}  // namespace tpubridge::cache
