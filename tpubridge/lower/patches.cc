// Patches of images as columns (im2col) and back (col2im): each is the other's gradient. Windows of one axis
// put back (unfold's gradient).
#include <algorithm>

#include "tpubridge/hlo/indexing.h"
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

// Of one or of a batch: the batch may be empty, nothing else. `rank` is that of one.
bool one_or_batch(const Dims& dims, size_t rank) {
  if (dims.size() != rank && dims.size() != rank + 1) return false;
  return std::all_of(dims.end() - static_cast<int64_t>(rank), dims.end(), [](int64_t d) { return d > 0; });
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
  if (!sound(p) || !one_or_batch(d, 3)) return {};
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
  if (!sound(p) || size.size() != 2 || !one_or_batch(d, 2)) return {};
  const int64_t kernels = p.kernel[0] * p.kernel[1];
  if (d[d.size() - 2] % kernels || p.places(0, size[0]) * p.places(1, size[1]) != d.back() ||
      p.places(0, size[0]) < 1 || p.places(1, size[1]) < 1)
    return {};
  Dims out{d[d.size() - 2] / kernels, size[0], size[1]};
  if (d.size() == 3) out.insert(out.begin(), d[0]);
  return {Shape{c.shape(0).dtype, out}};
}

// Windows [before, places, after, size] that begin `step` apart, added up along an axis of length n. Pieces
// of windows that are `step` long lie side by side: one sum for each such piece of a window.
Value windows_side_by_side(Value g, int64_t n, int64_t step) {
  const int64_t before = g.dim(0), places = g.dim(1), after = g.dim(2), size = g.dim(3);
  const Value zero = hlo::constant(g.builder(), g.dtype(), 0);
  Value total;
  for (int64_t k = 0; k < size; k += step) {
    Value piece = hlo::slice(g, {0, 0, 0, k}, {before, places, after, std::min(k + step, size)});
    piece = hlo::pad(piece, zero, {0, 0, 0, 0}, {0, 0, 0, step - piece.dim(3)});
    piece = reshaped(hlo::transpose(piece, {0, 1, 3, 2}), {before, places * step, after});
    piece = hlo::pad(piece, zero, {0, k, 0}, {0, n - k - places * step, 0});
    total = total ? hlo::add(total, piece) : piece;
  }
  return total;
}

// The same where windows overlap many times: every element is added at its place.
Value windows_scattered(Value g, int64_t n, int64_t step) {
  const int64_t before = g.dim(0), places = g.dim(1), after = g.dim(2), size = g.dim(3);
  const Shape index{DType::s64, {places, size}};
  const Value start = hlo::iota(g.builder(), index, 0);
  const Value at = hlo::add(mul(start, like(start, step)), hlo::iota(g.builder(), index, 1));
  const Value updates = reshaped(hlo::transpose(g, {1, 3, 0, 2}), {places * size, before, after});
  hlo::ScatterDims d;
  d.update_window_dims = {1, 2};
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {0};
  d.index_vector_dim = 1;
  const Value rows = hlo::scatter(fill(g.builder(), g.dtype(), {n, before, after}, 0),
                                  reshaped(at, {places * size, 1}), updates, d, hlo::Reducer::add);
  return hlo::transpose(rows, {1, 0, 2});
}

// grad_in, input_sizes, dim, size, step
void unfold_backward(Context& c) {
  const Dims& out = c.out().dims;
  const Value g = c.in(0, opmath_of(c.out().dtype));
  if (g.elements() == 0) return c.result(fill(c.b, g.dtype(), out, 0));
  if (out.empty()) return c.result(reshaped(g, {}));
  const int64_t dim = wrapped({c.integer(2)}, static_cast<int64_t>(out.size()))[0], size = c.integer(3),
                step = c.integer(4), n = out[static_cast<size_t>(dim)];
  const Value windows = reshaped(g, {product(Dims(out.begin(), out.begin() + dim)), g.dim(dim),
                                     product(Dims(out.begin() + dim + 1, out.end())), size});
  constexpr int64_t kFewPieces = 16;
  c.result(reshaped((size + step - 1) / step <= kFewPieces ? windows_side_by_side(windows, n, step)
                                                           : windows_scattered(windows, n, step),
                    out));
}

std::vector<Shape> unfold_backward_shape(const Call& c) {
  const Dims sizes = c.integers(1), &g = c.dims(0);
  const auto rank = static_cast<int64_t>(sizes.size());
  const int64_t size = c.integer(3), step = c.integer(4);
  int64_t dim = c.integer(2);
  if (dim < 0) dim += std::max<int64_t>(rank, 1);
  if (dim < 0 || dim >= std::max<int64_t>(rank, 1) || size < 0 || step < 1) return {};
  Dims windows = sizes;
  const int64_t n = rank ? sizes[static_cast<size_t>(dim)] : 1;
  if (size > n) return {};
  if (rank) windows[static_cast<size_t>(dim)] = (n - size) / step + 1;
  windows.push_back(size);
  if (g != windows) return {};
  return {Shape{c.shape(0).dtype, sizes}};
}

}  // namespace

std::span<const Row> patch_rows() {
  static const Row rows[] = {
      {{"im2col"}, im2col, plain, im2col_shape},
      {{"col2im"}, col2im, plain, col2im_shape},
      {{"unfold_backward"}, unfold_backward, plain, unfold_backward_shape},
  };
  return rows;
}

}  // namespace tpubridge::lower
