// Convolution and its gradients as loops: slow, but they need no memory and cannot fail.
#pragma once

#include <cstdint>
#include <vector>

#include "tpubridge/lower/host_convolution.h"

namespace tpubridge::native {

using Dims = std::vector<int64_t>;
using lower::ConvPart;

struct ConvWindow {
  Dims stride, padding, dilation;
  int64_t groups = 1;
};

// Row-major [n, g·i, …], [o, i, …], [n, o, …]. Writes what `part` says; `bias` may be null.
template <class T>
struct PlainConvolution {
  Dims x_dims, w_dims, y_dims;
  ConvWindow window;
  T *x, *w, *y;
  const T* bias;

  void run(ConvPart part) const;

 private:
  [[nodiscard]] int64_t x_place(int64_t y_place, int64_t w_place) const;  // -1: in the padding
};

extern template struct PlainConvolution<float>;

}  // namespace tpubridge::native
