// The inverse of pooling by the largest: values go back to the places that they came from.
#include "tpubridge/hlo/indexing.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

// self, indices, output_size, …: places are counted within one plane, of the last N dimensions.
template <size_t N>
void max_unpool(Context& c) {
  const Value x = c.in(0);
  const Dims size = c.integers(2);
  const int64_t area = product(size), planes = product(c.out().dims) / area, n = x.elements();
  const Value plane = hlo::iota(c.b, Shape{DType::s64, {planes, n / planes}}, 0);
  const Value place = reshaped(c.in(1, DType::s64), plane.dims());
  // What lies outside of its plane must not land in the next one.
  const Value at =
      hlo::select(in_range(place, area), hlo::add(hlo::multiply(plane, like(plane, area)), place),
                  like(place, planes * area));
  hlo::ScatterDims d;
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {0};
  d.index_vector_dim = 1;
  const Value flat =
      hlo::scatter_set(fill(c.b, x.dtype(), {planes * area}, 0), reshaped(at, {n}), reshaped(x, {n}), d);
  c.result(reshaped(flat, c.out().dims));
}

template <size_t N>
std::vector<Shape> max_unpool_shape(const Call& c) {
  Dims dims = c.dims(0);
  const Dims size = c.integers(2);
  if ((dims.size() != N + 1 && dims.size() != N + 2) || size.size() != N || c.dims(1) != dims) return {};
  if (c.shape(1).dtype != DType::s64 || product(dims) == 0 || product(size) == 0) return {};
  std::copy(size.begin(), size.end(), dims.end() - N);
  return {Shape{c.shape(0).dtype, dims}};
}

}  // namespace

std::span<const Row> unpooling_rows() {
  static const Row rows[] = {
      {{"max_unpool2d"}, max_unpool<2>, keep_format, max_unpool_shape<2>},
      {{"max_unpool3d"},
       max_unpool<3>,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         if (c.integers(3).size() != 3 || c.integers(4).size() != 3) return {};
         for (size_t arg : {3, 4})  // strides and padding are looked at by torch alone
           for (int64_t v : c.integers(arg))
             if (v < (arg == 3 ? 1 : 0)) return {};
         return max_unpool_shape<3>(c);
       }},
  };
  return rows;
}

}  // namespace tpubridge::lower
