// Between the calls of a step, what its optimizer keeps becomes other tensors while the old ones live on.
#include <sstream>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;

// Three worlds with the same model and step; `act` happens between calls. Losses and parameters must agree.
template <class MakeOptimizer, class Act>
void expect_alike(MakeOptimizer make, Act act) {
  std::vector<std::vector<Tensor>> seen;
  int64_t replayed = 0;
  std::string why;
  for (const bool compiled : {false, true}) {
    torch::manual_seed(3);
    torch::nn::Sequential net(torch::nn::Linear(3, 4), torch::nn::Tanh(), torch::nn::Linear(4, 2));
    net->to(torch::kDouble);
    net->to(tpu());
    auto optimizer = make(net->parameters());
    auto body = [&](const Tensor& x) {
      optimizer->zero_grad();
      auto loss = net->forward(x).pow(2).mean();
      loss.backward();
      optimizer->step();
      return loss.detach();
    };
    auto step = compile(body, {.modules = {net.ptr()}, .optimizers = {optimizer.get()}});
    auto& values = seen.emplace_back();
    for (int i = 0; i < 28; ++i) {
      const auto x = (torch::arange(12, torch::kDouble).view({4, 3}) / (5 + i)).to(tpu());
      values.push_back((compiled ? step(x) : body(x)).cpu());
      why += std::to_string(i) + ": " + step.report().why_traced + "\n";
      if (i == 9 || i == 17) act(*net, *optimizer, i);
    }
    for (const auto& p : net->parameters()) values.push_back(p.detach().cpu());
    if (compiled) replayed = step.report().replayed;
  }
  for (size_t i = 0; i < seen[0].size(); ++i) expect_close(seen[1][i], seen[0][i]);
  EXPECT_GE(replayed, 2) << why;
}

const auto fused_adamw = [](const std::vector<Tensor>& p) {
  return std::make_unique<optim::AdamW>(p, optim::AdamWOptions(0.05).betas({0.5, 0.999}));
};

// One parameter takes no part: from then on it has a count of its own.
TEST(ChangedState, CountsPart) {
  expect_alike(fused_adamw, [](torch::nn::SequentialImpl& net, auto& optimizer, int) {
    net.parameters()[1].mutable_grad() = Tensor();
    optimizer.step();
  });
}

TEST(ChangedState, AnotherScheduleIsGiven) {
  expect_alike(fused_adamw, [](auto&, optim::AdamW& optimizer, int call) {
    optimizer.set_schedule([by = 0.1 * call](const Tensor& steps) { return by / (steps + 1); });
  });
}

// What is loaded are new tensors; somebody may still hold the old ones.
TEST(ChangedState, LoadedWhileTheOldIsHeld) {
  std::vector<optim::NamedTensors> held;
  std::string early;
  expect_alike(fused_adamw, [&](auto&, optim::AdamW& optimizer, int call) {
    std::stringstream archive;
    held.push_back(optimizer.named_state());
    if (call == 9) {
      torch::save(optimizer, archive);
      early = archive.str();
      return;
    }
    archive.str(early);
    torch::load(optimizer, archive);
  });
}

TEST(ChangedState, ClearedWhileTheOldIsHeld) {
  std::vector<optim::NamedTensors> held;
  expect_alike(fused_adamw, [&](auto&, optim::AdamW& optimizer, int) {
    held.push_back(optimizer.named_state());
    optimizer.state().clear();
  });
}

TEST(ChangedState, OfTorchsOptimizerLoadedWhileTheOldIsHeld) {
  std::vector<Tensor> held;
  std::string early;
  expect_alike(
      [](const std::vector<Tensor>& p) {
        return std::make_unique<torch::optim::Adam>(p, torch::optim::AdamOptions(0.05));
      },
      [&](auto& net, torch::optim::Adam& optimizer, int call) {
        for (const auto& p : net.parameters()) {
          auto& s =
              static_cast<torch::optim::AdamParamState&>(*optimizer.state().at(p.unsafeGetTensorImpl()));
          held.insert(held.end(), {s.exp_avg(), s.exp_avg_sq()});
        }
        std::stringstream archive;
        if (call == 9) {
          torch::save(optimizer, archive);
          early = archive.str();
          return;
        }
        archive.str(early);
        torch::load(optimizer, archive, tpu());
      });
}

// One moment of torch's optimizer is replaced by another tensor, which somebody holds.
TEST(ChangedState, OfTorchsOptimizerReplaced) {
  std::vector<Tensor> held;
  expect_alike(
      [](const std::vector<Tensor>& p) {
        return std::make_unique<torch::optim::SGD>(p, torch::optim::SGDOptions(0.05).momentum(0.9));
      },
      [&](auto& net, torch::optim::SGD& optimizer, int) {
        const auto p = net.parameters()[0];
        auto& s = static_cast<torch::optim::SGDParamState&>(*optimizer.state().at(p.unsafeGetTensorImpl()));
        held.push_back(s.momentum_buffer());
        s.momentum_buffer(torch::full_like(p, 0.5));
      });
}

}  // namespace
}  // namespace tpubridge
