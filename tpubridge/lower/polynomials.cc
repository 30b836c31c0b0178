// Orthogonal polynomials of x, of degree n: both are tensors. By their recurrence, all elements together, for
// as many steps as the largest degree has; Chebyshev's of larger degrees by angles.
#include <limits>

#include "tpubridge/base/errors.h"
#include "tpubridge/hlo/chlo.h"
#include "tpubridge/hlo/control.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

Value above(Value x, double bound) { return hlo::compare(x, like(x, bound), Direction::gt); }
Value below(Value x, double bound) { return hlo::compare(x, like(x, bound), Direction::lt); }
Value same(Value x, double as) { return hlo::compare(x, like(x, as), Direction::eq); }
Value plus(Value x, double by) { return hlo::add(x, like(x, by)); }
Value twice(Value x) { return hlo::add(x, x); }

// The polynomial of degree k + 1 from those of degree k (q) and k − 1 (p).
using Next = Value (*)(Value x, Value k, Value p, Value q);

// Of each element's degree, from degree 1 on; what became NaN stays.
Value recurrence(Value x, Value degree, Value first, Next next) {
  const Dims all = wrapped({}, x.rank(), true);
  const auto goes_on = [&](Value k, Value q) {
    return hlo::and_(hlo::compare(expand(k, x.dims()), degree, Direction::lt),
                     hlo::compare(q, q, Direction::eq));
  };
  const auto loop = hlo::while_(
      {hlo::constant(x.builder(), DType::s64, 1), like(x, 1), first},
      [&](std::span<const Value> v) -> hlo::Values {
        return {above(max(to(goes_on(v[0], v[2]), DType::s32), all), 0)};
      },
      [&](std::span<const Value> v) -> hlo::Values {
        const Value on = goes_on(v[0], v[2]);
        const Value r = next(x, expand(to(v[0], x.dtype()), x.dims()), v[1], v[2]);
        return {plus(v[0], 1), hlo::select(on, v[2], v[1]), hlo::select(on, r, v[2])};
      });
  return loop[2];
}
Value with_first_degrees(Value degree, Value y) {
  y = hlo::select(same(degree, 0), like(y, 1), y);
  return hlo::select(below(degree, 0), like(y, 0), y);
}

enum class Kind { t, u, v, w };

// x, n
template <Kind K>
Value chebyshev_of(Value x, Value degree) {
  const Value n = to(degree, x.dtype()), odd_count = plus(twice(n), 1), one = like(x, 1);
  const Value even = same(hlo::remainder(degree, like(degree, 2)), 0);
  const auto signed_by_degree = [&](Value v) { return hlo::select(even, v, hlo::negate(v)); };
  // At 1 and at −1.
  const Value high = K == Kind::u ? plus(n, 1) : K == Kind::w ? odd_count : one;
  const Value low = signed_by_degree(K == Kind::u ? plus(n, 1) : K == Kind::v ? odd_count : one);
  const Value angle = hlo::acos(x), half = scaled(angle, 0.5), middle = plus(n, 0.5);
  Value by_angle;
  if (K == Kind::t) {
    by_angle = hlo::cosine(mul(n, angle));
  } else if (K == Kind::u) {
    by_angle = hlo::divide(hlo::sine(mul(plus(n, 1), angle)), hlo::sine(angle));
  } else if (K == Kind::v) {
    by_angle = hlo::divide(hlo::cosine(mul(middle, angle)), hlo::cosine(half));
    by_angle = hlo::select(same(hlo::sine(half), 1), low, by_angle);
  } else {
    by_angle = hlo::divide(hlo::sine(mul(middle, angle)), hlo::sine(half));
    by_angle = hlo::select(same(hlo::cosine(half), 1), hlo::select(above(x, 0), high, low), by_angle);
  }
  const Value closed = hlo::and_(above(degree, K == Kind::t ? 6 : 8), below(hlo::abs(x), 1)),
              edge = same(hlo::abs(x), 1);
  const Value first = K == Kind::t ? x : K == Kind::u ? twice(x) : plus(twice(x), K == Kind::v ? -1 : 1);
  const Value steps = hlo::select(hlo::or_(closed, edge), like(degree, 0), degree);
  Value y = recurrence(x, steps, first,
                       [](Value x, Value, Value p, Value q) { return hlo::subtract(mul(twice(x), q), p); });
  y = hlo::select(closed, by_angle, y);
  y = hlo::select(edge, hlo::select(above(x, 0), high, low), y);
  return with_first_degrees(degree, y);
}
template <Kind K>
Value shifted_chebyshev_of(Value x, Value degree) {
  return chebyshev_of<K>(plus(twice(x), -1), degree);
}

// Beyond these degrees torch gives NaN.
Value hermite_of(Value x, Value degree, Value first, Next next) {
  const Value none = above(degree, x.dtype() == DType::f32 ? 128 : 512);
  const Value y = recurrence(x, hlo::select(none, like(degree, 0), degree), first, next);
  return with_first_degrees(degree, hlo::select(none, like(x, std::numeric_limits<double>::quiet_NaN()), y));
}
Value hermite_h(Value x, Value degree) {
  return hermite_of(x, degree, twice(x), [](Value x, Value k, Value p, Value q) {
    return hlo::subtract(mul(twice(x), q), mul(twice(k), p));
  });
}
Value hermite_he(Value x, Value degree) {
  return hermite_of(x, degree, x,
                    [](Value x, Value k, Value p, Value q) { return hlo::subtract(mul(x, q), mul(k, p)); });
}
Value laguerre_l(Value x, Value degree) {
  const Value y = recurrence(x, degree, hlo::subtract(like(x, 1), x), [](Value x, Value k, Value p, Value q) {
    return hlo::divide(hlo::subtract(mul(hlo::subtract(plus(twice(k), 1), x), q), mul(k, p)), plus(k, 1));
  });
  return with_first_degrees(degree, hlo::select(same(x, 0), like(x, 1), y));
}
Value legendre_p(Value x, Value degree) {
  const Value even = same(hlo::remainder(degree, like(degree, 2)), 0), edge = same(hlo::abs(x), 1);
  const Value at_edge = hlo::select(hlo::or_(even, above(x, 0)), like(x, 1), like(x, -1));
  const Value y = recurrence(x, degree, x, [](Value x, Value k, Value p, Value q) {
    return hlo::divide(hlo::subtract(mul(mul(plus(twice(k), 1), x), q), mul(k, p)), plus(k, 1));
  });
  return with_first_degrees(degree, hlo::select(edge, at_edge, y));
}

template <Value (*F)(Value, Value)>
void polynomial(Context& c) {
  const DType t = c.out().dtype;
  if (t != DType::f32 && t != DType::f64) throw ArgumentError("torch has these polynomials in f32 and f64");
  const Value n = expand(c.in(1, t), c.out().dims);
  c.result(F(expand(c.in(0, t), c.out().dims), to(n, DType::s64)));
}

}  // namespace

std::span<const Row> polynomial_rows() {
  static const Row rows[] = {
      {{"special_chebyshev_polynomial_t"}, polynomial<chebyshev_of<Kind::t>>, promote},
      {{"special_chebyshev_polynomial_u"}, polynomial<chebyshev_of<Kind::u>>, promote},
      {{"special_chebyshev_polynomial_v"}, polynomial<chebyshev_of<Kind::v>>, promote},
      {{"special_chebyshev_polynomial_w"}, polynomial<chebyshev_of<Kind::w>>, promote},
      {{"special_shifted_chebyshev_polynomial_t"}, polynomial<shifted_chebyshev_of<Kind::t>>, promote},
      {{"special_shifted_chebyshev_polynomial_u"}, polynomial<shifted_chebyshev_of<Kind::u>>, promote},
      {{"special_shifted_chebyshev_polynomial_v"}, polynomial<shifted_chebyshev_of<Kind::v>>, promote},
      {{"special_shifted_chebyshev_polynomial_w"}, polynomial<shifted_chebyshev_of<Kind::w>>, promote},
      {{"special_hermite_polynomial_h"}, polynomial<hermite_h>, promote},
      {{"special_hermite_polynomial_he"}, polynomial<hermite_he>, promote},
      {{"special_laguerre_polynomial_l"}, polynomial<laguerre_l>, promote},
      {{"special_legendre_polynomial_p"}, polynomial<legendre_p>, promote},
  };
  return rows;
}

}  // namespace tpubridge::lower
