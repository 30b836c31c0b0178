// What a TPUMemoryManager keeps. For the sources of backend/.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>

#include "tpubridge/backend/memory_manager.h"

namespace tpubridge {

// The storages that were handed out and that somebody may still have, without keeping them.
class Handed {
 public:
  void add(const at::Tensor& t) {
    if (all_.size() >= sweep_at_) sweep();
    all_.push_back(t.storage().getWeakStorageImpl());
  }
  int64_t alive() {
    sweep();
    return static_cast<int64_t>(all_.size());
  }

 private:
  void sweep() {
    std::erase_if(all_, [](const auto& storage) { return storage.expired(); });
    sweep_at_ = 2 * all_.size() + 64;
  }
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> all_;
  size_t sweep_at_ = 64;
};

struct TPUMemoryManager::State {
  explicit State(double retention) : history(kMostAllocations, retention) {}
  std::mutex mutex;  // guards what follows
  std::map<std::string, MemoryPool> pools;
  int64_t pools_made = 0;
  History<TPUAllocation> history;
  Handed handed;

  std::mutex monitor_mutex;  // guards what follows; the monitor's thread takes the other one alone
  std::unique_ptr<MemoryMonitor> monitor;
  std::vector<TPUMemoryStats> stopped;  // samples of the monitor that was stopped
};

inline double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tpubridge
