// Accounting of one device's memory.
#include "ledger.h"

#include <algorithm>
#include <cstdio>

namespace fake {

std::string human(int64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + "B";
  constexpr char kUnits[] = {'K', 'M', 'G', 'T'};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < sizeof kUnits; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.2f%c", value, kUnits[unit]);
  return text;
}

bool Ledger::take(int64_t bytes, int64_t& free) {
  const std::lock_guard guard(lock_);
  free = stats_.limit - stats_.in_use;
  if (bytes > free) return false;
  stats_.in_use += bytes;
  stats_.peak = std::max(stats_.peak, stats_.in_use);
  stats_.largest = std::max(stats_.largest, bytes);
  ++stats_.allocations;
  return true;
}

void Ledger::reserve_buffer(int64_t bytes, const std::string& device) {
  int64_t free = 0;
  if (take(bytes, free)) return;
  throw Failure{PJRT_Error_Code_RESOURCE_EXHAUSTED,
                "Error allocating device buffer: Attempting to allocate " + human(bytes) +
                    ". That was not possible. There are " + human(free) + " free.; (" + device + "_HBM0)"};
}

void Ledger::reserve_program(int64_t bytes, const std::string& program) {
  int64_t free = 0;
  if (take(bytes, free)) return;
  throw Failure{PJRT_Error_Code_RESOURCE_EXHAUSTED,
                "Error loading program '" + program + "': Attempting to reserve " + human(bytes) +
                    " at the bottom of memory. That was not possible. There are " + human(free) +
                    " free, 0B reserved, and " + human(free) + " reservable."};
}

void Ledger::settle(int64_t reserved, int64_t held) {
  const std::lock_guard guard(lock_);
  stats_.in_use += held - reserved;
  stats_.peak = std::max(stats_.peak, stats_.in_use);
}

Ledger::Stats Ledger::stats() const {
  const std::lock_guard guard(lock_);
  return stats_;
}

}  // namespace fake
