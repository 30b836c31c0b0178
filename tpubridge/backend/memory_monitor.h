// What a device's memory holds at a moment, and a thread that writes it down at intervals.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tpubridge/base/history.h"

namespace tpubridge {

// Bytes of one device. Live figures of the ledger (exec/ledger.h): what is traced and not computed yet holds
// no memory, and what was freed is no longer counted.
struct TPUMemoryStats {
  int64_t allocated_memory = 0;  // held by tensors
  int64_t cached_memory = 0;     // held by pools, handed out to nobody
  int64_t reserved_memory = 0;   // both
  int64_t available_memory = 0;  // what is left of the budget: total × memory_fraction
  int64_t total_memory = 0;      // of the device
  double memory_fraction = 1;
  int64_t active_tensors = 0;  // the manager's, that somebody still has
  int64_t peak_memory = 0;     // most that was reserved, since the start or reset_peak_memory()
  double timestamp = 0;        // seconds of the Unix epoch

  [[nodiscard]] std::string to_json() const;
};

// Samples until it is destroyed, the first one at once.
class MemoryMonitor {
 public:
  MemoryMonitor(std::function<TPUMemoryStats()> sample, double interval_seconds, size_t most);
  ~MemoryMonitor();
  MemoryMonitor(const MemoryMonitor&) = delete;
  MemoryMonitor& operator=(const MemoryMonitor&) = delete;

  [[nodiscard]] std::vector<TPUMemoryStats> samples() const;  // the newest `most`, the oldest first

 private:
  void run(const std::stop_token& stop);

  const std::function<TPUMemoryStats()> sample_;
  const double interval_;
  mutable std::mutex mutex_;
  std::condition_variable_any stopped_;
  History<TPUMemoryStats> samples_;
  std::jthread thread_;
};

}  // namespace tpubridge
