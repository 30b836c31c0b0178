// The numbers that torch's optimizers work out on the host at every step: what they will be in the next one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace tpubridge::step {

// Throws ArgumentError for an optimizer whose numbers are not known.
void check_optimizer(torch::optim::Optimizer& optimizer);
// The numbers of the next step, group by group, in a fixed order.
void next_numbers(torch::optim::Optimizer& optimizer, std::vector<double>& out);
// What decides which ops a step has: options that are zero or not, flags, which parameters have counted the
// same steps.
void structure(torch::optim::Optimizer& optimizer, std::vector<uint64_t>& out);

// A named optimizer in a recorded call: what the call did to it on the host.
struct FollowedOptimizer {
  torch::optim::Optimizer* optimizer = nullptr;
  struct Counted {
    void* parameter;
    int64_t steps;  // how many the call added
  };
  std::vector<Counted> counted;
  std::vector<double> plain, perturbed;  // its numbers, by the true options and by those of the recording

  void count() const;  // what a replayed call adds
};

// An optimizer while a call is recorded. With `perturb` its options differ from the true ones by up to a
// part in a thousand, another one for each option and each time: a number of the trace that is the
// optimizer's own arithmetic over them is one of its numbers, and one that is as it was is not. The program
// runs with the true ones.
class OptimizerWatch {
 public:
  OptimizerWatch(torch::optim::Optimizer& optimizer, bool perturb, uint64_t round);
  ~OptimizerWatch();
  OptimizerWatch(const OptimizerWatch&) = delete;
  OptimizerWatch& operator=(const OptimizerWatch&) = delete;

  [[nodiscard]] torch::optim::Optimizer& optimizer() const { return optimizer_; }
  // When the call has run: options are the true ones again. Says why the call cannot be replayed where it
  // changed them.
  std::optional<const char*> end();
  [[nodiscard]] bool has_numbers() const { return !plain_.empty(); }  // else it tells them itself
  [[nodiscard]] FollowedOptimizer followed() const;
  void undo();  // counts and state as before the call; after end()

  // For schedulers inside the call.
  [[nodiscard]] double true_value(const double& option) const;
  void set_true_values();  // those that stand as they were perturbed
  void lr_is_set() { lr_was_set_ = true; }
  [[nodiscard]] bool lr_was_set() const { return lr_was_set_; }

 private:
  struct Option {
    double* place;
    double value, perturbed;
  };
  struct Group;
  torch::optim::Optimizer& optimizer_;
  std::vector<Option> options_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<std::pair<void*, int64_t>> steps_;  // of the state that was there
  std::vector<double> plain_, perturbed_;
  bool ended_ = false, lr_was_set_ = false;
};

}  // namespace tpubridge::step
