// The arithmetic of torch's C++ optimizers that happens on the host, written down once per class.
#include "tpubridge/step/optimizers.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <cstring>
#include <typeinfo>

#include "tpubridge/device/storage.h"
#include "tpubridge/optim/optim.h"
#include "tpubridge/step/memory.h"

namespace tpubridge::step {
namespace {

using namespace torch::optim;
using Numbers = std::vector<double>;
using Options = std::vector<double*>;

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

void note(std::vector<uint64_t>& out, std::initializer_list<const at::Tensor*> tensors) {
  for (const auto* t : tensors) out.push_back(reinterpret_cast<uint64_t>(t->unsafeGetTensorImpl()));
}
template <class S>
void moments_of(const OptimizerParamState& base, std::vector<uint64_t>& out) {
  const auto& s = static_cast<const S&>(base);
  note(out, {&s.exp_avg(), &s.exp_avg_sq(), &s.max_exp_avg_sq()});
}

// Options that notice a learning rate set by a scheduler. They take the place of the user's in their very
// memory: others may hold references to them.
template <class O>
struct Listening final : O {
  explicit Listening(const O& o) : O(o) {}
  void set_lr(const double lr) override {
    lr_is_set(*this);
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

// State that the first step makes in another way than the later ones: made before it as they need it, so that
// the first step is the same program. Most make zeros, as Adam does.
void make_first_state(Optimizer&) {}

// Momentum begins as a copy of the gradient, which is what it becomes from zeros, too.
void make_first_state(SGD& optimizer) {
  const at::NoGradGuard quiet;
  for (auto& group : optimizer.param_groups()) {
    const auto& o = as<SGDOptions>(group.options());
    if (o.momentum() == 0 || o.dampening() != 0) continue;
    for (const auto& p : group.params()) {
      if (!device::is_tpu(p.grad()) || optimizer.state().count(p.unsafeGetTensorImpl()) != 0) continue;
      auto state = std::make_unique<SGDParamState>();
      state->momentum_buffer(at::zeros_like(p.grad()));
      optimizer.state()[p.unsafeGetTensorImpl()] = std::move(state);
    }
  }
}

// An optimizer whose step() tells that it begins and ends. The user's own object becomes one for a while: it
// gets this class's table of functions.
template <class O>
struct Stepping final : O {
  using O::O;
  at::Tensor step(Optimizer::LossClosure closure) override {
    return watched_step(*this, closure, [this](const LossClosure& c) {
      if (!c) {
        make_first_state(*this);
        return O::step(c);
      }
      return O::step([&] {
        at::Tensor loss = c();
        make_first_state(*this);
        return loss;
      });
    });
  }
};
template <class O, class OptionsOf>
uint64_t table_of() {
  static const uint64_t table = [] {
    const O one(std::vector<OptimizerParamGroup>(), OptionsOf(0.1));
    return first_word(&one);
  }();
  return table;
}
template <class O, class OptionsOf>
void watch(Optimizer& optimizer, bool begin) {
  static_assert(sizeof(Stepping<O>) == sizeof(O));
  if (typeid(optimizer) != (begin ? typeid(O) : typeid(Stepping<O>))) return;
  const uint64_t table = begin ? table_of<Stepping<O>, OptionsOf>() : table_of<O, OptionsOf>();
  std::memcpy(static_cast<void*>(&optimizer), &table, sizeof table);
}
void watch_none(Optimizer&, bool) {}

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

template <class O>
bool is(const Optimizer& o) {
  return typeid(o) == typeid(O) || typeid(o) == typeid(Stepping<O>);
}

// The tables of functions of an optimizer and of its options.
struct Tables {
  uint64_t itself, options;
};
template <class O, class OptionsOf>
Tables tables_of() {
  const OptionsOf options(0.1);
  return {table_of<O, OptionsOf>(), first_word(&options)};
}

// Whether what looks like an optimizer is one: its groups have options of its kind. Those of one that was
// destroyed are gone, though its own memory may look as it did.
bool lives(uint64_t at, const Tables& tables) {
  static_assert(sizeof(OptimizerParamGroup) == 4 * kWord);  // a vector, and a pointer to the options
  uint64_t groups[2];
  if (!read_memory(at + kWord, groups, sizeof groups) || groups[0] >= groups[1] || groups[0] % kWord != 0 ||
      groups[1] - groups[0] > (1 << 20))
    return false;
  for (uint64_t g = groups[0]; g < groups[1]; g += sizeof(OptimizerParamGroup)) {
    uint64_t options = 0, table = 0;
    if (!read_memory(g + 3 * kWord, &options, kWord) || !read_memory(options, &table, kWord) ||
        table != tables.options)
      return false;
  }
  return true;
}

// Which of its group's distinct step counts each parameter has, in the order of the parameters: `of` has one
// entry a parameter, or kNone. What has no state counts only where none has any: what never gets a gradient
// must not look like another state of affairs after the first step.
constexpr uint64_t kNone = ~uint64_t{0};
struct Steps {
  std::vector<int64_t> distinct;
  std::vector<uint64_t> of;
};
Steps steps(Optimizer& optimizer, const OptimizerClass& c, OptimizerParamGroup& group) {
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

const OptimizerClass* class_of(Optimizer& optimizer) {
  static const OptimizerClass adam{
      adam_options<AdamOptions>,  [](auto& o) { return as<AdamOptions>(o).amsgrad(); },
      adam_numbers<AdamOptions>,  step_of<AdamParamState>,
      moments_of<AdamParamState>, listen<AdamOptions>,
      watch<Adam, AdamOptions>};
  static const OptimizerClass adamw{
      adam_options<AdamWOptions>,  [](auto& o) { return as<AdamWOptions>(o).amsgrad(); },
      adam_numbers<AdamWOptions>,  step_of<AdamWParamState>,
      moments_of<AdamWParamState>, listen<AdamWOptions>,
      watch<AdamW, AdamWOptions>};
  static const OptimizerClass sgd{
      sgd_options,
      [](auto& o) { return as<SGDOptions>(o).nesterov(); },
      [](auto& base, int64_t) -> Numbers {
        const auto& o = as<SGDOptions>(base);
        return {-o.lr(), o.momentum(), 1 - o.dampening(), o.weight_decay()};
      },
      nullptr,
      [](auto& s, auto& out) { note(out, {&static_cast<const SGDParamState&>(s).momentum_buffer()}); },
      listen<SGDOptions>,
      watch<SGD, SGDOptions>};
  static const OptimizerClass rmsprop{
      [](auto& base) -> Options {
        auto& o = as<RMSpropOptions>(base);
        return {&o.lr(), &o.alpha(), &o.eps(), &o.weight_decay(), &o.momentum()};
      },
      [](auto& o) { return as<RMSpropOptions>(o).centered(); },
      [](auto& base, int64_t) -> Numbers {
        const auto& o = as<RMSpropOptions>(base);
        return {-o.lr(), o.alpha(), 1 - o.alpha(), o.eps(), o.weight_decay(), o.momentum()};
      },
      step_of<RMSpropParamState>,
      [](auto& base, auto& out) {
        const auto& s = static_cast<const RMSpropParamState&>(base);
        note(out, {&s.square_avg(), &s.momentum_buffer(), &s.grad_avg()});
      },
      listen<RMSpropOptions>,
      watch<RMSprop, RMSpropOptions>};
  static const OptimizerClass adagrad{
      [](auto& base) -> Options {
        auto& o = as<AdagradOptions>(base);
        return {&o.lr(), &o.lr_decay(), &o.weight_decay(), &o.eps()};
      },
      [](auto&) { return false; },
      [](auto& base, int64_t step) -> Numbers {
        const auto& o = as<AdagradOptions>(base);
        const double lr = o.lr() / (1 + static_cast<double>(step - 1) * o.lr_decay());
        return {-lr, o.weight_decay(), o.eps()};
      },
      step_of<AdagradParamState>,
      [](auto& s, auto& out) { note(out, {&static_cast<const AdagradParamState&>(s).sum()}); },
      listen<AdagradOptions>,
      watch<Adagrad, AdagradOptions>};
  static const OptimizerClass fused{options_of_fused,
                                    [](auto&) { return false; },
                                    [](auto&, int64_t) { return Numbers(); },
                                    nullptr,
                                    nullptr,
                                    listen_to_fused,
                                    watch_none};
  if (dynamic_cast<tpubridge::optim::Fused*>(&optimizer)) return &fused;  // tells its numbers itself
  if (is<Adam>(optimizer)) return &adam;
  if (is<AdamW>(optimizer)) return &adamw;
  if (is<SGD>(optimizer)) return &sgd;
  if (is<RMSprop>(optimizer)) return &rmsprop;
  if (is<Adagrad>(optimizer)) return &adagrad;
  return nullptr;
}

std::vector<Optimizer*> captured_optimizers(const Closure& closure) {
  static const std::vector<Tables> all = {tables_of<Adam, AdamOptions>(), tables_of<AdamW, AdamWOptions>(),
                                          tables_of<SGD, SGDOptions>(), tables_of<RMSprop, RMSpropOptions>(),
                                          tables_of<Adagrad, AdagradOptions>()};
  std::vector<Optimizer*> out;
  std::vector<uint64_t> places = closure.words();
  for (const Range& r : few_globals())
    for (uintptr_t at = r.begin; at < r.end; at += kWord) places.push_back(at);
  for (uint64_t at : places)
    for (int hops = 0; hops < 2; ++hops) {
      uint64_t first = 0;
      if (at % kWord != 0 || !read_memory(at, &first, kWord)) break;
      const auto t = std::find_if(all.begin(), all.end(), [&](const Tables& x) { return x.itself == first; });
      if (t != all.end()) {
        auto* const found = reinterpret_cast<Optimizer*>(at);  // NOLINT(performance-no-int-to-ptr)
        if (lives(at, *t) && std::find(out.begin(), out.end(), found) == out.end()) out.push_back(found);
        break;
      }
      at = first;
    }
  return out;
}

void next_numbers(Optimizer& optimizer, int64_t ahead, std::vector<double>& out) {
  const OptimizerClass& c = *class_of(optimizer);
  for (auto& group : optimizer.param_groups())
    for (int64_t n : steps(optimizer, c, group).distinct)
      for (double v : c.numbers(group.options(), n + 1 + ahead)) out.push_back(v);
}

void first_numbers(Optimizer& optimizer, std::vector<double>& out) {
  const OptimizerClass& c = *class_of(optimizer);
  for (auto& group : optimizer.param_groups())
    for (double v : c.numbers(group.options(), 1)) out.push_back(v);
}

void option_values(Optimizer& optimizer, std::vector<double>& out) {
  const OptimizerClass& c = *class_of(optimizer);
  for (auto& group : optimizer.param_groups())
    for (const double* o : c.options(group.options())) out.push_back(*o);
}

void structure(Optimizer& optimizer, std::vector<uint64_t>& out) {
  const OptimizerClass* known = class_of(optimizer);
  out.push_back(reinterpret_cast<uint64_t>(known));  // another kind may stand in the same place
  for (auto& group : optimizer.param_groups()) {
    out.push_back(group.params().size());
    if (!known) continue;
    const OptimizerClass& c = *known;
    out.push_back(c.flag(group.options()));
    for (const double* o : c.options(group.options())) out.push_back(*o != 0);
    // Only how counts are shared is part of it, and only where they are not all one.
    const Steps s = steps(optimizer, c, group);
    out.push_back(s.distinct.size());
    if (s.distinct.size() > 1) out.insert(out.end(), s.of.begin(), s.of.end());
  }
}

void tensors_of(Optimizer& optimizer, std::vector<uint64_t>& out) {
  const OptimizerClass* c = class_of(optimizer);
  for (auto& group : optimizer.param_groups())
    for (const auto& p : group.params()) {
      note(out, {&p});
      if (!c || !c->tensors) continue;
      const auto state = optimizer.state().find(p.unsafeGetTensorImpl());
      if (state != optimizer.state().end()) c->tensors(*state->second, out);
    }
}

}  // namespace tpubridge::step
