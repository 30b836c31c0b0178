// The incomplete gamma functions: how much of the distribution lies below x (igamma) and above it (igammac).
//
// Below the mean by the power series, above it by the continued fraction, both in loops that end when no
// element changes any more; for large a, where these would take √a steps, by Temme's expansion around the
// mean.
#include <cmath>
#include <limits>

#include "tpubridge/base/errors.h"
#include "tpubridge/hlo/chlo.h"
#include "tpubridge/hlo/control.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

constexpr double kLarge = 1e4;  // from here on by Temme's expansion
constexpr int64_t kMostSteps = 5000;

// Temme's functions of the distance η from the mean, as power series: enough for |η| < 0.4, beyond which
// large a give 0 and 1.
constexpr double kNear0[] = {
    -0.3333333333333333,    0.08333333333333333,    -0.014814814814814815,   0.0011574074074074073,
    0.0003527336860670194,  -0.0001787551440329218, 3.919263178522438e-05,   -2.185448510679992e-06,
    -1.85406221071516e-06,  8.296711340953087e-07,  -1.7665952736826078e-07, 6.707853543401498e-09,
    1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10,    -2.5514193994946248e-11};
constexpr double kNear1[] = {-0.001851851851851852,   -0.003472222222222222,  0.0026455026455026454,
                             -0.0009902263374485596,  0.00020576131687242798, -4.018775720164609e-07,
                             -1.8098550334489977e-05, 7.64916091608111e-06,   -1.6120900894563446e-06,
                             4.647127802807434e-09,   1.378633446915721e-07,  -5.752545603517705e-08,
                             1.1951628599778148e-08};
constexpr double kNear2[] = {0.004133597883597883,    -0.0026813271604938273, 0.0007716049382716049,
                             2.0093878600823047e-06,  -0.0001073665322636516, 5.2923448829120125e-05,
                             -1.2760635188618728e-05, 3.423578734096138e-08,  1.3721957309062934e-06,
                             -6.298992138380055e-07};
constexpr double kNear3[] = {0.0006494341563786008,  0.00022947209362139917, -0.0004691894943952557,
                             0.00026772063206283885, -7.561801671883977e-05, -2.396505113867297e-07,
                             1.1082654115347302e-05};
// ζ(k) − 1 from k = 2 on.
constexpr double kZeta[] = {
    0.6449340668482264,     0.2020569031595943,     0.08232323371113819,   0.03692775514336993,
    0.01734306198444914,    0.008349277381922827,   0.00407735619794434,   0.0020083928260822143,
    0.0009945751278180853,  0.0004941886041194645,  0.0002460865533080483, 0.00012271334757848915,
    6.124813505870483e-05,  3.058823630702049e-05,  1.528225940865187e-05, 7.637197637899763e-06,
    3.81729326499984e-06,   1.908212716553939e-06,  9.539620338727962e-07, 4.769329867878064e-07,
    2.38450502727733e-07,   1.1921992596531106e-07, 5.960818905125948e-08, 2.980350351465228e-08,
    1.4901554828365043e-08, 7.45071178983543e-09};

Value less(Value x, double than) { return hlo::compare(x, like(x, than), Direction::lt); }
Value equals(Value x, double to) { return hlo::compare(x, like(x, to), Direction::eq); }
Value plus(Value x, double by) { return hlo::add(x, like(x, by)); }
Value reciprocal(Value x) { return hlo::divide(like(x, 1), x); }
Value powers(Value x, std::span<const double> factors) {
  Value y = like(x, factors.back());
  for (size_t i = factors.size() - 1; i-- > 0;) y = plus(mul(y, x), factors[i]);
  return y;
}

// μ − log(1 + μ), where μ = x / a − 1: near 0 without losing what cancels.
Value excess(Value a, Value x) {
  const Value mu = hlo::divide(hlo::subtract(x, a), a), t = hlo::divide(mu, plus(mu, 2));
  constexpr double kOdd[] = {1. / 3,  1. / 5,  1. / 7,  1. / 9,  1. / 11, 1. / 13, 1. / 15, 1. / 17,
                             1. / 19, 1. / 21, 1. / 23, 1. / 25, 1. / 27, 1. / 29, 1. / 31, 1. / 33};
  const Value near = hlo::subtract(mul(t, mu), scaled(mul(mul(t, mul(t, t)), powers(mul(t, t), kOdd)), 2));
  const Value far = hlo::subtract(mu, hlo::log(hlo::divide(x, a)));
  return hlo::select(less(hlo::abs(mu), 0.5), near, far);
}
// x^a e^−x / Γ(a + 1); for a beyond 8 by Stirling, so that nothing large is subtracted.
Value density(Value a, Value x) {
  constexpr double kStirling[] = {1. / 12,   -1. / 360,      1. / 1260, -1. / 1680,
                                  1. / 1188, -691. / 360360, 1. / 156};
  const Value big = hlo::maximum(a, like(a, 8)), r = reciprocal(big);
  const Value rest =
      hlo::add(scaled(hlo::log(scaled(big, 2 * M_PI)), 0.5), mul(r, powers(mul(r, r), kStirling)));
  const Value wide = hlo::negate(hlo::add(mul(big, excess(big, x)), rest));
  const Value narrow = hlo::subtract(hlo::subtract(mul(a, hlo::log(x)), x), hlo::lgamma(plus(a, 1)));
  return hlo::exponential(hlo::select(less(a, 8), narrow, wide));
}

double rounding(Value x) {
  return x.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon()
                                 : static_cast<double>(std::numeric_limits<float>::epsilon());
}
// Runs while an element is open; v[0] counts from 1, v[1] says which are.
hlo::Values steps(Value open, hlo::Values state, const hlo::Body& body) {
  const Dims all = wrapped({}, open.rank(), true);
  state.insert(state.begin(), {hlo::constant(open.builder(), DType::s64, 1), open});
  return hlo::while_(
      state,
      [&](std::span<const Value> v) -> hlo::Values {
        const Value any = max(to(v[1], DType::s32), all);
        return {hlo::and_(hlo::compare(any, like(any, 0), Direction::gt), less(v[0], kMostSteps))};
      },
      [&](std::span<const Value> v) {
        hlo::Values next = body(v);
        next.insert(next.begin(), hlo::add(v[0], like(v[0], 1)));
        return next;
      });
}
Value counted(Value n, Value x) { return expand(to(n, x.dtype()), x.dims()); }

// Σ x^n / ((a + 1) … (a + n))
Value series(Value a, Value x, Value open) {
  return steps(open, {like(x, 1), like(x, 1)}, [&](std::span<const Value> v) -> hlo::Values {
    const Value term = mul(v[2], hlo::divide(x, hlo::add(a, counted(v[0], x)))), sum = hlo::add(v[3], term);
    const Value on = hlo::and_(v[1], hlo::compare(term, scaled(sum, rounding(x) / 4), Direction::gt));
    return {on, term, hlo::select(v[1], sum, v[3])};
  })[3];
}
// 1 / (x + 1 − a − 1 (1 − a) / (x + 3 − a − …)), by Lentz.
Value fraction(Value a, Value x, Value open) {
  const Value first = plus(hlo::subtract(x, a), 1), inverse = reciprocal(first);
  return steps(open, {first, like(x, 1e30), inverse, inverse}, [&](std::span<const Value> v) -> hlo::Values {
    const Value n = counted(v[0], x), top = mul(n, hlo::subtract(a, n)), b = plus(v[2], 2);
    const Value c = hlo::add(b, hlo::divide(top, v[3])), d = reciprocal(hlo::add(mul(top, v[4]), b));
    const Value change = mul(c, d);
    const Value moved = hlo::compare(hlo::abs(plus(change, -1)), like(x, rounding(x)), Direction::gt);
    return {hlo::and_(v[1], moved), b, c, d, hlo::select(v[1], mul(v[5], change), v[5])};
  })[5];
}

// What lies above a small x, for a small a: 1 − x^a / Γ(a + 1) (1 + a Σ (−x)^n / (n! (a + n))), where the two
// that nearly cancel are one expm1.
Value small_above(Value a, Value x) {
  constexpr double kEuler = 0.5772156649015329;
  constexpr size_t kLast = std::size(kZeta) - 1;
  Value log_gamma = like(a, kZeta[kLast] / (kLast + 2));  // of 1 + a
  for (size_t i = kLast; i-- > 0;)
    log_gamma = hlo::subtract(like(a, kZeta[i] / static_cast<double>(i + 2)), mul(log_gamma, a));
  log_gamma = hlo::add(mul(a, plus(mul(a, log_gamma), 1 - kEuler)), hlo::negate(hlo::log_plus_one(a)));
  const Value power = hlo::subtract(mul(a, hlo::log(x)), log_gamma);
  Value term = hlo::negate(x), sum = hlo::divide(term, plus(a, 1));
  for (int n = 2; n <= 20; ++n) {
    term = mul(term, scaled(x, -1. / n));
    sum = hlo::add(sum, hlo::divide(term, plus(a, n)));
  }
  return hlo::negate(hlo::add(hlo::exponential_minus_one(power), mul(mul(a, hlo::exponential(power)), sum)));
}

// What lies above (or below) x for a large a.
Value far_out(Value a, Value x, bool above) {
  const Value e = excess(a, x), root = hlo::sqrt(scaled(e, 2));
  const Value eta = hlo::select(hlo::compare(x, a, Direction::lt), hlo::negate(root), root);
  const Value near = hlo::clamp(like(x, -0.5), eta, like(x, 0.5)), r = reciprocal(a);
  Value rest = powers(near, kNear3);
  rest = hlo::add(mul(rest, r), powers(near, kNear2));
  rest = hlo::add(mul(rest, r), powers(near, kNear1));
  rest = hlo::add(mul(rest, r), powers(near, kNear0));
  rest = hlo::divide(mul(rest, hlo::exponential(hlo::negate(mul(a, e)))), hlo::sqrt(scaled(a, 2 * M_PI)));
  const Value deviation = mul(eta, hlo::sqrt(scaled(a, 0.5)));
  const Value main = scaled(hlo::erfc(above ? deviation : hlo::negate(deviation)), 0.5);
  return above ? hlo::add(main, rest) : hlo::subtract(main, rest);
}

Value incomplete(Value a, Value x, bool above) {
  constexpr double kInf = std::numeric_limits<double>::infinity(),
                   kNan = std::numeric_limits<double>::quiet_NaN();
  const Value large = hlo::compare(a, like(a, kLarge), Direction::gt);
  const Value plain_one = hlo::and_(
      hlo::compare(a, like(a, 0), Direction::gt),
      hlo::and_(hlo::compare(x, like(x, 0), Direction::gt), hlo::and_(hlo::is_finite(x), hlo::not_(large))));
  const Value low = hlo::or_(hlo::compare(x, like(x, 1), Direction::le), hlo::compare(x, a, Direction::le));
  const Value d = density(a, x), one = like(x, 1);
  const Value below = mul(d, series(a, x, hlo::and_(plain_one, low)));
  const Value over = mul(mul(d, a), fraction(a, x, hlo::and_(plain_one, hlo::not_(low))));
  Value y;
  if (above) {
    // Where the series is more than about a half.
    const Value half = hlo::divide(like(x, -0.4), hlo::log(hlo::minimum(x, like(x, 0.5))));
    const Value bound = hlo::select(less(x, 0.5), half, like(x, 0.6));
    const Value tiny = hlo::and_(hlo::compare(x, one, Direction::le), hlo::compare(a, bound, Direction::lt));
    y = hlo::select(low, hlo::select(tiny, small_above(a, x), hlo::subtract(one, below)), over);
  } else {
    y = hlo::select(low, below, hlo::subtract(one, over));
  }
  y = hlo::select(large, far_out(a, x, above), y);
  const Value none = like(x, above ? 1 : 0), all = like(x, above ? 0 : 1), nan = like(x, kNan);
  const auto is_nan = [](Value v) { return hlo::compare(v, v, Direction::ne); };
  y = hlo::select(hlo::or_(is_nan(a), is_nan(x)), nan, y);
  y = hlo::select(equals(x, kInf), all, y);
  y = hlo::select(equals(a, kInf), hlo::select(equals(x, kInf), nan, none), y);
  y = hlo::select(equals(x, 0), none, y);
  y = hlo::select(equals(a, 0), hlo::select(hlo::compare(x, like(x, 0), Direction::gt), all, nan), y);
  return hlo::select(hlo::or_(less(a, 0), less(x, 0)), nan, y);
}

template <bool Above>
void incomplete_gamma(Context& c) {
  if (!is_float(c.common())) throw ArgumentError("torch has the incomplete gamma functions of floats");
  const DType t = c.opmath();
  c.result(incomplete(expand(c.in(0, t), c.out().dims), expand(c.in(1, t), c.out().dims), Above));
}

}  // namespace

std::span<const Row> incomplete_gamma_rows() {
  static const Row rows[] = {
      {{"igamma"}, incomplete_gamma<false>, promote},
      {{"igammac"}, incomplete_gamma<true>, promote},
  };
  return rows;
}

}  // namespace tpubridge::lower
