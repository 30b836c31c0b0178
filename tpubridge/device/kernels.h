// The explicit kernels that other files of device/ need too.
#pragma once

#include "tpubridge/device/torch.h"

namespace tpubridge::device {

// Ops with a kernel in kernels.cc: the registry of traced ops leaves them out.
[[nodiscard]] bool has_explicit_kernel(std::string_view op);

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking);
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking);
at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst);

// Computes `self` (and all else that is pending; the reason is counted) and copies it to a CPU tensor of its
// sizes.
void copy_to_host(const at::Tensor& self, const at::Tensor& host, std::string_view reason);

}  // namespace tpubridge::device
