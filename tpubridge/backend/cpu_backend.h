// libtorch on this machine's CPU, as a backend: what is used where nothing else can be.
#pragma once

#include "tpubridge/backend/backend.h"

namespace tpubridge {

class CPUBackend : public BaseBackend {
 public:
  CPUBackend() : BaseBackend(c10::Device(c10::DeviceType::CPU)) {}

  [[nodiscard]] std::string name() const override { return "cpu"; }
  [[nodiscard]] std::string repr() const override { return "CPUBackend(device=cpu)"; }
  [[nodiscard]] bool is_available() const override { return true; }
  [[nodiscard]] int device_count() const override { return 1; }
  [[nodiscard]] DeviceInfo get_device_info(int id = 0) const override;
  void set_device(int id) override;

  using BaseBackend::prepare_model;
  torch::jit::Module prepare_model(torch::jit::Module model,
                                   std::optional<OptimizationLevel> level = {}) override;
  [[nodiscard]] at::Tensor prepare_tensor(const at::Tensor& tensor) override { return tensor.cpu(); }
  void synchronize() override {}
  [[nodiscard]] MemoryStats get_memory_stats() const override;
  void clear_cache() override {}

 protected:
  void prepare(const std::shared_ptr<torch::nn::Module>& model,
               std::optional<OptimizationLevel> level) override;
};

}  // namespace tpubridge
