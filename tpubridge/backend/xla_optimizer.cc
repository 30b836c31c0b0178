#include "tpubridge/backend/xla_optimizer.h"

#include "tpubridge/backend/device_utils.h"
#include "tpubridge/backend/xla_compat.h"

namespace tpubridge {

bool XLAOptimizer::is_xla_available() const { return xla_compat::is_xla_available(); }

std::optional<c10::Device> XLAOptimizer::get_xla_device() const {
  return is_xla_available() ? std::optional(xla_compat::get_xla_device()) : std::nullopt;
}

size_t XLAOptimizer::compiled_functions() const {
  const std::lock_guard lock(mutex_);
  return known_.size();
}

void XLAOptimizer::clear() {
  const std::lock_guard lock(mutex_);
  known_.clear();
}

at::Tensor XLAOptimizer::optimize_tensor_operations(const at::Tensor& tensor) const {
  const auto device = get_xla_device();
  if (!device || !tensor.defined()) return tensor;
  return safe_device_placement(tensor, *device).contiguous();
}

}  // namespace tpubridge
