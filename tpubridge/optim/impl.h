// The inside of the fused optimizers.
#pragma once

#include "tpubridge/device/fused_optimizer.h"
#include "tpubridge/optim/optim.h"
#include "tpubridge/optim/state.h"

namespace tpubridge::optim {

// The options of all three classes; what a class has not is 0.
struct Settings {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0, momentum = 0, dampening = 0;
  bool amsgrad = false, nesterov = false;
};

struct Fused::Impl {
  Fused& owner;
  Kind kind;
  Masters masters;
  Schedule schedule = nullptr;
  at::Tensor steps = {};  // done so far, on the device; where a schedule asks
  // Another number where tensors of the state, or the schedule, are others than before.
  uint64_t layout = 0, layouts = 0;
  void is_other() { layout = ++layouts; }
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);  // a replayed call may outlive the optimizer

  // State, made where it is missing. New ones of one call share the count `newborn`.
  State& state_of(const at::Tensor& parameter, size_t group, at::Tensor& newborn);
  void forget_if_undone(const at::Tensor& parameter, const State& state);
  [[nodiscard]] static at::Tensor zero(const at::Tensor& beside);  // one f32 on that tensor's device
  [[nodiscard]] State* find(const at::Tensor& parameter) const;
  void prepare();  // state of every parameter that is on the device and wants a gradient
  [[nodiscard]] std::vector<const char*> moments(size_t group) const;
  [[nodiscard]] bool wants_master(const at::Tensor& parameter) const;

  // One step, in three parts: who takes part, their counts, the arithmetic.
  struct Member {
    at::Tensor parameter;
    State* state;
  };
  using Members = std::vector<std::vector<Member>>;  // of each group
  [[nodiscard]] Members members();
  void advance(const Members& members);
  void update(size_t group, const std::vector<Member>& members, const at::Tensor& factor);
  [[nodiscard]] uint64_t structure(size_t group) const;  // options that decide about the ops
  [[nodiscard]] Settings settings(size_t group) const;
  // An option as a number that replayed calls ask for again.
  [[nodiscard]] device::HostNumber option(size_t group, double Settings::*which) const;

  void take_up_loaded();  // what an archive gave: to the parameter's device and type
  void set_counts(const std::vector<std::pair<Member, double>>& counts);
};

}  // namespace tpubridge::optim
