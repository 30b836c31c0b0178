// The account of device memory: what the device's tensors hold, and the most they may hold.
#pragma once

#include <cstdint>
#include <string_view>

namespace tpubridge {

struct DeviceMemory {
  int64_t live = 0, peak = 0;  // bytes of buffers held by tensors, now and at most
  int64_t limit = 0;           // 0: only the device's own
};

[[nodiscard]] DeviceMemory device_memory(int device = 0);
[[nodiscard]] DeviceMemory all_device_memory();  // of all devices together
// The peak of a device begins anew at what is live now; that of all devices together is left alone.
void reset_peak_memory(int device = 0);
// The most that tensors of each device may hold, with what a program needs while it runs; 0 takes the limit
// away. Begins as TPUBRIDGE_MEMORY_LIMIT. What would go past it throws TPUMemoryLimitError before anything is
// allocated, and everything that was there stays usable. Returns the old one.
int64_t set_memory_limit(int64_t bytes);

namespace exec {

void count_device_bytes(int device, int64_t change);
// Throws where `bytes` more would go past the limit.
void check_memory(int device, int64_t bytes, std::string_view what);

}  // namespace exec
}  // namespace tpubridge
