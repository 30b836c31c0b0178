// Views by strides: reading, writing through them, and everything that changes what a tensor is a view of.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::indexing::Slice;
using View = torch::Tensor (*)(torch::Tensor);

torch::Tensor base() { return torch::arange(120, torch::kFloat).view({2, 3, 4, 5}); }

const std::vector<View> kViews{
    [](torch::Tensor t) { return t.transpose(1, 3); },
    [](torch::Tensor t) {
      return t.permute({3, 1, 0, 2});
    },
    [](torch::Tensor t) { return t.select(2, 1); },
    [](torch::Tensor t) { return t.narrow(3, 1, 3); },
    [](torch::Tensor t) { return t.slice(3, 0, 5, 2); },
    [](torch::Tensor t) {
      return t.view({6, 20}).slice(1, 3, 17, 3).t();
    },
    [](torch::Tensor t) { return t.view({-1})[77]; },
    [](torch::Tensor t) { return t.diagonal(0, 1, 2); },
    [](torch::Tensor t) { return t.unsqueeze(1).squeeze(0).transpose(0, 2); },
    [](torch::Tensor t) { return t.split(2, 3)[1].chunk(2, 0)[1]; },
    [](torch::Tensor t) {
      return t.view({120}).as_strided({3, 4}, {7, 11}, 5);
    },
};

TEST(Views, ReadLikeTheCpu) {
  for (size_t i = 0; i < kViews.size(); ++i) {
    SCOPED_TRACE(i);
    expect_close(kViews[i](base().to(tpu())), kViews[i](base()));
    expect_close(kViews[i](base().to(tpu())) + 1, kViews[i](base()) + 1);
  }
  expect_close(base().to(tpu())[0][0].unfold(1, 3, 1), base()[0][0].unfold(1, 3, 1));  // overlapping windows
  expect_close(base().to(tpu()).select(0, 1).expand({4, 3, 4, 5}), base().select(0, 1).expand({4, 3, 4, 5}));
}

TEST(Views, WritesThroughAViewChangeTheBase) {
  for (size_t i = 0; i < kViews.size(); ++i) {
    SCOPED_TRACE(i);
    auto host = base(), there = base().to(tpu());
    for (auto* t : {&host, &there}) {
      auto v = kViews[i](*t);
      v.mul_(3);
      v.add_(1);
      if (v.dim() > 0) v.select(0, 0).fill_(-1);
    }
    expect_close(there, host);
  }
}

TEST(Views, SeeLaterWritesToTheBase) {
  auto host = base(), there = base().to(tpu());
  const auto a = host.transpose(0, 2), b = there.transpose(0, 2);
  host.mul_(2);
  there.mul_(2);
  expect_close(b, a);
  host.view({-1}).index_put_({Slice(5, 50, 4)}, -3);
  there.view({-1}).index_put_({Slice(5, 50, 4)}, -3);
  expect_close(b, a);
}

TEST(Views, GradientsFlowThroughThem) {
  auto run = [](torch::Tensor x) {
    x.requires_grad_();
    auto y = x * 1;
    y.select(1, 0).mul_(x.select(1, 1));  // in place on a view: CopySlices
    y.transpose(0, 3).narrow(1, 1, 2).sin_();
    return torch::autograd::grad({(y * y).sum()}, {x})[0];
  };
  expect_close(run(base().to(tpu()) / 100), run(base() / 100));
}

TEST(Views, DoubleBackward) {
  auto run = [](torch::Tensor x) {
    x.requires_grad_();
    auto g = torch::autograd::grad({(x.pow(3) * x.sin()).sum()}, {x}, {}, true, true)[0];
    return torch::autograd::grad({(g * g).sum()}, {x})[0];
  };
  const auto x = torch::linspace(-1, 1, 7);
  expect_close(run(x.to(tpu()).detach()), run(x.clone()), 4);
}

TEST(Views, MemoryFormats) {
  const auto x = torch::randn({2, 3, 4, 5});
  const auto t = x.to(tpu()).contiguous(torch::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(t.is_contiguous(torch::MemoryFormat::ChannelsLast));
  expect_close(t, x);
  expect_close(t * 2, x * 2);
  EXPECT_TRUE((t * 2).is_contiguous(torch::MemoryFormat::ChannelsLast));
}

TEST(Views, OfChannelsLastImagesOfOneRow) {
  const auto x = torch::arange(12).view({1, 2, 1, 6}).contiguous(torch::MemoryFormat::ChannelsLast);
  expect_close(x.to(tpu()).view({1, 2, -1}), x.view({1, 2, -1}));
}

TEST(Views, ResizeAndSet) {
  auto host = torch::arange(6, torch::kFloat), there = host.to(tpu());
  host = host.clone();
  for (auto* t : {&host, &there}) {
    t->resize_({2, 2});
    t->resize_({3, 4});
    t->view({-1}).slice(0, 6, 12).fill_(9);
  }
  expect_close(there, host);
  auto other = torch::empty({0}, tpu());
  other.set_(there);
  other.add_(1);
  expect_close(there, host + 1);
  auto data = torch::ones({3}, tpu());
  data.set_data(torch::full({2}, 5.0, tpu()));
  expect_close(data, torch::full({2}, 5.0));
}

TEST(Views, OtherElementTypesOfTheSameMemory) {
  const auto x = torch::randn({3, 4});
  expect_close(x.to(tpu()).view(torch::kInt), x.view(torch::kInt));
  const auto z = torch::randn({3, 2}, torch::kComplexFloat);
  expect_close(torch::view_as_real(z.to(tpu())), torch::view_as_real(z));
  expect_close(torch::view_as_complex(x.view({3, 2, 2}).to(tpu())),
               torch::view_as_complex(x.view({3, 2, 2})));
}

TEST(Views, EmptyAndScalarTensors) {
  expect_close(torch::empty({0, 3}, tpu()) + 1, torch::empty({0, 3}));
  expect_close(torch::zeros({}, tpu()) + 2, torch::full({}, 2.0));
  expect_close(torch::ones({0}, tpu()).sum(), torch::zeros({}));
  EXPECT_EQ(torch::cat({torch::ones({0}, tpu()), torch::ones({2}, tpu())}).size(0), 2);
}

TEST(Copies, KeepTypesAndValues) {
  for (auto dtype : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16, torch::kLong, torch::kInt,
                     torch::kShort, torch::kChar, torch::kByte, torch::kBool, torch::kComplexFloat}) {
    const auto x = torch::randint(0, 2, {3, 4}).to(dtype);
    expect_close(x.to(tpu()).cpu(), x);
    expect_close(x.to(tpu()).to(torch::kFloat), x.to(torch::kFloat));
    expect_close(torch::ones({3, 4}, tpu()).to(dtype), torch::ones({3, 4}).to(dtype));
  }
  const auto pinned = torch::arange(4).pin_memory();
  EXPECT_TRUE(pinned.is_pinned());
  expect_close(pinned.to(tpu(), /*non_blocking=*/true), torch::arange(4));
  auto target = torch::zeros({2, 3});
  target.t().copy_(torch::arange(6, torch::TensorOptions(tpu()).dtype(torch::kFloat)).view({3, 2}));
  expect_close(target, torch::arange(6, torch::kFloat).view({3, 2}).t());
}

TEST(Copies, SaveAndLoad) {
  std::stringstream file;
  const auto x = torch::randn({3, 4});
  torch::save(x.to(tpu()), file);
  torch::Tensor y;
  torch::load(y, file);
  expect_close(y, x);
  std::stringstream second;
  torch::nn::Linear a(3, 2), b(3, 2);
  a->to(tpu());
  torch::save(a, second);
  torch::load(b, second);
  expect_close(a->weight, b->weight);
}

}  // namespace
}  // namespace tpubridge
