// Optimizers of the device: one op for all parameters of a group, step counts that live on the device, f32
// masters for bf16 and f16 parameters. The values are torch's.
//
//   tpubridge::optim::AdamW opt(model->parameters(), 3e-4);
//   opt.set_schedule(tpubridge::optim::warmup_cosine(100, 10000));
//   …
//   opt.zero_grad(); loss.backward(); opt.step();
//
// They are torch::optim::Optimizers with torch's own options and groups: torch's schedulers, torch::save and
// torch::load work, and archives of torch's class of the same name can be read (and the other way round).
// Inside tpubridge::compile() they need no naming: options (learning rate, betas, decay, …) are read anew at
// every call, replayed ones too.
#pragma once

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tpubridge::optim {

using torch::optim::AdamOptions;
using torch::optim::AdamWOptions;
using torch::optim::OptimizerParamGroup;
using torch::optim::SGDOptions;

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// From the number of steps done (a tensor of one f32, 0 at the first step) to the factor of the learning
// rate: computed on the device, so it advances in replayed calls without any code of the host.
using Schedule = std::function<at::Tensor(const at::Tensor& steps)>;
// Up to 1 in `warmup` steps, then down to `last` along a cosine (or a line) until step `total`.
[[nodiscard]] Schedule warmup_cosine(int64_t warmup, int64_t total, double last = 0);
[[nodiscard]] Schedule warmup_linear(int64_t warmup, int64_t total, double last = 0);

enum class Masters {
  keep,  // a bf16 or f16 parameter has an f32 copy here; the step changes that and rounds it (the default)
  none,  // the parameter itself is all there is, as in torch
};

class Fused : public torch::optim::Optimizer {
 public:
  ~Fused() override;
  Fused(const Fused&) = delete;
  Fused(Fused&&) = delete;
  Fused& operator=(const Fused&) = delete;
  Fused& operator=(Fused&&) = delete;

  at::Tensor step(LossClosure closure = nullptr) override;
  void set_lr(double lr);                // of every group; counts from the next step on
  void set_schedule(Schedule schedule);  // times the learning rate of every group; an empty one: none

  // Everything that a checkpoint needs besides parameters and options, by names like "state.3.exp_avg": the
  // parameter's place among all groups, then torch's name for it.
  [[nodiscard]] NamedTensors named_state() const;
  // Takes up what named_state() gave, from any device. Throws ArgumentError, and changes nothing, where a
  // name is missing or unknown, or a size is wrong.
  void load_named_state(const NamedTensors& tensors);

  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 protected:
  enum class Kind { sgd, adam, adamw };
  Fused(Kind kind, const std::vector<OptimizerParamGroup>& groups,
        std::unique_ptr<torch::optim::OptimizerOptions> defaults, Masters masters);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class SGD final : public Fused {
 public:
  SGD(const std::vector<OptimizerParamGroup>& groups, SGDOptions defaults, Masters masters = Masters::keep);
  SGD(std::vector<at::Tensor> parameters, SGDOptions defaults, Masters masters = Masters::keep)
      : SGD({OptimizerParamGroup(std::move(parameters))}, std::move(defaults), masters) {}
};

class Adam final : public Fused {
 public:
  explicit Adam(const std::vector<OptimizerParamGroup>& groups, AdamOptions defaults = {},
                Masters masters = Masters::keep);
  explicit Adam(std::vector<at::Tensor> parameters, AdamOptions defaults = {},
                Masters masters = Masters::keep)
      : Adam({OptimizerParamGroup(std::move(parameters))}, std::move(defaults), masters) {}
};

class AdamW final : public Fused {
 public:
  explicit AdamW(const std::vector<OptimizerParamGroup>& groups, AdamWOptions defaults = {},
                 Masters masters = Masters::keep);
  explicit AdamW(std::vector<at::Tensor> parameters, AdamWOptions defaults = {},
                 Masters masters = Masters::keep)
      : AdamW({OptimizerParamGroup(std::move(parameters))}, std::move(defaults), masters) {}
};

}  // namespace tpubridge::optim
