// Forward once to know the results and the parameters behind them, and again in backward.
#include "tpubridge/step/checkpoint.h"

#include <ATen/SequenceNumber.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/custom_class.h>

#include <algorithm>
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
  std::vector<size_t> taken;  // results of the function that autograd has from here
  Tensors results;            // these, of the first run, until forward takes them

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
      const Tensors all = r->run(inputs);
      for (const size_t i : r->taken) results.push_back(all.at(i));
    }
    Tensors ends, weights, wanted;
    for (size_t i = 0; i < results.size(); ++i)
      if (grads[i].defined() && results[i].defined() && results[i].requires_grad()) {
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
  std::vector<torch::autograd::Edge> ends;  // nobody else holds that of a leaf
  for (const auto& t : results)
    if (t.defined() && t.requires_grad()) ends.push_back(torch::autograd::impl::gradient_edge(t));
  for (const auto& e : ends) visit(e.function.get());
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

// What the caller gets of a result that the function did not compute, and what needs no gradient: the input
// itself, the same part of it, a parameter. Undefined for the others.
Tensor handed_through(const Tensor& t, const Tensors& leaves, const Tensors& given) {
  if (!t.defined()) return t;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (t.is_same(leaves[i])) return given[i];
    if (t.is_view() && t._base().is_same(leaves[i]) && t.dtype() == given[i].dtype() &&
        t.is_conj() == given[i].is_conj() && t.is_neg() == given[i].is_neg())
      return given[i].as_strided(t.sizes(), t.strides(), t.storage_offset());
  }
  if (!t.requires_grad()) return t;
  return t.is_leaf() ? t : Tensor();
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
  Tensors results, parameters;
  try {
    results = r->run(leaves);
    parameters = parameters_behind(results, leaves, begin);
  } catch (...) {
    r->draws.put_back();
    throw;
  }
  Tensors out;
  std::vector<size_t> place(results.size());  // of each result among those that autograd has from here
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& t = results[i];
    out.push_back(handed_through(t, leaves, given));
    if (!t.defined() || out[i].defined()) continue;
    const auto same =
        std::find_if(r->taken.begin(), r->taken.end(), [&](size_t k) { return results[k].is_same(t); });
    place[i] = static_cast<size_t>(same - r->taken.begin());
    if (same != r->taken.end()) continue;
    r->taken.push_back(i);
    r->results.push_back(t.detach());
  }
  if (r->taken.empty()) return out;
  given.insert(given.end(), parameters.begin(), parameters.end());
  const Tensors from_autograd = Checkpoint::apply(r, at::TensorList(given));
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].defined() && !out[i].defined()) out[i] = from_autograd[place[i]];
  return out;
}

}  // namespace tpubridge::step
