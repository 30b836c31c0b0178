// Forward once to know the results and the parameters behind them, and again in backward.
#include "tpubridge/step/checkpoint.h"

#include <ATen/SequenceNumber.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/custom_class.h>

#include <unordered_set>

#include "tpubridge/base/errors.h"
#include "tpubridge/device/barrier.h"
#include "tpubridge/device/generator.h"
#include "tpubridge/device/storage.h"

namespace tpubridge::step {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using Tensors = std::vector<Tensor>;

// Autocast as it was; while it lives, as it is here.
class Autocast {
 public:
  void note() {
    for (size_t i = 0; i < kTypes.size(); ++i)
      states_[i] = {at::autocast::is_autocast_enabled(kTypes[i]),
                    at::autocast::get_autocast_dtype(kTypes[i])};
    cache_ = at::autocast::is_autocast_cache_enabled();
  }
  void set() const {
    for (size_t i = 0; i < kTypes.size(); ++i) {
      at::autocast::set_autocast_enabled(kTypes[i], states_[i].on);
      at::autocast::set_autocast_dtype(kTypes[i], states_[i].dtype);
    }
    at::autocast::set_autocast_cache_enabled(cache_);
  }
  void without_cache() { cache_ = false; }

 private:
  struct State {
    bool on = false;
    at::ScalarType dtype = at::kBFloat16;
  };
  static constexpr std::array kTypes{at::kPrivateUse1, at::kCPU};
  std::array<State, kTypes.size()> states_;
  bool cache_ = true;
};
class AutocastScope {
 public:
  explicit AutocastScope(const Autocast& inside) {
    before_.note();
    inside.set();
  }
  ~AutocastScope() { before_.set(); }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  Autocast before_;
};

// Everything that a second run needs besides the tensors.
struct Recompute final : torch::CustomClassHolder {
  OnTensors fn;
  device::Draws draws;
  Autocast autocast;
  std::vector<size_t> places;  // of the defined ones among the inputs
  size_t input_count = 0;
  Tensors results;  // the defined ones of the first run, until forward takes them
  std::unordered_set<const void*> differentiable;

  [[nodiscard]] Tensors run(const Tensors& defined) const {
    Tensors inputs(input_count);
    for (size_t i = 0; i < places.size(); ++i) inputs[places[i]] = defined[i];
    const AutocastScope scope(autocast);
    at::AutoGradMode grad(true);
    return fn(inputs);
  }
};

// Leaves without a history that gradients can be asked for.
Tensors fresh_leaves(const Tensors& like, const Tensors& values) {
  Tensors out;
  for (size_t i = 0; i < like.size(); ++i)
    out.push_back(values[i].detach().requires_grad_(like[i].requires_grad()));
  return out;
}

class Checkpoint : public torch::autograd::Function<Checkpoint> {
 public:
  static Tensors forward(AutogradContext* ctx, const c10::intrusive_ptr<Recompute>& r, at::TensorList vars) {
    ctx->save_for_backward(vars.vec());
    ctx->saved_data["recompute"] = c10::IValue::make_capsule(r);
    ctx->set_materialize_grads(false);
    Tensors fixed;
    for (const auto& t : r->results)
      if (!r->differentiable.count(t.unsafeGetTensorImpl())) fixed.push_back(t);
    ctx->mark_non_differentiable(fixed);
    return std::move(r->results);
  }

  static Tensors backward(AutogradContext* ctx, Tensors grads) {
    const auto r = c10::static_intrusive_pointer_cast<Recompute>(ctx->saved_data["recompute"].toCapsule());
    const Tensors vars = ctx->get_saved_variables();
    const size_t count = r->places.size();          // inputs; parameters follow
    const bool again = at::GradMode::is_enabled();  // somebody wants gradients of these gradients
    Tensors inputs(vars.begin(), vars.begin() + static_cast<int64_t>(count));
    if (!again) {
      // Not before the gradients are there, and not shared with the first run: else nothing is saved.
      Tensors all = inputs;
      for (const auto& g : grads)
        if (g.defined()) all.push_back(g);
      all = device::barrier(all);
      inputs = fresh_leaves(inputs, all);
      size_t next = count;
      for (auto& g : grads)
        if (g.defined()) g = all[next++];
    }
    Tensors results;
    {
      const device::RepeatDraws same_numbers(r->draws);
      for (auto& t : r->run(inputs))
        if (t.defined()) results.push_back(std::move(t));
    }
    Tensors ends, weights, wanted;
    for (size_t i = 0; i < results.size(); ++i)
      if (grads[i].defined() && results[i].requires_grad()) {
        ends.push_back(results[i]);
        weights.push_back(grads[i]);
      }
    std::vector<size_t> at;
    for (size_t i = 0; i < vars.size(); ++i)
      if (vars[i].requires_grad()) {
        wanted.push_back(i < count ? inputs[i] : vars[i]);
        at.push_back(i + 1);
      }
    Tensors out(vars.size() + 1);
    if (ends.empty() || wanted.empty()) return out;
    const auto found =
        torch::autograd::grad(ends, wanted, weights, std::nullopt, again, /*allow_unused=*/true);
    for (size_t i = 0; i < found.size(); ++i) out[at[i]] = found[i];
    return out;
  }
};

// The parameters that the results hang on, besides the inputs.
Tensors parameters_behind(const Tensors& results, const Tensors& inputs, uint64_t begin) {
  using torch::autograd::AccumulateGrad;
  std::unordered_set<const void*> seen;
  for (const auto& t : inputs) seen.insert(t.unsafeGetTensorImpl());
  Tensors out;
  std::vector<torch::autograd::Node*> stack;
  auto visit = [&](torch::autograd::Node* n) {
    if (n && seen.insert(n).second) stack.push_back(n);
  };
  for (const auto& t : results)
    if (t.defined() && t.requires_grad()) visit(torch::autograd::impl::gradient_edge(t).function.get());
  while (!stack.empty()) {
    auto* n = stack.back();
    stack.pop_back();
    if (auto* leaf = dynamic_cast<AccumulateGrad*>(n)) {
      if (seen.insert(leaf->variable.unsafeGetTensorImpl()).second) out.push_back(leaf->variable);
      continue;
    }
    if (n->sequence_nr() < begin)
      throw ArgumentError("a checkpointed function uses a tensor that was computed outside of it",
                          {{"by", n->name()}}, "Pass it as an argument.");
    for (const auto& e : n->next_edges()) visit(e.function.get());
  }
  return out;
}

}  // namespace

std::vector<at::Tensor> checkpointed(OnTensors fn, const std::vector<at::Tensor>& inputs) {
  if (!at::GradMode::is_enabled()) return fn(inputs);
  auto r = c10::make_intrusive<Recompute>();
  r->draws = device::Draws::now();
  r->autocast.note();
  r->autocast.without_cache();  // a cast that was made outside would be a tensor from outside
  r->fn = std::move(fn);
  r->input_count = inputs.size();
  Tensors given;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined()) {
      r->places.push_back(i);
      given.push_back(inputs[i]);
    }
  const uint64_t begin = at::sequence_number::peek();
  const Tensors leaves = fresh_leaves(given, given);
  Tensors results = r->run(leaves);
  const Tensors parameters = parameters_behind(results, leaves, begin);
  for (auto& t : results) {
    if (!t.defined()) continue;
    const bool differentiable = t.requires_grad();
    r->results.push_back(t.detach());
    if (differentiable) r->differentiable.insert(r->results.back().unsafeGetTensorImpl());
  }
  given.insert(given.end(), parameters.begin(), parameters.end());
  const Tensors given_out = Checkpoint::apply(r, at::TensorList(given));
  size_t next = 0;
  for (auto& t : results)
    if (t.defined()) t = given_out[next++];
  return results;
}

}  // namespace tpubridge::step
