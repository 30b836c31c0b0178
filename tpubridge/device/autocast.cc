// Autocast: the same lists of ops as on other accelerators; every other op passes through as it is.
#include <ATen/autocast_mode.h>

#include "tpubridge/device/torch.h"

namespace at::autocast {

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

namespace {

// Whole recurrent nets: torch's lists have their cells alone.
void cast_all(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard once(c10::DispatchKey::AutocastPrivateUse1);
  const ScalarType type = get_autocast_dtype(kPrivateUse1);
  const size_t count = op.schema().arguments().size();
  for (size_t i = stack->size() - count; i < stack->size(); ++i) {
    c10::IValue& v = (*stack)[i];
    if (v.isTensor())
      v = cached_cast(type, v.toTensor(), kPrivateUse1);
    else if (v.isTensorList())
      v = cached_cast(type, TensorList(v.toTensorVector()), kPrivateUse1);
  }
  op.callBoxed(stack);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  for (const char* name : {"lstm.input", "lstm.data", "gru.input", "gru.data", "rnn_tanh.input",
                           "rnn_tanh.data", "rnn_relu.input", "rnn_relu.data"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&cast_all>());
#define TPUBRIDGE_KERNEL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(TPUBRIDGE_KERNEL)
#undef TPUBRIDGE_KERNEL
#define TPUBRIDGE_KERNEL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(TPUBRIDGE_KERNEL)
#undef TPUBRIDGE_KERNEL
#define TPUBRIDGE_KERNEL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(TPUBRIDGE_KERNEL)
#undef TPUBRIDGE_KERNEL
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
#define TPUBRIDGE_KERNEL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(TPUBRIDGE_KERNEL)
#undef TPUBRIDGE_KERNEL
}

}  // namespace at::autocast
