// What the device tests share: the device, and comparison with the CPU.
#pragma once

#include <gtest/gtest.h>

#include "tpubridge/tpubridge.h"

namespace tpubridge {

inline torch::Device tpu() { return torch::Device("tpu"); }

// Values, sizes and element types are those of the CPU's result. Tolerances by element type, relative and
// absolute.
inline void expect_close(const torch::Tensor& got, const torch::Tensor& want, double scale = 1) {
  ASSERT_EQ(got.sizes(), want.sizes());
  ASSERT_EQ(got.scalar_type(), want.scalar_type());
  double tolerance = 0;
  switch (want.scalar_type()) {
    case torch::kBFloat16:
      tolerance = 1.6e-2;
      break;
    case torch::kHalf:
      tolerance = 2e-3;
      break;
    case torch::kFloat:
    case torch::kComplexFloat:
      tolerance = 2e-5;
      break;
    case torch::kDouble:
    case torch::kComplexDouble:
      tolerance = 1e-10;
      break;
    default:
      break;
  }
  const auto host = got.detach().cpu(), reference = want.detach().cpu();
  EXPECT_TRUE(torch::allclose(host, reference, tolerance * scale, tolerance * scale, /*equal_nan=*/true))
      << "tpu:\n"
      << host << "\ncpu:\n"
      << reference;
}

}  // namespace tpubridge
