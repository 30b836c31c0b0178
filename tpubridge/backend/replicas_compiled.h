// A training step of replicas as compiled steps: for each one its gradients end to end, and its optimizer
// with the mean of all. For DataParallel.
#pragma once

#include <functional>

#include "tpubridge/backend/replicas.h"
#include "tpubridge/step/compile.h"

namespace tpubridge {

// The gradients of one replica, end to end by element type; the loss stands at the end of its type's.
struct FlatGradients {
  std::vector<at::Tensor> flat;
  std::vector<std::vector<int64_t>> which;  // the parameters in each
  int64_t loss_in = 0;
};
inline auto tpubridge_fields(FlatGradients& g) { return std::tie(g.flat, g.which, g.loss_in); }

class CompiledReplicas {
 public:
  // Throws ArgumentError where compile() does not know the class of an optimizer.
  explicit CompiledReplicas(Replicas& replicas);

  // Of replica i: what `loss` gives, and its gradients. `others` is what besides the arguments decides about
  // the ops of `loss`, `users` what the user's function holds.
  template <class Loss, class Data>
  [[nodiscard]] FlatGradients gradients(size_t i, Loss& loss, Data& part, double weight, uint64_t others,
                                        step::Closure users) {
    step::Around run{[&](Data& given, double by, uint64_t) { return flat_gradients(i, loss(given).mul(by)); },
                     users};
    return step::typed_call(*backward_[i], run, part, weight, others);
  }
  // The mean of the gradients, and a step of every optimizer. Gives the mean loss, on the first device.
  [[nodiscard]] at::Tensor apply(std::vector<FlatGradients>& all);

  // Calls that were traced, of all replicas.
  [[nodiscard]] int64_t traced() const;

 private:
  [[nodiscard]] FlatGradients flat_gradients(size_t i, const at::Tensor& loss);
  [[nodiscard]] at::Tensor step(size_t i, const FlatGradients& mean);

  Replicas& replicas_;
  std::vector<std::unique_ptr<step::Engine>> backward_, step_;
};

// None where an optimizer cannot be followed: that is logged.
[[nodiscard]] std::unique_ptr<CompiledReplicas> compiled_replicas(Replicas& replicas);

}  // namespace tpubridge
