#include "tpubridge/backend/memory_info.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "tpubridge/base/errors.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge {
namespace {

double rounded(double value, double unit) { return std::round(value * unit) / unit; }

}  // namespace

TPUMemoryInfo memory_info(const c10::Device& device) {
  TPUMemoryInfo out;
  const int index = device.has_index() ? device.index() : 0;
  const DeviceMemory ours = device_memory(index);
  out.device = device.str();
  out.bytes_in_use = ours.live;
  out.peak_bytes = ours.peak;
  out.bytes_limit = ours.limit;
  try {
    const auto told = exec::device(index).memory_stats();
    out.bytes_in_use = told.bytes_in_use;
    out.peak_bytes = told.peak_bytes_in_use.value_or(ours.peak);
    out.bytes_limit = told.bytes_limit.value_or(ours.limit);
  } catch (const UnsupportedError&) {  // the plugin keeps no account: the ledger's figures stand
  } catch (const Error& e) {
    out.error = std::string("Failed to get TPU memory info: ") + e.what();
    return out;
  }
  const auto in_use = static_cast<double>(out.bytes_in_use), limit = static_cast<double>(out.bytes_limit);
  constexpr double kGb = 1024.0 * 1024.0 * 1024.0;
  out.gb_in_use = rounded(in_use / kGb, 1000);
  out.gb_limit = rounded(limit / kGb, 1000);
  out.utilization_percent = limit > 0 ? rounded(100 * in_use / limit, 100) : 0;
  return out;
}

std::string TPUMemoryInfo::to_json() const {
  if (!error.empty())
    return nlohmann::ordered_json{{"error", error}}.dump(2, ' ', false,
                                                         nlohmann::json::error_handler_t::replace);
  const nlohmann::ordered_json out = {
      {"device", device},       {"bytes_in_use", bytes_in_use}, {"bytes_limit", bytes_limit},
      {"gb_in_use", gb_in_use}, {"gb_limit", gb_limit},         {"utilization_percent", utilization_percent}};
  return out.dump(2);
}

}  // namespace tpubridge
