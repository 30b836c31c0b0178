// The arithmetic of torch's C++ optimizers that happens on the host, written down once per class.
#include "tpubridge/step/optimizers.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <typeinfo>
#include <unordered_map>

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
  int64_t* (*step)(OptimizerParamState&);   // null where it counts none
  void (*listen)(OptimizerOptions&, bool);  // to set_lr(): begin, end
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

thread_local std::unordered_map<const OptimizerOptions*, OptimizerWatch*> watches;

// Options that notice a learning rate set by a scheduler, and show it the true one. They take the place of
// the user's in their very memory: others may hold references to them.
template <class O>
struct Listening final : O {
  explicit Listening(const O& o) : O(o) {}
  double get_lr() const override {
    const auto it = watches.find(this);
    return it == watches.end() ? this->lr() : it->second->true_value(this->lr());
  }
  void set_lr(const double lr) override {
    if (const auto it = watches.find(this); it != watches.end()) {
      it->second->set_true_values();  // what follows is no longer told by them
      it->second->lr_is_set();
    }
    O::set_lr(lr);
  }
};
template <class O>
void listen(OptimizerOptions& base, bool begin) {
  static_assert(sizeof(Listening<O>) == sizeof(O));
  auto& o = static_cast<O&>(base);
  if (typeid(base) != (begin ? typeid(O) : typeid(Listening<O>))) return;  // a class of the user's own
  const O copy = o;
  std::destroy_at(&o);
  if (begin)
    new (&o) Listening<O>(copy);
  else
    new (&o) O(copy);
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

Options sgd_options(OptimizerOptions& base) {
  auto& o = as<SGDOptions>(base);
  return {&o.lr(), &o.momentum(), &o.dampening(), &o.weight_decay()};
}

// One of these three.
void listen_to_fused(OptimizerOptions& o, bool begin) {
  if (dynamic_cast<AdamOptions*>(&o))
    listen<AdamOptions>(o, begin);
  else if (dynamic_cast<AdamWOptions*>(&o))
    listen<AdamWOptions>(o, begin);
  else if (dynamic_cast<SGDOptions*>(&o))
    listen<SGDOptions>(o, begin);
}

Options options_of_fused(OptimizerOptions& o) {
  if (dynamic_cast<AdamOptions*>(&o)) return adam_options<AdamOptions>(o);
  if (dynamic_cast<AdamWOptions*>(&o)) return adam_options<AdamWOptions>(o);
  return dynamic_cast<SGDOptions*>(&o) ? sgd_options(o) : Options();
}

const Class* class_of(Optimizer& optimizer) {
  static const Class adam{adam_options<AdamOptions>, [](auto& o) { return as<AdamOptions>(o).amsgrad(); },
                          adam_numbers<AdamOptions>, step_of<AdamParamState>, listen<AdamOptions>};
  static const Class adamw{adam_options<AdamWOptions>, [](auto& o) { return as<AdamWOptions>(o).amsgrad(); },
                           adam_numbers<AdamWOptions>, step_of<AdamWParamState>, listen<AdamWOptions>};
  static const Class sgd{sgd_options, [](auto& o) { return as<SGDOptions>(o).nesterov(); },
                         [](auto& base, int64_t) -> Numbers {
                           const auto& o = as<SGDOptions>(base);
                           return {-o.lr(), o.momentum(), 1 - o.dampening(), o.weight_decay()};
                         },
                         nullptr, listen<SGDOptions>};
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
                             step_of<RMSpropParamState>, listen<RMSpropOptions>};
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
                             step_of<AdagradParamState>, listen<AdagradOptions>};
  static const Class fused{options_of_fused, [](auto&) { return false; },
                           [](auto&, int64_t) { return Numbers(); }, nullptr, listen_to_fused};
  if (dynamic_cast<tpubridge::optim::Fused*>(&optimizer)) return &fused;  // tells its numbers itself
  if (dynamic_cast<Adam*>(&optimizer)) return &adam;
  if (dynamic_cast<AdamW*>(&optimizer)) return &adamw;
  if (dynamic_cast<SGD*>(&optimizer)) return &sgd;
  if (dynamic_cast<RMSprop*>(&optimizer)) return &rmsprop;
  if (dynamic_cast<Adagrad*>(&optimizer)) return &adagrad;
  return nullptr;
}

// Which of its group's distinct step counts each parameter has, in the order of the parameters: `of` has one
// entry a parameter, or kNone. What has no state counts only where none has any: what never gets a gradient
// must not look like another state of affairs after the first step.
constexpr uint64_t kNone = ~uint64_t{0};
struct Steps {
  std::vector<int64_t> distinct;
  std::vector<uint64_t> of;
};
Steps steps(Optimizer& optimizer, const Class& c, OptimizerParamGroup& group) {
  Steps out;
  if (!c.step) return {{0}, {}};
  for (const auto& p : group.params()) {
    const auto it = optimizer.state().find(p.unsafeGetTensorImpl());
    if (it == optimizer.state().end()) {
      out.of.push_back(kNone);
      continue;
    }
    const int64_t n = *c.step(*it->second);
    auto place = std::find(out.distinct.begin(), out.distinct.end(), n);
    out.of.push_back(static_cast<uint64_t>(place - out.distinct.begin()));
    if (place == out.distinct.end()) out.distinct.push_back(n);
  }
  if (out.distinct.empty()) {
    out.distinct.push_back(0);
    out.of.assign(out.of.size(), 0);
  }
  return out;
}

}  // namespace

void check_optimizer(Optimizer& optimizer) {
  if (!class_of(optimizer))
    throw ArgumentError("compile() follows the numbers of SGD, Adam, AdamW, RMSprop and Adagrad alone",
                        {{"optimizer", typeid(optimizer).name()}},
                        "Leave its step out of the compiled function.");
}

void next_numbers(Optimizer& optimizer, std::vector<double>& out) {
  const Class& c = *class_of(optimizer);
  for (auto& group : optimizer.param_groups())
    for (int64_t n : steps(optimizer, c, group).distinct)
      for (double v : c.numbers(group.options(), n + 1)) out.push_back(v);
}

void structure(Optimizer& optimizer, std::vector<uint64_t>& out) {
  const Class& c = *class_of(optimizer);
  for (auto& group : optimizer.param_groups()) {
    out.push_back(group.params().size());
    out.push_back(c.flag(group.options()));
    for (const double* o : c.options(group.options())) out.push_back(*o != 0);
    // Only how counts are shared is part of it, and only where they are not all one.
    const Steps s = steps(optimizer, c, group);
    out.push_back(s.distinct.size());
    if (s.distinct.size() > 1) out.insert(out.end(), s.of.begin(), s.of.end());
  }
}

void FollowedOptimizer::count() const {
  const Class& c = *class_of(*optimizer);
  auto& state = optimizer->state();
  for (const auto& k : counted)
    if (const auto it = state.find(k.parameter); it != state.end()) *c.step(*it->second) += k.steps;
}

// Listens to the options of one group while it lives.
struct OptimizerWatch::Group {
  Group(OptimizerOptions& o, const Class& c, OptimizerWatch* w) : options(o), kind(c) {
    kind.listen(options, true);
    watches[&options] = w;
  }
  ~Group() {
    watches.erase(&options);
    kind.listen(options, false);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  OptimizerOptions& options;
  const Class& kind;
};

OptimizerWatch::OptimizerWatch(Optimizer& optimizer, bool perturb, uint64_t round) : optimizer_(optimizer) {
  const Class& c = *class_of(optimizer);
  for (auto& [param, state] : optimizer.state()) steps_.emplace_back(param, c.step ? *c.step(*state) : 0);
  next_numbers(optimizer, plain_);
  perturb &= !plain_.empty();  // one that tells its numbers itself needs none of it
  uint64_t k = round * 0x9E3779B97F4A7C15;
  for (auto& group : optimizer.param_groups()) {
    groups_.push_back(std::make_unique<Group>(group.options(), c, this));
    for (double* o : c.options(group.options())) {
      k = (k ^ (k >> 29)) * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB;
      const double part = std::ldexp(static_cast<double>((k >> 12) | 1), -62);  // below 2^-10
      options_.push_back({o, *o, perturb ? *o * (1 - part) : *o});              // a beta stays below 1
      *o = options_.back().perturbed;
    }
  }
  next_numbers(optimizer, perturbed_);
}

OptimizerWatch::~OptimizerWatch() { (void)end(); }

double OptimizerWatch::true_value(const double& option) const {
  for (const auto& o : options_)
    if (o.place == &option && option == o.perturbed) return o.value;
  return option;
}

void OptimizerWatch::set_true_values() {
  for (auto& o : options_)
    if (*o.place == o.perturbed) *o.place = o.perturbed = o.value;
}

std::optional<const char*> OptimizerWatch::end() {
  if (std::exchange(ended_, true)) return std::nullopt;
  std::optional<const char*> why;
  for (const auto& o : options_) {
    if (*o.place == o.perturbed)
      *o.place = o.value;
    else  // the call set it: that counts
      why = "it changes an option of an optimizer (do that outside of the step)";
  }
  if (lr_was_set_) why = "it sets a learning rate (step the scheduler outside of the step)";
  groups_.clear();
  return why;
}

FollowedOptimizer OptimizerWatch::followed() const {
  const Class& c = *class_of(optimizer_);
  FollowedOptimizer f{&optimizer_, {}, plain_, perturbed_};
  if (!c.step) return f;
  for (const auto& [param, before] : steps_)
    if (const auto it = optimizer_.state().find(param); it != optimizer_.state().end())
      if (const int64_t more = *c.step(*it->second) - before; more != 0) f.counted.push_back({param, more});
  return f;
}

void OptimizerWatch::undo() {
  if (dynamic_cast<tpubridge::optim::Fused*>(&optimizer_)) return;  // it undoes what it made itself
  const Class& c = *class_of(optimizer_);
  auto& state = optimizer_.state();
  for (auto it = state.begin(); it != state.end();) {
    const auto before =
        std::find_if(steps_.begin(), steps_.end(), [&](const auto& s) { return s.first == it->first; });
    if (before == steps_.end()) {
      it = state.erase(it);
      continue;
    }
    if (c.step) *c.step(*it->second) = before->second;
    ++it;
  }
}

}  // namespace tpubridge::step
