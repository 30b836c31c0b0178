#include "tpubridge/native/plain_convolution.h"

#include <algorithm>

namespace tpubridge::native {
namespace {

int64_t plane(const Dims& dims) {
  int64_t n = 1;
  for (size_t i = 2; i < dims.size(); ++i) n *= dims[i];
  return n;
}

}  // namespace

template <class T>
int64_t PlainConvolution<T>::x_place(int64_t y_place, int64_t w_place) const {
  int64_t place = 0, step = 1;
  for (size_t i = x_dims.size(); i-- > 2;) {
    const int64_t out = y_place % y_dims[i], kernel = w_place % w_dims[i];
    y_place /= y_dims[i];
    w_place /= w_dims[i];
    const int64_t at = out * window.stride[i - 2] - window.padding[i - 2] + kernel * window.dilation[i - 2];
    if (at < 0 || at >= x_dims[i]) return -1;
    place += at * step;
    step *= x_dims[i];
  }
  return place;
}

template <class T>
void PlainConvolution<T>::run(ConvPart part) const {
  const int64_t in_plane = plane(x_dims), places = plane(w_dims), out_plane = plane(y_dims);
  const int64_t images = x_dims[0], outputs = w_dims[0], inputs = w_dims[1];
  if (part == ConvPart::input_gradient) std::fill_n(x, images * x_dims[1] * in_plane, T(0));
  if (part == ConvPart::kernel_gradient) std::fill_n(w, outputs * inputs * places, T(0));
  for (int64_t n = 0; n < images; ++n)
    for (int64_t o = 0; o < outputs; ++o) {
      T* const y_here = y + (n * outputs + o) * out_plane;
      if (part == ConvPart::forward) std::fill_n(y_here, out_plane, bias ? bias[o] : T(0));
      const int64_t first_input = o / (outputs / window.groups) * inputs;
      for (int64_t i = 0; i < inputs; ++i) {
        T* const x_here = x + (n * x_dims[1] + first_input + i) * in_plane;
        T* const w_here = w + (o * inputs + i) * places;
        for (int64_t k = 0; k < places; ++k)
          for (int64_t p = 0; p < out_plane; ++p) {
            const int64_t at = x_place(p, k);
            if (at < 0) continue;
            if (part == ConvPart::forward) y_here[p] += x_here[at] * w_here[k];
            if (part == ConvPart::input_gradient) x_here[at] += y_here[p] * w_here[k];
            if (part == ConvPart::kernel_gradient) w_here[k] += x_here[at] * y_here[p];
          }
      }
    }
}

template struct PlainConvolution<float>;

}  // namespace tpubridge::native
