// What every backend can do: say what devices there are, bring models and data to them, wait for them.
//
//   auto backend = BackendFactory::create("tpu");
//   backend->prepare_model(model);                 // in place: parameters stay the same objects
//   auto [x, y] = backend->prepare_data(std::pair{images, labels});
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tpubridge/backend/level.h"
#include "tpubridge/base/lru.h"
#include "tpubridge/step/tree.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}
namespace torch::jit {
struct Module;
}

namespace tpubridge {

struct DeviceInfo {
  std::string backend;      // "tpu"
  std::string device_type;  // "tpu:0", as torch names it; "cpu" where there is no such device
  int device_id = 0;
  std::string device_name;  // "TPU v5e"
  std::string compute_capability;
  int64_t total_memory_bytes = 0;
  std::string driver_version;  // of the plugin
  bool is_available = false;   // a real one: a simulation is not
  std::map<std::string, std::string> properties = {};

  [[nodiscard]] double total_memory_gb() const { return static_cast<double>(total_memory_bytes) / 1e9; }
  [[nodiscard]] std::string to_json() const;
};

struct MemoryStats {
  std::string device;
  int world_size = 1, rank = 0, device_count = 0;
  double memory_fraction = 1;
  LruStats model_cache_stats, compilation_cache_stats;
  // Live bytes of the device in use: held by tensors, what is left of the limit, the most there ever were.
  int64_t allocated_memory = 0, available_memory = 0, peak_memory = 0, total_memory = 0;

  [[nodiscard]] std::string to_json() const;
};

class BaseBackend {
 public:
  virtual ~BaseBackend() = default;
  BaseBackend(const BaseBackend&) = delete;
  BaseBackend& operator=(const BaseBackend&) = delete;

  [[nodiscard]] virtual std::string name() const = 0;  // "tpu", "cpu"
  [[nodiscard]] virtual std::string repr() const = 0;
  [[nodiscard]] virtual bool is_available() const = 0;  // the hardware itself is here
  [[nodiscard]] virtual int device_count() const = 0;   // of this process
  [[nodiscard]] virtual int world_size() const { return 1; }
  [[nodiscard]] virtual int rank() const { return 0; }
  [[nodiscard]] bool is_distributed() const { return world_size() > 1; }
  [[nodiscard]] const c10::Device& device() const { return device_; }

  // Of an id that is not there: the CPU, not available.
  [[nodiscard]] virtual DeviceInfo get_device_info(int id = 0) const = 0;
  [[nodiscard]] std::vector<DeviceInfo> get_all_devices() const;
  // From now on models and data go there. Throws BackendError for a device that is not there.
  virtual void set_device(int id) = 0;

  // Brings the model to the device, in place, and gives it back. Without a level the configuration's applies.
  // O0 changes nothing but the place; the others also the type that layers compute in (precision_policy.h),
  // while parameters stay as they are. A model that was prepared at this level, and is still there, costs a
  // look-up. Throws TPUModelPreparationError; the model is then where it was.
  template <class M>
  requires std::is_base_of_v<torch::nn::Module, M> std::shared_ptr<M> prepare_model(
      std::shared_ptr<M> model, std::optional<OptimizationLevel> level = {}) {
    prepare(model, level);
    return model;
  }
  template <class Holder>
  requires requires(const Holder& h) { h.ptr(); }
  Holder prepare_model(Holder model, std::optional<OptimizationLevel> level = {}) {
    prepare(model.ptr(), level);
    return model;
  }
  virtual torch::jit::Module prepare_model(torch::jit::Module model,
                                           std::optional<OptimizationLevel> level = {}) = 0;

  // The tensors of `data` (a tensor, or vectors, maps, tuples, structs and nests of them: step/tree.h) on the
  // device; everything else as it is. f32 becomes the configuration's precision where that is mixed.
  template <class T>
  [[nodiscard]] T prepare_data(T data) {
    auto tensor = [this](at::Tensor& t) { t = prepare_tensor(t); };
    auto other = [](uint64_t) {};
    tree::visit(data, tensor, other);
    return data;
  }
  [[nodiscard]] virtual at::Tensor prepare_tensor(const at::Tensor& tensor) = 0;

  // Prepared at O2, in evaluation mode, without gradients, and all of it done when this returns. Parameters
  // are then kept in the type that their layers compute in. With a type, all of the model is of that type.
  template <class Model>
  Model optimize_for_inference(Model model, std::optional<at::ScalarType> dtype = {}) {
    finish_inference(*prepare_model(model, OptimizationLevel(OptimizationLevel::O2)), dtype);
    return model;
  }
  // The same, and the program for inputs like `sample` is compiled.
  template <class Model, class Sample>
  requires(!std::is_convertible_v<Sample, std::optional<at::ScalarType>>) Model
      optimize_for_inference(Model model, Sample sample, std::optional<at::ScalarType> dtype = {}) {
    optimize_for_inference(model, dtype);
    warm_up(model->forward(prepare_data(std::move(sample))));
    return model;
  }
  // Prepared at O1, in training mode. The optimizer goes on with the parameters it has: they are the same.
  template <class Model>
  Model optimize_for_training(Model model, std::optional<at::ScalarType> dtype = {}) {
    finish_training(*prepare_model(model, OptimizationLevel(OptimizationLevel::O1)), dtype);
    return model;
  }
  template <class Model>
  std::pair<Model, torch::optim::Optimizer*> optimize_for_training(Model model,
                                                                   torch::optim::Optimizer& optimizer,
                                                                   std::optional<at::ScalarType> dtype = {}) {
    return {optimize_for_training(std::move(model), dtype), &optimizer};
  }

  [[nodiscard]] at::Tensor to_device(const at::Tensor& tensor) const { return tensor.to(device_); }
  [[nodiscard]] at::Tensor allocate_tensor(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat,
                                           bool requires_grad = false) const;  // zeros

  // Returns when everything that was asked of the device is done; throws what went wrong.
  virtual void synchronize() = 0;
  [[nodiscard]] virtual MemoryStats get_memory_stats() const = 0;
  [[nodiscard]] std::string get_memory_summary() const;  // the same, for people
  virtual void clear_cache() = 0;                        // prepared models and compiled programs
  void empty_cache() { clear_cache(); }
  virtual void cleanup();  // waits, then clears; the backend can still be used

 protected:
  explicit BaseBackend(c10::Device device) : device_(device) {}
  virtual void prepare(const std::shared_ptr<torch::nn::Module>& model,
                       std::optional<OptimizationLevel> level) = 0;
  void finish_inference(torch::nn::Module& model, std::optional<at::ScalarType> dtype);
  void finish_training(torch::nn::Module& model, std::optional<at::ScalarType> dtype);
  void warm_up(const at::Tensor& result);

  c10::Device device_;
};

// Cleans up when it ends.
class BackendScope {
 public:
  explicit BackendScope(BaseBackend& backend) : backend_(backend) {}
  ~BackendScope();
  BackendScope(const BackendScope&) = delete;
  BackendScope& operator=(const BackendScope&) = delete;
  [[nodiscard]] BaseBackend* operator->() const { return &backend_; }

 private:
  BaseBackend& backend_;
};

}  // namespace tpubridge
