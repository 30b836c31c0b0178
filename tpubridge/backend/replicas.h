// Copies of one model, one on each device, that stay equal. DataParallel (data_parallel.h) is this with the
// model's own type.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace tpubridge {

// Rows of a batch that one replica works on, and by what its mean loss counts in the mean over replicas.
struct BatchShare {
  int64_t from = 0, count = 0;
  double weight = 1;
};

class Replicas {
 public:
  using Module = std::shared_ptr<torch::nn::Module>;

  // The first is the model itself, moved to the first device. `another` makes a module of the same structure;
  // without it the model's own clone() does. Throws TPUDistributedError where neither gives one.
  Replicas(Module model, std::vector<c10::Device> devices, const std::function<Module()>& another = {});

  [[nodiscard]] const std::vector<Module>& modules() const { return modules_; }
  [[nodiscard]] const std::vector<c10::Device>& devices() const { return devices_; }

  // As equal as can be, the larger ones first; where there are fewer rows than replicas the last get none.
  [[nodiscard]] std::vector<BatchShare> share(int64_t rows) const;

  void broadcast();          // parameters and buffers of the first to the others
  void broadcast_buffers();  // buffers alone (running statistics)
  // Every replica has the mean of all gradients: one all_reduce for each element type. A replica that has no
  // gradient counts as one of zeros.
  void average_gradients();

  void add_optimizer(std::shared_ptr<torch::optim::Optimizer> optimizer);
  [[nodiscard]] const std::vector<std::shared_ptr<torch::optim::Optimizer>>& optimizers() const {
    return optimizers_;
  }
  void step();  // TPUDistributedError where there are no optimizers
  void zero_grad();

 private:
  std::vector<Module> modules_;
  std::vector<c10::Device> devices_;
  std::vector<std::vector<at::Tensor>> parameters_;  // of each replica, in the model's order
  std::vector<std::shared_ptr<torch::optim::Optimizer>> optimizers_;
};

// Rows of a tensor on a device. What has another first size goes there whole.
[[nodiscard]] at::Tensor rows_on(const at::Tensor& tensor, int64_t all, const BatchShare& share,
                                 const c10::Device& device);
// The mean over the replicas of what each has (already weighted), on the first one's device.
[[nodiscard]] at::Tensor mean_of(const std::vector<at::Tensor>& losses, size_t replicas);

}  // namespace tpubridge
