#include <ATen/autocast_mode.h>

#include "bench/workloads/workload.h"
#include "tpubridge/base/errors.h"

namespace workloads {

const std::string& Params::text(const std::string& name) const {
  const auto at = values_.find(name);
  if (at == values_.end()) throw std::invalid_argument("the workload needs " + name + "=…");
  return at->second;
}

int64_t Params::number(const std::string& name) const { return std::stoll(text(name)); }

void wait(const torch::Tensor& result) {
  if (!result.is_cpu()) tpubridge::sync(result);
}

Autocast::Autocast(torch::Device device, const std::string& dtype)
    : type_(device.type()), on_(dtype == "bf16") {
  if (!on_ && dtype != "f32") throw std::invalid_argument("dtype is f32 or bf16, not " + dtype);
  if (!on_) return;
  at::autocast::set_autocast_dtype(type_, torch::kBFloat16);
  at::autocast::set_autocast_enabled(type_, true);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!on_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(type_, false);
}

// With a limit that nothing fits, the device says what the program would have needed.
double peak_bytes(const std::function<void()>& traced_call) {
  tpubridge::sync();
  const int64_t before = tpubridge::set_memory_limit(1);
  double bytes = 0;
  try {
    traced_call();
  } catch (const tpubridge::TPUMemoryLimitError& error) {
    for (const auto& [name, value] : error.details())
      if (name == "needed" || name == "live") bytes += std::stod(value);
  }
  tpubridge::set_memory_limit(before);
  tpubridge::sync();
  return bytes;
}

}  // namespace workloads
