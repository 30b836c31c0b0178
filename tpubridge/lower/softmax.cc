// Softmax and log-softmax, with gradients.
#include "tpubridge/lower/context.h"
#include "tpubridge/lower/one_hot.h"

namespace tpubridge::lower {
namespace {

struct Rows {  // an operand with the axis that sums to one
  Value x;
  Dims axis, rest;
  [[nodiscard]] Value along(Value v) const { return spread(v, x.dims(), rest); }
};

Rows rows_of(const Context& c, Value x, size_t dim) {
  Rows r{x, wrapped({c.integer(dim)}, x.rank()), {}};
  r.rest = others(r.axis, x.rank());
  return r;
}

Value shifted(const Rows& r) {
  const Value top = max(r.x, r.axis);
  return hlo::subtract(r.x, r.along(top));
}

void softmax(Context& c) {
  const Rows r = rows_of(c, wide(c, 0), 1);
  const Value e = hlo::exponential(shifted(r));
  c.result(hlo::divide(e, r.along(sum(e, r.axis))));
}

void log_softmax(Context& c) {
  const Rows r = rows_of(c, wide(c, 0), 1);
  const Value s = shifted(r);
  c.result(hlo::subtract(s, r.along(hlo::log(sum(hlo::exponential(s), r.axis)))));
}

void softmax_backward(Context& c) {
  const Value g = wide(c, 0), y = wide(c, 1);
  const Rows r = rows_of(c, y, 2);
  const Value gy = hlo::multiply(g, y);
  c.result(hlo::subtract(gy, hlo::multiply(y, r.along(sum(gy, r.axis)))));
}

void log_softmax_backward(Context& c) {
  const Value g = wide(c, 0), y = wide(c, 1);
  const Rows r = rows_of(c, y, 2);
  const auto hot = r.axis.empty() ? std::nullopt : sum_of_hot(g, r.axis[0]);
  const Value total = hot ? *hot : sum(g, r.axis);
  c.result(hlo::subtract(g, hlo::multiply(hlo::exponential(y), r.along(total))));
}

}  // namespace

std::span<const Row> softmax_rows() {
  static const Row rows[] = {
      {{"_softmax"}, softmax},
      {{"_log_softmax"}, log_softmax},
      {{"_softmax_backward_data"}, softmax_backward},
      {{"_log_softmax_backward_data"}, log_softmax_backward},
  };
  return rows;
}

}  // namespace tpubridge::lower
