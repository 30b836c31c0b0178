// Training on the device gives the losses of training on the CPU.
#include <gtest/gtest.h>

#include "tests/device/models.h"

namespace tpubridge {
namespace {

// Class labels that depend on the inputs, so that there is something to learn.
torch::Tensor labels(const torch::Tensor& x, int64_t classes) {
  return (x.flatten(1).sum(1).abs() * 10).to(torch::kLong).remainder(classes);
}

template <class Options, class Optimizer>
auto with(Options options) {
  return [=](std::vector<torch::Tensor> p) -> std::unique_ptr<torch::optim::Optimizer> {
    return std::make_unique<Optimizer>(std::move(p), options);
  };
}

Training mlp() {
  Training t;
  t.model = [] {
    torch::manual_seed(1);
    return Mlp().ptr();
  };
  t.loss = [](torch::nn::Module& m, int step, torch::Device d) {
    torch::manual_seed(100 + step);
    const auto x = torch::randn({16, 8}), y = labels(x, 3);
    return torch::cross_entropy_loss(dynamic_cast<MlpImpl&>(m).forward(x.to(d)), y.to(d));
  };
  t.optimizer =
      with<torch::optim::SGDOptions, torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9));
  return t;
}

TEST(Models, MlpTrainsWithSgd) {
  expect_same_training(mlp());
  EXPECT_GT(metrics().cache_hits, 0);
}

TEST(Models, MlpTrainsWithAdam) {
  auto t = mlp();
  t.optimizer = with<torch::optim::AdamOptions, torch::optim::Adam>(torch::optim::AdamOptions(1e-2));
  expect_same_training(t);
  EXPECT_FALSE(testing::Test::HasFailure());
}

TEST(Models, MlpTrainsWithRmspropAndAdagrad) {
  auto t = mlp();
  t.optimizer = with<torch::optim::RMSpropOptions, torch::optim::RMSprop>(torch::optim::RMSpropOptions(1e-3));
  expect_same_training(t);
  t.optimizer = with<torch::optim::AdagradOptions, torch::optim::Adagrad>(torch::optim::AdagradOptions(1e-2));
  expect_same_training(t);
  EXPECT_FALSE(testing::Test::HasFailure());
}

TEST(Models, GptTrainsWithAdamW) {
  Training t;
  t.model = [] {
    torch::manual_seed(2);
    return Gpt(GptConfig{}).ptr();
  };
  t.loss = [](torch::nn::Module& m, int step, torch::Device d) {
    torch::manual_seed(200 + step);
    const auto x = torch::randint(0, 32, {4, 17}, torch::kLong);
    const auto in = x.slice(1, 0, 16).contiguous().to(d), out = x.slice(1, 1, 17).contiguous().to(d);
    return torch::cross_entropy_loss(dynamic_cast<GptImpl&>(m).forward(in).view({-1, 32}), out.view({-1}));
  };
  t.optimizer = with<torch::optim::AdamWOptions, torch::optim::AdamW>(torch::optim::AdamWOptions(1e-3));
  expect_same_training(t);
  EXPECT_FALSE(testing::Test::HasFailure());
}

TEST(Models, ResNetTrainsWithSgd) {
  Training t;
  t.model = [] {
    torch::manual_seed(3);
    return ResNet().ptr();
  };
  t.loss = [](torch::nn::Module& m, int step, torch::Device d) {
    torch::manual_seed(300 + step);
    const auto x = torch::randn({16, 3, 32, 32}), y = labels(x, 5);
    return torch::cross_entropy_loss(dynamic_cast<ResNetImpl&>(m).forward(x.to(d)), y.to(d));
  };
  t.optimizer =
      with<torch::optim::SGDOptions, torch::optim::SGD>(torch::optim::SGDOptions(1e-3).momentum(0.9));
  t.parameter_tolerance = 5e-3;
  expect_same_training(t);
  EXPECT_FALSE(testing::Test::HasFailure());
}

}  // namespace
}  // namespace tpubridge
