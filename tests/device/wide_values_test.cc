// Functions over a wide range, beside the CPU: polynomials of any degree, the incomplete
// gamma functions, slices of a bounded norm, most frequent values, places of what is not zero, numbers that a
// type cannot hold.
#include <gtest/gtest.h>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;
using Both = Tensor (*)(const Tensor&, const Tensor&);
constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Every x with every n.
void expect_grid(Both f, const Tensor& x, const Tensor& n, double tolerance = 1) {
  FallbackScope native(Fallback::error);
  const auto column = x.unsqueeze(1);
  expect_close(f(column.to(tpu()), n.to(tpu())), f(column, n), tolerance);
}

struct Polynomial {
  std::string name;
  Both f;
};
std::vector<Polynomial> polynomials() {
  return {{"chebyshev_t", torch::special_chebyshev_polynomial_t},
          {"chebyshev_u", torch::special_chebyshev_polynomial_u},
          {"chebyshev_v", torch::special_chebyshev_polynomial_v},
          {"chebyshev_w", torch::special_chebyshev_polynomial_w},
          {"shifted_chebyshev_t", torch::special_shifted_chebyshev_polynomial_t},
          {"shifted_chebyshev_u", torch::special_shifted_chebyshev_polynomial_u},
          {"shifted_chebyshev_v", torch::special_shifted_chebyshev_polynomial_v},
          {"shifted_chebyshev_w", torch::special_shifted_chebyshev_polynomial_w},
          {"hermite_h", torch::special_hermite_polynomial_h},
          {"hermite_he", torch::special_hermite_polynomial_he},
          {"laguerre_l", torch::special_laguerre_polynomial_l},
          {"legendre_p", torch::special_legendre_polynomial_p}};
}

TEST(WideValues, PolynomialsOfEachDegree) {
  const auto ends = torch::tensor({0., -0., 1., -1., 3., kInfinite, -kInfinite, kUnknown}, torch::kDouble);
  const auto x = torch::cat({torch::linspace(-1.5, 1.5, 61, torch::kDouble), ends});
  const auto n = torch::cat({torch::arange(-2, 21, torch::kDouble),
                             torch::tensor({5.9, 40., 128., 129., 512., 513.}, torch::kDouble)});
  for (const auto& p : polynomials()) {
    SCOPED_TRACE(p.name);
    for (const auto type : {torch::kFloat, torch::kDouble}) expect_grid(p.f, x.to(type), n.to(type), 20);
    expect_grid(p.f, torch::arange(-3, 4), torch::arange(6));  // integers become floats
    expect_close(p.f(torch::ones({0, 3}, tpu()), torch::ones({3}, tpu())), torch::ones({0, 3}));
  }
}

// Beside the CPU's f64, which is off by up to 2e-9 of the value, and by 1e-7 for large a; its f32 by 6e-5.
void expect_gamma(Both f, const Tensor& a, const Tensor& x) {
  FallbackScope native(Fallback::error);
  const auto want = f(a, x), got = f(a.to(tpu()), x.to(tpu())).cpu();
  EXPECT_TRUE(torch::allclose(got, want, 1e-8, 2e-7, true)) << (got - want).abs().max();
  const auto rounded = f(a.to(torch::kFloat).to(torch::kDouble), x.to(torch::kFloat).to(torch::kDouble));
  const auto narrow = f(a.to(tpu(), torch::kFloat), x.to(tpu(), torch::kFloat)).cpu().to(torch::kDouble);
  EXPECT_TRUE(torch::allclose(narrow, rounded, 2e-5, 2e-6, true)) << (narrow - rounded).abs().max();
}

TEST(WideValues, IncompleteGammaFunctions) {
  torch::manual_seed(3);
  for (const Both f : {Both(torch::igamma), Both(torch::igammac)}) {
    const auto any = [](double low, double high) {
      return torch::pow(10, torch::rand({4000}, torch::kDouble) * (high - low) + low);
    };
    expect_gamma(f, any(-6, 6), any(-6, 6));
    const auto a = any(-2, 7);  // near the mean
    expect_gamma(f, a, (a + a.sqrt() * torch::randn({4000}, torch::kDouble) * 3).abs());
    const auto ends = torch::tensor({0., 1e-300, 1e-3, 0.5, 1., 20., 1e4, 1e9, kInfinite, kUnknown, -1.})
                          .to(torch::kDouble);
    expect_gamma(f, ends.unsqueeze(1).expand({11, 11}), ends.expand({11, 11}));
  }
}

// What arithmetic of 40 digits gives: a, x, below, above.
TEST(WideValues, IncompleteGammaFunctionsAreExact) {
  const auto all = torch::tensor({1e6,       999000.,   0.15865521357430365, 0.84134478642569635,     //
                                  1e7,       10010000., 0.99921474656539437, 0.00078525343460562797,  //
                                  36.,       30.,       0.15738347443033157, 0.84261652556966843,     //
                                  0.0078125, 0.0625,    0.98247687144180941, 0.017523128558190589,    //
                                  5000.,     5100.,     0.92067111892238102, 0.079328881077618977,    //
                                  0.5,       30.,       0.99999999999999051, 9.4857375710738484e-15},
                                 torch::kDouble)
                       .view({6, 4})
                       .t();
  const auto a = all[0].to(tpu()), x = all[1].to(tpu());
  EXPECT_TRUE(torch::allclose(torch::igamma(a, x).cpu(), all[2], 2e-14, 0)) << torch::igamma(a, x);
  EXPECT_TRUE(torch::allclose(torch::igammac(a, x).cpu(), all[3], 2e-14, 0)) << torch::igammac(a, x);
}

TEST(WideValues, SlicesOfABoundedNorm) {
  FallbackScope native(Fallback::error);
  torch::manual_seed(4);
  for (const double p : {0.5, 1., 2., kInfinite})
    for (const int64_t dim : {0, -1})
      for (const double most : {0., 0.7, 4.}) {
        SCOPED_TRACE(p);
        auto x = torch::randn({3, 4, 5}), there = x.to(tpu());
        x.requires_grad_();
        there.requires_grad_();
        const auto weight = torch::randn({3, 4, 5});
        const auto want = x.renorm(p, dim, most), got = there.renorm(p, dim, most);
        expect_close(got, want);
        (want * weight).sum().backward();
        (got * weight.to(tpu())).sum().backward();
        expect_close(there.grad(), x.grad(), 10);
        expect_close(there.detach().clone().renorm_(p, dim, most), want.detach());
      }
  const auto z = torch::randn({3, 4}, torch::kComplexFloat);
  expect_close(z.to(tpu()).renorm(2, 0, 1), z.renorm(2, 0, 1));
}

TEST(WideValues, MostFrequent) {
  FallbackScope native(Fallback::error);
  torch::manual_seed(5);
  for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kLong})
    for (const int64_t kinds : {2, 20})
      for (const int64_t n : {1, 2, 7, 16, 300}) {
        const auto x = torch::randint(0, kinds, {n, 30}).to(type), there = x.to(tpu());
        const auto want = x.mode(0), got = there.mode(0);
        expect_close(std::get<0>(got), std::get<0>(want));
        // Which of many equal ones is told hangs on how the CPU sorts.
        if (n <= 16) expect_close(std::get<1>(got), std::get<1>(want));
        expect_close(there.gather(0, std::get<1>(got).unsqueeze(0)).squeeze(0), std::get<0>(want));
      }
  const auto one = torch::tensor(2.5f);
  expect_close(std::get<0>(one.to(tpu()).mode()), std::get<0>(one.mode()));
  expect_close(std::get<1>(one.to(tpu()).mode()), std::get<1>(one.mode()));
}

TEST(WideValues, PlacesOfWhatIsNotZero) {
  FallbackScope native(Fallback::error);
  torch::manual_seed(6);
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{}, {1}, {50}, {7, 9}, {3, 1, 4, 5}})
    for (const int64_t size : {0, 1, 8, 100})
      for (const int64_t fill : {-1, 3}) {
        const auto x = torch::randint(0, 3, sizes).to(torch::kFloat);
        expect_close(torch::nonzero_static(x.to(tpu()), size, fill), torch::nonzero_static(x, size, fill));
      }
}

TEST(WideValues, AMarginThatIsNoNumberMissesNothing) {
  FallbackScope native(Fallback::error);
  const auto x = torch::tensor({{1., kUnknown, 2.}, {3., 4., 4.5}}), y = torch::tensor({0, 1});
  for (const double margin : {1., kUnknown}) {
    const auto loss = [&](torch::Device d) {
      return torch::multi_margin_loss(x.to(d), y.to(d), 1, margin, {}, at::Reduction::None);
    };
    expect_close(loss(tpu()), loss(torch::kCPU));
  }
}

// The value, or the words of the error.
std::string outcome(const std::function<Tensor(torch::Device)>& call, torch::Device d) {
  try {
    std::ostringstream text;
    text << call(d).to(torch::kCPU);
    return text.str();
  } catch (const std::exception& e) {
    return e.what();
  }
}

TEST(WideValues, NumbersThatATypeCannotHold) {
  const std::vector<at::Scalar> numbers{1000, -1000, -1,     2.5,    70000,     int64_t{1} << 40, 1e6,
                                        1e20, 1e39,  65504., 65520., kInfinite, -kInfinite,       true};
  for (const auto type : {torch::kByte, torch::kChar, torch::kShort, torch::kInt, torch::kLong, torch::kHalf,
                          torch::kBFloat16, torch::kFloat, torch::kDouble})
    for (const auto& v : numbers) {
      const auto ones = [&](torch::Device d) {
        return torch::ones({2, 2}, torch::TensorOptions(d).dtype(type));
      };
      const auto first = [](torch::Device d) {
        return torch::zeros({1}, torch::TensorOptions(d).dtype(torch::kLong));
      };
      const auto half = [](torch::Device d) { return torch::tensor({true, false}).to(d); };
      using Device = torch::Device;
      const std::vector<std::function<Tensor(Device)>> calls{
          [&](Device d) { return ones(d).fill_(v); },
          [&](Device d) { return torch::full({2}, v, torch::TensorOptions(d).dtype(type)); },
          [&](Device d) { return torch::full_like(ones(d), v); },
          [&](Device d) { return ones(d).masked_fill(half(d), v); },
          [&](Device d) { return ones(d).masked_fill_(half(d), v); },
          [&](Device d) { return ones(d).masked_fill(half(d), torch::scalar_tensor(v, torch::kDouble)); },
          [&](Device d) { return ones(d).index_fill(0, first(d), v); },
          [&](Device d) {
            return ones(d).scatter(0, first(d).view({1, 1}), v);
          },
          [&](Device d) { return ones(d).clamp_max(v); },
          [&](Device d) {
            return torch::constant_pad_nd(ones(d), {1, 1}, v);
          },
          [&](Device d) { return torch::threshold(ones(d), 1, v); },
      };
      for (size_t i = 0; i < calls.size(); ++i)
        EXPECT_EQ(outcome(calls[i], tpu()).substr(0, 60), outcome(calls[i], torch::kCPU).substr(0, 60))
            << "call " << i << ", " << v << " in " << type;
    }
}

// A number of the host whose type fits is not read, so that a compiled step follows it as it did.
TEST(WideValues, ANumberOfTheHostIsFollowed) {
  const auto host = torch::tensor({1.f, -2.f, 3.f});
  const auto mask = host > 0, there = mask.to(tpu()), x = host.to(tpu());
  for (const auto& number : {torch::tensor(5.f), torch::tensor(5), torch::tensor(true)}) {
    auto f = compile([&](const torch::Tensor& a) { return a.masked_fill(there, number) * 2; });
    for (int i = 0; i < 12; ++i) {
      if (i == 9) number.fill_(0);
      EXPECT_TRUE(torch::equal(f(x).cpu(), host.masked_fill(mask, number) * 2)) << i;
    }
    EXPECT_GE(f.report().replayed, 1) << f.report().why_traced;
  }
  auto wide = torch::tensor(1000);  // one that may not fit is read at every call, and refused by each
  const auto bytes = torch::ones({3}, torch::kByte).to(tpu());
  auto f = compile([&](const torch::Tensor& a) { return a.masked_fill(there, wide); });
  for (int i = 0; i < 5; ++i) {
    wide.fill_(i == 3 ? 1000 : 7);
    if (i == 3)
      EXPECT_ANY_THROW((void)f(bytes).cpu());
    else
      EXPECT_EQ(f(bytes)[0].item<int>(), 7);
  }
}

}  // namespace
}  // namespace tpubridge
