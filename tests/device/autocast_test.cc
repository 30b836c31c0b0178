// Autocast to bf16 and f16: which type each op computes in, and that a training step comes out as in f32 on
// the CPU, within what the narrow type allows.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

// Autocast of a device type inside a scope.
class Autocast {
 public:
  Autocast(c10::DeviceType type, c10::ScalarType dtype) : type_(type) {
    at::autocast::set_autocast_dtype(type, dtype);
    at::autocast::set_autocast_enabled(type, true);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(type_, false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::DeviceType type_;
};

struct Outcome {
  torch::Tensor hidden, logits, loss;
  std::vector<torch::Tensor> gradients;
};

torch::nn::Sequential net() {
  torch::manual_seed(4);
  return torch::nn::Sequential(torch::nn::Linear(16, 32), torch::nn::GELU(),
                               torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})),
                               torch::nn::Linear(32, 5));
}

Outcome step(torch::Device device, std::optional<c10::ScalarType> dtype) {
  auto model = net();
  const auto x = torch::sin(torch::arange(128).view({8, 16}) * 0.7);
  const auto y = torch::arange(8) % 5;
  model->to(device);
  Outcome result;
  {
    std::optional<Autocast> scope;
    if (dtype) scope.emplace(device.type(), *dtype);
    result.hidden = model[0]->as<torch::nn::Linear>()->forward(x.to(device));
    result.logits = model->forward(x.to(device));
    result.loss = torch::nn::functional::cross_entropy(result.logits, y.to(device));
  }
  result.loss.backward();  // outside of the scope, as the manual of autocast asks
  for (const auto& p : model->parameters()) result.gradients.push_back(p.grad());
  return result;
}

void expect_near_f32(const Outcome& got, c10::ScalarType dtype, double tolerance) {
  const auto want = step(torch::kCPU, {});
  EXPECT_EQ(got.hidden.scalar_type(), dtype);
  EXPECT_EQ(got.logits.scalar_type(), dtype);
  EXPECT_EQ(got.loss.scalar_type(), torch::kFloat);
  EXPECT_NEAR(got.loss.item<double>(), want.loss.item<double>(), tolerance);
  ASSERT_EQ(got.gradients.size(), want.gradients.size());
  for (size_t i = 0; i < want.gradients.size(); ++i) {
    EXPECT_EQ(got.gradients[i].scalar_type(), torch::kFloat)
        << "parameters are f32, and so are their gradients";
    const auto difference = (got.gradients[i].cpu() - want.gradients[i]).norm() / want.gradients[i].norm();
    EXPECT_LT(difference.item<double>(), tolerance) << "gradient " << i;
  }
}

TEST(AutocastTraining, InBf16) {
  FallbackScope native(Fallback::error);
  expect_near_f32(step(tpu(), torch::kBFloat16), torch::kBFloat16, 3e-2);
}
TEST(AutocastTraining, InF16) {
  FallbackScope native(Fallback::error);
  expect_near_f32(step(tpu(), torch::kHalf), torch::kHalf, 4e-3);
}
TEST(AutocastTraining, IsOffOutsideItsScope) {
  EXPECT_EQ(step(tpu(), {}).logits.scalar_type(), torch::kFloat);
}

TEST(AutocastTypes, AreThoseOfOtherAccelerators) {
  const auto a = torch::ones({4, 4}, tpu()), half = torch::ones({4, 4}, tpu()).to(torch::kHalf);
  const Autocast scope(tpu().type(), torch::kHalf);
  EXPECT_EQ(a.matmul(a).scalar_type(), torch::kHalf);
  EXPECT_EQ(torch::bmm(a.unsqueeze(0), a.unsqueeze(0)).scalar_type(), torch::kHalf);
  EXPECT_EQ(torch::linear(a, a).scalar_type(), torch::kHalf);
  const auto image = torch::ones({1, 2, 4, 4}, tpu()), kernel = torch::ones({3, 2, 3, 3}, tpu());
  EXPECT_EQ(torch::conv2d(image, kernel).scalar_type(), torch::kHalf);
  EXPECT_EQ(torch::softmax(half, 1).scalar_type(), torch::kFloat);
  EXPECT_EQ(half.exp().scalar_type(), torch::kFloat);
  EXPECT_EQ(half.sum().scalar_type(), torch::kFloat);
  EXPECT_EQ(torch::mse_loss(half, half).scalar_type(), torch::kFloat);
  EXPECT_EQ(torch::cat({half, a}).scalar_type(), torch::kFloat) << "the widest of its inputs";
  EXPECT_EQ((half + half).scalar_type(), torch::kHalf) << "everything else keeps the type of its inputs";
  EXPECT_EQ(torch::relu(a).scalar_type(), torch::kFloat);
  expect_close(a.matmul(a), torch::full({4, 4}, 4.0, torch::kHalf));
}

}  // namespace
}  // namespace tpubridge
