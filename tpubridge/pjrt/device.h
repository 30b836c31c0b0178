// Devices and memories of a client. They are descriptions read once; they live as long as their client.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tpubridge/capi/value.h"

struct PJRT_Api;
struct PJRT_Device;
struct PJRT_DeviceDescription;
struct PJRT_Memory;

namespace tpubridge::pjrt {

struct DeviceDescription {
  int id = 0, process_index = 0;
  std::string kind;                                   // "TPU v5 lite", "NVIDIA H200", "cpu"
  std::string debug_string;                           // the plugin's own words
  Values attributes;                                  // coords, core_on_chip, … where the plugin gives them
  [[nodiscard]] std::vector<int64_t> coords() const;  // empty where it has none
};
[[nodiscard]] DeviceDescription describe(const PJRT_Api* api, PJRT_DeviceDescription* raw);

struct Memory {
  int id = 0;
  std::string kind;  // "device", "pinned_host", "unpinned_host"
  PJRT_Memory* raw = nullptr;
};

// What a device says of its memory; empty fields where the plugin does not tell.
struct MemoryStats {
  int64_t bytes_in_use = 0;
  std::optional<int64_t> peak_bytes_in_use, bytes_limit, num_allocs, largest_alloc_size,
      largest_free_block_bytes;
};

class Device {
 public:
  [[nodiscard]] int id() const { return info_.id; }
  [[nodiscard]] const DeviceDescription& info() const { return info_; }
  [[nodiscard]] bool addressable() const { return addressable_; }
  [[nodiscard]] int local_hardware_id() const { return local_hardware_id_; }  // -1 where it has none
  [[nodiscard]] const std::vector<const Memory*>& memories() const { return memories_; }
  [[nodiscard]] const Memory* memory(const std::string& kind) const;  // null where it has none of that kind
  [[nodiscard]] MemoryStats memory_stats() const;  // throws UnsupportedError where the plugin has none
  [[nodiscard]] PJRT_Device* raw() const { return raw_; }

 private:
  friend class Client;
  DeviceDescription info_;
  bool addressable_ = false;
  int local_hardware_id_ = -1;
  std::vector<const Memory*> memories_;
  const PJRT_Api* api_ = nullptr;
  PJRT_Device* raw_ = nullptr;
};

}  // namespace tpubridge::pjrt
