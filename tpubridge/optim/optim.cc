// The classes, and one step of them.
#include "tpubridge/optim/optim.h"

#include <torch/serialize/archive.h>

#include <unordered_map>

#include "tpubridge/base/errors.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/optim/impl.h"

namespace tpubridge::optim {
namespace {

const std::vector<OptimizerParamGroup>& checked(const std::vector<OptimizerParamGroup>& groups) {
  size_t place = 0;
  for (const auto& g : groups)
    for (const auto& p : g.params()) {
      if (!p.defined() || !p.is_floating_point())
        throw ArgumentError("an optimizer was given a parameter that is no tensor of real numbers",
                            {{"parameter", std::to_string(place)}});
      ++place;
    }
  if (place == 0)
    throw ArgumentError("an optimizer was given no parameters", {},
                        "Register the modules (register_module) before asking for parameters().");
  return groups;
}

void check(const Settings& s) {
  auto refuse = [](const char* name, double value) {
    throw ArgumentError("an option of an optimizer is out of range", {{name, std::to_string(value)}});
  };
  if (!(s.lr >= 0)) refuse("lr", s.lr);
  if (!(s.eps >= 0)) refuse("eps", s.eps);
  if (!(s.weight_decay >= 0)) refuse("weight_decay", s.weight_decay);
  if (!(s.momentum >= 0)) refuse("momentum", s.momentum);
  for (double b : {s.beta1, s.beta2})
    if (!(b >= 0 && b < 1)) refuse("betas", b);
  if (s.nesterov && (s.momentum == 0 || s.dampening != 0))
    throw ArgumentError("Nesterov momentum needs a momentum, and no dampening");
}

}  // namespace

Fused::Fused(Kind kind, const std::vector<OptimizerParamGroup>& groups,
             std::unique_ptr<torch::optim::OptimizerOptions> defaults, Masters masters)
    : Optimizer(checked(groups), std::move(defaults)), impl_(new Impl{*this, kind, masters}) {
  for (size_t g = 0; g < param_groups().size(); ++g) check(impl_->settings(g));
  impl_->prepare();
}

Fused::~Fused() = default;

SGD::SGD(const std::vector<OptimizerParamGroup>& groups, SGDOptions defaults, Masters masters)
    : Fused(Kind::sgd, groups, std::make_unique<SGDOptions>(std::move(defaults)), masters) {}
Adam::Adam(const std::vector<OptimizerParamGroup>& groups, AdamOptions defaults, Masters masters)
    : Fused(Kind::adam, groups, std::make_unique<AdamOptions>(std::move(defaults)), masters) {}
AdamW::AdamW(const std::vector<OptimizerParamGroup>& groups, AdamWOptions defaults, Masters masters)
    : Fused(Kind::adamw, groups, std::make_unique<AdamWOptions>(std::move(defaults)), masters) {}

void Fused::set_lr(double lr) {
  if (!(lr >= 0)) throw ArgumentError("a learning rate must not be negative", {{"lr", std::to_string(lr)}});
  for (auto& g : param_groups()) g.options().set_lr(lr);
}

void Fused::set_schedule(Schedule schedule) {
  impl_->schedule = std::move(schedule);
  impl_->is_other();
  if (impl_->schedule && !impl_->steps.defined() && device::is_tpu(param_groups()[0].params()[0]))
    impl_->steps = impl_->zero(param_groups()[0].params()[0]);
}

at::Tensor Fused::step(LossClosure closure) {
  at::NoGradGuard no_grad;
  at::Tensor loss;
  if (closure) {
    at::AutoGradMode grad(true);
    loss = closure();
  }
  Impl& m = *impl_;
  if (auto* r = device::recording()) {
    r->optimizers.emplace_back(this, m.alive);
    for (const auto& g : param_groups())
      r->variables.insert(r->variables.end(), g.params().begin(), g.params().end());
  }
  const auto members = m.members();
  m.advance(members);
  at::Tensor factor;
  if (m.schedule) {
    if (!m.steps.defined()) {
      m.steps = m.zero(param_groups()[0].params()[0]);
      m.is_other();
    }
    factor = m.schedule(m.steps);
    if (!factor.defined() || factor.numel() != 1)
      throw ArgumentError("a schedule must give a tensor of one element");
    m.steps.add_(1);
  }
  for (size_t g = 0; g < members.size(); ++g) m.update(g, members[g], factor);
  if (auto* r = device::recording()) {
    const auto mark = [&m, weak = std::weak_ptr(m.alive)](bool size) {
      return weak.expired() ? ~uint64_t{0} : size ? m.owner.state().size() : m.layout;
    };
    r->watch([mark] { return mark(false); });
    r->watch([mark] { return mark(true); });
  }
  return loss;
}

Settings Fused::Impl::settings(size_t group) const {
  const auto& base = owner.param_groups()[group].options();
  Settings s;
  auto of_adam = [&](const auto& o) {
    s = {.lr = o.lr(),
         .beta1 = std::get<0>(o.betas()),
         .beta2 = std::get<1>(o.betas()),
         .eps = o.eps(),
         .weight_decay = o.weight_decay(),
         .amsgrad = o.amsgrad()};
  };
  if (kind == Kind::adam) of_adam(static_cast<const AdamOptions&>(base));
  if (kind == Kind::adamw) of_adam(static_cast<const AdamWOptions&>(base));
  if (kind == Kind::sgd) {
    const auto& o = static_cast<const SGDOptions&>(base);
    s = {.lr = o.lr(),
         .weight_decay = o.weight_decay(),
         .momentum = o.momentum(),
         .dampening = o.dampening(),
         .nesterov = o.nesterov()};
  }
  return s;
}

device::HostNumber Fused::Impl::option(size_t group, double Settings::*which) const {
  return {settings(group).*which, [this, group, which] { return settings(group).*which; }};
}

uint64_t Fused::Impl::structure(size_t group) const {
  const Settings s = settings(group);
  uint64_t word = owner.param_groups()[group].params().size();
  for (bool bit : {s.weight_decay != 0, s.momentum != 0, s.dampening != 0, s.amsgrad, s.nesterov,
                   static_cast<bool>(schedule)})
    word = (word << 1) | bit;
  return word;
}

Fused::Impl::Members Fused::Impl::members() {
  Members all;
  at::Tensor newborn;
  size_t place = 0;
  for (size_t g = 0; g < owner.param_groups().size(); ++g) {
    all.emplace_back();
    for (const auto& p : owner.param_groups()[g].params()) {
      ++place;
      if (!p.grad().defined()) continue;
      if (!device::is_tpu(p))
        throw ArgumentError("a parameter of this optimizer is not on the tpu device",
                            {{"parameter", std::to_string(place - 1)}, {"device", p.device().str()}},
                            "Move the model there before the step, or use the class of torch::optim.");
      all.back().push_back({p, &state_of(p, g, newborn)});
    }
  }
  return all;
}

// A count that only members of this step share moves on; where others share it too, members get their own.
void Fused::Impl::advance(const Members& members) {
  std::unordered_map<c10::TensorImpl*, int64_t> others;
  for (const auto& [key, state] : owner.state())
    if (const auto& c = static_cast<State&>(*state).count; c.defined()) ++others[c.unsafeGetTensorImpl()];
  for (const auto& group : members)
    for (const auto& m : group) --others[m.state->count.unsafeGetTensorImpl()];
  std::unordered_map<c10::TensorImpl*, at::Tensor> next;
  std::vector<at::Tensor> old;  // keeps addresses from being used again
  for (const auto& group : members)
    for (const auto& m : group) {
      auto& to = next[m.state->count.unsafeGetTensorImpl()];
      if (!to.defined()) {
        old.push_back(m.state->count);
        to = others[m.state->count.unsafeGetTensorImpl()] == 0 ? m.state->count.add_(1) : m.state->count + 1;
      }
      if (to.is_same(m.state->count)) continue;
      m.state->count = to;
      is_other();
    }
}

void Fused::Impl::update(size_t group, const std::vector<Member>& members, const at::Tensor& factor) {
  if (auto* r = device::recording())
    r->watch([this, group, weak = std::weak_ptr(alive)] {
      return weak.expired() ? ~uint64_t{0} : structure(group);
    });
  const Settings s = settings(group);
  const device::FusedRate rate{option(group, &Settings::lr), {}, factor, {}, {}};
  for (bool narrow : {false, true}) {  // those without and with a master
    device::FusedLists lists;
    for (const auto& [parameter, state] : members) {
      if (wants_master(parameter) != narrow) continue;
      lists.params.push_back(parameter);
      lists.grads.push_back(parameter.grad());
      if (kind != Kind::sgd || s.dampening != 0) lists.steps.push_back(state->count);
      const auto names = moments(group);
      std::vector<at::Tensor>* kept[] = {&lists.averages, &lists.squares, &lists.largest};
      for (size_t i = 0; i < names.size(); ++i) kept[i]->push_back(state->tensors.at(names[i]));
      if (narrow) lists.masters.push_back(state->tensors.at(kMaster));
    }
    if (lists.params.empty()) continue;
    const auto decay = option(group, &Settings::weight_decay);
    if (kind == Kind::sgd)
      device::fused_sgd(
          lists, rate,
          {decay, option(group, &Settings::momentum), option(group, &Settings::dampening), s.nesterov});
    else
      device::fused_adam(lists, rate,
                         {option(group, &Settings::beta1), option(group, &Settings::beta2), decay,
                          option(group, &Settings::eps), s.amsgrad, false, kind == Kind::adamw});
  }
}

}  // namespace tpubridge::optim
