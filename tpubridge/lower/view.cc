// Reading and writing views of a storage, and the other ops on memory that the device itself traces.
#include <algorithm>
#include <limits>
#include <numeric>

#include "tpubridge/hlo/indexing.h"
#include "tpubridge/lower/context.h"
#include "tpubridge/lower/overlap.h"
#include "tpubridge/trace/geometry.h"

namespace tpubridge::lower {
namespace {

using trace::Box;
using trace::Geometry;

// A value laid out in `g` (which covers its memory) as flat memory order, dimension by dimension.
Value in_memory_order(Value v, const Geometry& g) { return transposed(v, trace::memory_order(g)); }

Value from_memory_order(Value memory, const Geometry& g) {
  const Dims order = trace::memory_order(g);
  Dims sizes, back(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    sizes.push_back(g.sizes[static_cast<size_t>(order[i])]);
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  return transposed(reshaped(memory, sizes), back);
}

Value as_box_memory(Value memory, const Box& box) {
  if (box.padding == 0) return reshaped(memory, box.memory);
  const Value flat = reshaped(memory, {memory.elements()});
  return reshaped(hlo::pad(flat, hlo::constant(flat.builder(), flat.dtype(), 0), {0}, {box.padding}),
                  box.memory);
}

// Sizes of the box's own dimensions in the order of memory, without those of extent 1.
Dims box_sizes(const Box& box, const Geometry& view) {
  Dims sizes;
  for (int64_t a : box.axes) sizes.push_back(view.sizes[static_cast<size_t>(a)]);
  return sizes;
}

// From the axes of the view that memory has, to all its sizes: unit axes come in, axes of stride 0 are
// repeated.
Value to_view(Value v, const Box& box, const Geometry& view) {
  Dims sorted = box.axes, order;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t a : sorted) order.push_back(std::find(box.axes.begin(), box.axes.end(), a) - box.axes.begin());
  v = transposed(v, order);
  const bool repeated = product(view.sizes) != v.elements();
  return repeated ? spread(v, view.sizes, sorted) : reshaped(v, view.sizes);
}

// A view whose offset may be an input of the program.
struct At {
  Geometry view;
  std::optional<Value> offset = {};
};

At view_at(const Context& c, size_t first) {
  const bool input = c.is_tensor(first + 2);
  At out{{c.integers(first), c.integers(first + 1), input ? 0 : c.integer(first + 2)}};
  if (input) out.offset = c.in(first + 2);
  return out;
}

// Whether the offset may be an input: then boxes of it are found from the strides alone.
template <size_t first, size_t sizes>
bool is_box(const Call& c) {
  const Geometry view{c.integers(first), c.integers(first + 1), c.integer(first + 2)};
  return trace::box_of(view, product(c.integers(sizes))).has_value();
}

// Where the box begins in each dimension of its memory: the digits of the offset.
std::vector<Value> starts(hlo::Builder& b, const Box& box, const At& at) {
  std::vector<Value> out;
  int64_t stride = product(box.memory);
  const DType t = stride > std::numeric_limits<int32_t>::max() ? DType::s64 : DType::s32;
  if (!at.offset) {
    for (int64_t s : box.start) out.push_back(hlo::constant(b, t, s));
    return out;
  }
  Value rest = hlo::convert(*at.offset, t);
  for (const int64_t size : box.memory) {
    stride /= size;
    out.push_back(hlo::divide(rest, like(rest, stride)));
    rest = hlo::remainder(rest, like(rest, stride));
  }
  return out;
}

// Places of the elements of a view in flat memory of `total` elements.
Value places(hlo::Builder& b, const Geometry& view, int64_t total) {
  const DType t = total > std::numeric_limits<int32_t>::max() ? DType::s64 : DType::s32;
  Value sum = fill(b, t, view.sizes, view.offset);
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] == 1 || view.strides[i] == 0) continue;
    const Value along = hlo::iota(b, Shape{t, view.sizes}, static_cast<int64_t>(i));
    sum = hlo::add(sum, hlo::multiply(along, like(along, view.strides[i])));
  }
  return sum;
}

void view(Context& c) {
  const Geometry from{c.integers(1), c.integers(2), 0};
  const At at = view_at(c, 3);
  const Geometry& to = at.view;
  const Value memory = in_memory_order(c.in(0), from);
  if (const auto box = trace::box_of(to, memory.elements())) {
    Value v = as_box_memory(memory, *box);
    if (at.offset) {
      v = hlo::dynamic_slice(v, starts(c.b, *box, at), box->extent);
    } else if (box->extent != box->memory) {
      Dims limits;
      for (size_t i = 0; i < box->start.size(); ++i) limits.push_back(box->start[i] + box->extent[i]);
      v = hlo::slice(v, box->start, limits);
    }
    return c.result(to_view(reshaped(v, box_sizes(*box, to)), *box, to));
  }
  const Value index = reshaped(places(c.b, to, memory.elements()), {product(to.sizes), 1});
  const Value flat = reshaped(memory, {memory.elements()});
  hlo::GatherDims dims;
  dims.collapsed_slice_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  c.result(reshaped(hlo::gather(flat, index, dims, {1}), to.sizes));
}

void update(Context& c) {
  const Geometry in{c.integers(2), c.integers(3), 0};
  const At where = view_at(c, 4);
  const Geometry& at = where.view;
  const Value memory = in_memory_order(c.in(0), in);
  const Value part = c.in(1);
  const int64_t total = memory.elements();
  Value written;
  const auto box = trace::box_of(at, total);
  if (box && product(box_sizes(*box, at)) == product(at.sizes)) {
    // Unit axes go, the others come into the order of memory.
    Dims kept = box->axes, order;
    std::sort(kept.begin(), kept.end());
    Dims sizes;
    for (int64_t a : kept) sizes.push_back(at.sizes[static_cast<size_t>(a)]);
    for (int64_t a : box->axes) order.push_back(std::find(kept.begin(), kept.end(), a) - kept.begin());
    const Value piece = reshaped(transposed(reshaped(part, sizes), order), box->extent);
    const Value boxes = as_box_memory(memory, *box);
    const auto from = starts(c.b, *box, where);
    written =
        c.overlapping ? with_piece_apart(boxes, piece, from) : hlo::dynamic_update_slice(boxes, piece, from);
    if (box->padding) written = hlo::slice(reshaped(written, {written.elements()}), {0}, {total});
  } else {
    const int64_t n = part.elements();
    hlo::ScatterDims dims;
    dims.inserted_window_dims = {0};
    dims.scatter_dims_to_operand_dims = {0};
    dims.index_vector_dim = 1;
    written = hlo::scatter_set(reshaped(memory, {total}), reshaped(places(c.b, at, total), {n, 1}),
                               reshaped(part, {n}), dims);
  }
  c.result(from_memory_order(written, in));
}

Value flat_memory(Context& c) {
  const Value v = in_memory_order(c.in(0), Geometry{c.integers(1), c.integers(2), 0});
  return reshaped(v, {v.elements()});
}

// The same bytes as numbers of another type. A complex number is its two parts, a bool its byte.
Value retyped(Value v, DType to) {
  if (v.dtype() == DType::pred) v = hlo::convert(v, DType::u8);
  if (is_complex(v.dtype())) {
    const Value re = reshaped(hlo::real(v), {v.elements(), 1}),
                im = reshaped(hlo::imag(v), {v.elements(), 1});
    const Value parts = hlo::concatenate({re, im}, 1);
    v = reshaped(parts, {parts.elements()});
  }
  if (v.dtype() == to) return v;
  if (is_complex(to)) {
    const DType part = to == DType::c64 ? DType::f32 : DType::f64;
    v = retyped(v, part);
    const int64_t n = v.elements() / 2;
    const Value pairs = reshaped(v, {n, 2});
    return hlo::complex(reshaped(hlo::slice(pairs, {0, 0}, {n, 1}), {n}),
                        reshaped(hlo::slice(pairs, {0, 1}, {n, 2}), {n}));
  }
  if (to == DType::pred) {
    const Value bytes = retyped(v, DType::u8);
    return hlo::compare(bytes, like(bytes, 0), hlo::Direction::ne);
  }
  const int64_t from_bits = bits(v.dtype()), to_bits = bits(to);
  if (to_bits > from_bits) v = reshaped(v, {v.elements() * from_bits / to_bits, to_bits / from_bits});
  v = hlo::bitcast_convert(v, to);
  return reshaped(v, {v.elements()});
}

Value cut_or_padded(Value flat, int64_t n) {
  const int64_t have = flat.elements();
  if (n < have) return hlo::slice(flat, {0}, {n});
  if (n > have) return hlo::pad(flat, hlo::constant(flat.builder(), flat.dtype(), 0), {0}, {n - have});
  return flat;
}

void reinterpret(Context& c) {
  const Value flat = flat_memory(c);
  const DType to = c.out().dtype;
  // Whole elements of the new type alone: what is left over at the end cannot be seen through it.
  const int64_t wide = std::max<int64_t>(bits(to) / bits(flat.dtype()), 1);
  c.result(
      cut_or_padded(retyped(cut_or_padded(flat, flat.elements() / wide * wide), to), c.out().elements()));
}

void resize(Context& c) { c.result(cut_or_padded(flat_memory(c), c.out().elements())); }
void zeros(Context& c) { c.result(fill(c.b, c.out().dtype, c.out().dims, 0)); }
void convert(Context& c) { c.result(to(c.in(0), c.out().dtype)); }

// Elements that are written twice are no box to write to.
bool is_written_box(const Call& c) {
  if (!is_box<4, 2>(c)) return false;
  const Dims sizes = c.integers(4), strides = c.integers(5);
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 1 && strides[i] == 0) return false;
  return true;
}

}  // namespace

std::span<const Row> view_rows() {
  static const Row rows[] = {
      {{"tpubridge::view", 1u << 5}, view, plain, nullptr, is_box<3, 1>},
      {{"tpubridge::update", 1u << 6}, update, plain, nullptr, is_written_box},
      {{"tpubridge::reinterpret"}, reinterpret},
      {{"tpubridge::resize"}, resize},
      {{"tpubridge::zeros"}, zeros},
      {{"tpubridge::convert"}, convert},
  };
  return rows;
}

}  // namespace tpubridge::lower
