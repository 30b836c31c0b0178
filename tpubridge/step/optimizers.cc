// The arithmetic of torch's C++ optimizers that happens on the host, written down once per class.
#include "tpubridge/step/optimizers.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cmath>

#include "tpubridge/base/errors.h"
#include "tpubridge/optim/optim.h"

namespace tpubridge::step {
namespace {

using namespace torch::optim;
using Numbers = std::vector<double>;
using Options = std::vector<double*>;

// What is known of one class: its options that enter numbers, its flags, its numbers at a step, its step
// count.
struct Class {
  Options (*options)(OptimizerOptions&);
  bool (*flag)(const OptimizerOptions&);
  Numbers (*numbers)(const OptimizerOptions&, int64_t step);
  int64_t* (*step)(OptimizerParamState&);  // null where it counts none
};

template <class O>
O& as(OptimizerOptions& o) {
  return static_cast<O&>(o);
}
template <class O>
const O& as(const OptimizerOptions& o) {
  return static_cast<const O&>(o);
}
template <class S>
int64_t* step_of(OptimizerParamState& s) {
  return &static_cast<S&>(s).step();
}

template <class O>
Options adam_options(OptimizerOptions& base) {
  auto& o = as<O>(base);
  return {&o.lr(), &std::get<0>(o.betas()), &std::get<1>(o.betas()), &o.eps(), &o.weight_decay()};
}
template <class O>
Numbers adam_numbers(const OptimizerOptions& base, int64_t step) {
  const auto& o = as<O>(base);
  const double b1 = std::get<0>(o.betas()), b2 = std::get<1>(o.betas());
  const double c1 = 1 - std::pow(b1, step), c2 = 1 - std::pow(b2, step);
  return {b1,
          1 - b1,
          b2,
          1 - b2,
          std::sqrt(c2),
          -(o.lr() / c1),
          o.weight_decay(),
          o.eps(),
          1 - o.lr() * o.weight_decay()};
}

const Class* class_of(Optimizer& optimizer) {
  static const Class adam{adam_options<AdamOptions>, [](auto& o) { return as<AdamOptions>(o).amsgrad(); },
                          adam_numbers<AdamOptions>, step_of<AdamParamState>};
  static const Class adamw{adam_options<AdamWOptions>, [](auto& o) { return as<AdamWOptions>(o).amsgrad(); },
                           adam_numbers<AdamWOptions>, step_of<AdamWParamState>};
  static const Class sgd{[](auto& base) -> Options {
                           auto& o = as<SGDOptions>(base);
                           return {&o.lr(), &o.momentum(), &o.dampening(), &o.weight_decay()};
                         },
                         [](auto& o) { return as<SGDOptions>(o).nesterov(); },
                         [](auto& base, int64_t) -> Numbers {
                           const auto& o = as<SGDOptions>(base);
                           return {-o.lr(), o.momentum(), 1 - o.dampening(), o.weight_decay()};
                         },
                         nullptr};
  static const Class rmsprop{[](auto& base) -> Options {
                               auto& o = as<RMSpropOptions>(base);
                               return {&o.lr(), &o.alpha(), &o.eps(), &o.weight_decay(), &o.momentum()};
                             },
                             [](auto& o) { return as<RMSpropOptions>(o).centered(); },
                             [](auto& base, int64_t) -> Numbers {
                               const auto& o = as<RMSpropOptions>(base);
                               return {-o.lr(), o.alpha(),        1 - o.alpha(),
                                       o.eps(), o.weight_decay(), o.momentum()};
                             },
                             step_of<RMSpropParamState>};
  static const Class adagrad{[](auto& base) -> Options {
                               auto& o = as<AdagradOptions>(base);
                               return {&o.lr(), &o.lr_decay(), &o.weight_decay(), &o.eps()};
                             },
                             [](auto&) { return false; },
                             [](auto& base, int64_t step) -> Numbers {
                               const auto& o = as<AdagradOptions>(base);
                               const double lr = o.lr() / (1 + static_cast<double>(step - 1) * o.lr_decay());
                               return {-lr, o.weight_decay(), o.eps()};
                             },
                             step_of<AdagradParamState>};
  static const Class fused{[](auto&) { return Options(); }, [](auto&) { return false; },
                           [](auto&, int64_t) { return Numbers(); }, nullptr};
  if (dynamic_cast<tpubridge::optim::Fused*>(&optimizer)) return &fused;  // tells its numbers itself
  if (dynamic_cast<Adam*>(&optimizer)) return &adam;
  if (dynamic_cast<AdamW*>(&optimizer)) return &adamw;
  if (dynamic_cast<SGD*>(&optimizer)) return &sgd;
  if (dynamic_cast<RMSprop*>(&optimizer)) return &rmsprop;
  if (dynamic_cast<Adagrad*>(&optimizer)) return &adagrad;
  return nullptr;
}

// The distinct step counts of a group's parameters, in the order of the parameters. One without state counts
// only where none has any: what never gets a gradient must not look like another state of affairs after the
// first step.
std::vector<int64_t> steps(Optimizer& optimizer, const Class& c, OptimizerParamGroup& group) {
  std::vector<int64_t> out;
  if (!c.step) return {0};
  for (const auto& p : group.params()) {
    const auto it = optimizer.state().find(p.unsafeGetTensorImpl());
    if (it == optimizer.state().end()) continue;
    const int64_t n = *c.step(*it->second);
    if (std::find(out.begin(), out.end(), n) == out.end()) out.push_back(n);
  }
  if (out.empty()) out.push_back(0);
  return out;
}

}  // namespace

void check_optimizer(Optimizer& optimizer) {
  if (!class_of(optimizer))
    throw ArgumentError("compile() follows the numbers of SGD, Adam, AdamW, RMSprop and Adagrad alone",
                        {{"optimizer", typeid(optimizer).name()}},
                        "Leave its step out of the compiled function.");
}

std::vector<double> next_numbers(Optimizer& optimizer) {
  const Class& c = *class_of(optimizer);
  std::vector<double> out;
  for (auto& group : optimizer.param_groups())
    for (int64_t n : steps(optimizer, c, group))
      for (double v : c.numbers(group.options(), n + 1)) out.push_back(v);
  return out;
}

void count_step(Optimizer& optimizer) {
  const Class& c = *class_of(optimizer);
  if (!c.step) return;
  for (auto& [param, state] : optimizer.state()) ++*c.step(*state);
}

std::vector<uint64_t> structure(Optimizer& optimizer) {
  const Class& c = *class_of(optimizer);
  std::vector<uint64_t> out;
  for (auto& group : optimizer.param_groups()) {
    uint64_t word = c.flag(group.options());
    for (const double* o : c.options(group.options())) word = (word << 1) | (*o != 0);
    out.push_back((word << 32) | group.params().size());
    out.push_back(steps(optimizer, c, group).size());
  }
  return out;
}

PerturbedOptions::PerturbedOptions(Optimizer& optimizer, uint64_t round) {
  const Class& c = *class_of(optimizer);
  uint64_t k = round * 131;
  for (auto& group : optimizer.param_groups()) {
    for (double* o : c.options(group.options())) {
      options_.push_back({o, *o});
      *o *= 1 + std::ldexp(static_cast<double>(++k % 997 + 1), -44);
    }
  }
}

PerturbedOptions::~PerturbedOptions() {
  for (const auto& o : options_) *o.place = o.value;
}

struct HostState::One {
  Optimizer* optimizer;
  std::unordered_map<void*, int64_t> steps;
  std::vector<at::Tensor> without_gradient;
};

HostState::HostState(const std::vector<Optimizer*>& optimizers) {
  for (auto* o : optimizers) {
    const Class& c = *class_of(*o);
    One one{o, {}, {}};
    for (auto& [param, state] : o->state()) one.steps[param] = c.step ? *c.step(*state) : 0;
    for (auto& group : o->param_groups())
      for (const auto& p : group.params())
        if (!p.grad().defined()) one.without_gradient.push_back(p);
    all_.push_back(std::move(one));
  }
}

HostState::~HostState() {
  for (One& one : all_) {
    const Class& c = *class_of(*one.optimizer);
    for (auto& p : one.without_gradient) p.mutable_grad() = at::Tensor();
    if (dynamic_cast<tpubridge::optim::Fused*>(one.optimizer)) continue;  // all of its state is on the device
    auto& state = one.optimizer->state();
    for (auto it = state.begin(); it != state.end();) {
      const auto before = one.steps.find(it->first);
      if (before == one.steps.end()) {
        it = state.erase(it);
        continue;
      }
      if (c.step) *c.step(*it->second) = before->second;
      ++it;
    }
  }
}

}  // namespace tpubridge::step
