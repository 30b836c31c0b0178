// A compiled step whose programs run on all devices.
#include "tpubridge/mesh/partitioned.h"

#include "tpubridge/mesh/partitioner.h"

namespace tpubridge::mesh {

Partitioned::Partitioned(StepOptions options)
    : runner_(std::make_shared<Partitioner>()), engine_(std::move(options), runner_) {}
Partitioned::~Partitioned() = default;

at::Tensor Partitioned::place(const at::Tensor& argument) {
  if (!argument.defined()) return argument;
  const at::Tensor t = argument.to(c10::Device(c10::DeviceType::PrivateUse1, 0));
  const bool whole = t.is_contiguous() && t.storage().nbytes() == t.nbytes();
  return whole ? t : t.clone(at::MemoryFormat::Contiguous);
}

std::vector<at::Tensor> Partitioned::call(const std::vector<at::Tensor>& arguments,
                                          const std::vector<uint64_t>& others,
                                          const std::function<std::vector<at::Tensor>()>& run,
                                          std::shared_ptr<void>& form) {
  return engine_.call(arguments, others, run, form);
}

std::shared_ptr<const void> Partitioned::prepare(const std::vector<at::Tensor>& arguments,
                                                 const std::function<std::vector<at::Tensor>()>& run) {
  return engine_.prepare(arguments, run);
}

PartitionReport Partitioned::report() const {
  const StepReport step = engine_.report();
  return {.devices = runner_->devices(),
          .calls = step.calls,
          .replayed = step.replayed,
          .traced = step.traced,
          .why_traced = step.why_traced,
          .copies = runner_->copied(),
          .parameters = runner_->parameters()};
}

}  // namespace tpubridge::mesh
