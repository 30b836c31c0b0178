// Autocast: the same lists of ops as on other accelerators; every other op passes through as it is.
#include <ATen/autocast_mode.h>

#include "tpubridge/device/torch.h"

namespace at::autocast {

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
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
