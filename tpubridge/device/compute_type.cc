// A table of parameters, and one boxed kernel in front of the ops that have weights.
#include "tpubridge/device/compute_type.h"

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "tpubridge/device/torch.h"

namespace tpubridge {
namespace {

using c10::DispatchKey;

// Known by address: the weak reference keeps it from being given to another tensor.
struct Entry {
  c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl> parameter;
  at::ScalarType type;
};
struct Table {
  std::shared_mutex mutex;
  std::unordered_map<const void*, Entry> entries;
  std::atomic<uint64_t> changes{0};
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

std::optional<at::ScalarType> find(const at::TensorBase& t) {
  {
    const std::shared_lock lock(table().mutex);
    const auto it = table().entries.find(t.unsafeGetTensorImpl());
    if (it != table().entries.end()) return it->second.type;
  }
  return t.is_view() ? find(t._base()) : std::nullopt;
}

// The first one that an argument has.
std::optional<at::ScalarType> type_of_weights(at::ArrayRef<c10::IValue> arguments) {
  for (const auto& v : arguments) {
    if (v.isTensor() && v.toTensor().defined()) {
      if (const auto found = find(v.toTensor())) return found;
    } else if (v.isTensorList()) {
      for (const at::Tensor& t : v.toTensorList())
        if (const auto found = find(t)) return found;
    }
  }
  return std::nullopt;
}

// f64 is left: nobody means to lose that.
at::Tensor converted(const at::Tensor& t, at::ScalarType to) {
  const bool fits = t.defined() && t.is_privateuseone() && t.is_floating_point();
  return fits && t.scalar_type() != at::kDouble ? t.to(to) : t;
}

void convert(c10::IValue& v, at::ScalarType to) {
  if (v.isTensor()) {
    v = converted(v.toTensor(), to);
  } else if (v.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : v.toTensorList()) list.push_back(converted(t, to));
    v = std::move(list);
  }
}

void convert_last(torch::jit::Stack& stack, size_t count, at::ScalarType to) {
  for (size_t i = stack.size() - count; i < stack.size(); ++i) convert(stack[i], to);
}

thread_local bool inside = false;  // what an op is made of has its types already
class Inside {
 public:
  Inside() { inside = true; }
  ~Inside() { inside = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

// What would have run without the kernel here.
void go_on(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const bool composite = op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
  op.callBoxedForDispatchKey(composite ? DispatchKey::CompositeImplicitAutograd : DispatchKey::Autograd,
                             *stack);
}

void with_weights(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  in_compute_type(op, stack, go_on);
}

// The rows are rounded, not the whole table.
void with_rows(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& rows = torch::jit::peek(*stack, 0, op.schema().arguments().size()).toTensor();
  const auto type = inside ? std::nullopt : find(rows);
  go_on(op, stack);
  if (!type) return;
  convert_last(*stack, 1, *type);
  convert_last(*stack, 1, at::kFloat);
}

constexpr std::pair<const char*, const char*> kOps[] = {{"linear", ""},
                                                        {"bilinear", ""},
                                                        {"matmul", ""},
                                                        {"mm", ""},
                                                        {"addmm", ""},
                                                        {"bmm", ""},
                                                        {"baddbmm", ""},
                                                        {"mv", ""},
                                                        {"conv1d", ""},
                                                        {"conv1d", "padding"},
                                                        {"conv2d", ""},
                                                        {"conv2d", "padding"},
                                                        {"conv3d", ""},
                                                        {"conv3d", "padding"},
                                                        {"conv_transpose1d", ""},
                                                        {"conv_transpose2d", "input"},
                                                        {"conv_transpose3d", "input"},
                                                        {"layer_norm", ""},
                                                        {"group_norm", ""},
                                                        {"batch_norm", ""},
                                                        {"instance_norm", ""},
                                                        {"rms_norm", ""},
                                                        {"prelu", ""}};

torch::Library* library_for(DispatchKey key) {
  return new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);  // stays registered
}

// Composites also where autograd is left out (inference mode); the others have kernels of their own there.
void stand_in_front() {
  static std::once_flag once;
  std::call_once(once, [] {
    using torch::CppFunction;
    static auto* gradients = library_for(DispatchKey::AutogradPrivateUse1);
    static auto* plain = library_for(DispatchKey::PrivateUse1);
    for (const auto& [name, overload] : kOps) {
      const auto op = c10::Dispatcher::singleton().findSchema({std::string("aten::") + name, overload});
      if (!op) continue;  // a libtorch that does not have it yet
      const std::string full = std::string(name) + (*overload ? "." : "") + overload;
      gradients->impl(full.c_str(), CppFunction::makeFromBoxedFunction<&with_weights>());
      if (op->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd))
        plain->impl(full.c_str(), CppFunction::makeFromBoxedFunction<&with_weights>());
    }
    gradients->impl("embedding", CppFunction::makeFromBoxedFunction<&with_rows>());
  });
}

}  // namespace

void in_compute_type(const c10::OperatorHandle& op, torch::jit::Stack* stack, BoxedOp run) {
  const size_t count = op.schema().arguments().size();
  const auto type =
      inside || table().changes == 0 ? std::nullopt : type_of_weights(torch::jit::last(*stack, count));
  if (!type) return run(op, stack);
  const Inside scope;
  convert_last(*stack, count, *type);
  run(op, stack);
  convert_last(*stack, op.schema().returns().size(), at::kFloat);
}

void set_compute_type(const at::Tensor& parameter, std::optional<at::ScalarType> type) {
  if (!parameter.defined() || type == compute_type(parameter)) return;
  Table& t = table();
  if (type) stand_in_front();
  const std::unique_lock lock(t.mutex);
  ++t.changes;
  std::erase_if(t.entries, [](const auto& e) { return e.second.parameter.expired(); });
  t.entries.erase(parameter.unsafeGetTensorImpl());
  if (type)
    t.entries.emplace(parameter.unsafeGetTensorImpl(),
                      Entry{decltype(Entry::parameter)(parameter.getIntrusivePtr()), *type});
}

std::optional<at::ScalarType> compute_type(const at::Tensor& parameter) {
  return parameter.defined() ? find(parameter) : std::nullopt;
}

uint64_t compute_type_changes() { return table().changes; }

}  // namespace tpubridge
