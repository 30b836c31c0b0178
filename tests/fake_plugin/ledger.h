// The HBM of one device: every byte that a live buffer or a running program holds, against the limit.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "registry.h"

namespace fake {

[[nodiscard]] std::string human(int64_t bytes);  // 15.75G, as libtpu writes it

class Ledger {
 public:
  struct Stats {
    int64_t in_use = 0, peak = 0, limit = 0, allocations = 0, largest = 0;
  };

  void set_limit(int64_t bytes) { stats_.limit = bytes; }

  // Takes the bytes, or throws RESOURCE_EXHAUSTED in libtpu's words and takes nothing.
  void reserve_buffer(int64_t bytes, const std::string& device);
  void reserve_program(int64_t bytes, const std::string& program);

  // What was reserved becomes what is really held.
  void settle(int64_t reserved, int64_t held);
  void release(int64_t bytes) { settle(bytes, 0); }

  [[nodiscard]] Stats stats() const;

 private:
  bool take(int64_t bytes, int64_t& free);
  mutable std::mutex lock_;
  Stats stats_;
};

}  // namespace fake
