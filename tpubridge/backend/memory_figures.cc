// TPUMemoryManager: what is in the device's memory, now and over time, and making room in it.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "tpubridge/backend/memory_state.h"
#include "tpubridge/base/log.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge {
namespace {

double above_zero(double value, const char* what) {
  if (!(value > 0) || !std::isfinite(value))
    throw ArgumentError("a monitoring " + std::string(what) + " of " + std::to_string(value) + " seconds", {},
                        "Give a number above 0.");
  return value;
}

// At least one, however short the duration.
double samples_in(double duration, double interval) {
  return std::max(std::ceil(duration / interval - 1e-9), 1.0);
}

}  // namespace

TPUMemoryStats TPUMemoryManager::get_memory_stats() const {
  TPUMemoryStats out;
  {
    const std::lock_guard lock(state_->mutex);
    out.active_tensors = state_->handed.alive();
    for (const auto& [id, pool] : state_->pools) {
      out.cached_memory += pool.idle_bytes();
      out.active_tensors += static_cast<int64_t>(pool.stats().in_use_tensors);
    }
  }
  const DeviceMemory memory = device_memory(device_.index());
  out.total_memory = backend_.get_device_info(device_.index()).total_memory_bytes;
  out.reserved_memory = memory.live;
  out.allocated_memory = std::max<int64_t>(memory.live - out.cached_memory, 0);
  out.available_memory =
      std::max<int64_t>((memory.limit > 0 ? memory.limit : out.total_memory) - memory.live, 0);
  out.memory_fraction = tpu().memory_fraction;
  out.peak_memory = memory.peak;
  out.timestamp = unix_seconds();
  return out;
}

TPUMemoryInfo TPUMemoryManager::get_memory_info() const {
  if (!backend_.is_available()) return {.error = "TPU not available"};
  return memory_info(device_);
}

void TPUMemoryManager::reset_peak_memory() { tpubridge::reset_peak_memory(device_.index()); }

bool TPUMemoryManager::check_memory_available(int64_t bytes) const {
  return get_memory_stats().available_memory >= bytes;
}

std::vector<TPUMemoryStats> TPUMemoryManager::monitor_memory(std::optional<double> interval_seconds,
                                                             std::optional<double> duration_seconds) const {
  const double interval =
      above_zero(interval_seconds.value_or(tpu().monitoring_interval_seconds), "interval");
  const double duration =
      above_zero(duration_seconds.value_or(tpu().monitoring_duration_seconds), "duration");
  const double count = samples_in(duration, interval);
  if (count > static_cast<double>(kMostSamples))
    throw ArgumentError("monitoring for " + std::to_string(duration) + " seconds every " +
                            std::to_string(interval) + " would take too many samples",
                        {{"most", std::to_string(kMostSamples)}},
                        "Use start_monitoring(), or a longer interval.");
  std::vector<TPUMemoryStats> out;
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) {
    std::this_thread::sleep_until(begin + std::chrono::duration<double>(static_cast<double>(i) * interval));
    out.push_back(get_memory_stats());
  }
  return out;
}

void TPUMemoryManager::start_monitoring(std::optional<double> interval_seconds) {
  const double interval =
      above_zero(interval_seconds.value_or(tpu().monitoring_interval_seconds), "interval");
  const double keep =
      std::min(samples_in(tpu().monitoring_duration_seconds, interval), static_cast<double>(kMostSamples));
  const std::lock_guard lock(state_->monitor_mutex);
  state_->monitor.reset();
  state_->stopped.clear();
  state_->monitor = std::make_unique<MemoryMonitor>([this] { return get_memory_stats(); }, interval,
                                                    static_cast<size_t>(keep));
}

void TPUMemoryManager::stop_monitoring() {
  const std::lock_guard lock(state_->monitor_mutex);
  if (!state_->monitor) return;
  state_->stopped = state_->monitor->samples();
  state_->monitor.reset();
}

bool TPUMemoryManager::is_monitoring() const {
  const std::lock_guard lock(state_->monitor_mutex);
  return state_->monitor != nullptr;
}

std::vector<TPUMemoryStats> TPUMemoryManager::monitoring_history() const {
  const std::lock_guard lock(state_->monitor_mutex);
  return state_->monitor ? state_->monitor->samples() : state_->stopped;
}

bool TPUMemoryManager::optimize_memory_usage() noexcept {
  try {
    {
      const std::lock_guard lock(state_->mutex);
      state_->history.prune(steady_seconds());
    }
    synchronize();
    return true;
  } catch (const std::exception& e) {
    log::error("memory.optimize_failed", {{"device", device_.str()}, {"problem", e.what()}});
    return false;
  }
}

bool TPUMemoryManager::optimize_memory() noexcept {
  return optimize_memory_usage() && backend_.is_available();
}

bool TPUMemoryManager::clear_cache() {
  backend_.clear_cache();
  return backend_.is_available();
}

void TPUMemoryManager::synchronize() { backend_.synchronize(); }

void TPUMemoryManager::cleanup() {
  stop_monitoring();
  {
    const std::lock_guard lock(state_->mutex);
    state_->pools.clear();
    state_->history.clear();
  }
  synchronize();
}

}  // namespace tpubridge
