// Shows a recording the tensors of every op as the user's code gave them: the tensors themselves, not the
// views and plain copies that reach the kernels. So it knows whose gradients, types and conjugate bits the
// call depends on, and what it does with tensors of the host.
#include <ATen/record_function.h>

#include "tpubridge/device/place.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::device {
namespace {

thread_local int own_ops = 0;

// What must be known of the tensors of the host when the op has run.
struct HostCall final : at::ObserverContext {
  bool from_outside = false;        // it was given elements that the next call may find changed
  std::vector<at::Tensor> written;  // made inside, and written by this op
};

bool on_host(const at::Tensor& t) {
  return t.defined() && t.device().is_cpu() && t.has_storage() &&
         !t.unsafeGetTensorImpl()->is_wrapped_number();
}

template <class F>
void each_tensor_of(const c10::IValue& v, F f) {
  if (v.isTensor()) {
    if (v.toTensor().defined()) f(v.toTensor());
  } else if (v.isList()) {
    for (const c10::IValue& item : v.toListRef())
      if (item.isTensor() && item.toTensor().defined()) f(item.toTensor());
  }
}

// Answers that hang on what a tensor is, not on its elements.
bool asks_for_facts(std::string_view op) {
  for (std::string_view start :
       {"aten::is_", "aten::sym_", "aten::size", "aten::stride", "aten::numel", "aten::dim",
        "aten::result_type", "aten::_has_compatible", "aten::can_cast", "aten::_debug_has_internal_overlap",
        "aten::dense_dim", "aten::_version", "aten::retains_grad", "aten::output_nr", "aten::requires_grad_",
        "aten::storage_offset", "aten::get_device", "prim::"})
    if (op.starts_with(start)) return op != "aten::is_nonzero";
  return false;
}

// Ops that do another thing in training than in evaluation.
bool hangs_on_mode(const at::RecordFunction& fn) {
  const std::string_view op = std::string_view(fn.name()).substr(6);  // behind "aten::"
  for (std::string_view name : {"batch_norm", "instance_norm", "rrelu", "rrelu_"})
    if (op == name) return true;
  for (std::string_view name : {"dropout", "dropout_", "feature_dropout", "feature_dropout_", "alpha_dropout",
                                "alpha_dropout_", "feature_alpha_dropout", "feature_alpha_dropout_",
                                "native_dropout", "lstm", "gru", "rnn_tanh", "rnn_relu"})
    if (op == name)  // where something is dropped
      return std::any_of(fn.inputs().begin(), fn.inputs().end(),
                         [](const c10::IValue& v) { return v.isDouble() && v.toDouble() != 0; });
  return false;
}

// What the call hangs on that no tensor shows.
void look_behind(Recording& r, const at::RecordFunction& fn) {
  const std::string_view op = fn.name();
  if (!op.starts_with("aten::")) return;
  if (!r.knows_modes && r.trouble.empty() && hangs_on_mode(fn))
    r.note_trouble(
        "it does " + std::string(op) +
        " in a mode (train or eval) of a module that is not known (name it in StepOptions::modules)");
  if (!op.ends_with('_') || r.other_optimizer || at::GradMode::is_enabled() || r.is_followed()) return;
  const auto inputs = fn.inputs();
  if (inputs.empty() || !inputs[0].isTensor()) return;
  const at::Tensor& t = inputs[0].toTensor();
  if (!is_tpu(t)) return;
  if (const auto* f = r.found_of(&storage_of(t)); f && !f->value) return;  // made by the call
  const std::string optimizer = optimizer_above();
  if (optimizer.empty()) return;
  r.other_optimizer = true;
  r.note_trouble(optimizer + " steps in it and is not known (name it in StepOptions::optimizers)");
}

std::unique_ptr<at::ObserverContext> begins(const at::RecordFunction& fn) {
  Recording* r = recording();
  if (!r || own_ops > 0) return nullptr;
  const exec::Lock lock(exec::mutex());
  if (fn.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    r->backward = true;
    return nullptr;
  }
  look_behind(*r, fn);
  auto call = std::make_unique<HostCall>();
  bool host = false;
  for (const c10::IValue& v : fn.inputs())
    each_tensor_of(v, [&](const at::Tensor& t) {
      if (is_tpu(t)) return r->see(t);
      if (!on_host(t)) return;
      host = true;
      const HostOrigin origin = r->host.of(t);
      r->host.note(t, origin);
      if (origin == HostOrigin::outside) r->see(t);
      call->from_outside |= origin != HostOrigin::literal;
    });
  if (!host) return call;
  const auto schema = fn.operator_schema();
  const auto inputs = fn.inputs();
  for (size_t i = 0; schema && i < std::min(inputs.size(), schema->arguments().size()); ++i) {
    const auto* alias = schema->arguments()[i].alias_info();
    if (!alias || !alias->isWrite()) continue;
    each_tensor_of(inputs[i], [&](const at::Tensor& t) {
      if (!on_host(t)) return;
      if (r->host.of(t) == HostOrigin::outside)
        r->note_trouble(std::string("it writes to a tensor of the host by ") + fn.name());
      else
        call->written.push_back(t);
    });
  }
  return call;
}

bool draws(const at::RecordFunction& fn) {
  const auto name = fn.operator_name();
  const auto op = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  return op && op->hasTag(at::Tag::nondeterministic_seeded);
}

void ends(const at::RecordFunction& fn, at::ObserverContext* context) {
  Recording* r = recording();
  if (!r || !context) return;
  const exec::Lock lock(exec::mutex());
  auto& call = static_cast<HostCall&>(*context);
  for (const auto& t : call.written)
    if (call.from_outside) r->host.becomes_computed(t);
  for (const c10::IValue& v : fn.outputs()) {
    each_tensor_of(v, [&](const at::Tensor& t) {
      if (!on_host(t)) return;
      r->host.note(t, call.from_outside ? HostOrigin::computed : HostOrigin::literal);
      if (r->trouble.empty() && draws(fn))
        r->note_trouble(std::string("it draws random numbers on the host by ") + fn.name());
    });
    const bool tensors = v.isTensor() || v.isNone() || v.isTensorList() || v.isList();
    if (!tensors && call.from_outside && !asks_for_facts(fn.name()))
      r->note_trouble(std::string("it reads a tensor of the host by ") + fn.name());
  }
}

}  // namespace

OwnOps::OwnOps() { ++own_ops; }
OwnOps::~OwnOps() { --own_ops; }

uint64_t start_observing() {
  return at::addThreadLocalCallback(
      at::RecordFunctionCallback(begins, ends)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

void stop_observing(uint64_t handle) { at::removeCallback(handle); }

at::Tensor host_elements(const at::Tensor& host, c10::IntArrayRef sizes, c10::ScalarType dtype) {
  const OwnOps own;
  return host.detach().resolve_conj().resolve_neg().expand(sizes).to(c10::kCPU, dtype).contiguous();
}

}  // namespace tpubridge::device
