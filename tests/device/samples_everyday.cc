// Samples of ops that hang on the order of elements, and of other everyday ones.
#include "tests/device/samples.h"

namespace tpubridge {
namespace {

#define COMMA ,
// Numbers that are all different, in no order.
torch::Tensor different(torch::IntArrayRef sizes, torch::Dtype d) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return (torch::randperm(n).to(torch::kDouble) - static_cast<double>(n) / 2).div(8).mul(8).to(d).view(sizes);
}
Sample ordered(std::string row, Call f, std::string dtypes = "fi", bool gradient = true,
               std::vector<int64_t> sizes = {3, 4, 5}) {
  return {std::move(row),    f,        [=](torch::Dtype d) { return Tensors{different(sizes, d)}; },
          std::move(dtypes), gradient, 1};
}
#define ORDERED(row, expr, ...) \
  ordered(row, [](const Tensors& t) -> Tensors { return {expr}; } __VA_OPT__(, ) __VA_ARGS__)
#define ORDERED_PAIR(row, expr, ...)             \
  ordered(row, [](const Tensors& t) -> Tensors { \
    auto r = expr;                               \
    return {std::get<0>(r), std::get<1>(r)};     \
  } __VA_OPT__(, ) __VA_ARGS__)

torch::Tensor with_nan(const torch::Tensor& t) {
  return torch::where((t > 20).logical_or(t == 3), torch::full({}, NAN, t.options()), t);
}

// Integers of few kinds: many are equal.
Sample repeated(std::string row, Call f, std::string dtypes = "fi") {
  return {std::move(row),
          f,
          [](torch::Dtype d) {
            return Tensors{places({4, 6}, 3).to(d), places({3}, 3).to(d)};
          },
          std::move(dtypes),
          false,
          1};
}
#define REPEATED(row, expr, ...) \
  repeated(row, [](const Tensors& t) -> Tensors { return {expr}; } __VA_OPT__(, ) __VA_ARGS__)

Sample masked(Call f, std::vector<int64_t> x, std::vector<int64_t> mask) {
  return {"masked_scatter",
          f,
          [=](torch::Dtype d) {
            return Tensors{make(x, d), make({30}, d), make(mask, torch::kBool)};
          },
          "fi",
          true,
          1};
}

// There and back; windows that overlap name a place more than once.
Sample unpooled(bool channels_last, int64_t window, int64_t stride) {
  return {"max_unpool2d",
          [=](const Tensors& t) -> Tensors {
            auto x = channels_last ? t[0].contiguous(torch::MemoryFormat::ChannelsLast) : t[0];
            const auto [v, i] = torch::max_pool2d_with_indices(x, {window, window}, {stride, stride});
            return {torch::max_unpool2d(v * v, i, {7, 6})};
          },
          [](torch::Dtype d) {
            return Tensors{different({2, 3, 7, 6}, d)};
          },
          "fd",
          true,
          1};
}

template <size_t N>
Sample fractional(std::string row, std::vector<int64_t> sizes, std::vector<int64_t> window,
                  std::vector<int64_t> size) {
  return {std::move(row),
          [=](const Tensors& t) -> Tensors {
            const auto samples = t[1].detach();  // of them there is no gradient
            const auto [v, i] = N == 2 ? torch::fractional_max_pool2d(t[0], window, size, samples)
                                       : torch::fractional_max_pool3d(t[0], window, size, samples);
            return {v * v, i};
          },
          [=](torch::Dtype d) {
            const bool batched = sizes.size() == N + 2;
            return Tensors{
                different(sizes, d),
                torch::rand({batched ? sizes[0] : 1, sizes[batched ? 1 : 0], static_cast<int64_t>(N)}, d)};
          },
          "fd",
          true,
          1};
}

}  // namespace

std::vector<Sample> everyday_samples() {
  using namespace torch;
  return {
      ORDERED("median", t[0].median()),
      ORDERED("median", with_nan(t[0]).median(), "f", false),
      ORDERED("nanmedian", with_nan(t[0]).nanmedian(), "f", false),
      ORDERED_PAIR("median.dim", t[0].median(1)),
      ORDERED_PAIR("median.dim", t[0].median(-1, true), "fb"),
      ORDERED_PAIR("median.dim", with_nan(t[0]).median(2), "f", false),
      ORDERED_PAIR("nanmedian.dim", with_nan(t[0]).nanmedian(0), "f", false),
      ORDERED_PAIR("mode", t[0].mode(1)),
      REPEATED("mode", std::get<0>(t[0].mode(1)) COMMA std::get<1>(t[0].mode(0, true))
                           COMMA std::get<1>(t[1].mode())),
      REPEATED("nonzero_static",
               nonzero_static(t[0], 9) COMMA nonzero_static(t[0], 40, 7) COMMA nonzero_static(t[1], 0),
               "fio"),
      ORDERED_PAIR("kthvalue", t[0].kthvalue(2, 1)),
      ORDERED_PAIR("kthvalue", t[0].kthvalue(5, -1, true), "fb"),
      ORDERED_PAIR("cummax", t[0].cummax(1)),
      ORDERED_PAIR("cummax", with_nan(t[0]).cummax(2), "f", false),
      ORDERED_PAIR("cummin", t[0].cummin(0), "fbi"),
      REPEATED("cummax", std::get<1>(t[0].cummax(1))),
      REPEATED("cummin", std::get<1>(t[0].cummin(0))),
      ORDERED_PAIR("aminmax", t[0].aminmax()),
      ORDERED_PAIR("aminmax", t[0].aminmax(1, true), "fbi"),
      ORDERED("searchsorted.Tensor", searchsorted(std::get<0>(t[0].sort(-1)), t[0].flip(1).contiguous() + 1),
              "fi", false),
      ORDERED("searchsorted.Tensor", searchsorted(std::get<0>(t[0].flatten().sort()), t[0], true, true), "fi",
              false),
      REPEATED("searchsorted.Tensor", searchsorted(std::get<0>(t[1].sort()), t[0], false, false, "right")),
      REPEATED("bucketize.Tensor", bucketize(t[0], std::get<0>(t[1].sort()))),
      REPEATED("bucketize.Tensor", bucketize(t[0], std::get<0>(t[1].sort()), true, true)),
      ORDERED("bucketize.Tensor", bucketize(with_nan(t[0]), std::get<0>(t[0].flatten().sort())), "f", false),
      REPEATED("isin.Tensor_Tensor", isin(t[0], t[1])),
      REPEATED("isin.Tensor_Tensor", isin(t[0], t[1].slice(0, 0, 2), false, true)),
      REPEATED("isin.Tensor_Scalar", isin(t[0], 1)),
      REPEATED("searchsorted.Scalar", searchsorted(std::get<0>(t[1].sort()), 1)
                                          COMMA searchsorted(std::get<0>(t[1].sort()), 1.5, true, true)),
      REPEATED("bucketize.Scalar", bucketize(2, std::get<0>(t[1].sort()))
                                       COMMA bucketize(0.5, std::get<0>(t[1].sort()), false, true)),
      REPEATED("isin.Scalar_Tensor", isin(1, t[1]) COMMA isin(7, t[0], false, true)),
      REPEATED("remainder.Scalar_Tensor", remainder(7, t[0] - 5) COMMA remainder(-2.5, t[0] + 1), "fdbi"),
      REPEATED("gcd", gcd(t[0] * 12 - 6, t[0].flip(1) * 9) COMMA gcd(t[0], t[1].sum()), "i"),
      REPEATED("lcm", lcm(t[0] * 12 - 6, t[0].flip(1) * 9) COMMA lcm(t[0], t[1].sum()), "i"),
      REPEATED("tril_indices", torch::tril_indices(4, 5, 1, t[0].options().dtype(kLong))
                                   COMMA torch::tril_indices(5, 3, -2, t[0].options().dtype(kInt))
                                       COMMA torch::tril_indices(0, 3, 0, t[0].options().dtype(kLong))),
      REPEATED("triu_indices", torch::triu_indices(4, 5, 1, t[0].options().dtype(kLong))
                                   COMMA torch::triu_indices(5, 3, -2, t[0].options().dtype(kInt))
                                       COMMA torch::triu_indices(3, 3, 9, t[0].options().dtype(kLong))),
      INDEXED("scatter.reduce",
              t[0].scatter(1, t[1], t[2], "add") COMMA t[0].scatter(1, t[1], t[2], "multiply"), {4, 5},
              {4, 3}, 5, {4, 4}, "fdi", false),
      INDEXED("scatter.value_reduce",
              t[0].scatter(0, t[1], 3, "add") COMMA t[0].scatter(0, t[1], 2, "multiply"), {4, 5}, {3, 5}, 4,
              {}, "fdi", false),
      SAMPLE("norm.ScalarOpt_dim_dtype",
             norm(t[0], 2, IntArrayRef{1}, true, kDouble)
                 COMMA norm(t[0], std::nullopt, IntArrayRef{0}, false, kDouble),
             (Sizes{{3, 4}}), "fd"),
      SAMPLE("special_modified_bessel_i0", special_modified_bessel_i0(t[0] * 5), (Sizes{{4, 5}}), "fd", 4,
             false),
      SAMPLE("special_modified_bessel_i1", special_modified_bessel_i1(t[0] * 5), (Sizes{{4, 5}}), "fd", 4,
             false),
      SAMPLE("addcmul", addcmul(t[0], t[1] * 1e20, t[0] * 1e20, 1e-30), (Sizes{{4, 5}, {4, 5}}), "f"),
      SAMPLE("addcmul", addcmul(t[0], t[1], t[0], 3) COMMA addcmul(t[0], t[1], t[0], -100),
             (Sizes{{4, 5}, {5}}), "fhi", 8),
      {"_ctc_loss.Tensor",
       [](const Tensors& t) -> Tensors {
         return {ctc_loss(t[0].log_softmax(-1), t[1], {7, 5, 6}, {3, 1, 2}, 0, 0)};
       },
       [](torch::Dtype d) {
         return Tensors{make({7, 3, 5}, d), places({3, 3}, 4) + 1};
       },
       "fd", true, 4},
      fractional<2>("fractional_max_pool2d", {2, 3, 9, 8}, {2, 3}, {4, 3}),
      fractional<2>("fractional_max_pool2d", {3, 5, 5}, {2, 2}, {1, 4}),
      fractional<3>("fractional_max_pool3d", {2, 2, 6, 5, 7}, {2, 1, 3}, {3, 4, 2}),
      SAMPLE("linspace.out", torch::linspace(-1, 4, 7, t[0].options()), Sizes{{1}}, "fdb", 1, false),
      SAMPLE("linspace.out", torch::linspace(3, -5, 12, t[0].options()), Sizes{{1}}, "fi", 1, false),
      SAMPLE("linspace.out", torch::linspace(2, 9, 1, t[0].options()), Sizes{{1}}, "fi", 1, false),
      SAMPLE("logspace.out", torch::logspace(-1, 2, 9, 10, t[0].options()), Sizes{{1}}, "fd", 1, false),
      SAMPLE("logspace.out", torch::logspace(0, 5, 6, 2, t[0].options()), Sizes{{1}}, "fi", 1, false),
      SAMPLE("linalg_cross", cross(t[0], t[1], 1), (Sizes{{4, 3, 2}, {4, 3, 2}}), "fdbi"),
      SAMPLE("linalg_cross", linalg_cross(t[0], t[1]), (Sizes{{4, 3}, {1, 3}}), "fi"),
      SAMPLE("logaddexp", logaddexp(t[0], t[1] * 40), (Sizes{{4, 5}, {5}}), "fdb"),
      SAMPLE("logaddexp", logaddexp(t[0].abs() * INFINITY, t[0].abs() * INFINITY), Sizes{{4}}, "f", 1, false),
      SAMPLE("logaddexp2", logaddexp2(t[0], t[1] * 40), (Sizes{{4, 5}, {5}}), "fd"),
      SAMPLE("heaviside", heaviside(t[0].relu(), t[1]), (Sizes{{4, 5}, {5}}), "fbi", 1, false),
      SAMPLE("std_mean.correction",
             std::get<0>(std_mean(t[0], IntArrayRef{1})) COMMA std::get<1>(std_mean(t[0], IntArrayRef{1})),
             Sizes{{3, 4, 5}}, "fb"),
      SAMPLE("std_mean.correction", std::get<0>(std_mean(t[0], false)), Sizes{{3, 4, 5}}, "f"),
      SAMPLE("vdot", vdot(t[0], t[1]), (Sizes{{6}, {6}}), "fdc"),
      SAMPLE("addbmm", addbmm(t[0], t[1], t[2], 0.5, 2), (Sizes{{3, 5}, {4, 3, 2}, {4, 2, 5}}), "fd"),
      SAMPLE("addbmm", addbmm(t[0], t[1], t[2]), (Sizes{{5}, {4, 3, 2}, {4, 2, 5}}), "fb", 8),
      masked([](const Tensors& t) -> Tensors { return {t[0].masked_scatter(t[2], t[1])}; }, {4, 5}, {4, 5}),
      masked([](const Tensors& t) -> Tensors { return {t[0].masked_scatter(t[2], t[1])}; }, {4, 5}, {5}),
      unpooled(false, 2, 2),
      unpooled(true, 2, 2),
      unpooled(false, 3, 2),
      unpooled(true, 3, 1),
      {"max_unpool3d",
       [](const Tensors& t) -> Tensors {
         const auto [v, i] = max_pool3d_with_indices(t[0], 2);
         return {max_unpool3d(v * v, i, {4, 4, 6}, {2, 2, 2}, {0, 0, 0})};
       },
       [](torch::Dtype d) {
         return Tensors{different({2, 3, 4, 4, 6}, d)};
       },
       "f", true, 1},
      SAMPLE("_adaptive_avg_pool2d", adaptive_avg_pool1d(t[0], 3), Sizes{{2, 4, 7}}, "fb"),
      SAMPLE("_adaptive_avg_pool3d", adaptive_avg_pool3d(t[0], {3, 2, 4}), (Sizes{{2, 3, 7, 4, 5}}), "f"),
      SAMPLE("mean.dim", adaptive_avg_pool3d(t[0], {1, 1, 1}), (Sizes{{2, 3, 7, 4, 5}}), "f"),
  };
}

}  // namespace tpubridge
