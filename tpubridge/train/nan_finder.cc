#include "tpubridge/train/nan_finder.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <mutex>

namespace tpubridge::train {
namespace {

// Of the one search that is on; callbacks are plain functions.
std::mutex mutex;
std::string first_nan, first_infinity;

enum class Kind { finite, infinite, nan };

Kind kind_of(const at::Tensor& t) {
  if (!t.defined() || t.numel() == 0 || t.layout() != at::kStrided) return Kind::finite;
  if (!at::isFloatingType(t.scalar_type()) && !at::isComplexType(t.scalar_type())) return Kind::finite;
  const at::Tensor host = t.detach().cpu();
  if (host.isnan().any().item<bool>()) return Kind::nan;
  return host.isinf().any().item<bool>() ? Kind::infinite : Kind::finite;
}

template <class Values>
Kind worst(const Values& values) {
  Kind out = Kind::finite;
  for (const c10::IValue& v : values) {
    if (v.isTensor()) out = std::max(out, kind_of(v.toTensor()));
    if (v.isTensorList())
      for (const at::Tensor& t : v.toTensorVector()) out = std::max(out, kind_of(t));
  }
  return out;
}

struct Inputs final : at::ObserverContext {
  Kind kind = Kind::finite;
  std::string outer;  // of a node of backward: the node around it
};

thread_local std::string node;  // of backward, in which this thread is; empty: none

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& f) {
  at::RecordFunctionGuard quiet(false);  // what is called here is no part of the search
  auto context = std::make_unique<Inputs>();
  if (f.scope() == at::RecordScope::BACKWARD_FUNCTION)
    context->outer = std::exchange(node, f.name());
  else
    context->kind = worst(f.inputs());
  return context;
}

void on_end(const at::RecordFunction& f, at::ObserverContext* context) {
  at::RecordFunctionGuard quiet(false);
  auto& inputs = static_cast<Inputs&>(*context);
  if (f.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    node = inputs.outer;
    return;
  }
  const std::string name = f.name();
  if (name.find("empty") != name.npos) return;  // memory as it was found
  const Kind after = worst(f.outputs());
  if (after <= inputs.kind) return;
  const std::lock_guard lock(mutex);
  std::string& place = after == Kind::nan ? first_nan : first_infinity;
  if (place.empty()) place = node.empty() ? name : name + " in " + node;
}

}  // namespace

NanFinder::NanFinder() {
  {
    const std::lock_guard lock(mutex);
    first_nan.clear();
    first_infinity.clear();
  }
  handle_ =
      at::addGlobalCallback(at::RecordFunctionCallback(on_start, on_end)
                                .needsInputs(true)
                                .needsOutputs(true)
                                .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

NanFinder::~NanFinder() { at::removeCallback(handle_); }

std::string NanFinder::found() const {
  const std::lock_guard lock(mutex);
  return first_nan.empty() ? first_infinity : first_nan;
}

}  // namespace tpubridge::train
