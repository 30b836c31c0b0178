// Max pools by loops inside of programs: values, places and gradients are the CPU's, to the bit.
#include <limits>

#include "tests/native/check_convolution.h"

namespace tpubridge::native {
namespace {

struct Pool {
  std::vector<int64_t> x, window, stride, padding, dilation;
  bool ceil = false;

  [[nodiscard]] std::vector<Tensor> operator()(const Tensor& x) const {
    const auto a = x.detach().requires_grad_();
    const auto [values, places] =
        window.size() == 2 ? torch::max_pool2d_with_indices(a, window, stride, padding, dilation, ceil)
                           : torch::max_pool3d_with_indices(a, window, stride, padding, dilation, ceil);
    // Not the same for all, and whole numbers, so that sums are exact.
    const auto g =
        (torch::arange(values.numel()) % 7 + 1).to(torch::kFloat).view(values.sizes()).to(x.device());
    return {values, places, torch::autograd::grad({values}, {a}, {g})[0]};
  }
};

Pool some_pool(std::mt19937& random) {
  const auto pick = [&](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random);
  };
  const bool deep = pick(0, 4) == 0;
  Pool p;
  p.x = {pick(1, 4), pick(1, 24)};
  for (int i = 0; i < (deep ? 3 : 2); ++i) {
    p.window.push_back(pick(1, 4));
    p.dilation.push_back(pick(0, 3) == 0 ? pick(2, 3) : 1);
    p.stride.push_back(pick(1, 3));
    p.padding.push_back(pick(0, p.window.back() / 2));
    p.x.push_back(p.dilation.back() * (p.window.back() - 1) + 1 + pick(0, deep ? 8 : 30));
  }
  p.ceil = pick(0, 1) == 0;
  return p;
}

void expect_equal(const std::vector<Tensor>& got, const std::vector<Tensor>& want, const std::string& which) {
  for (size_t k = 0; k < want.size(); ++k)
    EXPECT_TRUE(torch::allclose(got[k].cpu(), want[k].detach(), 0, 0, /*equal_nan=*/true))
        << which << ", value " << k;
}

TEST(HostPooling, OfAnyKindIsTheCpus) {
  for (uint32_t i = 0; i < 40; ++i) {
    std::mt19937 random(100 + i);
    torch::manual_seed(i);
    const Pool p = some_pool(random);
    // Many equal elements, so that the first of them counts.
    auto x = (torch::randn(p.x) * 3).round();
    if (i % 4 == 1) x.masked_fill_(torch::rand(p.x) < 0.1, std::numeric_limits<float>::quiet_NaN());
    if (i % 4 == 2) x.masked_fill_(torch::rand(p.x) < 0.8, -std::numeric_limits<float>::infinity());
    if (i % 4 == 3) x = x.transpose(-1, -2).contiguous().transpose(-1, -2);
    const std::string which =
        c10::str(i, ": x ", p.x, " window ", p.window, " stride ", p.stride, " padding ", p.padding,
                 " dilation ", p.dilation, p.ceil ? " ceil" : "");
    expect_equal(p(x.to(tpu())), p(x), which);
    const bool was = exec::set_host_kernels(false);
    expect_equal(p(x.to(tpu())), p(x), which + " by XLA");
    exec::set_host_kernels(was);
  }
}

TEST(HostPooling, WithoutABatchAndInOtherTypes) {
  const auto x = (torch::randn({16, 40, 40}) * 4).round();
  const Pool p{{}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false};
  expect_equal(p(x.to(tpu())), p(x), "three dimensions");
  for (const auto type : {torch::kDouble, torch::kBFloat16}) {
    const auto a = x.to(type);
    expect_close(torch::max_pool2d(a.to(tpu()), 3, 2, 1), torch::max_pool2d(a, 3, 2, 1));
  }
}

TEST(HostPooling, GradientsOfSecondOrder) {
  const auto x = torch::randn({2, 16, 32, 32});
  const auto twice = [](const Tensor& x) {
    const auto a = x.detach().requires_grad_();
    const auto y = torch::max_pool2d(a * a, 2);
    const auto g = torch::autograd::grad({(y * y).sum()}, {a}, {}, true, true)[0];
    return torch::autograd::grad({(g * g).sum()}, {a})[0];
  };
  expect_close(twice(x.to(tpu())), twice(x), 10);
}

}  // namespace
}  // namespace tpubridge::native
