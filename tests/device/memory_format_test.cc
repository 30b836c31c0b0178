// Layouts and copies: channels_last through copies, arithmetic and the layers of a network, clone and
// contiguous, pinned memory.
#include <gtest/gtest.h>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

constexpr auto kChannelsLast = torch::MemoryFormat::ChannelsLast;

torch::Tensor image() { return torch::sin(torch::arange(2 * 3 * 6 * 5)).view({2, 3, 6, 5}); }

TEST(ChannelsLast, GoesThroughTheLayersOfANetworkWithTheValuesOfTheCpu) {
  const auto layers = [](torch::Device d) {
    const auto like = [&](std::vector<int64_t> sizes) {
      const auto t = torch::sin(torch::arange(c10::multiply_integers(sizes)) * 0.7).view(sizes).to(d);
      return sizes.size() == 4 ? t.contiguous(kChannelsLast) : t;
    };
    std::vector<torch::Tensor> all{image().to(d).contiguous(kChannelsLast)};
    all.push_back(torch::conv2d(all.back(), like({4, 3, 3, 3}), like({4}), 1, 1));
    all.push_back(torch::batch_norm(all.back(), like({4}), like({4}), like({4}), torch::ones({4}, d), true,
                                    0.1, 1e-5, true));
    all.push_back(torch::batch_norm(all.back(), like({4}), like({4}), like({4}), torch::ones({4}, d), false,
                                    0.1, 1e-5, true));
    all.push_back(torch::relu(all.back()));
    all.push_back(torch::max_pool2d(all.back(), 2));
    all.push_back(torch::avg_pool2d(all.back(), 2));
    return all;
  };
  const auto got = layers(tpu()), want = layers(torch::kCPU);
  for (size_t i = 0; i < want.size(); ++i) {
    SCOPED_TRACE(i);
    expect_close(got[i], want[i], 10);
    EXPECT_EQ(got[i].strides(), want[i].strides());
  }
}

TEST(ChannelsLast, GradientsAreThoseOfTheOtherLayout) {
  const auto gradient = [](torch::Device d, torch::MemoryFormat format) {
    const auto x = image().to(d).contiguous(format).requires_grad_();
    const auto w =
        torch::linspace(-1, 1, 4 * 27).view({4, 3, 3, 3}).to(d).contiguous(format).requires_grad_();
    const auto g = torch::autograd::grad({torch::relu(torch::conv2d(x, w, {}, 1, 1)).pow(2).sum()}, {x, w});
    return torch::cat({g[0].reshape({-1}), g[1].reshape({-1})});
  };
  const auto want = gradient(torch::kCPU, torch::MemoryFormat::Contiguous);
  expect_close(gradient(tpu(), torch::MemoryFormat::Contiguous), want, 10);
  expect_close(gradient(tpu(), kChannelsLast), want, 10);
}

TEST(ChannelsLast, SurvivesCopiesAndArithmetic) {
  const auto x = image().contiguous(kChannelsLast);
  const auto d = x.to(tpu());
  for (const auto& t : {d, d + 1, d * d, d.clone(), torch::empty_like(d), d.to(torch::kBFloat16),
                        d.to(torch::kBFloat16).to(torch::kFloat), d.detach()})
    EXPECT_EQ(t.strides(), x.strides());
  EXPECT_EQ(d.cpu().strides(), x.strides());
  EXPECT_EQ((d + image().to(tpu())).strides(), (x + image()).strides());
  EXPECT_TRUE(d.suggest_memory_format() == kChannelsLast);
  expect_close(d.contiguous(), x.contiguous());
  const auto volume = torch::arange(2 * 3 * 4 * 2 * 2).view({2, 3, 4, 2, 2}).to(torch::kFloat);
  const auto v = volume.to(tpu()).contiguous(torch::MemoryFormat::ChannelsLast3d);
  EXPECT_TRUE((v * 2).is_contiguous(torch::MemoryFormat::ChannelsLast3d));
  expect_close(v * 2, volume * 2);
}

TEST(Layout, CloneAndContiguousMakeMemoryOfTheirOwn) {
  auto x = image().to(tpu());
  const auto t = x.transpose(1, 3);
  const auto c = t.contiguous(), k = t.clone(), same = x.contiguous();
  EXPECT_TRUE(same.is_alias_of(x));
  EXPECT_FALSE(c.is_alias_of(x));
  EXPECT_TRUE(c.is_contiguous());
  EXPECT_EQ(k.strides(), image().transpose(1, 3).clone().strides());
  EXPECT_TRUE(t.clone(torch::MemoryFormat::Contiguous).is_contiguous());
  x.zero_();
  expect_close(c, image().transpose(1, 3));
  expect_close(k, image().transpose(1, 3));
  expect_close(t, torch::zeros({2, 5, 6, 3}));
  expect_close(image().to(tpu()).expand({4, 2, 3, 6, 5}).clone(), image().expand({4, 2, 3, 6, 5}));
}

TEST(PinnedMemory, GoesToTheDeviceAndBackWithoutBlocking) {
  const auto host = torch::arange(1000, torch::kFloat);
  const auto pinned = host.pin_memory();
  EXPECT_TRUE(pinned.is_pinned());
  EXPECT_FALSE(host.is_pinned());
  EXPECT_FALSE(pinned.clone().is_pinned());
  const auto d = pinned.to(tpu(), /*non_blocking=*/true);
  expect_close(d * 2, host * 2);
  EXPECT_TRUE(torch::empty({3}, torch::TensorOptions().pinned_memory(true)).is_pinned());
  EXPECT_THROW(d.pin_memory(), std::exception) << "only memory of the host can be pinned";
}

TEST(PinnedMemory, MayBeWrittenAfterACopyToTheDevice) {
  auto pinned = torch::ones({4096}).pin_memory();
  const auto d = pinned.to(tpu(), true);
  sync();
  sync(std::vector<torch::Tensor>{d});
  pinned.fill_(7);
  expect_close(d, torch::ones({4096}));
}

TEST(PinnedMemory, ReceivesWithoutBlocking) {
  const auto d = torch::arange(4096, torch::kFloat).to(tpu()) * 3;
  auto pinned = torch::empty({4096}).pin_memory();
  pinned.copy_(d, /*non_blocking=*/true);
  c10::impl::getDeviceGuardImpl(tpu().type())->synchronizeDevice(0);
  EXPECT_TRUE(pinned.equal(torch::arange(4096, torch::kFloat) * 3));
  const auto back = d.to(torch::kCPU, /*non_blocking=*/true);
  c10::impl::getDeviceGuardImpl(tpu().type())->synchronizeDevice(0);
  EXPECT_TRUE(back.equal(pinned));
}

}  // namespace
}  // namespace tpubridge
