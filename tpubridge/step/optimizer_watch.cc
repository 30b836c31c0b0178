#include "tpubridge/step/optimizer_watch.h"

#include <torch/optim/optimizer.h>

#include <cmath>
#include <typeinfo>

#include "tpubridge/base/errors.h"
#include "tpubridge/optim/optim.h"
#include "tpubridge/step/memory.h"

namespace tpubridge::step {

using torch::optim::Optimizer;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamState;

namespace {

constexpr const char* kChanges = "it changes an option of an optimizer (do that outside of the step)";

thread_local std::unordered_map<const void*, OptimizerWatch*> watching;  // by optimizer, and by its options

OptimizerWatch* watch_of(const void* what) {
  const auto it = watching.find(what);
  return it == watching.end() ? nullptr : it->second;
}
}  // namespace

class OptimizerWatch {
 public:
  OptimizerWatch(OptimizerWatches& all, Optimizer& optimizer, uint64_t seed,
                 std::optional<std::weak_ptr<bool>> life);
  ~OptimizerWatch() { end(); }
  OptimizerWatch(const OptimizerWatch&) = delete;
  OptimizerWatch& operator=(const OptimizerWatch&) = delete;

  at::Tensor step(const LossClosure& closure, const std::function<at::Tensor(const LossClosure&)>& step);
  std::string end();
  void undo();
  [[nodiscard]] std::vector<FollowedStep::Counted> counted() const;
  [[nodiscard]] std::optional<OptionsSeen> seen() const;
  [[nodiscard]] const std::string& why() const { return why_; }

  Optimizer& optimizer;
  bool lr_was_set = false;

 private:
  struct Option {
    double* place;
    double value;  // when the call began
  };
  class Perturbed;
  [[nodiscard]] bool in_place() const;
  [[nodiscard]] bool options_hold() const;
  [[nodiscard]] bool counts_hold(int64_t steps) const;

  OptimizerWatches& all_;
  const OptimizerClass* class_;
  uint64_t seed_;
  size_t groups_;
  std::vector<OptimizerOptions*> listened_;
  std::vector<Option> options_;
  std::unordered_map<void*, std::unique_ptr<OptimizerParamState>> state_;  // as it was
  int64_t steps_ = 0;
  uint64_t table_ = 0;  // of the functions of an optimizer that is watched
  bool ended_ = false, died_ = false;
  std::optional<std::weak_ptr<bool>> life_;
  std::string why_;
};

// While it lives, options are not the true ones, and numbers are this step's.
class OptimizerWatch::Perturbed {
 public:
  Perturbed(OptimizerWatch& w, FollowedStep& step) : w_(w), step_(step) { begin(); }
  ~Perturbed() { end(); }
  Perturbed(const Perturbed&) = delete;
  Perturbed& operator=(const Perturbed&) = delete;

  void begin() {
    if (!w_.options_hold()) w_.why_ = kChanges;
    if (!w_.in_place()) return;
    step_.plain.clear();
    step_.perturbed.clear();
    next_numbers(w_.optimizer, 0, step_.plain);
    w_.all_.first_plain_.clear();
    w_.all_.first_perturbed_.clear();
    first_numbers(w_.optimizer, w_.all_.first_plain_);
    uint64_t& k = w_.seed_;
    for (auto& o : w_.options_) {
      k = (k ^ (k >> 29)) * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB;
      const double part = std::ldexp(static_cast<double>((k >> 12) | 1), -62);  // below 2^-10
      true_.push_back(*o.place);
      *o.place *= 1 - part;  // a beta stays below 1
    }
    next_numbers(w_.optimizer, 0, step_.perturbed);
    first_numbers(w_.optimizer, w_.all_.first_perturbed_);
    w_.all_.current_ = &step_;
  }
  void end() {
    w_.all_.current_ = nullptr;
    for (size_t i = 0; i < true_.size(); ++i) *w_.options_[i].place = true_[i];
    true_.clear();
  }

 private:
  OptimizerWatch& w_;
  FollowedStep& step_;
  std::vector<double> true_;
};

OptimizerWatch::OptimizerWatch(OptimizerWatches& all, Optimizer& o, uint64_t seed,
                               std::optional<std::weak_ptr<bool>> life)
    : optimizer(o),
      all_(all),
      class_(class_of(o)),
      seed_(seed * 0x9E3779B97F4A7C15 + 1),
      groups_(o.param_groups().size()),
      life_(std::move(life)) {
  for (const auto& [param, state] : o.state()) state_[param] = state->clone();
  if (!class_) {
    why_ = "the numbers of an optimizer of its class are not known: " + c10::demangle(typeid(o).name());
    return;
  }
  for (auto& group : o.param_groups()) {
    class_->listen(group.options(), true);
    listened_.push_back(&group.options());
    watching[&group.options()] = this;
    for (double* p : class_->options(group.options())) options_.push_back({p, *p});
  }
  class_->watch(o, true);
  table_ = first_word(&o);
  watching[&o] = this;
}

// The options are the very objects that they were.
bool OptimizerWatch::in_place() const {
  auto& groups = optimizer.param_groups();
  return groups.size() == groups_ &&
         std::equal(groups.begin(), groups.end(), listened_.begin(),
                    [](auto& group, auto* options) { return &group.options() == options; });
}

bool OptimizerWatch::options_hold() const {
  return in_place() &&
         std::all_of(options_.begin(), options_.end(), [](const Option& o) { return *o.place == o.value; });
}

// Every parameter that has counted has counted as many as this call took.
bool OptimizerWatch::counts_hold(int64_t steps) const {
  if (!class_->step) return true;
  for (const auto& [param, state] : optimizer.state()) {
    const auto before = state_.find(param);
    const int64_t was = before == state_.end() ? 0 : *class_->step(*before->second);
    if (*class_->step(*state) != was + steps) return false;
  }
  return true;
}

at::Tensor OptimizerWatch::step(const LossClosure& closure,
                                const std::function<at::Tensor(const LossClosure&)>& step) {
  if (all_.current_) return step(closure);  // of an optimizer inside of another's: not its own arithmetic
  if (steps_ > 0 && !counts_hold(steps_))
    why_ = "it steps an optimizer several times, not all parameters each time";
  auto& now = all_.steps_.emplace_back(FollowedStep{&optimizer, steps_++, {}, {}});
  Perturbed perturbed(*this, now);
  if (!closure) return step(closure);
  return step([&] {  // the user's code sees the true options
    perturbed.end();
    at::Tensor loss = closure();
    perturbed.begin();
    return loss;
  });
}

std::string OptimizerWatch::end() {
  if (std::exchange(ended_, true) || !class_) return why_;
  watching.erase(&optimizer);
  for (auto* o : listened_) watching.erase(o);
  uint64_t table = 0;
  died_ = !read_memory(reinterpret_cast<uintptr_t>(&optimizer), &table, sizeof table) || table != table_;
  if (died_) return why_ = "an optimizer dies in it (make it outside of the step)";
  class_->watch(optimizer, false);
  for (auto& group : optimizer.param_groups())
    if (std::find(listened_.begin(), listened_.end(), &group.options()) != listened_.end())
      class_->listen(group.options(), false);
  if (!options_hold()) why_ = kChanges;
  if (lr_was_set) why_ = "it sets a learning rate (step the scheduler outside of the step)";
  return why_;
}

std::vector<FollowedStep::Counted> OptimizerWatch::counted() const {
  std::vector<FollowedStep::Counted> out;
  if (!class_ || !class_->step || died_) return out;
  for (const auto& [param, before] : state_)
    if (const auto it = optimizer.state().find(param); it != optimizer.state().end())
      if (const int64_t more = *class_->step(*it->second) - *class_->step(*before); more != 0)
        out.push_back({param, more});
  return out;
}

std::optional<OptionsSeen> OptimizerWatch::seen() const {
  if (!class_ || died_) return std::nullopt;
  OptionsSeen out{&optimizer, {}, std::vector<bool>(options_.size()), life_};
  for (const auto& o : options_) out.values.push_back(o.value);
  return out;
}

void OptimizerWatch::undo() {
  if (died_) return;
  if (dynamic_cast<tpubridge::optim::Fused*>(&optimizer)) return;  // it undoes what it made itself
  auto& groups = optimizer.param_groups();
  if (groups.size() > groups_) groups.erase(groups.begin() + static_cast<int64_t>(groups_), groups.end());
  optimizer.state().clear();
  for (auto& [param, before] : std::exchange(state_, {})) optimizer.state()[param] = std::move(before);
}

void lr_is_set(const OptimizerOptions& options) {
  if (auto* w = watch_of(&options)) w->lr_was_set = true;
}

at::Tensor watched_step(Optimizer& optimizer, const LossClosure& closure,
                        const std::function<at::Tensor(const LossClosure&)>& step) {
  auto* w = watch_of(&optimizer);
  return w ? w->step(closure, step) : step(closure);
}

void FollowedStep::count() const {
  if (counted.empty()) return;
  const OptimizerClass& c = *class_of(*optimizer);
  auto& state = optimizer->state();
  for (const auto& k : counted)
    if (const auto it = state.find(k.parameter); it != state.end()) *c.step(*it->second) += k.steps;
}

bool OptionsSeen::hold() const {
  thread_local std::vector<double> now;
  now.clear();
  option_values(*optimizer, now);
  if (now.size() != values.size()) return false;
  for (size_t i = 0; i < now.size(); ++i)
    if (now[i] != values[i] && !varies[i]) return false;
  return true;
}

void OptionsSeen::learn(const OptionsSeen& before) {
  if (before.optimizer != optimizer || before.values.size() != values.size()) return;
  for (size_t i = 0; i < values.size(); ++i) varies[i] = before.varies[i] || before.values[i] != values[i];
}

bool same_number(double a, double b) { return a == b || std::abs(a - b) <= 4e-15 * std::abs(a); }

OptimizerWatches::OptimizerWatches() = default;
OptimizerWatches::~OptimizerWatches() = default;

std::string OptimizerWatches::follow(Optimizer& optimizer, uint64_t seed,
                                     const std::optional<std::weak_ptr<bool>>& life) {
  for (const auto& w : watches_)
    if (&w.optimizer == &optimizer) return w.why();
  return watches_.emplace_back(*this, optimizer, seed, life).why();
}

void OptimizerWatches::made(const trace::Value& number) {
  trace::Node& n = *number.node();
  const double v = n.number().real;
  if (!current_ || n.number().dtype == DType::s64 || !std::isfinite(v)) return;
  size_t place = 0;
  for (auto s = steps_.begin(); &*s != current_; ++s) place += s->plain.size();
  const auto &plain = current_->plain, &perturbed = current_->perturbed;
  for (size_t j = 0; j < plain.size(); ++j) {
    if (perturbed[j] == plain[j] || !same_number(v, perturbed[j])) continue;
    n.set_number(plain[j]);
    found_[number.node()] = place + j;
    held_.push_back(number);
    return;
  }
  for (size_t j = 0; j < first_plain_.size(); ++j)
    if (same_number(v, first_perturbed_[j])) return n.set_number(first_plain_[j]);
  bool constant = std::abs(v) == 1;
  for (size_t j = 0; j < plain.size(); ++j) constant |= perturbed[j] == plain[j] && same_number(v, plain[j]);
  if (!constant)
    throw UnsupportedError(
        "a number of an optimizer is not known",
        {{"optimizer", c10::demangle(typeid(*current_->optimizer).name())}, {"number", std::to_string(v)}},
        "This libtorch computes it in another way than those that tpubridge knows. Use "
        "tpubridge::optim, or leave its step out of the compiled function.");
}

std::optional<size_t> OptimizerWatches::number_of(const trace::Node* number) const {
  const auto it = found_.find(number);
  return it == found_.end() ? std::nullopt : std::optional(it->second);
}

std::string OptimizerWatches::end() {
  std::string why;
  for (auto& w : watches_)
    if (std::string one = w.end(); !one.empty()) why = std::move(one);
  return why;
}

std::vector<FollowedStep> OptimizerWatches::followed() const {
  std::vector<FollowedStep> out(steps_.begin(), steps_.end());
  for (auto& s : out)
    for (const auto& w : watches_)
      if (s.ahead == 0 && &w.optimizer == s.optimizer) s.counted = w.counted();
  return out;
}

std::vector<OptionsSeen> OptimizerWatches::options() const {
  std::vector<OptionsSeen> out;
  for (const auto& w : watches_)
    if (auto seen = w.seen()) out.push_back(std::move(*seen));
  return out;
}

void OptimizerWatches::undo() {
  for (auto& w : watches_) w.undo();
}

}  // namespace tpubridge::step
