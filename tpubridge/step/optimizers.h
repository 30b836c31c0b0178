// What is known of torch's optimizers: the numbers that they work out on the host at every step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tpubridge/step/closure.h"

namespace torch::optim {
class Optimizer;
class OptimizerOptions;
struct OptimizerParamState;
}  // namespace torch::optim
namespace at {
class Tensor;
}

namespace tpubridge::step {

// One class of them. A class derived from it is another one, whose arithmetic is not known.
struct OptimizerClass {
  using Options = torch::optim::OptimizerOptions;
  std::vector<double*> (*options)(Options&);  // that enter numbers
  bool (*flag)(const Options&);
  std::vector<double> (*numbers)(const Options&, int64_t step);
  int64_t* (*step)(torch::optim::OptimizerParamState&);  // null where it counts none
  // Which tensors its state are now; null where it tells itself.
  void (*tensors)(const torch::optim::OptimizerParamState&, std::vector<uint64_t>&);
  void (*listen)(Options&, bool);                 // to set_lr(): begin, end
  void (*watch)(torch::optim::Optimizer&, bool);  // its steps: begin, end
};
// Null for one that is not known.
[[nodiscard]] const OptimizerClass* class_of(torch::optim::Optimizer& optimizer);

// Those of torch's classes that a function captures, by reference or by a pointer.
[[nodiscard]] std::vector<torch::optim::Optimizer*> captured_optimizers(const Closure& closure);

// The numbers of the next step, or of one `ahead` of it, group by group, in a fixed order. Of a known class.
void next_numbers(torch::optim::Optimizer& optimizer, int64_t ahead, std::vector<double>& out);
// Those of a parameter's first step, which it may take while others have counted some already.
void first_numbers(torch::optim::Optimizer& optimizer, std::vector<double>& out);
// The options that enter numbers, group by group. Of a known class.
void option_values(torch::optim::Optimizer& optimizer, std::vector<double>& out);
// What decides which ops a step has: options that are zero or not, flags, which parameters have counted the
// same steps.
void structure(torch::optim::Optimizer& optimizer, std::vector<uint64_t>& out);
// Which tensors it works on: parameters, and what it keeps for each.
void tensors_of(torch::optim::Optimizer& optimizer, std::vector<uint64_t>& out);

// What classes call while one listens; optimizer_watch.cc.
void lr_is_set(const torch::optim::OptimizerOptions& options);
using LossClosure = std::function<at::Tensor()>;
at::Tensor watched_step(torch::optim::Optimizer& optimizer, const LossClosure& closure,
                        const std::function<at::Tensor(const LossClosure&)>& step);

}  // namespace tpubridge::step
