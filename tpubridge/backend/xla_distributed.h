// Training over several devices: the model on each of them, and what they tell one another.
//
//   XLADistributedTraining distributed(manager);
//   auto parallel = distributed.wrap_model(model);              // docs: data_parallel.h
//   auto sums = distributed.all_reduce({a0, a1}, "sum");        // one tensor a device in, one out
//
// A collective is over all devices or throws TPUDistributedError; nothing is ever silently local. Alone (one
// device) a single tensor is its own sum. The devices are those of this process: a run of several processes
// has collectives only inside a program.
#pragma once

#include "tpubridge/backend/data_parallel.h"
#include "tpubridge/backend/xla_device_manager.h"

namespace tpubridge {

class XLADistributedTraining {
 public:
  explicit XLADistributedTraining(std::shared_ptr<XLADeviceManager> manager);

  [[nodiscard]] bool is_distributed() const { return manager_->world_size() > 1; }
  [[nodiscard]] int world_size() const { return manager_->world_size(); }
  [[nodiscard]] int rank() const { return manager_->rank(); }

  // One replica on each device; alone the model itself and nothing else. `another` makes one more of the same
  // structure where the model has no clone().
  template <class M>
  requires std::is_base_of_v<torch::nn::Module, M>
  [[nodiscard]] DataParallel<M> wrap_model(std::shared_ptr<M> model,
                                           std::function<std::shared_ptr<M>()> another = {}) const {
    return DataParallel<M>(std::move(model), devices("wrap_model"), std::move(another));
  }
  template <class Holder>
  requires requires(const Holder& h) { h.ptr(); }
  [[nodiscard]] auto wrap_model(const Holder& model) const { return wrap_model(model.ptr()); }

  // op: sum, mean, max or min; another name always throws.
  [[nodiscard]] std::vector<at::Tensor> all_reduce(const std::vector<at::Tensor>& tensors,
                                                   std::string_view op = "sum") const;
  [[nodiscard]] at::Tensor all_reduce(const at::Tensor& tensor, std::string_view op = "sum") const;
  // Every device gets all tensors: result[device][i]. Of a single tensor, alone: {tensor}.
  [[nodiscard]] std::vector<std::vector<at::Tensor>> all_gather(const std::vector<at::Tensor>& tensors) const;
  [[nodiscard]] std::vector<at::Tensor> all_gather(const at::Tensor& tensor) const;
  // Returns when every device has done what was asked of it so far.
  void barrier() const;

 private:
  [[nodiscard]] const std::vector<c10::Device>& devices(const char* operation) const;
  void check(const char* operation, const std::vector<at::Tensor>& tensors) const;
  void check_alone(const char* operation) const;
  std::shared_ptr<XLADeviceManager> manager_;
};

}  // namespace tpubridge
