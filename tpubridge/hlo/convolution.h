// Convolution, with every dimension number.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tpubridge/hlo/linalg.h"
#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

// Which dimension of each array is what. conv_dims(2) is what PyTorch uses: [b,f,0,1] × [o,i,0,1] →
// [b,f,0,1].
struct ConvDims {
  int64_t input_batch = 0, input_feature = 1;
  std::vector<int64_t> input_spatial;
  int64_t kernel_output = 0, kernel_input = 1;
  std::vector<int64_t> kernel_spatial;
  int64_t output_batch = 0, output_feature = 1;
  std::vector<int64_t> output_spatial;
};
[[nodiscard]] ConvDims conv_dims(int64_t spatial);

// What is left empty means 1 (strides, dilations), 0 (padding) or false in every spatial dimension.
struct ConvOptions {
  std::vector<int64_t> strides = {}, lhs_dilation = {}, rhs_dilation = {};
  std::vector<std::pair<int64_t, int64_t>> padding = {};  // low, high; may be negative
  std::vector<bool> reversal = {};                        // of the kernel
  int64_t feature_groups = 1, batch_groups = 1;
  Precision lhs_precision = Precision::default_, rhs_precision = Precision::default_;
  std::optional<DType> result = {};  // element type of the result; left out: that of lhs
};
[[nodiscard]] Value convolution(Value lhs, Value rhs, const ConvDims& dims, const ConvOptions& options = {});

}  // namespace tpubridge::hlo
