// The numbers that torch's optimizers work out on the host at every step: what they will be in the next one.
#pragma once

#include <cstdint>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace tpubridge::step {

// Throws ArgumentError for an optimizer whose numbers are not known.
void check_optimizer(torch::optim::Optimizer& optimizer);
// The numbers of the next step, group by group, in a fixed order.
[[nodiscard]] std::vector<double> next_numbers(torch::optim::Optimizer& optimizer);
// Counts a step that ran without the optimizer's own code.
void count_step(torch::optim::Optimizer& optimizer);
// What decides which ops a step has: options that are zero or not, flags, missing gradients.
[[nodiscard]] std::vector<uint64_t> structure(torch::optim::Optimizer& optimizer);

// While it lives, the options differ from the true ones by a part in 10^11, another one for each option and
// each time: numbers of a trace that follow the options can be told from numbers that happen to be equal.
class PerturbedOptions {
 public:
  PerturbedOptions(torch::optim::Optimizer& optimizer, uint64_t round);
  ~PerturbedOptions();
  PerturbedOptions(const PerturbedOptions&) = delete;
  PerturbedOptions& operator=(const PerturbedOptions&) = delete;

 private:
  struct Option {
    double* place;
    double value;
  };
  std::vector<Option> options_;
};

// Puts back, when it goes, what these optimizers have beside the device: which parameters have state and how
// many steps it counts, and which have gradients.
class HostState {
 public:
  explicit HostState(const std::vector<torch::optim::Optimizer*>& optimizers);
  ~HostState();
  HostState(const HostState&) = delete;
  HostState& operator=(const HostState&) = delete;

 private:
  struct One;
  std::vector<One> all_;
};

}  // namespace tpubridge::step
