// Counters per device; the limit is one for all.
#include "tpubridge/exec/ledger.h"

#include <fmt/format.h>

#include <array>
#include <atomic>

#include "tpubridge/base/env.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/exec/redo.h"

namespace tpubridge {
namespace {

struct Account {
  std::atomic<int64_t> live{0}, peak{0};
  void add(int64_t change) {
    const int64_t now = live.fetch_add(change) + change;
    int64_t most = peak.load();
    while (now > most && !peak.compare_exchange_weak(most, now)) {
    }
  }
};
constexpr size_t kDevices = 128;  // of torch: an index is 8 bits
// Never destroyed: buffers may be freed by other static objects at exit.
Account& account(int device) {
  static auto* all = new std::array<Account, kDevices>;
  return (*all)[static_cast<size_t>(device) % kDevices];
}

Account& total() {
  static auto* all = new Account;
  return *all;
}

std::atomic<int64_t>& limit() {
  static std::atomic<int64_t> value{*env::integer("TPUBRIDGE_MEMORY_LIMIT")};
  return value;
}

}  // namespace

DeviceMemory device_memory(int device) {
  const Account& a = account(device);
  return {a.live, a.peak, limit()};
}

void reset_peak_memory(int device) {
  Account& a = account(device);
  a.peak = a.live.load();
}

DeviceMemory all_device_memory() { return {total().live, total().peak, limit()}; }

int64_t set_memory_limit(int64_t bytes) {
  if (bytes < 0)
    throw ArgumentError(fmt::format("a memory limit of {} bytes", bytes), {},
                        "Give bytes, or 0 for no limit.");
  return limit().exchange(bytes);
}

namespace exec {

void count_device_bytes(int device, int64_t change) {
  account(device).add(change);
  total().add(change);
}

void check_memory(int device, int64_t bytes, std::string_view what) {
  const int64_t most = limit().load(std::memory_order_relaxed);
  if (most == 0) return;
  if (account(device).live + bytes <= most) return;
  forget_ended();  // what only they held
  const int64_t live = account(device).live;
  if (live + bytes <= most) return;
  throw TPUMemoryLimitError(
      fmt::format("{} needs {} bytes on tpu:{}, where {} of {} are in use", what, bytes, device, live, most),
      {{"needed", std::to_string(bytes)}, {"live", std::to_string(live)}, {"limit", std::to_string(most)}},
      "Free tensors, use smaller batches, or raise the limit (set_memory_limit, TPUBRIDGE_MEMORY_LIMIT).",
      Code::resource_exhausted);
}

}  // namespace exec
}  // namespace tpubridge
