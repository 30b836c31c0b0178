// Runs a step's function under a recording, and works out how its call can be done again.
#pragma once

#include <unordered_set>

#include "tpubridge/step/compile.h"
#include "tpubridge/step/modules.h"
#include "tpubridge/step/record.h"

namespace tpubridge::step {

// A call that ran under a recording.
struct TracedCall {
  std::shared_ptr<Recording> recording;
  std::vector<at::Tensor> results;
  GradientsBefore gradients;
  OptimizerWatches optimizers;
  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  std::vector<Closure> closures;  // of steps inside of it
  struct Followed {
    torch::optim::Optimizer* optimizer;
    std::optional<std::weak_ptr<bool>> life;
  };
  std::vector<Followed> followed;

  void follow(torch::optim::Optimizer& o, uint64_t seed,
              const std::optional<std::weak_ptr<bool>>& life = std::nullopt);
  void end_optimizers();
  void undo();  // everything is as it was before the call
};

class Tracer {
 public:
  Tracer(const StepOptions& options, Runner* runner);

  using Function = std::function<std::vector<at::Tensor>()>;
  // Where the function throws, everything is as it was before.
  [[nodiscard]] std::unique_ptr<TracedCall> record(const std::vector<at::Tensor>& arguments,
                                                   const Function& run, bool notes_zeros);
  // Computes what the call left, or only compiles it; where that fails everything is as it was before the
  // call.
  [[nodiscard]] Ended finish(TracedCall& call, const std::vector<at::Tensor>& arguments, bool only_compile);
  // In a call of a step inside of another: what this one was told of counts for the outer one.
  void join_outer();

  Modules modules;

 private:
  void know(const at::Tensor& t);
  void meet_variables(TracedCall& call);

  const StepOptions& options_;
  Runner* runner_;
  uint64_t seed_ = 0;
  // Tensors whose gradients the next recorded call may change, beside its arguments: those of modules and
  // optimizers, and what earlier calls met.
  std::vector<WeakTensor> variables_;
  std::unordered_set<const c10::TensorImpl*> known_variables_;
  std::vector<std::pair<torch::optim::Optimizer*, std::weak_ptr<bool>>> met_optimizers_;
};

}  // namespace tpubridge::step
