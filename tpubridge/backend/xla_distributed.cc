#include "tpubridge/backend/xla_distributed.h"

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/mesh/collectives.h"

namespace tpubridge {

XLADistributedTraining::XLADistributedTraining(std::shared_ptr<XLADeviceManager> manager)
    : manager_(std::move(manager)) {
  if (!manager_) throw ArgumentError("XLADistributedTraining was given no device manager");
}

const std::vector<c10::Device>& XLADistributedTraining::devices(const char* operation) const {
  const auto& here = manager_->devices();
  if (static_cast<int>(here.size()) != manager_->world_size())
    throw distributed_error(operation,
                            std::to_string(manager_->world_size()) + " devices take part, and only " +
                                std::to_string(here.size()) + " of them belong to this process",
                            "Run it in one process that has all the devices.");
  return here;
}

void XLADistributedTraining::check(const char* operation, const std::vector<at::Tensor>& tensors) const {
  const size_t there = devices(operation).size();
  if (tensors.size() != there)
    throw distributed_error(
        operation,
        std::to_string(tensors.size()) + " tensors were given for " + std::to_string(there) + " devices",
        "Give one tensor for each device.");
}

void XLADistributedTraining::check_alone(const char* operation) const {
  if (is_distributed())
    throw distributed_error(
        operation,
        "a single tensor was given, and there are " + std::to_string(manager_->world_size()) + " devices",
        "Give a list with one tensor for each device.");
}

std::vector<at::Tensor> XLADistributedTraining::all_reduce(const std::vector<at::Tensor>& tensors,
                                                           std::string_view op) const {
  const Reduce how = reduce_named(op);
  check("all_reduce", tensors);
  return manager_->has_xla() ? tpubridge::all_reduce(tensors, how) : tensors;
}

at::Tensor XLADistributedTraining::all_reduce(const at::Tensor& tensor, std::string_view op) const {
  (void)reduce_named(op);
  check_alone("all_reduce");
  return tensor;
}

std::vector<std::vector<at::Tensor>> XLADistributedTraining::all_gather(
    const std::vector<at::Tensor>& tensors) const {
  check("all_gather", tensors);
  if (!manager_->has_xla()) return {tensors};
  return tpubridge::all_gather(tensors);
}

std::vector<at::Tensor> XLADistributedTraining::all_gather(const at::Tensor& tensor) const {
  check_alone("all_gather");
  return {tensor};
}

void XLADistributedTraining::barrier() const {
  (void)devices("barrier");
  if (manager_->has_xla()) tpubridge::barrier();
}

}  // namespace tpubridge
