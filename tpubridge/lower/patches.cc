// Patches of images as columns (im2col) and back (col2im): each is the other's gradient.
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

struct Patches {
  Dims kernel, dilation, padding, stride;
  // How many places the window has along spatial axis i of an image of that size.
  [[nodiscard]] int64_t places(size_t i, int64_t size) const {
    return (size + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1;
  }
};

Patches patches_of(const Call& c, size_t first) {
  return {c.integers(first), c.integers(first + 1), c.integers(first + 2), c.integers(first + 3)};
}

bool sound(const Patches& p) {
  for (const Dims* d : {&p.kernel, &p.dilation, &p.padding, &p.stride})
    if (d->size() != 2) return false;
  for (size_t i = 0; i < 2; ++i)
    if (p.kernel[i] < 1 || p.dilation[i] < 1 || p.padding[i] < 0 || p.stride[i] < 1) return false;
  return true;
}

// self, kernel_size, dilation, padding, stride: [n, c, h, w] → [n, c·kh·kw, places]
void im2col(Context& c) {
  const Patches p = patches_of(c, 1);
  const bool batched = c.dims(0).size() == 4;
  const Dims& d = c.dims(0);
  const int64_t n = batched ? d[0] : 1, ch = d[d.size() - 3], h = d[d.size() - 2], w = d[d.size() - 1];
  Value x = reshaped(c.in(0), {n, ch, h, w});
  x = hlo::pad(x, hlo::constant(c.b, x.dtype(), 0), {0, 0, p.padding[0], p.padding[1]},
               {0, 0, p.padding[0], p.padding[1]});
  const int64_t oh = p.places(0, h), ow = p.places(1, w);
  std::vector<Value> parts;
  for (int64_t i = 0; i < p.kernel[0]; ++i)
    for (int64_t j = 0; j < p.kernel[1]; ++j) {
      const int64_t y0 = i * p.dilation[0], x0 = j * p.dilation[1];
      const Value v = hlo::slice(x, {0, 0, y0, x0},
                                 {n, ch, y0 + (oh - 1) * p.stride[0] + 1, x0 + (ow - 1) * p.stride[1] + 1},
                                 {1, 1, p.stride[0], p.stride[1]});
      parts.push_back(reshaped(v, {n, ch, 1, oh * ow}));
    }
  c.result(reshaped(parts.size() == 1 ? parts[0] : hlo::concatenate(parts, 2), c.out().dims));
}

std::vector<Shape> im2col_shape(const Call& c) {
  const Patches p = patches_of(c, 1);
  const Dims& d = c.dims(0);
  if (!sound(p) || (d.size() != 3 && d.size() != 4) || product(d) == 0) return {};
  const int64_t oh = p.places(0, d[d.size() - 2]), ow = p.places(1, d[d.size() - 1]);
  if (oh < 1 || ow < 1) return {};
  Dims out{d[d.size() - 3] * p.kernel[0] * p.kernel[1], oh * ow};
  if (d.size() == 4) out.insert(out.begin(), d[0]);
  return {Shape{c.shape(0).dtype, out}};
}

// self, output_size, kernel_size, dilation, padding, stride: [n, c·kh·kw, places] → [n, c, h, w], where
// patches overlap they are added.
void col2im(Context& c) {
  const Patches p = patches_of(c, 2);
  const Dims size = c.integers(1), &d = c.dims(0);
  const int64_t n = d.size() == 3 ? d[0] : 1, kernels = p.kernel[0] * p.kernel[1],
                ch = d[d.size() - 2] / kernels, oh = p.places(0, size[0]), ow = p.places(1, size[1]);
  const Value x = reshaped(c.in(0, opmath_of(c.out().dtype)), {n, ch, kernels, oh, ow});
  const Value zero = hlo::constant(c.b, x.dtype(), 0);
  Value total;
  for (int64_t i = 0; i < p.kernel[0]; ++i)
    for (int64_t j = 0; j < p.kernel[1]; ++j) {
      const int64_t k = i * p.kernel[1] + j;
      const Value v = reshaped(hlo::slice(x, {0, 0, k, 0, 0}, {n, ch, k + 1, oh, ow}), {n, ch, oh, ow});
      const int64_t y0 = i * p.dilation[0] - p.padding[0], x0 = j * p.dilation[1] - p.padding[1];
      const int64_t high = (oh - 1) * p.stride[0] + 1, wide = (ow - 1) * p.stride[1] + 1;
      const Value placed = hlo::pad(v, zero, {0, 0, y0, x0}, {0, 0, size[0] - y0 - high, size[1] - x0 - wide},
                                    {0, 0, p.stride[0] - 1, p.stride[1] - 1});
      total = total ? hlo::add(total, placed) : placed;
    }
  c.result(reshaped(total, c.out().dims));
}

std::vector<Shape> col2im_shape(const Call& c) {
  const Patches p = patches_of(c, 2);
  const Dims size = c.integers(1), &d = c.dims(0);
  if (!sound(p) || size.size() != 2 || (d.size() != 2 && d.size() != 3) || product(d) == 0) return {};
  const int64_t kernels = p.kernel[0] * p.kernel[1];
  if (d[d.size() - 2] % kernels || p.places(0, size[0]) * p.places(1, size[1]) != d.back() ||
      p.places(0, size[0]) < 1 || p.places(1, size[1]) < 1)
    return {};
  Dims out{d[d.size() - 2] / kernels, size[0], size[1]};
  if (d.size() == 3) out.insert(out.begin(), d[0]);
  return {Shape{c.shape(0).dtype, out}};
}

}  // namespace

std::span<const Row> patch_rows() {
  static const Row rows[] = {
      {{"im2col"}, im2col, plain, im2col_shape},
      {{"col2im"}, col2im, plain, col2im_shape},
  };
  return rows;
}

}  // namespace tpubridge::lower
