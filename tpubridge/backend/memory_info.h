// The memory of a device as one row of figures.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace tpubridge {

// The device's memory as one table: of the device's own account where it gives one, else the ledger's.
struct TPUMemoryInfo {
  std::string device = {};
  int64_t bytes_in_use = 0, bytes_limit = 0;  // limit 0: not known
  int64_t peak_bytes = 0;                     // not in the JSON
  double gb_in_use = 0, gb_limit = 0;         // of 1024³ bytes, three decimals
  double utilization_percent = 0;             // two decimals
  std::string error = {};                     // empty; else nothing above counts

  [[nodiscard]] std::string to_json() const;  // {"error": …} where there is one
};

[[nodiscard]] TPUMemoryInfo memory_info(const c10::Device& device);  // also of a simulated device

}  // namespace tpubridge
