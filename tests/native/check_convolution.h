// Convolutions on the device and on the CPU, each with its gradients; how close must they be.
#pragma once

#include <random>

#include "tests/device/check.h"
#include "tpubridge/exec/host_kernels.h"
#include "tpubridge/native/convolution.h"

namespace tpubridge::native {

using torch::Tensor;

struct Setting {
  std::vector<int64_t> x, w, stride, padding, dilation, output_padding;
  int64_t groups = 1;
  bool transposed = false, bias = false;

  [[nodiscard]] Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& c) const {
    return torch::convolution(a, b, bias ? std::optional(c) : std::nullopt, stride, padding, dilation,
                              transposed, output_padding, groups);
  }
  [[nodiscard]] std::string text() const {
    return c10::str("x ", x, " w ", w, " stride ", stride, " padding ", padding, " dilation ", dilation,
                    " output padding ", output_padding, " groups ", groups, transposed ? " transposed" : "",
                    bias ? " bias" : "");
  }
};

// Of a size that libtorch's kernels are used for, most of them.
inline Setting some_setting(std::mt19937& random) {
  const auto pick = [&](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random);
  };
  Setting s;
  s.groups = pick(0, 2) == 0 ? pick(2, 4) : 1;
  s.transposed = pick(0, 4) == 0;
  s.bias = pick(0, 1) == 0;
  const int64_t spatial = pick(0, 5) == 0 ? (pick(0, 1) == 0 ? 1 : 3) : 2;
  const int64_t inputs = pick(1, 40) * s.groups, outputs = pick(1, 40) * s.groups;
  s.x = {pick(1, 5), inputs};
  s.w = s.transposed ? std::vector<int64_t>{inputs, outputs / s.groups}
                     : std::vector<int64_t>{outputs, inputs / s.groups};
  const bool plain = pick(0, 1) == 0;
  const int64_t most = spatial == 1 ? 300 : spatial == 2 ? 24 : 6;
  for (int64_t i = 0; i < spatial; ++i) {
    const int64_t kernel = pick(1, 5), dilation = plain ? 1 : pick(1, 3);
    s.w.push_back(kernel);
    s.x.push_back(dilation * (kernel - 1) + pick(1, most));
    s.stride.push_back(plain ? 1 : pick(1, 3));
    s.padding.push_back(s.transposed ? pick(0, (kernel - 1) / 2) : pick(0, kernel + 1));
    s.dilation.push_back(dilation);
    s.output_padding.push_back(s.transposed ? pick(0, std::max(s.stride.back(), dilation) - 1) : 0);
  }
  return s;
}

// How far `got` is from the true value, in parts of its largest element.
inline double error_of(const Tensor& got, const Tensor& truth) {
  if (truth.numel() == 0) return got.numel() == 0 ? 0 : 1;
  const auto host = got.detach().cpu().to(torch::kDouble);
  return ((host - truth).abs().max() / truth.abs().max().clamp_min(1e-30)).item<double>();
}

// The value, its gradients, and those of the gradients' squares.
inline std::vector<Tensor> all_values(const Setting& s, const Tensor& x, const Tensor& w, const Tensor& b,
                                      bool twice = false) {
  const auto a = x.detach().requires_grad_(), c = w.detach().requires_grad_(),
             d = b.detach().requires_grad_();
  const auto y = s(a, c, d);
  std::vector<Tensor> of{a, c};
  if (s.bias) of.push_back(d);
  auto out = torch::autograd::grad({(y * y).sum()}, of, {}, /*retain_graph=*/twice, /*create_graph=*/twice);
  if (twice) {
    const auto more = torch::autograd::grad({(out[0] * out[0]).sum() + (out[1] * out[1]).sum()}, {a, c});
    out.insert(out.end(), more.begin(), more.end());
  }
  out.insert(out.begin(), y);
  return out;
}

}  // namespace tpubridge::native
