// Padding by reflection and by repeating the edge, and the gradients. Negative padding cuts off.
#include <algorithm>

#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

enum class Edge { reflect, repeat };

struct Sides {
  int64_t low, high;
};

Value part(Value x, int64_t axis, int64_t from, int64_t until) {
  Dims start(static_cast<size_t>(x.rank()), 0), limit = x.dims();
  start[static_cast<size_t>(axis)] = from;
  limit[static_cast<size_t>(axis)] = until;
  return hlo::slice(x, start, limit);
}

Value zeros_around(Value x, int64_t axis, int64_t before, int64_t after) {
  Dims low(static_cast<size_t>(x.rank()), 0), high = low;
  low[static_cast<size_t>(axis)] = before;
  high[static_cast<size_t>(axis)] = after;
  return hlo::pad(x, hlo::constant(x.builder(), x.dtype(), 0), low, high);
}

Value repeated(Value edge, int64_t axis, int64_t times) {
  Dims dims = edge.dims();
  dims[static_cast<size_t>(axis)] = times;
  return expand(edge, dims);
}

Value padded(Value x, int64_t axis, Sides p, Edge edge) {
  const int64_t n = x.dim(axis);
  std::vector<Value> parts;
  if (p.low > 0)
    parts.push_back(edge == Edge::reflect ? hlo::reverse(part(x, axis, 1, p.low + 1), {axis})
                                          : repeated(part(x, axis, 0, 1), axis, p.low));
  const int64_t from = std::max<int64_t>(-p.low, 0), until = n - std::max<int64_t>(-p.high, 0);
  if (until > from) parts.push_back(part(x, axis, from, until));
  if (p.high > 0)
    parts.push_back(edge == Edge::reflect ? hlo::reverse(part(x, axis, n - 1 - p.high, n - 1), {axis})
                                          : repeated(part(x, axis, n - 1, n), axis, p.high));
  return parts.size() == 1 ? parts[0] : hlo::concatenate(parts, axis);
}

// What each element of the padded array was a copy of gets its gradient.
Value gathered(Value g, int64_t axis, int64_t n, Sides p, Edge edge) {
  const int64_t size = g.dim(axis), low = std::max<int64_t>(p.low, 0), high = std::max<int64_t>(p.high, 0);
  Value total = zeros_around(part(g, axis, low, size - high), axis, std::max<int64_t>(-p.low, 0),
                             std::max<int64_t>(-p.high, 0));
  auto add = [&](Value v, int64_t before) {
    total = hlo::add(total, zeros_around(v, axis, before, n - before - v.dim(axis)));
  };
  auto one = [&](Value v) {
    Dims dims = v.dims();
    dims[static_cast<size_t>(axis)] = 1;
    return reshaped(sum(v, {axis}), dims);
  };
  if (low > 0) {
    const Value v = part(g, axis, 0, low);
    edge == Edge::reflect ? add(hlo::reverse(v, {axis}), 1) : add(one(v), 0);
  }
  if (high > 0) {
    const Value v = part(g, axis, size - high, size);
    edge == Edge::reflect ? add(hlo::reverse(v, {axis}), n - 1 - high) : add(one(v), n - 1);
  }
  return total;
}

// Padding is listed from the last dimension on.
Sides sides(const Dims& pad, size_t i) { return {pad[2 * i], pad[2 * i + 1]}; }

// self, padding
template <Edge E>
void pad(Context& c) {
  Value x = c.in(0);
  const Dims list = c.integers(1);
  for (size_t i = 0; i < list.size() / 2; ++i)
    x = padded(x, x.rank() - 1 - static_cast<int64_t>(i), sides(list, i), E);
  c.result(x);
}

// grad_output, self, padding
template <Edge E>
void pad_backward(Context& c) {
  Value g = c.in(0, opmath_of(c.out().dtype));
  const Dims list = c.integers(2), &in = c.out().dims;
  for (size_t i = 0; i < list.size() / 2; ++i) {
    const int64_t axis = g.rank() - 1 - static_cast<int64_t>(i);
    g = gathered(g, axis, in[static_cast<size_t>(axis)], sides(list, i), E);
  }
  c.result(g);
}

// torch has no Meta kernel for this one.
std::vector<Shape> reflection_pad2d_shape(const Call& c) {
  Dims dims = c.dims(0);
  const Dims list = c.integers(1);
  if (list.size() != 4 || (dims.size() != 3 && dims.size() != 4)) return {};
  for (size_t i = 0; i < 2; ++i) {
    int64_t& d = dims[dims.size() - 1 - i];
    const Sides p = sides(list, i);
    if (p.low >= d || p.high >= d || d + p.low + p.high < 1) return {};
    d += p.low + p.high;
  }
  if (product(dims) == 0) return {};
  return {Shape{c.shape(0).dtype, dims}};
}

}  // namespace

std::span<const Row> padding_rows() {
  static const Row rows[] = {
      {{"reflection_pad1d"}, pad<Edge::reflect>},
      {{"reflection_pad2d"}, pad<Edge::reflect>, plain, reflection_pad2d_shape},
      {{"reflection_pad3d"}, pad<Edge::reflect>},
      {{"replication_pad1d"}, pad<Edge::repeat>},
      {{"replication_pad2d"}, pad<Edge::repeat>},
      {{"replication_pad3d"}, pad<Edge::repeat>},
      {{"reflection_pad1d_backward"}, pad_backward<Edge::reflect>, plain, like_second},
      {{"reflection_pad2d_backward"}, pad_backward<Edge::reflect>, plain, like_second},
      {{"reflection_pad3d_backward"}, pad_backward<Edge::reflect>, plain, like_second},
      {{"replication_pad1d_backward"}, pad_backward<Edge::repeat>, plain, like_second},
      {{"replication_pad2d_backward"}, pad_backward<Edge::repeat>, plain, like_second},
      {{"replication_pad3d_backward"}, pad_backward<Edge::repeat>, plain, like_second},
  };
  return rows;
}

}  // namespace tpubridge::lower
