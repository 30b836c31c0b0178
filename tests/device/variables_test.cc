// What a variable is: detach, set_data, requires_grad, inference mode.
#include <gtest/gtest.h>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

torch::Tensor leaf(torch::Device device) {
  return torch::linspace(-1, 2, 6).view({2, 3}).to(device).requires_grad_();
}

TEST(Variables, DetachSharesDataAndCutsTheGraph) {
  const auto x = leaf(tpu());
  auto y = x * 2;
  const auto d = y.detach();
  EXPECT_FALSE(d.requires_grad());
  EXPECT_TRUE(d.is_alias_of(y));
  {
    torch::NoGradGuard no_grad;
    y.add_(1);
  }
  expect_close(d, leaf(torch::kCPU).detach() * 2 + 1);
  EXPECT_THROW(d.sum().backward(), c10::Error);
  auto cut = x * 3;
  cut.detach_();
  EXPECT_TRUE(cut.is_leaf());
}

TEST(Variables, SetDataReplacesWhatAParameterHolds) {
  auto x = leaf(tpu());
  const auto loss = [&] { return (x * x).sum(); };
  loss().backward();
  x.set_data(torch::full({4}, 5.0f, tpu()));
  EXPECT_TRUE(x.requires_grad());
  EXPECT_EQ(x.sizes(), (std::vector<int64_t>{4}));
  x.mutable_grad() = torch::Tensor();
  loss().backward();
  expect_close(x.grad(), torch::full({4}, 10.0f));
  x.mutable_grad() = torch::Tensor();  // a gradient of another device cannot stay
  x.set_data(torch::full({4}, 7.0f));
  EXPECT_TRUE(x.device().is_cpu());
  EXPECT_EQ(x.sum().item<float>(), 28.0f);
}

TEST(Variables, RequiresGradIsSwitchedOnAndOff) {
  auto x = torch::ones({3}, tpu());
  EXPECT_FALSE((x * 2).requires_grad());
  x.requires_grad_();
  EXPECT_TRUE((x * 2).requires_grad());
  {
    torch::NoGradGuard no_grad;
    EXPECT_FALSE((x * 2).requires_grad());
    torch::AutoGradMode on(true);
    EXPECT_TRUE((x * 2).requires_grad());
  }
  x.requires_grad_(false);
  EXPECT_FALSE((x * 2).requires_grad());
  EXPECT_THROW(torch::ones({3}, torch::TensorOptions(tpu()).dtype(torch::kLong)).requires_grad_(),
               c10::Error);
}

TEST(Inference, ModeGivesTheSameValuesAndNoGraph) {
  torch::manual_seed(6);
  torch::nn::Sequential model(torch::nn::Linear(4, 8), torch::nn::ReLU(), torch::nn::Dropout(0.5),
                              torch::nn::Linear(8, 2));
  model->eval();
  const auto x = torch::randn({3, 4});
  const auto want = model->forward(x);
  model->to(tpu());
  torch::Tensor kept;
  {
    const c10::InferenceMode mode;
    kept = model->forward(x.to(tpu()));
    EXPECT_TRUE(kept.is_inference());
    expect_close(kept, want);
    auto changed = kept.clone();
    changed.select(1, 0).mul_(2);  // views and in-place ops work as ever
    expect_close(changed.sum(), want.select(1, 0).sum() * 2 + want.select(1, 1).sum());
  }
  EXPECT_THROW(kept.requires_grad_().add_(1), c10::Error);
  EXPECT_TRUE(model->forward(x.to(tpu())).requires_grad());
}

}  // namespace
}  // namespace tpubridge
