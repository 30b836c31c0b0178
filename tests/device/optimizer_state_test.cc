// Training that is saved and taken up again, on the device and on the CPU, goes on as if nothing had
// happened.
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

namespace optim = torch::optim;
using Parameters = std::vector<torch::Tensor>;
using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(Parameters)>;

torch::nn::Sequential net() {
  return torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1));
}

// Batch number `step`, the same on every device.
double train_step(torch::nn::Sequential& model, optim::Optimizer& optimizer, int step, torch::Device device) {
  const auto x = torch::sin(torch::arange(24).view({6, 4}).to(torch::kFloat) * (step + 1) * 0.37);
  const auto y = x.sum(1, true);
  optimizer.zero_grad();
  const auto loss = torch::mse_loss(model->forward(x.to(device)), y.to(device));
  loss.backward();
  optimizer.step();
  return loss.item<double>();
}

// The bytes that torch::save writes.
template <class T>
std::string saved(const T& object) {
  std::ostringstream out;
  torch::save(object, out);
  return out.str();
}
template <class T>
void restore(T& object, const std::string& bytes, torch::Device device) {
  std::istringstream in(bytes);
  torch::load(object, in, device);
}

// Six steps without a break on the CPU are the truth; on the device three steps are made, saved, and the rest
// is made from what was saved, on the device and on the CPU.
void expect_continues(const MakeOptimizer& make) {
  torch::manual_seed(2);
  const std::string start = saved(net());
  std::vector<double> want;
  {
    auto model = net();
    restore(model, start, torch::kCPU);
    auto optimizer = make(model->parameters());
    for (int i = 0; i < 6; ++i) want.push_back(train_step(model, *optimizer, i, torch::kCPU));
  }
  auto model = net();
  model->to(tpu());
  restore(model, start, tpu());
  auto optimizer = make(model->parameters());
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(train_step(model, *optimizer, i, tpu()), want[static_cast<size_t>(i)], 1e-5);
  const std::string weights = saved(model);
  std::ostringstream out;
  torch::save(*optimizer, out);

  for (const auto device : {tpu(), torch::Device(torch::kCPU)}) {
    auto later = net();
    later->to(device);
    restore(later, weights, device);
    auto resumed = make(later->parameters());
    std::istringstream in(out.str());
    torch::load(*resumed, in, device);
    for (const auto& p : later->parameters()) EXPECT_EQ(p.device().type(), device.type());
    for (int i = 3; i < 6; ++i)
      EXPECT_NEAR(train_step(later, *resumed, i, device), want[static_cast<size_t>(i)], 1e-5)
          << "step " << i << " on " << device;
  }
}

TEST(SavedTraining, GoesOnWithSgdAndMomentum) {
  expect_continues([](Parameters p) {
    return std::make_unique<optim::SGD>(std::move(p), optim::SGDOptions(0.05).momentum(0.9).nesterov(true));
  });
}
TEST(SavedTraining, GoesOnWithAdam) {
  expect_continues([](Parameters p) {
    return std::make_unique<optim::Adam>(std::move(p), optim::AdamOptions(0.02).amsgrad(true));
  });
}
TEST(SavedTraining, GoesOnWithAdamW) {
  expect_continues([](Parameters p) {
    return std::make_unique<optim::AdamW>(std::move(p), optim::AdamWOptions(0.02).weight_decay(0.1));
  });
}
TEST(SavedTraining, GoesOnWithRmspropAndAdagrad) {
  expect_continues([](Parameters p) {
    return std::make_unique<optim::RMSprop>(std::move(p),
                                            optim::RMSpropOptions(0.01).momentum(0.5).centered(true));
  });
  expect_continues([](Parameters p) {
    return std::make_unique<optim::Adagrad>(std::move(p), optim::AdagradOptions(0.05));
  });
}

TEST(SavedTraining, MomentsOfAdamAreThoseOfTheCpu) {
  torch::manual_seed(3);
  auto first = net();
  auto second = net();
  restore(second, saved(first), torch::kCPU);
  second->to(tpu());
  optim::AdamW a(first->parameters(), optim::AdamWOptions(0.02)),
      b(second->parameters(), optim::AdamWOptions(0.02));
  for (int i = 0; i < 4; ++i) {
    train_step(first, a, i, torch::kCPU);
    train_step(second, b, i, tpu());
  }
  const auto state = [](optim::Optimizer & o, size_t i) -> auto& {
    return static_cast<optim::AdamWParamState&>(
        *o.state().at(o.param_groups()[0].params()[i].unsafeGetTensorImpl()));
  };
  for (size_t i = 0; i < first->parameters().size(); ++i) {
    EXPECT_EQ(state(b, i).step(), 4);
    EXPECT_EQ(state(b, i).exp_avg().device().type(), tpu().type());
    expect_close(state(b, i).exp_avg(), state(a, i).exp_avg());
    expect_close(state(b, i).exp_avg_sq(), state(a, i).exp_avg_sq());
  }
}

}  // namespace
}  // namespace tpubridge
