// Optimizers while a call is recorded: the steps that they take, what those do on the host, and which numbers
// of the trace are theirs.
//
// A number is an optimizer's if it enters the trace while that optimizer steps. Which one it is shows
// because the options differ from the true ones for the time of step(), by up to a part in a thousand,
// another one for each option and each step: the optimizer's own arithmetic over them gives the number. It is
// set to what the true options give before anything is computed with it.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "tpubridge/step/optimizers.h"
#include "tpubridge/trace/node.h"

namespace tpubridge::step {

// A step of an optimizer in a recorded call.
struct FollowedStep {
  torch::optim::Optimizer* optimizer = nullptr;
  int64_t ahead = 0;                     // steps of the same one before it in the call
  std::vector<double> plain, perturbed;  // its numbers, by the true options and by those of the recording
  struct Counted {
    void* parameter;
    int64_t steps;  // how many the call added
  };
  std::vector<Counted> counted = {};  // at the first of its steps

  void count() const;  // what a replayed call adds
};

// The options of an optimizer when a call was recorded. The function may use them by itself, which shows
// where a call with another value has another number somewhere; one that `varies` was seen not to.
struct OptionsSeen {
  torch::optim::Optimizer* optimizer = nullptr;
  std::vector<double> values;
  std::vector<bool> varies;
  std::optional<std::weak_ptr<bool>> life = {};  // of one that nobody promised would live on

  [[nodiscard]] bool gone() const { return life && life->expired(); }
  [[nodiscard]] bool hold() const;  // of one that is not gone
  // Of two recorded calls that were alike: what the later one learns.
  void learn(const OptionsSeen& before);
};

class OptimizerWatch;

// All of a call.
class OptimizerWatches {
 public:
  OptimizerWatches();
  ~OptimizerWatches();
  OptimizerWatches(const OptimizerWatches&) = delete;
  OptimizerWatches& operator=(const OptimizerWatches&) = delete;

  // Once each. `life`: of one that may die before the next call. Says why a call cannot be replayed that it
  // is part of, where that is so.
  std::string follow(torch::optim::Optimizer& optimizer, uint64_t seed,
                     const std::optional<std::weak_ptr<bool>>& life);
  [[nodiscard]] bool empty() const { return watches_.empty(); }
  // A number became an input of the trace. Throws UnsupportedError for one that the stepping optimizer
  // should not have.
  void made(const trace::Value& number);
  [[nodiscard]] bool steps() const { return current_ != nullptr; }  // one of them, at the moment
  // Which of the numbers of all steps, in a row, this one is.
  [[nodiscard]] std::optional<size_t> number_of(const trace::Node* number) const;
  // When the call has run. Says why it cannot be replayed, where that is so.
  [[nodiscard]] std::string end();
  [[nodiscard]] std::vector<FollowedStep> followed() const;
  [[nodiscard]] std::vector<OptionsSeen> options() const;
  void undo();  // counts and state as before the call; after end()

 private:
  friend class OptimizerWatch;
  std::list<OptimizerWatch> watches_;
  std::deque<FollowedStep> steps_;
  FollowedStep* current_ = nullptr;
  std::vector<double> first_plain_, first_perturbed_;  // of the same step: see first_numbers()
  std::unordered_map<const trace::Node*, size_t> found_;
  std::vector<trace::Value> held_;  // addresses are not used again
};

// Whether a number of the trace is this one, as far as the arithmetic of two compilers can tell.
[[nodiscard]] bool same_number(double a, double b);

}  // namespace tpubridge::step
