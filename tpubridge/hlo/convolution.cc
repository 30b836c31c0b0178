#include "tpubridge/hlo/convolution.h"

#include <fmt/format.h>

#include "tpubridge/hlo/check.h"
#include "tpubridge/hlo/emit.h"
#include "tpubridge/hlo/precision.h"
#include "tpubridge/hlo/window.h"

namespace tpubridge::hlo {
namespace {

constexpr std::string_view kConvolution = "stablehlo.convolution";

// [b, f, 0, 1]
std::string side_text(char first, int64_t first_dim, char second, int64_t second_dim,
                      const std::vector<int64_t>& spatial) {
  std::vector<std::string> names(spatial.size() + 2);
  names[static_cast<size_t>(first_dim)] = first;
  names[static_cast<size_t>(second_dim)] = second;
  for (size_t i = 0; i < spatial.size(); ++i) names[static_cast<size_t>(spatial[i])] = std::to_string(i);
  return fmt::format("[{}]", fmt::join(names, ", "));
}

void check_side(std::string_view what, int64_t first, int64_t second, const std::vector<int64_t>& spatial,
                size_t rank) {
  check_count(kConvolution, fmt::format("the spatial dimensions of the {}", what), spatial.size() + 2, rank);
  std::vector<int64_t> all = {first, second};
  all.insert(all.end(), spatial.begin(), spatial.end());
  check_dims(kConvolution, fmt::format("the dimension numbers of the {}", what), all,
             static_cast<int64_t>(rank));
}

std::vector<int64_t> or_ones(std::string_view what, const std::vector<int64_t>& v, size_t n) {
  if (v.empty()) return std::vector<int64_t>(n, 1);
  check_count(kConvolution, what, v.size(), n);
  check_at_least(kConvolution, what, v, 1);
  return v;
}

// What the group counts ask of the feature and batch dimensions.
void check_groups(const Value& lhs, const Value& rhs, const ConvDims& d, const ConvOptions& o) {
  const int64_t batch = lhs.dim(d.input_batch), features = lhs.dim(d.input_feature),
                out = rhs.dim(d.kernel_output), in = rhs.dim(d.kernel_input);
  if (o.feature_groups < 1 || o.batch_groups < 1 || (o.feature_groups > 1 && o.batch_groups > 1))
    fail(kConvolution,
         fmt::format("{} feature and {} batch groups: both at least 1, and one of them 1", o.feature_groups,
                     o.batch_groups),
         lhs, rhs);
  if (features % o.feature_groups || features / o.feature_groups != in)
    fail(kConvolution,
         fmt::format("{} input features in {} groups need a kernel of {} features each, it has {}", features,
                     o.feature_groups, features / o.feature_groups, in),
         lhs, rhs);
  if (out % o.feature_groups || out % o.batch_groups)
    fail(kConvolution,
         fmt::format("{} output features do not split into {} feature and {} batch groups", out,
                     o.feature_groups, o.batch_groups),
         lhs, rhs);
  if (batch % o.batch_groups)
    fail(kConvolution, fmt::format("a batch of {} does not split into {} groups", batch, o.batch_groups), lhs,
         rhs);
}

}  // namespace

ConvDims conv_dims(int64_t spatial) {
  ConvDims out;
  for (int64_t i = 0; i < spatial; ++i) {
    out.input_spatial.push_back(i + 2);
    out.kernel_spatial.push_back(i + 2);
    out.output_spatial.push_back(i + 2);
  }
  return out;
}

Value convolution(Value lhs, Value rhs, const ConvDims& d, const ConvOptions& o) {
  const DType result = o.result.value_or(lhs.dtype());
  check_product_types(kConvolution, lhs, rhs, result);
  if (lhs.rank() != rhs.rank() || lhs.rank() < 2)
    fail(kConvolution, "operands must have the same rank, at least 2", lhs, rhs);
  const auto rank = static_cast<size_t>(lhs.rank()), n = rank - 2;
  check_side("input", d.input_batch, d.input_feature, d.input_spatial, rank);
  check_side("kernel", d.kernel_output, d.kernel_input, d.kernel_spatial, rank);
  check_side("output", d.output_batch, d.output_feature, d.output_spatial, rank);
  const auto strides = or_ones("window_strides", o.strides, n);
  const auto lhs_dilation = or_ones("lhs_dilation", o.lhs_dilation, n);
  const auto rhs_dilation = or_ones("rhs_dilation", o.rhs_dilation, n);
  auto padding = o.padding;
  auto reversal = o.reversal;
  if (padding.empty()) padding.resize(n);
  if (reversal.empty()) reversal.resize(n);
  check_count(kConvolution, "padding", padding.size(), n);
  check_count(kConvolution, "window_reversal", reversal.size(), n);
  check_groups(lhs, rhs, d, o);

  std::vector<int64_t> dims(rank);
  dims[static_cast<size_t>(d.output_batch)] = lhs.dim(d.input_batch) / o.batch_groups;
  dims[static_cast<size_t>(d.output_feature)] = rhs.dim(d.kernel_output);
  for (size_t i = 0; i < n; ++i) {
    const int64_t window = rhs.dim(d.kernel_spatial[i]);
    if (window < 1) fail(kConvolution, "a spatial dimension of the kernel is empty", lhs, rhs);
    dims[static_cast<size_t>(d.output_spatial[i])] =
        window_positions(kConvolution, dilated(lhs.dim(d.input_spatial[i]), lhs_dilation[i]), padding[i],
                         dilated(window, rhs_dilation[i]), strides[i]);
  }
  const std::string numbers = fmt::format(
      "#stablehlo.conv<{}x{}->{}>", side_text('b', d.input_batch, 'f', d.input_feature, d.input_spatial),
      side_text('o', d.kernel_output, 'i', d.kernel_input, d.kernel_spatial),
      side_text('b', d.output_batch, 'f', d.output_feature, d.output_spatial));
  return Op(kConvolution, {lhs, rhs})
      .list("window_strides", strides)
      .table("padding", padding)
      .list("lhs_dilation", lhs_dilation)
      .list("rhs_dilation", rhs_dilation)
      .bools("window_reversal", reversal)
      .attr("dimension_numbers", numbers)
      .number("feature_group_count", o.feature_groups, "i64")
      .number("batch_group_count", o.batch_groups, "i64")
      .attr("precision_config", precision_text(o.lhs_precision, o.rhs_precision))
      .result(result, dims);
}

}  // namespace tpubridge::hlo
