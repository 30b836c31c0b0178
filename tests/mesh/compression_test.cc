// 8-bit gradients by numbers made by hand.
#include "tpubridge/mesh/compression.h"

#include <gtest/gtest.h>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

TEST(Compression, ScaleIsTheLargestOver127) {
  const auto g = torch::tensor({-254.f, 3.f, 1.f, 127.f, 0.f, 0.9f});
  const auto packed = compress_int8(g.to(tpu()));
  EXPECT_EQ(packed.scale.item<float>(), 2);
  EXPECT_EQ(packed.values.scalar_type(), torch::kChar);
  // 1.5 and 63.5 go to the even neighbour, as IEEE rounds; 0.5 to 0.
  EXPECT_TRUE(packed.values.cpu().equal(torch::tensor({-127, 2, 0, 64, 0, 0}, torch::kChar)));
  EXPECT_TRUE(decompress_int8(packed).cpu().equal(torch::tensor({-254.f, 4.f, 0.f, 128.f, 0.f, 0.f})));
}

TEST(Compression, OffByHalfAScaleAtMost) {
  torch::manual_seed(2);
  const auto g = torch::randn({64, 33});
  const auto packed = compress_int8(g.to(tpu()).requires_grad_());
  const auto back = decompress_int8(packed).cpu();
  EXPECT_EQ(back.sizes(), g.sizes());
  EXPECT_FALSE(back.requires_grad());
  const float scale = g.abs().max().item<float>() / 127;
  EXPECT_LE((back - g).abs().max().item<float>(), scale * 0.5f * 1.0001f);
  EXPECT_FLOAT_EQ(packed.scale.item<float>(), scale);
}

TEST(Compression, ZerosEmptyAndOtherTypes) {
  EXPECT_TRUE(decompress_int8(compress_int8(torch::zeros({3}, tpu()))).cpu().equal(torch::zeros({3})));
  EXPECT_EQ(decompress_int8(compress_int8(torch::zeros({0}, tpu()))).numel(), 0);
  const auto half = decompress_int8(compress_int8(torch::full({2}, 254, tpu()).to(torch::kBFloat16)));
  EXPECT_EQ(half.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(half[0].item<float>(), 254);
  EXPECT_THROW((void)compress_int8(torch::ones({2}, torch::kLong)), ArgumentError);
}

TEST(Compression, WhatIsNotFiniteStaysSo) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    const auto g = torch::tensor({1.f, bad});
    EXPECT_TRUE(torch::isnan(decompress_int8(compress_int8(g.to(tpu())))).all().item<bool>()) << bad;
  }
}

}  // namespace
}  // namespace tpubridge
