// Learning rates as functions of a step count on the device.
#include <ATen/ATen.h>

#include <cmath>

#include "tpubridge/base/errors.h"
#include "tpubridge/optim/optim.h"

namespace tpubridge::optim {
namespace {

// `fall` goes from 1 to 0 while its argument goes from 0 to 1.
Schedule warmup_then(int64_t warmup, int64_t total, double last, at::Tensor (*fall)(const at::Tensor&)) {
  if (warmup < 0 || total <= warmup)
    throw ArgumentError("a schedule must have more steps than its warm-up",
                        {{"warmup", std::to_string(warmup)}, {"total", std::to_string(total)}});
  return [=](const at::Tensor& steps) {
    const auto down =
        ((steps - static_cast<double>(warmup)) / static_cast<double>(total - warmup)).clamp(0, 1);
    auto after = fall(down) * (1 - last) + last;
    if (warmup == 0) return after;
    const auto up = (steps + 1) / static_cast<double>(warmup);
    return at::where(steps < static_cast<double>(warmup), up, after);
  };
}

}  // namespace

Schedule warmup_cosine(int64_t warmup, int64_t total, double last) {
  return warmup_then(warmup, total, last, [](const at::Tensor& t) { return (at::cos(t * M_PI) + 1) * 0.5; });
}

Schedule warmup_linear(int64_t warmup, int64_t total, double last) {
  return warmup_then(warmup, total, last, [](const at::Tensor& t) { return 1 - t; });
}

}  // namespace tpubridge::optim
