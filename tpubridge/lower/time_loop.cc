#include "tpubridge/lower/time_loop.h"

#include "tpubridge/hlo/control.h"

namespace tpubridge::lower {
namespace {

std::vector<Value> place(Value series, Value t) {
  std::vector<Value> starts(static_cast<size_t>(series.rank()), hlo::constant(t.builder(), DType::s32, 0));
  starts[0] = t;
  return starts;
}

}  // namespace

hlo::Values TimeLoop::run(hlo::Values carried, const Step& body) const {
  hlo::Builder& b = carried.at(0).builder();
  auto number = [&](int64_t n) { return hlo::constant(b, DType::s32, n); };
  carried.insert(carried.begin(), number(0));
  hlo::Values out = hlo::while_(
      carried,
      [&](std::span<const Value> v) -> hlo::Values {
        return {hlo::compare(v[0], number(steps_), hlo::Direction::lt)};
      },
      [&](std::span<const Value> v) {
        const Value t = reversed_ ? hlo::subtract(number(steps_ - 1), v[0]) : v[0];
        hlo::Values next = body(t, v.subspan(1));
        next.insert(next.begin(), hlo::add(v[0], number(1)));
        return next;
      });
  out.erase(out.begin());
  return out;
}

Value TimeLoop::at(Value series, Value t) {
  Dims sizes = series.dims();
  sizes[0] = 1;
  return reshaped(hlo::dynamic_slice(series, place(series, t), sizes), Dims(sizes.begin() + 1, sizes.end()));
}

Value TimeLoop::put(Value series, Value v, Value t) {
  Dims sizes = series.dims();
  sizes[0] = 1;
  return hlo::dynamic_update_slice(series, reshaped(to(v, series.dtype()), sizes), place(series, t));
}

Value TimeLoop::where_valid(Value t, Value now, Value otherwise) const {
  if (!sizes_) return now;
  const Value size = at(sizes_, t);
  const Value rows = hlo::iota(now.builder(), {size.dtype(), {now.dim(0)}}, 0);
  const Value valid = hlo::compare(rows, spread(size, rows.dims(), {}), hlo::Direction::lt);
  return hlo::select(spread(valid, now.dims(), {0}), now, otherwise);
}

Value TimeLoop::before(Value series, Value first) const {
  Dims dims = series.dims(), low(dims.size(), 0), high = dims;
  dims[0] = 1;
  const Value head = reshaped(to(first, series.dtype()), dims);
  if (steps_ == 1) return head;
  (reversed_ ? low[0] : high[0]) += reversed_ ? 1 : -1;
  const Value rest = hlo::slice(series, low, high);
  return reversed_ ? hlo::concatenate({rest, head}, 0) : hlo::concatenate({head, rest}, 0);
}

Value TimeLoop::dot(Value a, Value b, int64_t over_a, int64_t over_b) const {
  hlo::DotOptions options;
  if (a.dtype() == DType::f32) options.lhs_precision = options.rhs_precision = precision_;
  options.result = opmath_of(a.dtype());
  return hlo::dot_general(a, b, {{over_a}, {over_b}}, options);
}

}  // namespace tpubridge::lower
