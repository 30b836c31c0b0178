// Quantised models in files: what is written, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <unistd.h>

#include <random>

#include "tpubridge/base/tensor_file.h"
#include "tpubridge/device/quantized.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/tpubridge.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;

torch::nn::Sequential small(uint64_t seed) {
  torch::manual_seed(seed);
  torch::nn::Sequential m(torch::nn::Linear(16, 8), torch::nn::BatchNorm1d(8),
                          torch::nn::Linear(torch::nn::LinearOptions(8, 4).bias(false)));
  m->to(torch::Device("tpu"));
  m->eval();
  return m;
}

class Files : public testing::TestWithParam<QuantType> {
 protected:
  // Tests run side by side.
  Files()
      : path(Path(testing::TempDir()) / ("quantized_test_" + std::to_string(getpid()) + ".safetensors")) {}
  ~Files() override { std::filesystem::remove(path); }
  [[nodiscard]] QuantizeOptions options() const { return {.weights = GetParam(), .group = 8}; }
  Path path;
};

TEST_P(Files, WhatIsSavedComesBackToTheBit) {
  const auto x = torch::randn({3, 16}).to(torch::Device("tpu"));
  auto from = small(1), into = small(2);
  (void)quantize(from, options());
  (void)quantize(into, options());
  save_quantized(*from, path);
  const auto want = from->forward(x).detach().cpu();
  EXPECT_FALSE(torch::equal(into->forward(x).detach().cpu(), want));
  load_quantized(*into, path);
  EXPECT_TRUE(torch::equal(into->forward(x).detach().cpu(), want));
  EXPECT_TRUE(is_quantized(into[0]->as<torch::nn::Linear>()->weight));
  const auto file = read_safetensors(path);
  const HostTensor* numbers = file.find("0.weight.numbers");
  ASSERT_TRUE(numbers);
  EXPECT_EQ(numbers->shape.str(), GetParam() == QuantType::int8 ? "s8[8,16]" : "u8[8,8]");
  EXPECT_EQ(file.find("0.weight.scales")->shape.str(), "f32[8,2]");
  EXPECT_EQ(file.tensors.size(), 10u);
}

TEST_P(Files, AnotherModelIsRefusedAndNothingIsChanged) {
  auto from = small(1);
  (void)quantize(from, options());
  save_quantized(*from, path);
  const auto refused = [&](torch::nn::Sequential into, const char* words) {
    const auto before = into->parameters()[0].detach().cpu().clone();
    try {
      load_quantized(*into, path);
      ADD_FAILURE() << "it was loaded: " << words;
    } catch (const FileError& e) {
      EXPECT_THAT(e.what(), HasSubstr(words));
    }
    EXPECT_TRUE(torch::equal(into->parameters()[0].detach().cpu(), before));
  };
  refused(small(2), "quantised weight where the model has a plain one");
  auto other = small(2);
  (void)quantize(other, {.weights = GetParam(), .group = 4});
  refused(other, "not what the model has");
  other = small(2);
  const auto type = GetParam() == QuantType::int8 ? QuantType::int4 : QuantType::int8;
  (void)quantize(other, {.weights = type, .group = 8});
  refused(other, "not what the model has");
  torch::nn::Sequential fewer(torch::nn::Linear(16, 8));
  fewer->to(torch::Device("tpu"));
  (void)quantize(fewer, options());
  refused(fewer, "has a tensor that the model has not");
  auto plain = small(3);
  save_quantized(*plain, path);
  auto quantized = small(4);
  (void)quantize(quantized, options());
  refused(quantized, "as it was before quantize()");
}

TEST_P(Files, DamagedOnesAreRefusedInWords) {
  auto from = small(1), into = small(2);
  (void)quantize(from, options());
  (void)quantize(into, options());
  save_quantized(*from, path);
  const std::string good = read_file(path);
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string bad = good;
    const size_t header = std::min<size_t>(bad.size(), 1100);
    for (int n = 0; n < 1 + i % 3; ++n) bad[random() % header] = static_cast<char>(random());
    if (i % 7 == 0) bad.resize(random() % bad.size());
    write_file(path, bad);
    try {
      load_quantized(*into, path);
    } catch (const FileError& e) {
      EXPECT_THAT(e.what(), HasSubstr("quantized_test_"));
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_THROW(load_quantized(*into, path.string() + ".none"), FileError);
}

INSTANTIATE_TEST_SUITE_P(Both, Files, testing::Values(QuantType::int8, QuantType::int4),
                         [](const auto& info) { return info.param == QuantType::int8 ? "int8" : "int4"; });

// Groups that lie apart are how a TPU has them; the programs run anywhere.
TEST(Packings, GiveTheSameWeightsAndProducts) {
  torch::manual_seed(8);
  const torch::Device tpu("tpu");
  for (const int bits : {8, 4}) {
    const int most = bits == 8 ? 128 : 8;
    const auto numbers = torch::randint(-most, most, {24, 3, 16}).to(torch::kChar);
    const auto scales = torch::rand({24, 3}) + 0.1;
    const auto want = (numbers * scales.unsqueeze(-1)).reshape({24, 48});
    for (const auto packing : {device::Packing::side_by_side, device::Packing::apart}) {
      // XLA's CPU plugin dies of numbers of 4 bits where it has many threads; it is never given them apart.
      if (bits == 4 && packing == device::Packing::apart && exec::runs_in_this_process()) continue;
      const auto q = device::pack(numbers.to(tpu), scales.to(tpu), bits, packing);
      const auto back = device::unpack(*q, torch::kFloat, torch::Device("tpu:0"));
      EXPECT_TRUE(torch::equal(back.numbers.cpu(), numbers));
      EXPECT_TRUE(torch::equal(back.scales.cpu(), scales));
      for (const bool turned : {false, true}) {
        auto w = device::quantized_tensor(q, torch::kFloat, torch::Device("tpu:0"), turned);
        EXPECT_TRUE(torch::equal(w.cpu(), turned ? want.t() : want));
        if (turned) w = w.t();
        const auto near = [](const torch::Tensor& got, const torch::Tensor& ref) {
          return got.sizes() == ref.sizes() && torch::allclose(got.cpu(), ref, 1e-5, 1e-4);
        };
        for (const int64_t rows : {1, 6}) {
          const auto x = torch::randn({rows, 48}), g = torch::randn({rows, 24});
          EXPECT_TRUE(near(torch::linear(x.to(tpu), w), torch::linear(x, want)));
          EXPECT_TRUE(near(torch::linear(x.to(tpu), w, torch::ones(24).to(tpu)), torch::linear(x, want) + 1));
          EXPECT_TRUE(near(g.to(tpu).mm(w), g.mm(want)));
        }
        const auto ids = torch::randint(24, {2, 5});
        EXPECT_TRUE(near(torch::embedding(w, ids.to(tpu)), torch::embedding(want, ids)));
        EXPECT_TRUE(near(torch::embedding(w, ids[0][0].to(tpu)), torch::embedding(want, ids[0][0])));
        EXPECT_TRUE(near(w.slice(1, 3, 40), want.slice(1, 3, 40)));
      }
    }
  }
}

}  // namespace
}  // namespace tpubridge
