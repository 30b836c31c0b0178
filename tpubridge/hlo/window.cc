#include "tpubridge/hlo/window.h"

#include <fmt/format.h>

#include "tpubridge/hlo/check.h"

namespace tpubridge::hlo {
namespace {

std::vector<int64_t> or_ones(const std::vector<int64_t>& v, size_t rank) {
  return v.empty() ? std::vector<int64_t>(rank, 1) : v;
}

void check_positive(std::string_view op, std::string_view what, const std::vector<int64_t>& v, size_t rank) {
  check_count(op, what, v.size(), rank);
  check_at_least(op, what, v, 1);
}

}  // namespace

int64_t dilated(int64_t size, int64_t dilation) {
  int64_t out = 0;
  if (size == 0) return 0;
  if (__builtin_mul_overflow(size - 1, dilation, &out) || __builtin_add_overflow(out, 1, &out))
    fail("window", fmt::format("size {} with dilation {} is too large", size, dilation));
  return out;
}

int64_t window_positions(std::string_view op, int64_t size, std::pair<int64_t, int64_t> padding,
                         int64_t window, int64_t stride) {
  int64_t padded = 0;
  if (__builtin_add_overflow(size, padding.first, &padded) ||
      __builtin_add_overflow(padded, padding.second, &padded))
    fail(op, fmt::format("padding {} and {} is too large", padding.first, padding.second));
  if (padded < 0)
    fail(op, fmt::format("padding {} and {} takes more than a dimension of size {} has", padding.first,
                         padding.second, size));
  return padded < window || padded == 0 ? 0 : (padded - window) / stride + 1;
}

FullWindow::FullWindow(std::string_view op, const Value& x, const Window& window)
    : size(window.size), padding(window.padding) {
  const auto rank = static_cast<size_t>(x.rank());
  strides = or_ones(window.strides, rank);
  base_dilation = or_ones(window.base_dilation, rank);
  window_dilation = or_ones(window.window_dilation, rank);
  if (padding.empty()) padding.resize(rank);
  check_positive(op, "window_dimensions", size, rank);
  check_positive(op, "window_strides", strides, rank);
  check_positive(op, "base_dilations", base_dilation, rank);
  check_positive(op, "window_dilations", window_dilation, rank);
  check_count(op, "padding", padding.size(), rank);
  for (size_t i = 0; i < rank; ++i)
    positions.push_back(window_positions(op, dilated(x.dims()[i], base_dilation[i]), padding[i],
                                         dilated(size[i], window_dilation[i]), strides[i]));
}

}  // namespace tpubridge::hlo
