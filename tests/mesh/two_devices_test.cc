// A compiled step that computes on two devices: it stays traced, and is right.
#include "tests/device/check.h"

namespace tpubridge {
namespace {

[[maybe_unused]] const int enough_devices = setenv("TPUBRIDGE_CPU_DEVICES", "4", 1);

TEST(StepOverTwoDevices, HasTheTrueOptionsOfItsOptimizer) {
  const auto train = [](torch::Device first, torch::Device second, bool compiled) {
    torch::manual_seed(2);
    torch::nn::Linear a(3, 4), b(4, 2);
    a->to(first, torch::kDouble);
    b->to(second, torch::kDouble);
    std::vector<torch::Tensor> parameters = a->parameters();
    for (const auto& p : b->parameters()) parameters.push_back(p);
    torch::optim::Adam opt(parameters, torch::optim::AdamOptions(0.1).weight_decay(0.01));
    const auto body = [&](const torch::Tensor& x) {
      opt.zero_grad();
      const auto loss = b(torch::tanh(a(x)).to(second)).square().mean();
      loss.backward();
      opt.step();
      return loss.detach();
    };
    auto step = compile(body, {.optimizers = {&opt}});
    for (int i = 0; i < 6; ++i) {
      const auto x = torch::sin(torch::arange(15, torch::kDouble).view({5, 3}) * (i + 1)).to(first);
      (void)(compiled ? step(x) : body(x));
    }
    if (compiled) {
      EXPECT_EQ(step.report().replayed, 0);
      EXPECT_NE(step.report().why_traced.find("more than one device"), std::string::npos)
          << step.report().why_traced;
    }
    return parameters;
  };
  const auto want = train(torch::kCPU, torch::kCPU, false);
  const auto got = train(torch::Device("tpu:0"), torch::Device("tpu:1"), true);
  for (size_t i = 0; i < want.size(); ++i) expect_close(got[i], want[i], 100);
}

// Where "tpu" is, is where the step makes its tensors.
TEST(StepOverTwoDevices, TheCurrentDeviceIsPartOfTheGuard) {
  auto step = compile([] { return torch::full({2}, 3.f, torch::Device("tpu")) * 2; });
  for (int i = 0; i < 12; ++i) {
    const auto index = static_cast<c10::DeviceIndex>(i / 4 % 2);
    const c10::DeviceGuard guard(torch::Device(c10::DeviceType::PrivateUse1, index));
    const auto got = step();
    EXPECT_EQ(got.device().index(), index) << i;
    expect_close(got, torch::full({2}, 6.f));
  }
  EXPECT_GE(step.report().replayed, 4) << step.report().why_traced;
}

}  // namespace
}  // namespace tpubridge
