// What hangs on the order of elements: medians, running extremes, places in sorted sequences.
#include "tpubridge/lower/sorted.h"

#include "tpubridge/hlo/indexing.h"

namespace tpubridge::lower {
namespace {
using hlo::Direction;
}

Sorted sorted(Value x, int64_t axis, bool descending) {
  const Value places = hlo::iota(x.builder(), Shape{DType::s64, x.dims()}, axis);
  const auto out = hlo::sort({x, places}, axis, true, [&](std::span<const Value> v) -> hlo::Values {
    const Value before = hlo::compare(v[0], v[1], descending ? Direction::gt : Direction::lt);
    if (!is_float(x.dtype())) return {before};
    const Value a = hlo::compare(v[0], v[0], Direction::ne), b = hlo::compare(v[1], v[1], Direction::ne);
    return {hlo::or_(before, descending ? hlo::and_(a, hlo::not_(b)) : hlo::and_(hlo::not_(a), b))};
  });
  return {out[0], out[1]};
}

namespace {

// One element of each row of [.., n, ..] along the axis, which goes away.
Value picked(Value x, Value place, int64_t axis) {
  const Value at = hlo::iota(x.builder(), Shape{DType::s64, x.dims()}, axis);
  const Value here = hlo::compare(at, spread(place, x.dims(), others({axis}, x.rank())), Direction::eq);
  return sum(hlo::select(here, x, like(x, 0)), {axis});
}

// The lower of two in the middle. With NaN in a row: the first of them, or the middle of the others.
enum class Nan { wins, left_out };
Sorted middle(Value x, int64_t axis, Nan nan) {
  const int64_t n = x.dim(axis);
  const Sorted s = sorted(x, axis);
  const Value ones =
      to(is_float(x.dtype()) ? hlo::compare(x, x, Direction::ne) : to(like(x, 0), DType::pred), DType::s64);
  const Value count = sum(ones, {axis}), zero = like(count, 0);
  const Value rest = hlo::subtract(like(count, n), count);
  Value place;
  if (nan == Nan::wins)
    place = hlo::select(hlo::compare(count, zero, Direction::gt), rest, like(count, (n - 1) / 2));
  else
    place = hlo::maximum(hlo::divide(hlo::subtract(rest, like(count, 1)), like(count, 2)), zero);
  return {picked(s.values, place, axis), picked(s.places, place, axis)};
}

template <Nan N>
void median(Context& c) {
  const Value x = reshaped(c.in(0), {c.in(0).elements()});
  c.result(middle(x, 0, N).values);
}
void give(Context& c, Value values, Value places) {
  c.result(reshaped(values, c.out().dims), 0);
  c.result(reshaped(places, c.out(1).dims), 1);
}

// self, dim, keepdim
template <Nan N>
void median_dim(Context& c) {
  const Value x = at_least_1d(c.in(0));
  const Sorted m = middle(x, wrapped({c.integer(1)}, x.rank())[0], N);
  give(c, m.values, m.places);
}

// self, k, dim, keepdim
void kthvalue(Context& c) {
  const Value x = at_least_1d(c.in(0));
  const int64_t axis = wrapped({c.integer(2)}, x.rank())[0], k = c.integer(1);
  const Sorted s = sorted(x, axis);
  Dims low(static_cast<size_t>(x.rank()), 0), high = x.dims();
  low[static_cast<size_t>(axis)] = k - 1;
  high[static_cast<size_t>(axis)] = k;
  give(c, hlo::slice(s.values, low, high), hlo::slice(s.places, low, high));
}

// self, dim, keepdim: the most frequent value, of several the least; the last of the places where it stands.
// In order equal ones stand together, and the last of each such run knows how long it is.
void mode(Context& c) {
  const Value x = at_least_1d(c.in(0));
  const int64_t axis = wrapped({c.integer(1)}, x.rank())[0], n = x.dim(axis);
  const Sorted s = sorted(x, axis);
  const Value at = hlo::iota(c.b, Shape{DType::s64, x.dims()}, axis);
  Dims low(static_cast<size_t>(x.rank()), 0), high = low;
  low[static_cast<size_t>(axis)] = 1;
  high[static_cast<size_t>(axis)] = -1;
  const Value before = hlo::pad(s.values, hlo::constant(c.b, x.dtype(), 0), low, high);
  const Value begins =
      hlo::or_(hlo::compare(at, like(at, 0), Direction::eq), hlo::compare(s.values, before, Direction::ne));
  const Value run =
      running(hlo::select(begins, at, like(at, 0)), axis, hlo::constant(c.b, DType::s64, 0), hlo::maximum);
  const Value length = hlo::subtract(at, run);
  const Value longest = spread(max(length, {axis}), x.dims(), others({axis}, x.rank()));
  const Value place = min(hlo::select(hlo::compare(length, longest, Direction::eq), at, like(at, n)), {axis});
  give(c, picked(s.values, place, axis), picked(s.places, place, axis));
}

// self, dim: each element with all before it, in steps of doubled width. Of equals the last, and NaN stays.
template <bool Largest>
void running_extreme(Context& c) {
  Value x = at_least_1d(c.in(0));
  const int64_t axis = wrapped({c.integer(1)}, x.rank())[0], n = x.dim(axis);
  Value place = hlo::iota(c.b, Shape{DType::s64, x.dims()}, axis);
  auto shifted = [&](Value v, int64_t step) {
    Dims low(static_cast<size_t>(v.rank()), 0), high = low;
    low[static_cast<size_t>(axis)] = step;
    high[static_cast<size_t>(axis)] = -step;
    return hlo::pad(v, hlo::constant(c.b, v.dtype(), 0), low, high);
  };
  const Value at = place;
  for (int64_t step = 1; step < n; step *= 2) {
    const Value before = shifted(x, step);
    Value later = hlo::compare(x, before, Largest ? Direction::ge : Direction::le);
    if (is_float(x.dtype())) {
      later = hlo::and_(later, hlo::compare(before, before, Direction::eq));
      later = hlo::or_(later, hlo::compare(x, x, Direction::ne));
    }
    const Value mine = hlo::or_(later, hlo::compare(at, like(at, step), Direction::lt));
    place = hlo::select(mine, place, shifted(place, step));
    x = hlo::select(mine, x, before);
  }
  give(c, x, place);
}

// self, dim?, keepdim → least, largest
void aminmax(Context& c) {
  const Value x = c.in(0);
  const Dims axes = x.rank() == 0 ? Dims()
                    : c.has(1)    ? wrapped({c.integer(1)}, x.rank())
                                  : wrapped({}, x.rank(), true);
  c.result(reshaped(min(x, axes), c.out().dims), 0);
  c.result(reshaped(max(x, axes), c.out(1).dims), 1);
}

// How many of a sorted sequence [.., n] stand before each of `v` [.., m]: all that are not ≥ it, or not > it.
// NaN stands behind all.
Value places_in(Value sequence, Value v, bool right) {
  Dims dims = v.dims(), mine(v.dims().size()), axes{v.rank()};
  for (size_t i = 0; i < mine.size(); ++i) mine[i] = static_cast<int64_t>(i);
  dims.push_back(sequence.dims().back());
  if (sequence.rank() > 1) {
    axes = mine;
    axes.back() = v.rank();
  }
  const Value s = spread(sequence, dims, axes), x = spread(v, dims, mine);
  const Value behind = hlo::compare(s, x, right ? Direction::gt : Direction::ge);
  return sum(to(hlo::not_(behind), DType::s64), {v.rank()});
}
// sorted_sequence, self, out_int32, right, side?, sorter?
void searchsorted(Context& c) {
  c.result(places_in(c.in(0), c.in(1), c.flag(3) || (c.has(4) && c.text(4) == "right")));
}
// sorted_sequence, a number, …; a number, boundaries, …
void searchsorted_number(Context& c) {
  const Value v = c.in(1, c.common());
  c.result(places_in(c.in(0, c.common()), v, c.flag(3) || (c.has(4) && c.text(4) == "right")));
}
void bucketize_number(Context& c) {
  c.result(places_in(c.in(1, c.common()), c.in(0, c.common()), c.flag(3)));
}
std::vector<Shape> place_shape(const Call& c, size_t sequence) {
  if (c.dims(sequence).size() != 1 || is_complex(c.shape(sequence).dtype)) return {};
  return {Shape{c.flag(2) ? DType::s32 : DType::s64, {}}};
}
// self, boundaries, out_int32, right
void bucketize(Context& c) { c.result(places_in(c.in(1), c.in(0), c.flag(3))); }

std::vector<Shape> places_shape(const Call& c, size_t sequence, size_t values) {
  const Dims &s = c.dims(sequence), &v = c.dims(values);
  if (s.empty() || c.shape(sequence).dtype != c.shape(values).dtype || is_complex(c.shape(values).dtype))
    return {};
  if (s.size() > 1 && (s.size() != v.size() || !std::equal(s.begin(), s.end() - 1, v.begin()))) return {};
  return {Shape{c.flag(2) ? DType::s32 : DType::s64, v}};
}

// elements, test_elements, assume_unique, invert
void isin(Context& c) {
  const Value x = c.in(0, c.common()), t = c.in(1, c.common());
  Dims dims = c.out().dims, mine(dims.size());
  for (size_t i = 0; i < mine.size(); ++i) mine[i] = static_cast<int64_t>(i);
  dims.push_back(t.elements());
  const Value same = hlo::compare(spread(x, dims, mine),
                                  spread(reshaped(t, {t.elements()}), dims, {x.rank()}), Direction::eq);
  const Value found =
      hlo::reduce(same, hlo::constant(c.b, DType::pred, false), {x.rank()}, hlo::Reducer::or_);
  c.result(c.flag(3) ? hlo::not_(found) : found);
}

// Values and places where one axis goes away, or is 1.
std::vector<Shape> with_places(const Call& c, size_t dim, size_t keepdim) {
  Dims dims = c.dims(0);
  const DType t = c.shape(0).dtype;
  if (is_complex(t) || t == DType::pred || product(dims) == 0) return {};
  if (!dims.empty()) {
    const int64_t axis = wrapped({c.integer(dim)}, static_cast<int64_t>(dims.size()))[0];
    dims.at(static_cast<size_t>(axis)) = 1;  // throws where there is no such axis
    if (!c.flag(keepdim)) dims.erase(dims.begin() + axis);
  }
  return {Shape{t, dims}, Shape{DType::s64, dims}};
}
std::vector<Shape> scalar_middle(const Call& c) {
  const DType t = c.shape(0).dtype;
  if (is_complex(t) || t == DType::pred || product(c.dims(0)) == 0) return {};
  return {Shape{t, {}}};
}
std::vector<Shape> running_shape(const Call& c) {
  const Dims& dims = c.dims(0);
  if (is_complex(c.shape(0).dtype) || product(dims) == 0) return {};
  const int64_t rank = std::max<int64_t>(static_cast<int64_t>(dims.size()), 1), axis = c.integer(1);
  if (axis < -rank || axis >= rank) return {};
  return {c.shape(0), Shape{DType::s64, dims}};
}
std::vector<Shape> kth_shape(const Call& c) {
  const Dims& dims = c.dims(0);
  const int64_t k = c.integer(1), rank = static_cast<int64_t>(dims.size());
  const int64_t n = rank == 0 ? 1 : dims.at(static_cast<size_t>(wrapped({c.integer(2)}, rank)[0]));
  return k < 1 || k > n ? std::vector<Shape>() : with_places(c, 2, 3);
}

}  // namespace

std::span<const Row> order_rows() {
  static const Row rows[] = {
      {{"median"}, median<Nan::wins>, plain, scalar_middle},
      {{"nanmedian"}, median<Nan::left_out>, plain, scalar_middle},
      {{"median.dim"}, median_dim<Nan::wins>, composite, [](const Call& c) { return with_places(c, 1, 2); }},
      {{"nanmedian.dim"},
       median_dim<Nan::left_out>,
       composite,
       [](const Call& c) { return with_places(c, 1, 2); }},
      {{"kthvalue"}, kthvalue, composite, kth_shape},
      {{"mode"}, mode, plain, [](const Call& c) { return with_places(c, 1, 2); }},
      {{"cummax"}, running_extreme<true>, composite, running_shape},
      {{"cummin"}, running_extreme<false>, composite, running_shape},
      {{"aminmax"}, aminmax},
      {{"searchsorted.Tensor"},
       searchsorted,
       plain,
       [](const Call& c) { return c.has(5) ? std::vector<Shape>() : places_shape(c, 0, 1); }},
      {{"bucketize.Tensor"},
       bucketize,
       plain,
       [](const Call& c) { return c.dims(1).size() == 1 ? places_shape(c, 1, 0) : std::vector<Shape>(); }},
      {{"searchsorted.Scalar"},
       searchsorted_number,
       promote | promote_scalars,
       [](const Call& c) {
         const bool contradicts = c.flag(3) && c.has(4) && c.text(4) == "left";
         const bool known = !c.has(4) || c.text(4) == "left" || c.text(4) == "right";
         return c.has(5) || contradicts || !known ? std::vector<Shape>() : place_shape(c, 0);
       }},
      {{"bucketize.Scalar"},
       bucketize_number,
       promote | promote_scalars,
       [](const Call& c) { return place_shape(c, 1); }},
      {{"isin.Scalar_Tensor"},
       isin,
       promote | promote_scalars,
       [](const Call& c) {  // torch's own shape function gives a result of no elements
         const DType t = c.shape(1).dtype;
         return is_complex(t) || t == DType::pred ? std::vector<Shape>()
                                                  : std::vector<Shape>{{DType::pred, {}}};
       }},
      {{"isin.Tensor_Tensor"}, isin, promote},
      {{"isin.Tensor_Scalar"}, isin, promote | promote_scalars},
  };
  return rows;
}

}  // namespace tpubridge::lower
