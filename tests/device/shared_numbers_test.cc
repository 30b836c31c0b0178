// Equal numbers of a program are one input of it, until they are no longer equal.
#include <random>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

// Two groups of parameters of the same shapes.
struct TwoGroups {
  explicit TwoGroups(torch::Device device) {
    torch::manual_seed(11);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    for (int g = 0; g < 2; ++g) {
      Tensors of_group;
      for (int i = 0; i < 6; ++i) {
        parameters.push_back(torch::randn({3, 4}, torch::kDouble).to(device).requires_grad_());
        of_group.push_back(parameters.back());
      }
      groups.emplace_back(of_group, std::make_unique<torch::optim::AdamOptions>(0.01));
    }
    optimizer = std::make_unique<torch::optim::Adam>(groups, torch::optim::AdamOptions(0.01));
  }
  Tensor step(const Tensor& x) {
    optimizer->zero_grad();
    Tensor loss = x.sum();
    for (size_t i = 0; i < parameters.size(); ++i)
      loss = loss + (parameters[i] * x).sin().sum() * (1.0 + 0.1 * static_cast<double>(i));
    loss.backward();
    optimizer->step();
    return loss.detach();
  }
  torch::optim::AdamOptions& options(size_t group) {
    return static_cast<torch::optim::AdamOptions&>(optimizer->param_groups()[group].options());
  }
  Tensors parameters;
  std::unique_ptr<torch::optim::Adam> optimizer;
};

// What the user changes before some of the steps.
void change(TwoGroups& of, int step) {
  if (step == 6) of.options(0).lr(0.02), of.options(1).lr(0.02);
  if (step == 9) of.options(1).lr(0.005);
  if (step == 12) of.options(1).betas({0.8, 0.99});
  if (step == 15) of.options(0).eps(1e-6);
  if (step == 18) of.options(0) = of.options(1);
}

void expect_same_parameters(const TwoGroups& there, const TwoGroups& here) {
  for (size_t i = 0; i < here.parameters.size(); ++i)
    expect_close(there.parameters[i].detach(), here.parameters[i].detach(), 1e4);
}

TEST(SharedNumbers, OptionsThatComeApart) {
  TwoGroups there(tpu()), here(torch::kCPU);
  std::vector<int64_t> compiles;
  for (int i = 0; i < 22; ++i) {
    const Tensor x = torch::full({3, 4}, 0.1 * i, torch::kDouble);
    change(there, i), change(here, i);
    const int64_t before = metrics().compiles;
    expect_close(there.step(x.to(tpu())), here.step(x), 1e4);
    expect_same_parameters(there, here);
    compiles.push_back(metrics().compiles - before);
  }
  for (size_t i = 2; i < 9; ++i) EXPECT_EQ(compiles[i], 0) << i;
  EXPECT_EQ(compiles[9], 1);
  EXPECT_NE(explain().find("numbers that were equal differ now"), std::string::npos);
  EXPECT_EQ(compiles[12] + compiles[15], 1);  // the second time all numbers are taken apart
  EXPECT_EQ(compiles[18] + compiles[19] + compiles[20] + compiles[21], 0);
}

TEST(SharedNumbers, OptionsThatComeApartInACompiledStep) {
  TwoGroups there(tpu()), here(torch::kCPU);
  auto step =
      compile([&](const Tensor& x) { return there.step(x); }, {.optimizers = {there.optimizer.get()}});
  int64_t replayed = 0;
  for (int i = 0; i < 26; ++i) {
    const Tensor x = torch::full({3, 4}, 0.1 * i, torch::kDouble);
    change(there, i), change(here, i);
    expect_close(step(x.to(tpu())), here.step(x), 1e4);
    expect_same_parameters(there, here);
    if (i == 21) replayed = step.report().replayed;
  }
  EXPECT_GE(step.report().replayed - replayed, 4);
  EXPECT_GE(replayed, 9);
}

// Numbers that are equal by chance, others in every round: as on the CPU, with few programs.
class RandomNumbers : public testing::TestWithParam<uint32_t> {};

TEST_P(RandomNumbers, AreAsOnTheCpu) {
  std::mt19937 random(GetParam());
  const auto values = 1 + random() % 4;
  const int64_t before = metrics().compiles;
  const Tensor start = torch::linspace(-1, 1, 6, torch::kDouble).view({2, 3});
  for (int round = 0; round < 12; ++round) {
    std::vector<double> numbers;
    for (int i = 0; i < 30; ++i) numbers.push_back(0.5 + 0.125 * static_cast<double>(random() % values));
    if (round % 3 == 2) numbers.assign(numbers.size(), 0.75);
    const auto run = [&](Tensor x) {
      Tensor sum = torch::zeros_like(x);
      for (size_t i = 0; i < numbers.size(); ++i) {
        x = i % 3 == 0 ? x * numbers[i] : i % 3 == 1 ? x.add(sum, numbers[i]).tanh() : x - numbers[i];
        sum = sum + x * numbers[i];
      }
      return sum;
    };
    expect_close(run(start.to(tpu())), run(start), 1e4);
  }
  EXPECT_LE(metrics().compiles - before, 3);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomNumbers, testing::Range(0u, 6u));

}  // namespace
}  // namespace tpubridge
