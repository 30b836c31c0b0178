// The TPU as a backend: a configuration applied to the process, and models and data brought to its device.
//
//   TPUBackend backend(Config::for_training());
//   backend.prepare_model(model);
//   auto loss = step(model, backend.prepare_data(batch));
//
// Where no TPU is, it says so once in the log and works on the simulated device, XLA's CPU plugin;
// is_available() then is false. With require_tpu, or enable_strict_validation, there is no such backend:
// TPUNotAvailableError.
#pragma once

#include "tpubridge/backend/apply.h"
#include "tpubridge/backend/backend.h"

namespace tpubridge {

class TPUBackend : public BaseBackend {
 public:
  static constexpr const char* kName = "tpu";

  explicit TPUBackend(const Config& config = {}, bool require_tpu = false);
  explicit TPUBackend(const TPUConfig& config, bool require_tpu = false);
  ~TPUBackend() override;

  [[nodiscard]] const Config& config() const { return applied_.config; }  // nothing left to detection
  [[nodiscard]] std::string name() const override { return kName; }
  [[nodiscard]] std::string repr() const override;
  [[nodiscard]] bool is_available() const override { return applied_.runtime.available; }
  [[nodiscard]] int device_count() const override;
  [[nodiscard]] int world_size() const override { return world_size_; }  // devices of all processes
  [[nodiscard]] int rank() const override { return rank_; }              // of this process
  [[nodiscard]] DeviceInfo get_device_info(int id = 0) const override;
  void set_device(int id) override;

  using BaseBackend::prepare_model;
  // A TorchScript module is moved in place too.
  torch::jit::Module prepare_model(torch::jit::Module model,
                                   std::optional<OptimizationLevel> level = {}) override;
  [[nodiscard]] at::Tensor prepare_tensor(const at::Tensor& tensor) override;

  // A folder with a manifest and checksums, there whole or not at all (train/checkpoint_folder.h); beside the
  // model the configuration and the world size, and the optimizer where one is given. Waits first; of several
  // processes the first one writes. What cannot be written, is damaged or does not fit the model throws
  // TPUCheckpointError with file and tensor, and changes nothing. Loading leaves the model where it is, and
  // an optimizer as it is where the folder has none.
  void save_model(torch::nn::Module& model, const Path& folder, torch::optim::Optimizer* optimizer = nullptr);
  void load_model(torch::nn::Module& model, const Path& folder, torch::optim::Optimizer* optimizer = nullptr);

  void synchronize() override;
  [[nodiscard]] MemoryStats get_memory_stats() const override;
  void clear_cache() override;

 protected:
  void prepare(const std::shared_ptr<torch::nn::Module>& model,
               std::optional<OptimizationLevel> level) override;

 private:
  struct Prepared;
  [[nodiscard]] std::optional<at::ScalarType> precision() const;  // what layers compute in
  [[nodiscard]] OptimizationLevel level_or_own(std::optional<OptimizationLevel> asked) const;
  template <class Model>
  void bring_at(Model& model, const std::string& name, const void* identity, OptimizationLevel level);
  [[nodiscard]] bool is_prepared(const void* model, OptimizationLevel level);

  Applied applied_;
  int world_size_ = 1, rank_ = 0;
  std::vector<DeviceInfo> devices_;
  std::unique_ptr<Prepared> prepared_;
  int64_t waited_for_ = -1;  // executions that synchronize() has seen done
};

}  // namespace tpubridge
