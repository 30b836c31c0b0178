// QR by Householder reflections, one column a round.
#include "tpubridge/lower/householder.h"

#include <algorithm>

namespace tpubridge::lower {
namespace {

// The length of the part of columns [b, m, 1] that is not masked; squares neither overflow nor vanish.
Value column_length(Value v) {
  const Value size = magnitude(v);
  const Value most = spread(max(size, {1}), {v.dim(0), 1, 1}, {0, 2});
  const Value scale = hlo::where(hlo::gt(most, like(most, 0)), most, like(most, 1));
  const Value ratio = size / scale;
  return scale * hlo::sqrt(spread(sum(ratio * ratio, {1}), most.dims(), {0, 2}));
}

struct Reflection {
  Value v, tau, beta;  // [b, m, 1], [b, 1, 1], [b, 1, 1]: the column becomes beta in its place, zeros below
};
// LAPACK's: beta has the sign that alpha has not; where nothing is to do tau is zero.
Reflection reflection_of(Value column, Value k) {
  const DType t = column.dtype();
  const Value row = hlo::iota(column.builder(), Shape{DType::s32, {1, column.dim(1), 1}}, 1);
  const Value zero = like(column, 0);
  const Value tail = hlo::where(hlo::gt(row, k), column, zero);
  const Value alpha = row_at(column, k);
  const Value rest = column_length(tail);
  Value nothing = hlo::eq(rest, like(rest, 0));
  if (is_complex(t)) nothing = hlo::and_(nothing, hlo::eq(hlo::imag(alpha), like(hlo::imag(alpha), 0)));
  const Value length = column_length(hlo::where(hlo::ge(row, k), column, zero));
  const Value real = hlo::real(alpha);
  const Value beta = to(hlo::where(hlo::ge(real, like(real, 0)), -length, length), t);
  const Value one = like(alpha, 1);
  const Value tau = (beta - alpha) / hlo::where(nothing, one, beta);
  const Value v = tail / hlo::where(nothing, one, alpha - beta);
  return {hlo::where(hlo::eq(row, k), like(v, 1), v), hlo::where(nothing, like(tau, 0), tau),
          hlo::where(nothing, alpha, beta)};
}

// (1 − tau·v·vᴴ)·c
Value reflected_by(Value v, Value tau, Value c) { return c - (tau * v) * times(adjoint(v), c); }

}  // namespace

Reflections reflections_of(Value a) {
  const int64_t batch = a.dim(0), steps = std::min(a.dim(1), a.dim(2));
  const Value row = row_places(a), column = column_places(a);
  const Value zero = hlo::constant(a.builder(), DType::s32, 0);
  const auto out = rounds(
      steps, {a, fill(a.builder(), a.dtype(), {batch, steps}, 0)}, [&](Value k, std::span<const Value> v) {
        const Value line = column_at(v[0], k);
        const Reflection r = reflection_of(line, k);
        const Value mine = hlo::where(hlo::lt(part(row, 2, 0, 1), k), line,
                                      hlo::where(hlo::eq(part(row, 2, 0, 1), k), r.beta, r.v));
        const Value right = reflected_by(r.v, conjugate(r.tau), v[0]);
        const Value next = hlo::where(hlo::gt(column, k), right, hlo::where(hlo::eq(column, k), mine, v[0]));
        return hlo::Values{next, hlo::dynamic_update_slice(v[1], reshaped(r.tau, {batch, 1}), {zero, k})};
      });
  return {out[0], out[1]};
}

Value reflected(Value packed, Value tau, Value c, bool of_adjoint) {
  const int64_t steps = tau.dim(1);
  if (c.elements() == 0 || steps == 0) return c;
  const Value row = hlo::iota(c.builder(), Shape{DType::s32, {1, packed.dim(1), 1}}, 1);
  const Value factors = reshaped(tau, {tau.dim(0), 1, steps});
  return rounds(steps, {c}, [&](Value k, std::span<const Value> v) {
    if (!of_adjoint) k = hlo::constant(c.builder(), DType::s32, steps - 1) - k;
    const Value line = column_at(packed, k), factor = column_at(factors, k);
    const Value below = hlo::where(hlo::gt(row, k), line, like(line, 0));
    const Value direction = hlo::where(hlo::eq(row, k), like(line, 1), below);
    return hlo::Values{reflected_by(direction, of_adjoint ? conjugate(factor) : factor, v[0])};
  })[0];
}

Value unitary_of(Value packed, Value tau, int64_t columns) {
  const Value start = eye(packed.builder(), packed.dtype(), {packed.dim(0), packed.dim(1), columns});
  return reflected(packed, tau, start, false);
}

}  // namespace tpubridge::lower
