#include "tpubridge/backend/memory_monitor.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "tpubridge/base/log.h"

namespace tpubridge {

std::string TPUMemoryStats::to_json() const {
  const nlohmann::ordered_json out = {{"allocated_memory", allocated_memory},
                                      {"cached_memory", cached_memory},
                                      {"reserved_memory", reserved_memory},
                                      {"available_memory", available_memory},
                                      {"total_memory", total_memory},
                                      {"memory_fraction", memory_fraction},
                                      {"active_tensors", active_tensors},
                                      {"peak_memory", peak_memory},
                                      {"timestamp", timestamp}};
  return out.dump(2);
}

MemoryMonitor::MemoryMonitor(std::function<TPUMemoryStats()> sample, double interval_seconds, size_t most)
    : sample_(std::move(sample)),
      interval_(interval_seconds),
      samples_(most),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

MemoryMonitor::~MemoryMonitor() = default;  // the thread is asked to stop, and joined

void MemoryMonitor::run(const std::stop_token& stop) {
  using Clock = std::chrono::steady_clock;
  const auto step = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(interval_));
  try {
    for (auto next = Clock::now(); !stop.stop_requested();) {
      const TPUMemoryStats now = sample_();
      std::unique_lock lock(mutex_);
      samples_.add(now);
      next = std::max(next + step, Clock::now());
      stopped_.wait_until(lock, stop, next, [] { return false; });
    }
  } catch (const std::exception& e) {  // nobody is above a thread
    log::error("memory.monitor_ended", {{"problem", e.what()}});
  }
}

std::vector<TPUMemoryStats> MemoryMonitor::samples() const {
  const std::lock_guard lock(mutex_);
  return samples_.all();
}

}  // namespace tpubridge
