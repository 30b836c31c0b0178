// Making, naming, saving and loading what optimizers keep.
#include "tpubridge/optim/state.h"

#include <torch/optim/serialize.h>

#include <set>
#include <tuple>

#include "tpubridge/base/errors.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/optim/impl.h"

namespace tpubridge::optim {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

constexpr const char* kSteps = "schedule.steps";

void State::serialize(OutputArchive& archive) const {
  archive.write("step", c10::IValue(static_cast<int64_t>(count.item<double>())));
  for (const auto& [name, tensor] : tensors) archive.write(name, c10::IValue(tensor));
}

void State::serialize(InputArchive& archive) {
  loaded = 0;
  for (const auto& name : archive.keys()) {
    c10::IValue v;
    archive.read(name, v);
    if (v.isTensor())
      tensors[name] = v.toTensor();
    else if (name == "step")
      loaded = v.toInt();
  }
}

std::vector<const char*> Fused::Impl::moments(size_t group) const {
  const Settings s = settings(group);
  if (kind == Kind::sgd)
    return s.momentum != 0 ? std::vector<const char*>{"momentum_buffer"} : std::vector<const char*>{};
  std::vector<const char*> names{"exp_avg", "exp_avg_sq"};
  if (s.amsgrad) names.push_back("max_exp_avg_sq");
  return names;
}

bool Fused::Impl::wants_master(const at::Tensor& p) const {
  return masters == Masters::keep && at::isReducedFloatingType(p.scalar_type());
}

State* Fused::Impl::find(const at::Tensor& p) const {
  const auto it = owner.state().find(p.unsafeGetTensorImpl());
  return it == owner.state().end() ? nullptr : static_cast<State*>(it->second.get());
}

at::Tensor Fused::Impl::zero(const at::Tensor& beside) {
  return at::zeros({}, beside.options().dtype(at::kFloat).requires_grad(false));
}

// Where the compiled step that makes or replaces it is undone, the state is again as it was before.
void Fused::Impl::forget_if_undone(const at::Tensor& p, const State& s) {
  auto* r = device::recording();
  if (!r) return;
  r->on_undo([this, weak = std::weak_ptr(alive), p, count = s.count, tensors = s.tensors, before = layout] {
    if (weak.expired()) return;
    layout = before;
    State* now = find(p);
    if (!now) return;
    if (!count.defined()) {
      owner.state().erase(p.unsafeGetTensorImpl());
      return;
    }
    now->count = count;
    now->tensors = tensors;
  });
}

State& Fused::Impl::state_of(const at::Tensor& p, size_t group, at::Tensor& newborn) {
  State* s = find(p);
  if (!s) {
    auto fresh = std::make_unique<State>();
    s = fresh.get();
    owner.state()[p.unsafeGetTensorImpl()] = std::move(fresh);
  }
  forget_if_undone(p, *s);
  if (!s->count.defined()) {
    if (!newborn.defined() || newborn.device() != p.device()) newborn = zero(p);
    s->count = newborn;
    is_other();
  }
  const bool narrow = wants_master(p);
  for (const char* name : moments(group)) {
    auto& t = s->tensors[name];
    if (t.defined()) continue;
    t = at::zeros_like(p, p.options().dtype(narrow ? at::kFloat : p.scalar_type()).requires_grad(false));
    is_other();
  }
  if (narrow && !s->tensors[kMaster].defined()) {
    s->tensors[kMaster] = p.detach().to(at::kFloat);
    is_other();
  }
  return *s;
}

void Fused::Impl::prepare() {
  at::NoGradGuard no_grad;
  at::Tensor newborn;
  for (size_t g = 0; g < owner.param_groups().size(); ++g)
    for (const auto& p : owner.param_groups()[g].params())
      if (device::is_tpu(p) && p.requires_grad()) (void)state_of(p, g, newborn);
}

// Counts of the same number share a tensor. Where all share one already and get the same number, they keep
// it: a compiled step goes on with it.
void Fused::Impl::set_counts(const std::vector<std::pair<Member, double>>& counts) {
  std::set<std::pair<double, c10::TensorImpl*>> kinds;
  for (const auto& [m, n] : counts) kinds.emplace(n, m.state->count.unsafeGetTensorImpl());
  if (kinds.size() == 1 && counts[0].first.state->count.defined() && counts.size() == owner.state().size()) {
    counts[0].first.state->count.fill_(counts[0].second);
    return;
  }
  is_other();
  std::map<std::pair<double, int>, at::Tensor> shared;
  for (const auto& [m, n] : counts) {
    auto& t = shared[{n, m.parameter.device().index()}];
    if (!t.defined()) t = at::full({}, n, m.parameter.options().dtype(at::kFloat).requires_grad(false));
    m.state->count = t;
  }
}

void Fused::Impl::take_up_loaded() {
  at::NoGradGuard no_grad;
  is_other();
  std::vector<std::pair<Member, double>> counts;
  for (size_t g = 0; g < owner.param_groups().size(); ++g)
    for (const auto& p : owner.param_groups()[g].params()) {
      State* s = find(p);
      if (!s || s->loaded < 0) continue;
      const bool narrow = wants_master(p);
      if (!narrow) s->tensors.erase(kMaster);
      for (auto& [name, t] : s->tensors) t = t.to(p.device(), narrow ? at::kFloat : p.scalar_type());
      counts.emplace_back(Member{p, s}, static_cast<double>(std::exchange(s->loaded, -1)));
    }
  set_counts(counts);
}

void Fused::save(OutputArchive& archive) const {
  using namespace torch::optim;
  if (impl_->kind == Kind::sgd) serialize<State, SGDOptions>(archive, *this);
  if (impl_->kind == Kind::adam) serialize<State, AdamOptions>(archive, *this);
  if (impl_->kind == Kind::adamw) serialize<State, AdamWOptions>(archive, *this);
  if (impl_->steps.defined()) archive.write("schedule_steps", impl_->steps);
}

void Fused::load(InputArchive& archive) {
  using namespace torch::optim;
  if (impl_->kind == Kind::sgd) serialize<State, SGDOptions>(archive, *this);
  if (impl_->kind == Kind::adam) serialize<State, AdamOptions>(archive, *this);
  if (impl_->kind == Kind::adamw) serialize<State, AdamWOptions>(archive, *this);
  impl_->take_up_loaded();
  at::Tensor steps;
  if (archive.try_read("schedule_steps", steps))
    impl_->steps = steps.to(param_groups()[0].params()[0].device());
  impl_->is_other();
}

NamedTensors Fused::named_state() const {
  NamedTensors out;
  size_t place = 0;
  for (const auto& g : param_groups())
    for (const auto& p : g.params()) {
      const std::string prefix = "state." + std::to_string(place++) + ".";
      const State* s = impl_->find(p);
      if (!s) continue;
      out.emplace_back(prefix + "step", s->count);
      for (const auto& [name, t] : s->tensors) out.emplace_back(prefix + name, t);
    }
  if (impl_->steps.defined()) out.emplace_back(kSteps, impl_->steps);
  return out;
}

void Fused::load_named_state(const NamedTensors& tensors) {
  at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> given(tensors.begin(), tensors.end());
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // from, to
  std::vector<std::pair<Impl::Member, double>> counts;
  auto take = [&](const std::string& name, c10::IntArrayRef sizes) {
    const auto it = given.find(name);
    if (it == given.end()) throw ArgumentError("the state of an optimizer lacks a tensor", {{"name", name}});
    if (it->second.sizes() != sizes)
      throw ArgumentError(
          "a tensor of an optimizer's state has another size",
          {{"name", name}, {"size", c10::str(it->second.sizes())}, {"wanted", c10::str(sizes)}});
    at::Tensor t = it->second;
    given.erase(it);
    return t;
  };
  at::Tensor newborn, steps;
  size_t place = 0;
  for (size_t g = 0; g < param_groups().size(); ++g)
    for (const auto& p : param_groups()[g].params()) {
      const std::string prefix = "state." + std::to_string(place++) + ".";
      if (!given.count(prefix + "step") && !impl_->find(p)) continue;
      State& s = impl_->state_of(p, g, newborn);
      counts.emplace_back(Impl::Member{p, &s}, take(prefix + "step", {}).item<double>());
      for (auto& [name, t] : s.tensors) copies.emplace_back(take(prefix + name, p.sizes()), t);
    }
  if (given.count(kSteps)) steps = take(kSteps, {});
  if (!given.empty())
    throw ArgumentError("the state of an optimizer has a tensor that this one does not know",
                        {{"name", given.begin()->first}},
                        "Its class, its options (momentum, amsgrad) or its parameters differ.");
  for (auto& [from, to] : copies) to.copy_(from);
  impl_->set_counts(counts);
  if (!steps.defined()) return;
  if (!impl_->steps.defined()) {
    impl_->steps = impl_->zero(param_groups()[0].params()[0]);
    impl_->is_other();
  }
  impl_->steps.copy_(steps);
}

}  // namespace tpubridge::optim
