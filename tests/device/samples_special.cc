// Samples of special functions, of activations of pieces, of the parts of numbers, and of places in a row.
#include "tests/device/samples.h"

namespace tpubridge {
namespace {

#define COMMA ,
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Each of these numbers, in the type.
Sample at_numbers(std::string row, Call f, std::vector<double> numbers, std::string dtypes = "f",
                  bool gradient = false, double tolerance = 1) {
  return {std::move(row),    f,        [=](torch::Dtype d) { return Tensors{torch::tensor(numbers).to(d)}; },
          std::move(dtypes), gradient, tolerance};
}
#define NUMBERS(row, expr, ...) \
  at_numbers(                   \
      row, [](const Tensors& t) -> Tensors { return {expr}; }, __VA_ARGS__)

const std::vector<double> kEvery = {0.0, -0.0, 0.5, -0.5, 1,    -1,    2.5, -3.75,
                                    7.9, -8.1, 30,  -80,  kInf, -kInf, kNan};
const std::vector<double> kLarge = {-60, -20, -8.01, -8, -7.99, -1, 0, 1, 7.99, 8, 8.01, 20, 60};
const std::vector<double> kUnit = {-0.5, 0, 0.01, 0.1, 0.4, 0.5, 0.6, 0.9, 0.99, 1, 1.5, kNan};

// Of degrees from −10 to 10.
#define POLYNOMIAL(name) \
  SAMPLE("special_" #name, special_##name(t[0], (t[1] * 5).round()), (Sizes{{4, 9}, {9}}), "fd", 20, false)

torch::Tensor parts(const torch::Tensor& z) { return torch::view_as_real(z); }

}  // namespace

std::vector<Sample> special_samples() {
  using namespace torch;
  return {
      SAMPLE("i0", i0(t[0]), Sizes{{5, 7}}, "fdb"),
      NUMBERS("i0", i0(t[0]), kLarge, "fd", true, 4),
      SAMPLE("special_i0e", special_i0e(t[0] * 6), Sizes{{5, 7}}, "fdb"),
      NUMBERS("special_i0e", special_i0e(t[0]), kEvery, "fd"),
      SAMPLE("special_i1", special_i1(t[0]), Sizes{{5, 7}}, "fd"),
      SAMPLE("special_i1e", special_i1e(t[0] * 6), Sizes{{5, 7}}, "fd"),
      NUMBERS("special_i1e", special_i1e(t[0]), kEvery, "fd"),
      SAMPLE("special_erfcx", special_erfcx(t[0]), Sizes{{5, 7}}, "fd"),
      NUMBERS("special_erfcx", special_erfcx(t[0]),
              (std::vector<double>{-5, -1, 0, 0.1, 3, 50, 1e4, kInf, kNan}), "fd"),
      SAMPLE("special_log_ndtr", special_log_ndtr(t[0] * 4), Sizes{{5, 7}}, "fd"),
      NUMBERS("special_log_ndtr", special_log_ndtr(t[0]),
              (std::vector<double>{-30, -2, -1, 0, 1, 6, kInf, kNan}), "fd"),
      SAMPLE("special_entr", special_entr(t[0].abs() + 0.1), Sizes{{5, 7}}, "fdb"),
      NUMBERS("special_entr", special_entr(t[0]), kEvery, "fd"),
      SAMPLE("sinc", sinc(t[0]), Sizes{{5, 7}}, "fdb"),
      NUMBERS("sinc", sinc(t[0]), (std::vector<double>{0, -0.0, 1, 0.5, -2.25, kNan}), "fd"),
      SAMPLE("polygamma", polygamma(1, t[0] + 3) COMMA polygamma(3, t[0] + 3), Sizes{{5, 7}}, "fd"),
      SAMPLE("polygamma", digamma(t[0] + 3), Sizes{{5, 7}}, "fd"),
      NUMBERS("polygamma", polygamma(1, t[0]) COMMA polygamma(2, t[0]) COMMA polygamma(5, t[0]),
              (std::vector<double>{-8.4784, -0.3, 0.2, 0.5, 3, 12, 400, kNan}), "fd", false, 8),
      NUMBERS("digamma", digamma(t[0]), (std::vector<double>{0.0, -0.0, 0.5, -0.5, 1, -1, 30, kInf, kNan}),
              "fd"),
      SAMPLE("special_zeta", special_zeta(t[0].abs() + 1.5, t[1].abs() + 0.2), (Sizes{{4, 5}, {5}}), "fd", 8,
             false),
      SAMPLE("special_xlog1py", special_xlog1py(t[0], t[1].abs()), (Sizes{{4, 5}, {5}}), "fdb"),
      SAMPLE("special_xlog1py", special_xlog1py(t[0] * 0, t[1] * INFINITY), (Sizes{{4}, {4}}), "f", 1, false),
      POLYNOMIAL(chebyshev_polynomial_t),
      POLYNOMIAL(chebyshev_polynomial_u),
      POLYNOMIAL(chebyshev_polynomial_v),
      POLYNOMIAL(chebyshev_polynomial_w),
      POLYNOMIAL(shifted_chebyshev_polynomial_t),
      POLYNOMIAL(shifted_chebyshev_polynomial_u),
      POLYNOMIAL(shifted_chebyshev_polynomial_v),
      POLYNOMIAL(shifted_chebyshev_polynomial_w),
      POLYNOMIAL(hermite_polynomial_h),
      POLYNOMIAL(hermite_polynomial_he),
      POLYNOMIAL(laguerre_polynomial_l),
      POLYNOMIAL(legendre_polynomial_p),
      SAMPLE("igamma", igamma(t[0].detach().abs() + 0.2, t[1].abs() * 2 + 0.1), (Sizes{{4, 5}, {5}}), "fdb"),
      SAMPLE("igammac", igammac(t[0].detach().abs() + 0.2, t[1].abs() * 2 + 0.1), (Sizes{{4, 5}, {5}}),
             "fdb"),
      NUMBERS("logit", logit(t[0]) COMMA logit(t[0], 0.1) COMMA logit(t[0], 0.6), kUnit, "fd"),
      SAMPLE("logit", logit(t[0].abs() / 2, 0.25), Sizes{{5, 7}}, "fdb"),
      SAMPLE("logit", logit(t[0].abs() / 2.5 + 0.1), Sizes{{5, 7}}, "fd"),

      SAMPLE("threshold", threshold(t[0], 0.5, -7), Sizes{{5, 7}}, "fbi"),
      SAMPLE("hardshrink", hardshrink(t[0], 0.8), Sizes{{5, 7}}, "fdb"),
      SAMPLE("softshrink", softshrink(t[0], 0.8), Sizes{{5, 7}}, "fdb"),
      NUMBERS("threshold", threshold(t[0], 0.5, -7) COMMA hardshrink(t[0]) COMMA softshrink(t[0]), kEvery,
              "fd"),
      SAMPLE("_prelu_kernel", prelu(t[0], t[1]), (Sizes{{3, 4, 5}, {4}}), "fdb"),
      SAMPLE("_prelu_kernel", prelu(t[0], t[1]), (Sizes{{3, 4}, {1}}), "f"),
      SAMPLE("glu", glu(t[0], 1), (Sizes{{3, 4, 5}}), "fdb"),
      SAMPLE("glu", glu(t[0]), (Sizes{{6}}), "f"),

      NUMBERS("signbit", signbit(t[0]), kEvery, "fdb"),
      SAMPLE("signbit", signbit(t[0]), Sizes{{5, 7}}, "io", 1, false),
      SAMPLE("frexp.Tensor", std::get<0>(frexp(t[0] * 100)) COMMA std::get<1>(frexp(t[0] * 100)),
             Sizes{{5, 7}}, "fdb"),
      NUMBERS("frexp.Tensor", std::get<0>(frexp(t[0])) COMMA std::get<1>(frexp(t[0])),
              (std::vector<double>{0.0, -0.0, 1, -0.5, 1e-40, -3e-45, 1.2e-38, 3e38, kInf, -kInf, kNan}),
              "f"),
      SAMPLE("round.decimals", round(t[0] * 100, 2) COMMA round(t[0] * 100, -1) COMMA round(t[0] * 10, 0),
             Sizes{{5, 7}}, "fd", 1, false),
      SAMPLE("nextafter", nextafter(t[0], t[1]), (Sizes{{5, 7}, {7}}), "fd", 0, false),
      SAMPLE("complex", parts(torch::complex(t[0], t[1])), (Sizes{{5, 7}, {7}}), "fd"),
      SAMPLE("polar", parts(polar(t[0].abs(), t[1] * 3)), (Sizes{{5, 7}, {7}}), "fd"),

      INDEXED("take", take(t[0], t[1]), std::vector<int64_t>({4, 5}), std::vector<int64_t>({3, 2}), 20),
      INDEXED("take", take(t[0], t[1] - 20), std::vector<int64_t>({4, 5}), std::vector<int64_t>({7}), 20),
      INDEXED("put", put(t[0], t[1], t[2], true), std::vector<int64_t>({4, 5}), std::vector<int64_t>({3, 4}),
              20, std::vector<int64_t>({3, 4})),
      INDEXED("put", put(t[0], torch::arange(int64_t{6}, t[1].options()) * 3 - 20, t[2]),
              std::vector<int64_t>({4, 5}), std::vector<int64_t>({1}), 20, std::vector<int64_t>({6})),
      SAMPLE("histc", histc(t[0], 7, -1.5, 1.25), (Sizes{{40, 30}}), "fd", 1, false),
      NUMBERS("histc", histc(t[0], 4, -2, 2),
              (std::vector<double>{-2, -1, -1.0001, 0, 1, 2, 2.0001, kNan, kInf, 1.9999}), "fd"),
      SAMPLE("rsub.Tensor", rsub(t[0], t[1]) COMMA rsub(t[0], t[1], 3) COMMA rsub(t[0], 2),
             (Sizes{{4, 5}, {5}}), "fdbic"),
      NUMBERS("nansum",
              nansum(t[0]) COMMA nansum(t[0].view({3, 5}), 1)
                  COMMA nanmean(t[0].view({5, 3}), IntArrayRef{0}, true),
              kEvery, "fd"),
      SAMPLE("nansum", nansum(t[0], IntArrayRef{0, 2}, true), (Sizes{{3, 4, 5}}), "fbi"),
      SAMPLE("count_nonzero.dim_IntList",
             count_nonzero(t[0].relu(), IntArrayRef{0, -1}) COMMA count_nonzero(t[0]), (Sizes{{3, 4, 5}}),
             "fbi", 1, false),
      SAMPLE("trace", torch::trace(t[0]), (Sizes{{4, 6}}), "fdbi"),
      SAMPLE("_logcumsumexp", logcumsumexp(t[0] * 20, 1), (Sizes{{3, 9, 2}}), "fd", 4, false),
      SAMPLE("_logcumsumexp", logcumsumexp(t[0], -1), (Sizes{{3, 9}}), "fd"),
      INDEXED("index_reduce",
              index_reduce(t[0], 1, t[1], t[2], "amax")
                  COMMA index_reduce(t[0], 1, t[1], t[2], "amin", false),
              std::vector<int64_t>({4, 5, 3}), std::vector<int64_t>({6}), 5, std::vector<int64_t>({4, 6, 3}),
              "fi", false),
      INDEXED("index_reduce",
              index_reduce(t[0], 0, t[1], t[2], "prod")
                  COMMA index_reduce(t[0], 0, t[1], t[2], "mean", false),
              std::vector<int64_t>({5, 3}), std::vector<int64_t>({6}), 5, std::vector<int64_t>({6, 3}), "f"),
      SAMPLE("repeat", pixel_shuffle(t[0], 2) COMMA pixel_unshuffle(t[0], 3) COMMA channel_shuffle(t[0], 4),
             (Sizes{{2, 8, 3, 6}}), "fb"),
  };
}

}  // namespace tpubridge
