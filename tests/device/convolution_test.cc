// Convolutions of random sizes, strides, paddings, dilations and groups: values and gradients are the CPU's.
#include <gtest/gtest.h>

#include <random>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;

struct Setting {
  std::vector<int64_t> x, w, stride, padding, dilation;
  int64_t groups = 1;
  bool transposed = false;
};

Setting some(std::mt19937& random) {
  const auto pick = [&](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random);
  };
  Setting s;
  s.groups = pick(0, 3) == 0 ? 2 : 1;
  s.transposed = pick(0, 4) == 0;
  const int64_t spatial = pick(1, 3), inputs = pick(1, 3) * s.groups, outputs = pick(1, 3) * s.groups;
  s.x = {pick(1, 3), inputs};
  s.w = s.transposed ? std::vector<int64_t>{inputs, outputs / s.groups}
                     : std::vector<int64_t>{outputs, inputs / s.groups};
  const bool plain = pick(0, 1) == 0;  // strides and dilations of one, as most have
  for (int64_t i = 0; i < spatial; ++i) {
    const int64_t kernel = pick(1, 4), dilation = plain ? 1 : pick(1, 2);
    s.w.push_back(kernel);
    s.x.push_back(dilation * (kernel - 1) + pick(1, 5));
    s.stride.push_back(plain ? 1 : pick(1, 2));
    s.padding.push_back(s.transposed ? pick(0, (kernel - 1) / 2) : pick(0, kernel + 1));
    s.dilation.push_back(dilation);
  }
  return s;
}

std::vector<Tensor> values(const Setting& s, const Tensor& x, const Tensor& w) {
  const auto a = x.detach().requires_grad_(), b = w.detach().requires_grad_();
  const std::vector<int64_t> none(s.stride.size(), 0);
  const auto y = torch::convolution(a, b, {}, s.stride, s.padding, s.dilation, s.transposed, none, s.groups);
  const auto g = torch::autograd::grad({(y * y).sum()}, {a, b});
  return {y, g[0], g[1]};
}

TEST(Convolution, OfAnyKindIsTheCpus) {
  std::mt19937 random(11);
  torch::manual_seed(11);
  for (int i = 0; i < 30; ++i) {
    const Setting s = some(random);
    const auto x = torch::randn(s.x, torch::kDouble), w = torch::randn(s.w, torch::kDouble);
    const auto want = values(s, x, w), got = values(s, x.to(tpu()), w.to(tpu()));
    for (size_t k = 0; k < want.size(); ++k)
      EXPECT_TRUE(torch::allclose(got[k].cpu(), want[k], 1e-10, 1e-10))
          << i << ", " << k << ": x " << s.x << " w " << s.w << " stride " << s.stride << " padding "
          << s.padding << " dilation " << s.dilation << " groups " << s.groups << " transposed "
          << s.transposed;
  }
}

}  // namespace
}  // namespace tpubridge
