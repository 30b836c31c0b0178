// Registers the boxed kernel for every aten op that needs one, when the library is loaded.
#include "tpubridge/device/fallback.h"
#include "tpubridge/device/hand_over.h"
#include "tpubridge/device/kernels.h"
#include "tpubridge/device/ops.h"
#include "tpubridge/exec/materialise.h"

#include <unordered_set>

namespace tpubridge::device {

bool has_explicit_kernel(std::string_view op) {
  static const std::unordered_set<std::string_view> names = {
      "empty.memory_format",
      "empty_strided",
      "resize_",
      "set_.source_Storage",
      "set_.source_Storage_storage_offset",
      "set_.source_Tensor",
      "set_",
      "equal",
      "_local_scalar_dense",
      "as_strided",
      "view",
      "_reshape_alias",
      "unfold",
      "copy_",
      "_copy_from",
      "_copy_from_and_resize",
      "_has_compatible_shallow_copy_type",
      "native_batch_norm",
      "_native_batch_norm_legit",
      "_native_batch_norm_legit.no_stats",
      "_fused_sdp_choice",
      "_scaled_dot_product_fused_attention_overrideable",
      "_scaled_dot_product_fused_attention_overrideable_backward",
      "_fused_adam_",
      "_fused_adam_.tensor_lr",
      "_fused_adamw_",
      "_fused_adamw_.tensor_lr",
      "_fused_sgd_",
      "_fused_sgd_.tensor_lr",
      "_fused_adagrad_",
      "_fused_adagrad_.tensor_lr",
      "_amp_foreach_non_finite_check_and_unscale_",
      "_efficientzerotensor",
      "channel_shuffle",
      "view_as_real",
      "view_as_complex",
      "_grouped_mm",
      "_linalg_det",
      "_linalg_slogdet",
      "_linalg_solve_ex",
      "nonzero",
      "masked_select",
      "_unique2",
      "_unique",
      "unique_dim",
      "unique_dim_consecutive",
      "unique_consecutive",
      "repeat_interleave.Tensor",
      "bincount",
      "rrelu_with_noise",
      "rrelu_with_noise_"};
  return names.count(op) > 0;
}

namespace {

using c10::DispatchKey;

// Ops that only make another view of their argument reach as_strided by themselves.
bool is_view(const c10::OperatorHandle& op) {
  for (const auto& r : op.schema().returns())
    if (r.alias_info() && !r.alias_info()->isWrite()) return true;
  return false;
}

// The CPU has a kernel of its own for them, and torch a composition of views and copies for all others.
bool is_rearrangement(std::string_view op) {
  static const std::unordered_set<std::string_view> names = {"pixel_shuffle", "pixel_unshuffle",
                                                             "narrow_copy"};
  return names.count(op) > 0;
}

bool wanted(const c10::OperatorHandle& op, const OpInfo& info) {
  if (op.hasTag(at::Tag::inplace_view) || is_view(op)) return false;
  if (op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd)) return false;
  if (op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd))
    return info.traceable && (info.row->flags & lower::composite);
  // Composites of other ops (select_backward); structured ops, which have a kernel for the CPU, are not
  // meant.
  if (!info.traceable && op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional) &&
      !op.hasKernelForDispatchKey(DispatchKey::CPU))
    return false;
  return true;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const std::string full =
        name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
    if (has_explicit_kernel(full) || is_rearrangement(full)) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op) continue;
    OpInfo info = describe(*op);
    if (!wanted(*op, info)) continue;
    m.impl(full.c_str(),
           torch::CppFunction::makeFromBoxedFunctor(std::make_unique<TracedOp>(std::move(info))));
  }
}

const bool deterministic_mode_is_followed = [] {
  exec::set_deterministic_source([] { return at::globalContext().deterministicAlgorithms(); });
  return true;
}();

// Ops of other namespaces.
void boxed_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  handing_over([&] { fall_back(op, stack); });
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>());
}
TORCH_LIBRARY_IMPL(_, AutogradPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

}  // namespace tpubridge::device
