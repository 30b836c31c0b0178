// The gradient of an op of the user's own: a function of torch's graph that calls what it was given.
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <deque>
#include <mutex>

#include "tpubridge/base/errors.h"
#include "tpubridge/kernels/custom_op.h"

namespace tpubridge::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct OfOp {
  std::string op;
  Gradient gradient;  // empty: it has none
};

// What a saved call names by a number. Never taken away.
struct Gradients {
  std::mutex mutex;
  std::deque<OfOp> all;
};
Gradients& gradients() {
  static auto* g = new Gradients;
  return *g;
}
int64_t add_gradient(OfOp of) {
  auto& g = gradients();
  const std::lock_guard lock(g.mutex);
  g.all.push_back(std::move(of));
  return static_cast<int64_t>(g.all.size()) - 1;
}
const OfOp& gradient_at(int64_t i) {
  auto& g = gradients();
  const std::lock_guard lock(g.mutex);
  return g.all[static_cast<size_t>(i)];
}

variable_list tensors_of(c10::ArrayRef<c10::IValue> values) {
  variable_list out;
  for (const auto& v : values) {
    if (v.isTensor()) out.push_back(v.toTensor());
    if (v.isTensorList())
      for (const at::Tensor& t : v.toTensorVector()) out.push_back(t);
  }
  return out;
}

struct Forward {
  const c10::OperatorHandle& op;
  c10::DispatchKeySet keys;
  torch::jit::Stack* stack;
  int64_t gradient;
};

struct UserFunction : torch::autograd::Function<UserFunction> {
  template <class... Tensors>  // torch follows tensors that are arguments of their own, and no lists of them
  static variable_list forward(AutogradContext* ctx, const Forward* f, const Tensors&... tensors) {
    return call(ctx, f, variable_list{tensors...});
  }

  static variable_list call(AutogradContext* ctx, const Forward* f, const variable_list& inputs) {
    const auto args = torch::jit::last(*f->stack, f->op.schema().arguments().size());
    // Arguments that are no tensors are kept; of the others, how many there are: -1 for one by itself.
    std::vector<int64_t> counts;
    for (size_t i = 0; i < args.size(); ++i) {
      const bool list = args[i].isTensorList();
      counts.push_back(list                 ? static_cast<int64_t>(args[i].toTensorVector().size())
                       : args[i].isTensor() ? -1
                                            : -2);
      if (counts.back() == -2) ctx->saved_data[std::to_string(i)] = args[i];
    }
    ctx->saved_data["gradient"] = f->gradient;
    ctx->saved_data["counts"] = counts;
    ctx->saved_data["inputs"] = static_cast<int64_t>(inputs.size());
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      f->op.redispatchBoxed(f->keys & c10::after_autograd_keyset, f->stack);
    }
    variable_list outputs = tensors_of(torch::jit::last(*f->stack, f->op.schema().returns().size())), whole;
    for (const auto& t : outputs)
      if (!t.is_floating_point() && !t.is_complex()) whole.push_back(t);
    ctx->mark_non_differentiable(whole);
    if (gradient_at(f->gradient).gradient) {
      variable_list saved = inputs;
      saved.insert(saved.end(), outputs.begin(), outputs.end());
      ctx->save_for_backward(std::move(saved));
    }
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const OfOp& of = gradient_at(ctx->saved_data["gradient"].toInt());
    if (!of.gradient)
      throw UnsupportedError(of.op + " has no gradient", {{"op", of.op}},
                             "Give one where it is registered, or detach() what goes into it.");
    const size_t inputs = static_cast<size_t>(ctx->saved_data["inputs"].toInt());
    GradientCall call = restored(*ctx, inputs);
    call.gradients = std::move(grads);
    auto out = of.gradient(call);
    if (out.size() != inputs)
      throw ArgumentError("the gradient of " + of.op + " gives " + std::to_string(out.size()) +
                              " tensors for " + std::to_string(inputs) + " inputs",
                          {{"op", of.op}},
                          "One for each tensor among the arguments, undefined where it has none.");
    out.insert(out.begin(), at::Tensor());  // of forward's own argument
    return out;
  }

 private:
  static GradientCall restored(AutogradContext& ctx, size_t inputs) {
    GradientCall call;
    const variable_list saved = ctx.get_saved_variables();
    const auto middle = saved.begin() + static_cast<std::ptrdiff_t>(inputs);
    call.inputs.assign(saved.begin(), middle);
    call.outputs.assign(middle, saved.end());
    size_t next = 0;
    const auto counts = ctx.saved_data["counts"].toIntVector();
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == -2) {
        call.arguments.push_back(ctx.saved_data[std::to_string(i)]);
      } else if (counts[i] == -1) {
        call.arguments.emplace_back(call.inputs[next++]);
      } else {
        c10::List<at::Tensor> list;
        for (int64_t k = 0; k < counts[i]; ++k) list.push_back(call.inputs[next++]);
        call.arguments.emplace_back(std::move(list));
      }
    }
    return call;
  }
};

constexpr size_t kMostTensors = 12;

template <size_t... I>
variable_list apply_to(const Forward* f, const variable_list& inputs, std::index_sequence<I...>) {
  return UserFunction::apply(f, inputs[I]...);
}
template <size_t N>
variable_list apply_up_to(const Forward* f, const variable_list& inputs) {
  if (inputs.size() == N) return apply_to(f, inputs, std::make_index_sequence<N>());
  if constexpr (N < kMostTensors) return apply_up_to<N + 1>(f, inputs);
  throw UnsupportedError(
      gradient_at(f->gradient).op + ": no gradient of more than " + std::to_string(kMostTensors) + " tensors",
      {{"op", gradient_at(f->gradient).op}}, "Call it inside a torch::NoGradGuard, or join them.");
}

class GradientKernel final : public c10::OperatorKernel {
 public:
  explicit GradientKernel(int64_t gradient) : gradient_(gradient) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const variable_list inputs = tensors_of(torch::jit::last(*stack, op.schema().arguments().size()));
    const bool any =
        std::any_of(inputs.begin(), inputs.end(), [](const auto& t) { return t.requires_grad(); });
    if (!any || !at::GradMode::is_enabled()) {
      const at::AutoDispatchBelowADInplaceOrView below;
      return op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
    }
    const Forward forward{op, keys, stack, gradient_};
    variable_list outputs = apply_up_to<1>(&forward, inputs);
    torch::jit::drop(*stack, outputs.size());
    for (auto& t : outputs) stack->emplace_back(std::move(t));
  }

 private:
  int64_t gradient_;
};

}  // namespace

void install_gradient(const c10::OperatorHandle& op, Gradient gradient) {
  using c10::DispatchKey;
  if (op.hasKernelForDispatchKey(DispatchKey::Autograd) ||
      op.hasKernelForDispatchKey(DispatchKey::AutogradPrivateUse1))
    return;
  for (const auto& a : op.schema().arguments())  // what it writes is no result that a graph could know
    if (a.alias_info() && a.alias_info()->isWrite()) return;
  const std::string name = c10::toString(op.operator_name());
  // With a gradient, for the CPU too; without one it stays as it is there.
  const auto key = gradient ? DispatchKey::Autograd : DispatchKey::AutogradPrivateUse1;
  const int64_t number = add_gradient({name, std::move(gradient)});
  torch::Library library(torch::Library::IMPL, name.substr(0, name.find("::")), key, __FILE__, __LINE__);
  library.impl(name.c_str(),
               torch::CppFunction::makeFromBoxedFunctor(std::make_unique<GradientKernel>(number)));
  keep(std::move(library));
}

}  // namespace tpubridge::kernels
