// Special functions: Bessel's, the scaled error function, the derivatives of log Γ, and what statistics has.
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "tpubridge/hlo/chlo.h"
#include "tpubridge/hlo/control.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

// Coefficients of Chebyshev series, fitted to 1e-14. Bessel's functions, divided by e^|x|: for x below 8 in
// x / 4 - 1 (the odd one divided by x too), beyond it times √x in 16 / x - 1. The error function, times
// e^(x²) (1 + 2x): in (x - 3.75) / (x + 3.75).
constexpr double kI0Near[] = {
    0.3383976372047381,     -0.30468267234319824,    0.17162090152220863,     -0.09490109704804751,
    0.04930528423967051,    -0.023737414805899328,   0.010546460394594795,    -0.004324309995050398,
    0.0016394756169410604,  -0.0005763755745383545,  0.00018850288509549636,  -5.754195010052932e-05,
    1.6448448070325935e-05, -4.416738358136306e-06,  1.1173875386692272e-06,  -2.670793850422017e-07,
    6.046994978378599e-08,  -1.300024975051006e-08,  2.659823334783055e-09,   -5.18979298342191e-10,
    9.675780593707418e-11,  -1.726806392787184e-11,  2.9547658871612295e-12,  -4.85418377196076e-13,
    7.642330761067261e-14,  -1.1500308631651354e-14, 1.5266395975632782e-15,  -1.7666012570503997e-16,
    8.084422707743083e-17,  6.434454931222598e-17,   -1.9243386914910514e-16, 2.313606381980863e-16,
    -4.0261420233844403e-16};
constexpr double kI0Far[] = {
    0.40224520550705434,     0.003369116478255694,   6.889758346908993e-05,   2.891370520842223e-06,
    2.0489185885708783e-07,  2.2666689908024224e-08, 3.3962319110894887e-09,  4.940602399582912e-10,
    1.1888996236611482e-11,  -3.149916611554474e-11, -1.3216023135841418e-11, -1.7941650711976634e-12,
    7.177582393817028e-13,   3.852637316214638e-13,  1.507503337693834e-14,   -4.152493679818107e-14,
    -9.887135234517198e-15,  3.785796673129579e-15,  1.529361326672988e-15,   -3.494696842094667e-16,
    -4.765537280489922e-16,  4.1155628458516935e-17, -1.6006490123944547e-16, 6.2751954114837246e-18,
    -3.3416793141779293e-16, 1.932548357343297e-17,  -1.956652819573391e-16,  9.693618769679288e-18,
    1.526958347389684e-16,   -1.487472429033515e-17, -1.361664174125619e-16,  -1.2155593384932913e-17,
    -3.788338094988959e-16};
constexpr double kI1Near[] = {
    0.1262935932218168,      -0.17641651835783403,    0.10264365868984701,    -0.052945981208094926,
    0.02472644903062645,     -0.010564084894626131,   0.004156422944312806,   -0.0015135724506311684,
    0.0005122859561684703,   -0.00016176081582579372, 4.7815651075375676e-05, -1.3273163655905403e-05,
    3.470251307980294e-06,   -8.568720262998822e-07,  2.003294751654704e-07,  -4.445059110516515e-08,
    9.381537183825453e-09,   -1.8872495649850683e-09, 3.625588469239252e-10,  -6.663473849995187e-11,
    1.1736034031873495e-11,  -1.98384533728812e-12,   3.2224148551413327e-13, -5.027876924499232e-14,
    7.450310778399707e-15,   -9.838596878331319e-16,  5.279371908152163e-17,  3.4133382887812607e-17,
    -1.4011782750408427e-17, 1.7018241470916043e-17,  -7.975661004163346e-17, 1.0870877039147431e-16,
    -1.6320838905897827e-16};
constexpr double kI1Far[] = {
    0.38928811750914005,     -0.009761097491361457,   -0.00011058893876269126, -3.882564808872639e-06,
    -2.5122362388666023e-07, -2.631468845794975e-08,  -3.835380494111242e-09,  -5.589743340108425e-10,
    -1.8975106037640225e-11, 3.2526036756221314e-11,  1.4125590453690091e-11,  2.035634622084045e-12,
    -7.200775349595401e-13,  -4.0835238093171543e-13, -2.130306565367188e-14,  4.2737498794150885e-14,
    1.013449784710906e-14,   -3.822619897961225e-15,  -2.1267860792363885e-15, 3.3001313144312453e-16,
    1.1758613699382694e-16,  -3.1070889147442273e-17, -2.2161264386676826e-16, 1.4137793163516775e-17,
    -3.0103610861511343e-16, -4.4245952385569655e-18, -1.7492291829323409e-16, -8.78298433601172e-18,
    1.4896553682612486e-16,  -8.386006764151207e-18,  -1.2695710209001536e-16, 3.636063687464611e-17,
    -2.2264753395132744e-16};
constexpr double kErfcx[] = {
    1.177578934567402,       -0.00459005458064645,    -0.0842491333665177,     0.05920993999819182,
    -0.026658668435305642,   0.009074997670705097,    -0.002413163540417689,   0.0004907758365258584,
    -6.916973302555101e-05,  4.1390279860266885e-06,  7.740383054603557e-07,   -2.188640105013796e-07,
    1.0764998412667975e-08,  4.521959709359601e-09,   -7.754408007533903e-10,  -6.31809907580544e-11,
    2.868650349246014e-11,   1.9453257725152727e-13,  -9.665553098059357e-13,  3.244094252507084e-14,
    3.3013421550627057e-14,  -1.970680138706405e-15,  -2.1473660226847046e-15, -3.1106400983053336e-17,
    -1.2871948435672166e-15, -7.827503956065359e-17,  -1.112896018033203e-15,  -1.34679203422892e-16,
    -1.3387756398178369e-15, -7.52803058149909e-17,   -1.2997590818862426e-15, -7.619490967477702e-17,
    -1.2807241701376324e-15, -2.7256583549870968e-17, -1.2686001115453134e-15, -3.870225884148726e-17,
    -1.4663164216018345e-15, -8.222719083794526e-17,  -1.6011268428206316e-15};

constexpr double kPi = 3.141592653589793, kSqrt2 = 1.4142135623730951;

Value special_in(const Context& c, size_t arg = 0) { return c.in(arg, opmath_of(c.out().dtype)); }
template <Value (*F)(Value)>
void special(Context& c) {
  c.result(F(special_in(c)));
}
Value squared(Value x) { return hlo::multiply(x, x); }
Value is_less(Value x, double than) { return hlo::compare(x, like(x, than), Direction::lt); }
Value is_equal(Value x, double to) { return hlo::compare(x, like(x, to), Direction::eq); }
Value plus(Value x, double by) { return hlo::add(x, like(x, by)); }

// By Clenshaw's recurrence.
Value chebyshev(Value t, std::span<const double> series) {
  const Value twice = scaled(t, 2);
  Value last = like(t, 0), y = like(t, 0);
  for (size_t i = series.size(); i-- > 1;) {
    const Value next = plus(hlo::subtract(hlo::multiply(twice, y), last), series[i]);
    last = y;
    y = next;
  }
  return plus(hlo::subtract(hlo::multiply(t, y), last), series[0]);
}

// Of |x|, divided by e^|x|.
Value bessel(Value a, std::span<const double> near, std::span<const double> far) {
  const Value close = chebyshev(plus(scaled(hlo::minimum(a, like(a, 8)), 0.25), -1), near);
  const Value beyond = hlo::maximum(a, like(a, 8));
  const Value away =
      hlo::divide(chebyshev(plus(hlo::divide(like(a, 16), beyond), -1), far), hlo::sqrt(beyond));
  return hlo::select(hlo::compare(a, like(a, 8), Direction::le), close, away);
}
Value i0e(Value x) { return bessel(hlo::abs(x), kI0Near, kI0Far); }
Value i1e(Value x) {
  const Value a = hlo::abs(x), y = bessel(a, kI1Near, kI1Far);
  const Value even = hlo::select(hlo::compare(a, like(a, 8), Direction::le), hlo::multiply(a, y), y);
  return hlo::select(is_less(x, 0), hlo::negate(even), even);
}
Value grown(Value scaled_down, Value x) { return hlo::multiply(hlo::exponential(hlo::abs(x)), scaled_down); }
Value i0(Value x) { return grown(i0e(x), x); }
Value i1(Value x) { return grown(i1e(x), x); }

Value erfcx(Value x) {
  const Value a = hlo::minimum(hlo::abs(x), like(x, 1e30));
  const Value t = hlo::divide(plus(a, -3.75), plus(a, 3.75));
  const Value right = hlo::divide(chebyshev(t, kErfcx), plus(scaled(a, 2), 1));
  const Value left = hlo::subtract(scaled(hlo::exponential(squared(x)), 2), right);
  const Value y = hlo::select(is_less(x, 0), left, right);
  return hlo::select(hlo::compare(x, x, Direction::ne), x, y);
}
// The logarithm of how much of the normal distribution lies below x.
Value log_ndtr(Value x) {
  const Value t = scaled(x, 1 / kSqrt2);
  const Value left =
      hlo::subtract(hlo::log(scaled(erfcx(hlo::negate(hlo::minimum(t, like(t, 0)))), 0.5)), squared(t));
  const Value right = hlo::log_plus_one(scaled(hlo::erfc(t), -0.5));
  return hlo::select(is_less(x, -1), left, right);
}

Value entr(Value x) {
  const Value y = hlo::negate(hlo::multiply(x, hlo::log(x)));
  const Value below = hlo::select(is_less(x, 0), like(x, -std::numeric_limits<double>::infinity()), y);
  return hlo::select(is_equal(x, 0), like(x, 0), below);
}
Value sinc(Value x) {
  const Value z = scaled(x, kPi);
  return hlo::select(is_equal(x, 0), like(x, 1), hlo::divide(hlo::sine(z), z));
}

// What follows the terms that are summed one by one, by Euler and Maclaurin: a is beyond 9.
Value zeta_tail(Value s, Value a) {
  // Bernoulli's numbers B(2k) / (2k)!
  constexpr double kTerms[] = {1.0 / 12,           -1.0 / 720,
                               1.0 / 30240,        -1.0 / 1209600,
                               1.0 / 47900160,     -691.0 / 1307674368000,
                               1.0 / 74724249600., -3617.0 / 10670622842880000.};
  const Value last = hlo::power(a, hlo::negate(s));
  Value y = hlo::add(hlo::divide(hlo::multiply(last, a), plus(s, -1)), scaled(last, 0.5));
  Value term = hlo::multiply(s, hlo::divide(last, a));
  for (size_t k = 0; k < std::size(kTerms); ++k) {
    y = hlo::add(y, scaled(term, kTerms[k]));
    const auto next = static_cast<double>(2 * k + 1);
    term = hlo::divide(hlo::multiply(term, hlo::multiply(plus(s, next), plus(s, next + 1))), squared(a));
  }
  return y;
}
// Hurwitz's: the sum of (q + k)^-s. The compiler's own is wrong for negative q, where one has to go until the
// terms are positive. For q below -65536 it is not right either.
Value hurwitz(Value s, Value q) {
  constexpr int64_t kLeast = 9, kMost = 65536;
  const Value zero = hlo::constant(q.builder(), DType::s64, 0);
  const auto near = [](Value a) { return hlo::compare(a, like(a, 9), Direction::le); };
  const auto loop = hlo::while_(
      {zero, q, like(q, 0)},
      [&](std::span<const Value> v) -> hlo::Values {
        const Value open = hlo::and_(near(v[1]), hlo::is_finite(v[1]));
        Dims all(static_cast<size_t>(q.rank()));
        std::iota(all.begin(), all.end(), 0);
        const Value any = max(to(open, DType::s32), all);
        const auto before = [&](int64_t n) { return hlo::compare(v[0], like(v[0], n), Direction::lt); };
        return {hlo::or_(before(kLeast), hlo::and_(to(any, DType::pred), before(kMost)))};
      },
      [&](std::span<const Value> v) -> hlo::Values {
        const Value goes_on =
            hlo::or_(near(v[1]), expand(hlo::compare(v[0], like(v[0], kLeast), Direction::lt), q.dims()));
        const Value term = hlo::power(v[1], hlo::negate(s));
        return {hlo::add(v[0], like(v[0], 1)), hlo::select(goes_on, plus(v[1], 1), v[1]),
                hlo::select(goes_on, hlo::add(v[2], term), v[2])};
      });
  const Value y = hlo::add(loop[2], zeta_tail(s, loop[1]));
  constexpr double kInf = std::numeric_limits<double>::infinity(),
                   kNan = std::numeric_limits<double>::quiet_NaN();
  const auto is_whole = [](Value v) { return hlo::compare(v, hlo::floor(v), Direction::eq); };
  const Value left = hlo::compare(q, like(q, 0), Direction::le);
  const Value pole = hlo::and_(left, is_whole(q)), undefined = hlo::and_(left, hlo::not_(is_whole(s)));
  const Value by_q = hlo::select(pole, like(q, kInf), hlo::select(undefined, like(q, kNan), y));
  const Value by_s = hlo::select(is_less(s, 1), like(q, kNan), by_q);
  return hlo::select(is_equal(s, 1), like(q, kInf), by_s);
}

// At zero it has a side, which the compiler's has not.
Value digamma_at(Value x) {
  return hlo::select(is_equal(x, 0), hlo::divide(like(x, -1), x), hlo::digamma(x));
}

// n, self: the first derivative of digamma has a mirror.
void polygamma(Context& c) {
  const Value x = special_in(c, 1);
  const int64_t n = c.integer(0);
  if (n == 0) return c.result(digamma_at(x));
  if (n > 1) {
    const double factor = (n % 2 == 0 ? -1 : 1) * std::tgamma(static_cast<double>(n + 1));
    return c.result(scaled(hurwitz(like(x, static_cast<double>(n + 1)), x), factor));
  }
  const Value mirrored = is_less(x, 0.5);
  const Value y = hurwitz(like(x, 2), hlo::select(mirrored, plus(hlo::negate(x), 1), x));
  const Value sine = hlo::sine(scaled(x, kPi));
  const Value reflected = hlo::subtract(hlo::divide(like(x, kPi * kPi), squared(sine)), y);
  c.result(hlo::select(mirrored, reflected, y));
}

template <Value (*F)(Value, Value)>
void of_both(Context& c) {
  const DType t = c.opmath();
  c.result(F(expand(c.in(0, t), c.out().dims), expand(c.in(1, t), c.out().dims)));
}
Value xlog1py(Value a, Value b) {
  const Value y = hlo::select(is_equal(a, 0), like(a, 0), hlo::multiply(a, hlo::log_plus_one(b)));
  return hlo::select(hlo::compare(b, b, Direction::ne), b, y);
}

// self, eps
void logit(Context& c) {
  Value x = special_in(c);
  if (c.has(1)) {
    const double low = c.number(1), high = 1 - low;
    const Value above = hlo::compare(x, like(x, high), Direction::gt);
    x = hlo::select(is_less(x, low), like(x, low), hlo::select(above, like(x, high), x));
  }
  c.result(hlo::log(hlo::divide(x, hlo::subtract(like(x, 1), x))));
}
// grad_output, self, eps: none where it was kept inside.
void logit_backward(Context& c) {
  const Value g = special_in(c, 0), x = special_in(c, 1);
  const double low = c.has(2) ? c.number(2) : 0;
  const Value outside = hlo::or_(is_less(x, low), hlo::compare(x, like(x, 1 - low), Direction::gt));
  const Value slope = hlo::divide(g, hlo::multiply(x, hlo::subtract(like(x, 1), x)));
  const Value nothing = like(x, c.has(2) ? 0.0 : std::numeric_limits<double>::quiet_NaN());
  c.result(hlo::select(outside, nothing, slope));
}

std::vector<Shape> real_like_first(const Call& c) {
  const DType t = c.shape(0).dtype;
  if (is_complex(t)) return {};
  return {Shape{is_float(t) ? t : DType::f32, c.dims(0)}};
}

}  // namespace

std::span<const Row> special_rows() {
  static const Row rows[] = {
      {{"i0"}, special<i0>},
      {{"special_modified_bessel_i0"}, special<i0>},
      {{"special_modified_bessel_i1"}, special<i1>},
      {{"special_i0e"}, special<i0e>},
      {{"special_i1"}, special<i1>},
      {{"special_i1e"}, special<i1e>},
      {{"special_erfcx"}, special<erfcx>},
      {{"special_log_ndtr"}, special<log_ndtr>},
      {{"special_entr"}, special<entr>},
      {{"sinc"}, special<sinc>},
      {{"digamma"}, special<digamma_at>},
      {{"polygamma"}, polygamma},
      {{"special_zeta"}, of_both<hurwitz>, promote},
      {{"special_xlog1py"}, of_both<xlog1py>, promote},
      {{"logit"}, logit, plain, real_like_first},
      {{"logit_backward"}, logit_backward},
  };
  return rows;
}

}  // namespace tpubridge::lower
