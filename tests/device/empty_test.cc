// Tensors with no element, and with no dimension, through ops of every family: values, sizes and types of the
// CPU.
#include <gtest/gtest.h>

#include <functional>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using F = std::function<torch::Tensor(const torch::Tensor&)>;
using torch::Tensor;

const std::vector<std::pair<const char*, F>>& ops() {
  static const std::vector<std::pair<const char*, F>> all{
      {"exp", [](const Tensor& x) { return x.exp(); }},
      {"relu", [](const Tensor& x) { return torch::relu(x); }},
      {"gelu", [](const Tensor& x) { return torch::gelu(x); }},
      {"add", [](const Tensor& x) { return x + x; }},
      {"add a number", [](const Tensor& x) { return x + 2.5; }},
      {"broadcast",
       [](const Tensor& x) {
         return x * torch::ones({3, 1, 1}, x.options());
       }},
      {"compare", [](const Tensor& x) { return x > 0; }},
      {"where", [](const Tensor& x) { return torch::where(x > 0, x, -x); }},
      {"clamp", [](const Tensor& x) { return x.clamp(0, 1); }},
      {"pow", [](const Tensor& x) { return x.pow(2); }},
      {"sum", [](const Tensor& x) { return x.sum(); }},
      {"sum of rows", [](const Tensor& x) { return x.sum(-1); }},
      {"sum of columns", [](const Tensor& x) { return x.sum(0, true); }},
      {"mean", [](const Tensor& x) { return x.mean(); }},
      {"prod", [](const Tensor& x) { return x.prod(); }},
      {"norm", [](const Tensor& x) { return x.norm(); }},
      {"all", [](const Tensor& x) { return (x > 0).all(); }},
      {"any", [](const Tensor& x) { return (x > 0).any(); }},
      {"cumsum", [](const Tensor& x) { return x.cumsum(-1); }},
      {"softmax", [](const Tensor& x) { return torch::softmax(x, -1); }},
      {"cat",
       [](const Tensor& x) {
         return torch::cat({x, x}, -1);
       }},
      {"stack",
       [](const Tensor& x) {
         return torch::stack({x, x});
       }},
      {"reshape",
       [](const Tensor& x) {
         return x.reshape({-1, 1, x.size(-1) == 0 ? 1 : x.size(-1)}).sum(0);
       }},
      {"transpose", [](const Tensor& x) { return x.transpose(0, -1).contiguous(); }},
      {"flip", [](const Tensor& x) { return x.flip({0}); }},
      {"clone", [](const Tensor& x) { return x.clone(); }},
      {"to bf16", [](const Tensor& x) { return x.to(torch::kBFloat16); }},
      {"to int64", [](const Tensor& x) { return x.to(torch::kLong); }},
      {"add_", [](const Tensor& x) { return x.clone().add_(1); }},
      {"fill_", [](const Tensor& x) { return x.clone().fill_(3); }},
      {"copy_", [](const Tensor& x) { return torch::zeros_like(x).copy_(x); }},
      {"masked_fill", [](const Tensor& x) { return x.masked_fill(x > 0, 1); }},
      {"zeros_like", [](const Tensor& x) { return torch::zeros_like(x); }},
      {"sort", [](const Tensor& x) { return std::get<0>(x.sort(-1)); }},
      {"linear",
       [](const Tensor& x) {
         return torch::linear(x, torch::ones({4, x.size(-1)}, x.options()));
       }},
      {"layer_norm", [](const Tensor& x) { return torch::layer_norm(x, {x.size(-1)}); }},
      {"index_select",
       [](const Tensor& x) { return x.index_select(0, torch::zeros({0}, x.options().dtype(torch::kLong))); }},
      {"boolean index", [](const Tensor& x) { return x.index({x > 0}); }},
      {"nonzero", [](const Tensor& x) { return x.nonzero(); }},
  };
  return all;
}

// What the CPU refuses (a softmax of nothing is fine, a maximum of nothing is not) the device refuses too.
void expect_same(const char* name, const F& f, const Tensor& x) {
  SCOPED_TRACE(std::string(name) + " of " + c10::str(x.sizes()));
  std::optional<Tensor> want;
  try {
    want = f(x);
  } catch (const c10::Error&) {
    EXPECT_THROW((void)f(x.to(tpu())).cpu(), std::exception);
    return;
  }
  Tensor got;
  ASSERT_NO_THROW(got = f(x.to(tpu())));
  expect_close(got, *want);
}

TEST(Empty, GoesThroughEveryFamily) {
  FallbackScope quiet(Fallback::allow);
  for (const auto& [name, f] : ops())
    for (const auto& x :
         {torch::zeros({0}), torch::zeros({0, 3}), torch::zeros({3, 0}), torch::zeros({2, 0, 4})})
      expect_same(name, f, x);
}

TEST(Scalars, OfNoDimensionGoThroughThemToo) {
  FallbackScope quiet(Fallback::allow);
  for (const auto& [name, f] : ops()) {
    if (std::string_view(name) == "reshape" || std::string_view(name) == "linear" ||
        std::string_view(name) == "layer_norm")
      continue;  // these ask for a last dimension
    expect_same(name, f, torch::tensor(0.75f));
  }
}

TEST(Empty, IsRefusedWhereTheCpuRefusesIt) {
  const auto x = torch::zeros({0}, tpu());
  EXPECT_THROW((void)x.max(), c10::Error);
  EXPECT_THROW((void)x.argmax(), c10::Error);
  EXPECT_THROW((void)x.item<float>(), c10::Error);
  EXPECT_THROW((void)torch::zeros({2, 0}, tpu()).amax(1), c10::Error);
}

TEST(Empty, HasGradientsCopiesAndProducts) {
  const auto x = torch::zeros({0, 3}, tpu()).requires_grad_();
  const auto w = torch::ones({3, 2}, tpu()).requires_grad_();
  const auto y = x.mm(w);
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{0, 2}));
  y.sum().backward();
  EXPECT_EQ(x.grad().sizes(), x.sizes());
  expect_close(w.grad(), torch::zeros({3, 2}));
  expect_close(torch::ones({2, 0}, tpu()).mm(torch::ones({0, 3}, tpu())), torch::zeros({2, 3}));
  expect_close(torch::zeros({0, 3}).to(tpu()), torch::zeros({0, 3}));
  EXPECT_TRUE(torch::zeros({0}, tpu()).equal(torch::zeros({0}, tpu())));
}

}  // namespace
}  // namespace tpubridge
