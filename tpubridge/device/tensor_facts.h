// What a tensor is besides its elements: two tensors with the same facts are treated alike by every op.
#pragma once

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <vector>

#include "tpubridge/device/torch.h"

namespace tpubridge::device {

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
[[nodiscard]] inline WeakTensor weak(const at::Tensor& t) { return WeakTensor(t.getIntrusivePtr()); }
[[nodiscard]] inline WeakTensor no_tensor() {
  return WeakTensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>());
}
[[nodiscard]] inline bool alive(const c10::TensorImpl* held_weakly) {
  return c10::raw::weak_intrusive_ptr::use_count(const_cast<c10::TensorImpl*>(held_weakly)) != 0;
}

// The functions that its gradient goes through (register_hook()): 0 where there are none; another number once
// one was added or taken away. C++'s are only ever added to a list, and emptied in their place.
[[nodiscard]] inline uint64_t hooks_of(const c10::TensorImpl& t) {
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(t.autograd_meta());
  if (!meta || (meta->hooks_.empty() && !meta->cpp_hooks_list_ && !meta->post_acc_grad_hooks_)) return 0;
  uint64_t all = 0, left = 0;
  if (const auto& list = meta->cpp_hooks_list_) {
    all = list->size();
    left = static_cast<uint64_t>(std::ranges::count_if(*list, [](const auto& f) { return bool(f); }));
  }
  return uint64_t{1} << 63 | (meta->post_acc_grad_hooks_ ? uint64_t{1} << 62 : 0) |
         (meta->hooks_.size() & 0xFFF) << 48 | (all & 0xFFFFFF) << 24 | (left & 0xFFFFFF);
}
// Some of them are of Python, whose lists cannot be looked into.
[[nodiscard]] inline bool has_unseen_hooks(const c10::TensorImpl& t) {
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(t.autograd_meta());
  return meta && (meta->post_acc_grad_hooks_ || meta->hooks_.size() > (meta->cpp_hooks_list_ ? 1u : 0u));
}

struct TensorFacts {
  TensorFacts() = default;
  explicit TensorFacts(const at::Tensor& t);

  const c10::StorageImpl* storage = nullptr;
  uint64_t keys = 0;  // dispatch keys: device, autograd, conjugate and negative bits
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool requires_grad = false;
  int64_t offset = 0;
  c10::DimVector sizes, strides;
  uint64_t hooks = 0;  // they do not change how ops treat it: hold() does not look at them

  [[nodiscard]] bool hold(const c10::TensorImpl& t) const {
    return t.storage().unsafeGetStorageImpl() == storage && hold_elsewhere(t);
  }
  // The same, whatever storage it looks at.
  [[nodiscard]] bool hold_elsewhere(const c10::TensorImpl& t) const {
    return t.key_set().raw_repr() == keys && t.dtype() == c10::scalarTypeToTypeMeta(dtype) &&
           t.requires_grad() == requires_grad && t.storage_offset() == offset && t.sizes() == sizes &&
           t.strides() == strides;
  }
  bool operator==(const TensorFacts&) const = default;
};

inline TensorFacts::TensorFacts(const at::Tensor& t)
    : storage(t.has_storage() ? t.storage().unsafeGetStorageImpl() : nullptr),
      keys(t.key_set().raw_repr()),
      dtype(t.scalar_type()),
      requires_grad(t.requires_grad()),
      hooks(hooks_of(*t.unsafeGetTensorImpl())) {
  if (t.layout() != c10::kStrided) return;
  offset = t.storage_offset();
  sizes = t.sizes();
  strides = t.strides();
}

// How often it was written in place, as autograd counts; 0 where it does not.
[[nodiscard]] inline uint32_t version_of(const c10::TensorImpl& t) {
  return t.version_counter().enabled() ? t.version_counter().current_version() : 0;
}
inline void set_version(c10::TensorImpl& t, int64_t version) {
  if (!t.version_counter().enabled()) return;
  // The counter is shared by the tensor's views; a copy of the handle would cost two atomics.
  const_cast<c10::VariableVersion&>(t.version_counter()).set_version(version);
}
inline void add_to_version(c10::TensorImpl& t, uint32_t more) {
  if (more != 0) set_version(t, static_cast<int64_t>(version_of(t)) + more);
}

}  // namespace tpubridge::device
