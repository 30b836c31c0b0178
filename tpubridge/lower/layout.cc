// Ops that move elements: joining, turning, padding, repeating.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "tpubridge/hlo/chlo.h"
#include "tpubridge/hlo/control.h"
#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/hlo/indexing.h"
#include "tpubridge/hlo/sharding.h"
#include "tpubridge/lower/sorted.h"

namespace tpubridge::lower {
namespace {

// tensors, dim. A 1-dimensional tensor without elements joins anything (torch's old rule).
void cat(Context& c) {
  std::vector<Value> parts;
  for (Value v : c.list(0))
    if (!(v.rank() == 1 && v.dim(0) == 0 && c.out().rank() != 1)) parts.push_back(to(v, c.out().dtype));
  c.result(parts.size() == 1 ? parts[0]
                             : hlo::concatenate(parts, wrapped({c.integer(1)}, c.out().rank())[0]));
}

// self, src: the source, in the size and type of self.
void copy(Context& c) { c.result(expand(c.in(1, c.out().dtype), c.out().dims)); }

void flip(Context& c) { c.result(hlo::reverse(c.in(0), wrapped(c.integers(1), c.out().rank()))); }

// By a number that the program does not know: a part of the value twice in a row.
Value rolled(Value x, int64_t axis, Value by) {
  const Value n = like(by, x.dim(axis));
  const Value rest = hlo::remainder(by, n);  // with the sign of `by`
  const Value forward =
      hlo::select(hlo::compare(rest, like(by, 0), hlo::Direction::lt), hlo::add(rest, n), rest);
  std::vector<Value> start(static_cast<size_t>(x.rank()), like(by, 0));
  start[static_cast<size_t>(axis)] = hlo::subtract(n, forward);
  return hlo::dynamic_slice(hlo::concatenate({x, x}, axis), start, x.dims());
}

void roll(Context& c) {
  Value x = c.in(0);
  const auto inputs = c.is_list(1) ? c.list(1) : std::vector<Value>();
  const Dims shifts = inputs.empty() ? c.integers(1) : Dims();
  Dims dims = c.integers(2);
  const Dims full = x.dims();
  if (dims.empty()) {
    x = reshaped(x, {x.elements()});
    dims = {0};
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t axis = dims[i] < 0 ? dims[i] + x.rank() : dims[i], n = x.dim(axis);
    if (n == 0) continue;
    if (!inputs.empty()) {
      x = rolled(x, axis, inputs[i]);
      continue;
    }
    const int64_t cut = n - ((shifts[i] % n) + n) % n;
    if (cut == n) continue;
    Dims start(static_cast<size_t>(x.rank()), 0), middle = x.dims(), from = start;
    middle[static_cast<size_t>(axis)] = cut;
    from[static_cast<size_t>(axis)] = cut;
    x = hlo::concatenate({hlo::slice(x, from, x.dims()), hlo::slice(x, start, middle)}, axis);
  }
  c.result(reshaped(x, full));
}

// self, pad (last dimension first; may be negative), value
void constant_pad(Context& c) {
  const Value x = c.in(0);
  const Dims pad = c.integers(1);
  Dims low(static_cast<size_t>(x.rank()), 0), high = low;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    low[low.size() - 1 - i] = pad[2 * i];
    high[high.size() - 1 - i] = pad[2 * i + 1];
  }
  c.result(hlo::pad(x, c.in(2, x.dtype()), low, high));
}

void repeat(Context& c) {
  const Value x = c.in(0);
  const Dims times = c.integers(1);
  // [r0, d0, r1, d1, …], then the pairs are merged.
  Dims pairs, axes;
  const size_t lead = times.size() - static_cast<size_t>(x.rank());
  for (size_t i = 0; i < times.size(); ++i) {
    pairs.push_back(times[i]);
    if (i < lead) continue;
    axes.push_back(static_cast<int64_t>(pairs.size()));
    pairs.push_back(x.dim(static_cast<int64_t>(i - lead)));
  }
  c.result(reshaped(spread(x, pairs, axes), c.out().dims));
}

// self, dim, descending [stable first in one overload]
void sort_by(Context& c, Value x, int64_t dim, bool descending) {
  if (x.rank() == 0) {
    c.result(x, 0);
    return c.result(hlo::constant(c.b, DType::s64, 0), 1);
  }
  const Sorted s = sorted(x, wrapped({dim}, x.rank())[0], descending);
  c.result(s.values, 0);
  c.result(s.places, 1);
}
void sort(Context& c) { sort_by(c, c.in(0), c.integer(1), c.flag(2)); }
void sort_stable(Context& c) { sort_by(c, c.in(0), c.integer(2), c.flag(3)); }

// The few largest of long rows are found without sorting all: 100 times as fast on the CPU plugin, for this
// type. NaN is the largest, whatever its sign.
bool few_of_many(Value x, int64_t k, int64_t axis, bool largest) {
  return largest && k > 0 && x.dtype() == DType::f32 && axis == x.rank() - 1 && x.dim(axis) >= 1024 &&
         k <= x.dim(axis) / 8;
}
void few_largest(Context& c, Value x, int64_t k) {
  const Value nan = like(x, std::numeric_limits<double>::quiet_NaN());
  const auto [values, places] = hlo::top_k(hlo::select(hlo::compare(x, x, hlo::Direction::ne), nan, x), k);
  c.result(values, 0);
  c.result(to(places, DType::s64), 1);
}

// self, k, dim, largest, sorted: the front of a sort.
void topk(Context& c) {
  const Value x = c.in(0);
  if (x.rank() == 0) return sort_by(c, x, 0, true);
  const int64_t axis = wrapped({c.integer(2)}, x.rank())[0];
  if (few_of_many(x, c.integer(1), axis, c.flag(3))) return few_largest(c, x, c.integer(1));
  const Sorted s = sorted(x, axis, c.flag(3));
  const Dims zero(static_cast<size_t>(x.rank()), 0);
  c.result(hlo::slice(s.values, zero, c.out().dims), 0);
  c.result(hlo::slice(s.places, zero, c.out().dims), 1);
}

// values; one? Where the number 1 is given, the compiler takes optimization barriers away too early (XLA's
// CPU compiler does, and then finds the equal computations): instead every value goes through a choice whose
// outcome it cannot know, and that waits for the last value.
void barrier(Context& c) {
  const auto in = c.list(0);
  if (!c.has(1)) {
    const auto out = hlo::optimization_barrier(in);
    for (size_t i = 0; i < in.size(); ++i) c.result(out[i], i);
    return;
  }
  const Value last = in.back(), one = c.in(1, DType::f32);
  const Dims first(static_cast<size_t>(last.rank()), 0), end(first.size(), 1);
  const Value some = reshaped(hlo::slice(last, first, end), {});
  const Value yes = hlo::or_(hlo::compare(some, some, hlo::Direction::ne),
                             hlo::compare(one, like(one, 0), hlo::Direction::gt));
  for (size_t i = 0; i < in.size(); ++i) c.result(hlo::select(yes, in[i], like(in[i], 0)), i);
}

// value, mesh, dimensions ("data,,data+model"). In a program that is not over that mesh it changes nothing.
void constrain(Context& c) {
  const hlo::Mesh* mesh = c.b.mesh("mesh");
  std::string axes;
  if (mesh)
    for (const auto& [name, size] : mesh->axes)
      axes.append(axes.empty() ? "" : ",").append(name).append("=").append(std::to_string(size));
  if (!mesh || !c.text(1).starts_with(axes + "@")) return c.result(c.in(0));
  hlo::Sharding sharding{.mesh = mesh->name, .dims = {{}}};
  std::string name;
  const auto end_of_name = [&] {
    if (!name.empty()) sharding.dims.back().push_back(std::exchange(name, {}));
  };
  for (const char ch : c.text(2)) {
    if (ch != ',' && ch != '+') {
      name += ch;
      continue;
    }
    end_of_name();
    if (ch == ',') sharding.dims.emplace_back();
  }
  end_of_name();
  if (c.in(0).rank() == 0) sharding.dims.clear();
  c.result(hlo::sharding_constraint(c.in(0), sharding));
}

// Of the argument's shape; along other dimensions than it has the CPU gives torch's error.
std::vector<Shape> along(const Call& c, const Dims& axes) {
  return are_axes(axes, static_cast<int64_t>(c.dims(0).size())) ? like_first(c) : std::vector<Shape>();
}

}  // namespace

std::span<const Row> layout_rows() {
  static const Row rows[] = {
      {{"cat"}, cat},
      {{"copy"}, copy},
      {{"flip"}, flip, plain, [](const Call& c) { return along(c, c.integers(1)); }},
      {{"roll", 1u << 1},
       roll,
       plain,
       [](const Call& c) {
         const size_t shifts = c.integers(1).size(), axes = c.integers(2).size();
         const bool fits = shifts > 0 && (axes == shifts || (axes == 0 && shifts == 1)) &&
                           (axes == 0 || !c.dims(0).empty());
         for (const int64_t axis : c.integers(2))  // one may be rolled twice
           if (along(c, {axis}).empty()) return std::vector<Shape>();
         return fits ? like_first(c) : std::vector<Shape>();
       }},
      {{"constant_pad_nd"},
       constant_pad,
       composite | fitting,
       [](const Call& c) -> std::vector<Shape> {
         Dims dims = c.dims(0);
         const Dims pad = c.integers(1);
         if (pad.size() % 2 || pad.size() / 2 > dims.size()) return {};
         for (size_t i = 0; i < pad.size() / 2; ++i) dims[dims.size() - 1 - i] += pad[2 * i] + pad[2 * i + 1];
         if (std::any_of(dims.begin(), dims.end(), [](int64_t d) { return d < 0; })) return {};
         return {Shape{c.shape(0).dtype, dims}};
       }},
      {{"repeat"},
       repeat,
       composite,
       [](const Call& c) -> std::vector<Shape> {
         const Dims times = c.integers(1);
         Dims dims = c.dims(0);
         if (times.size() < dims.size()) return {};
         dims.insert(dims.begin(), times.size() - dims.size(), 1);
         for (size_t i = 0; i < dims.size(); ++i) dims[i] *= times[i];
         return {Shape{c.shape(0).dtype, dims}};
       }},
      {{"sort"},
       sort,
       composite,
       [](const Call& c) -> std::vector<Shape> {
         return {c.shape(0), Shape{DType::s64, c.dims(0)}};
       }},
      {{"sort.stable"}, sort_stable},
      {{"topk"}, topk},
      {{"tpubridge::barrier"}, barrier},
      {{"tpubridge::constrain"}, constrain},
  };
  return rows;
}

}  // namespace tpubridge::lower
