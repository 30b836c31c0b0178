// Samples of reductions, scans and products.
#include "tests/device/samples.h"

namespace tpubridge {
namespace {

using torch::IntArrayRef;

Sample reduce(std::string row, Tensors (*f)(const torch::Tensor&), std::string dtypes = "fb",
              bool gradient = true) {
  return {std::move(row),
          [f](const Tensors& t) { return f(t[0]); },
          [](torch::Dtype d) {
            return Tensors{make({3, 4, 5}, d)};
          },
          std::move(dtypes),
          gradient,
          2};
}
#define REDUCE(row, expr, ...) \
  reduce(row, [](const torch::Tensor& x) -> Tensors { return {expr}; } __VA_OPT__(, ) __VA_ARGS__)
#define PAIR(row, expr, ...)                          \
  reduce(row, [](const torch::Tensor& x) -> Tensors { \
    auto r = expr;                                    \
    return {std::get<0>(r), std::get<1>(r)};          \
  } __VA_OPT__(, ) __VA_ARGS__)

}  // namespace

std::vector<Sample> reduction_samples() {
  std::vector<Sample> s{
      REDUCE("sum.dim_IntList", x.sum(), "fbi"),
      REDUCE("sum.dim_IntList", x.sum(IntArrayRef{0, 2}, true), "fbio"),
      REDUCE("mean.dim", x.mean(IntArrayRef{-1})),
      REDUCE("mean.dim", x.mean()),
      REDUCE("renorm", x.renorm(2, 1, 1.5), "fdc"),
      REDUCE("renorm", x.renorm(INFINITY, 0, 1.9), "fb"),
      REDUCE("amax", torch::amax(x, {1})),
      REDUCE("amin", torch::amin(x, {0, 1}, true)),
      REDUCE("max", x.max(), "fi"),
      REDUCE("min", x.min(), "fi"),
      PAIR("max.dim", x.max(1), "fi"),
      PAIR("min.dim", x.min(-1, true), "fi"),
      REDUCE("argmax", x.argmax(), "fi", false),
      REDUCE("argmax", x.argmax(1, true), "fi", false),
      REDUCE("argmin", x.argmin(-1), "fi", false),
      REDUCE("any", x.to(torch::kBool).any(), "fo", false),
      REDUCE("any.dim", x.to(torch::kBool).any(1), "o", false),
      REDUCE("any.dims", torch::any(x.to(torch::kBool), IntArrayRef{0, 1}), "o", false),
      REDUCE("all", x.to(torch::kBool).all(), "o", false),
      REDUCE("all.dim", x.to(torch::kBool).all(1, true), "o", false),
      REDUCE("all.dims", torch::all(x.to(torch::kBool), IntArrayRef{0, 1}), "o", false),
      REDUCE("prod", x.prod(), "fi"),
      REDUCE("prod.dim_int", x.prod(1), "fi"),
      REDUCE("norm.Scalar", x.norm(), "f"),
      REDUCE("norm.Scalar", x.norm(3), "f"),
      REDUCE("norm.ScalarOpt_dim", x.norm(2, IntArrayRef{1}, true), "f"),
      REDUCE("linalg_vector_norm", torch::linalg_vector_norm(x, 2, IntArrayRef{1, 2}), "fb"),
      REDUCE("linalg_vector_norm", torch::linalg_vector_norm(x, INFINITY), "f"),
      REDUCE("var.correction", x.var(1, true, true)),
      REDUCE("std.correction", x.std(IntArrayRef{0, 2}, false, false), "f"),
      PAIR("var_mean.correction", torch::var_mean(x, IntArrayRef{1}), "f"),
      REDUCE("logsumexp", torch::logsumexp(x, {1, 2}), "f"),
      REDUCE("cumsum", x.cumsum(1), "fi"),
      REDUCE("cumsum", x.cumsum(-1), "b"),
      REDUCE("cumprod", x.cumprod(0), "f"),
      REDUCE("_softmax", torch::softmax(x, 1)),
      REDUCE("_softmax", torch::softmax(x, -1), "f"),
      REDUCE("_log_softmax", torch::log_softmax(x, -1)),
      REDUCE("flip", x.flip({0, 2}), "fi"),
      REDUCE("roll", x.roll({1, -2}, {0, 2}), "fi"),
      REDUCE("roll", x.roll(7), "f"),
      REDUCE("constant_pad_nd", torch::constant_pad_nd(x, {1, 2, -1, 1}, 0.5), "fb"),
      REDUCE("repeat", x.repeat({2, 1, 3, 2}), "fi"),
      PAIR("sort", x.sort(1), "fi"),
      PAIR("sort", x.sort(-1, true), "f"),
      PAIR("sort.stable", x.sort(true, 0, true), "f"),
      PAIR("topk", x.topk(3, -1), "f"),
      PAIR("topk", x.topk(2, 1, false), "f"),
      SAMPLE("mm", t[0].mm(t[1]), {{3, 4}, {4, 5}}, "fbdi"),
      SAMPLE("mm", t[0].t().mm(t[1].t()), {{4, 3}, {5, 4}}, "fb"),
      SAMPLE("bmm", t[0].bmm(t[1]), {{2, 3, 4}, {2, 4, 5}}, "fbi"),
      SAMPLE("mm", t[0].mm(t[1]), {{1, 4}, {4, 5}}, "fbdi"),
      SAMPLE("mm", t[0].mm(t[1].t()), {{1, 4}, {5, 4}}, "fb"),
      SAMPLE("mv", t[0].mv(t[1]), {{3, 4}, {4}}, "f"),
      SAMPLE("dot", t[0].dot(t[1]), {{4}, {4}}, "f"),
      SAMPLE("addmm", torch::addmm(t[0], t[1], t[2]), {{5}, {3, 4}, {4, 5}}, "fb"),
      SAMPLE("addmm", torch::addmm(t[0], t[1], t[2]), {{5}, {1, 4}, {4, 5}}, "fb"),
      SAMPLE("addmm", torch::addmm(t[0], t[1], t[2], 0.5, 2), {{3, 5}, {3, 4}, {4, 5}}, "f"),
      SAMPLE("baddbmm", torch::baddbmm(t[0], t[1], t[2], 0.5), {{2, 3, 5}, {2, 3, 4}, {2, 4, 5}}, "f"),
      SAMPLE("addmv", torch::addmv(t[0], t[1], t[2]), {{3}, {3, 4}, {4}}, "f"),
      SAMPLE("mm", torch::matmul(t[0], t[1]), {{2, 3, 4}, {4, 5}}, "f"),
      SAMPLE("cat", torch::cat({t[0], t[1]}, 1), {{2, 3, 4}, {2, 1, 4}}, "fbi"),
      SAMPLE("cat", torch::stack({t[0], t[1]}, -1), {{2, 3}, {2, 3}}, "f"),
      SAMPLE("addmm", torch::linear(t[0], t[1], t[2]), {{2, 3, 4}, {5, 4}, {5}}, "f"),
      SAMPLE("mm", torch::einsum("bij,bkj->bik", {t[0], t[1]}), {{2, 3, 4}, {2, 5, 4}}, "f"),
  };
  return s;
}

}  // namespace tpubridge
