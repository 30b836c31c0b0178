// State that is saved and taken up again: torch's archives in both directions, and by names.
#include <sstream>

#include "tests/optim/net.h"

namespace tpubridge {
namespace {

using torch::Tensor;

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

void copy_parameters(Net& to, Net& from) {
  torch::NoGradGuard guard;
  for (size_t i = 0; i < from.parameters().size(); ++i) to.parameters()[i].copy_(from.parameters()[i]);
}

void train(Net& n, torch::optim::Optimizer& opt, int from, int to, torch::Device device) {
  for (int i = from; i < to; ++i) {
    const auto [x, y] = batch(i, device);
    train_step(n, opt, x, y, i >= 2);  // one parameter begins later: it has a count of its own
    sync();
  }
}

// The truth: ten steps of torch's class on the CPU. Five of `First`, saved, loaded into `Second`, five more.
template <class Truth, class First, class Second, class Options>
void expect_goes_on(const Options& options, torch::Device first, torch::Device second) {
  auto want = net(torch::kCPU), a = net(first), b = net(second);
  Truth truth(want->parameters(), options);
  train(*want, truth, 0, 10, torch::kCPU);
  First before(a->parameters(), options);
  train(*a, before, 0, 5, first);
  Second after(b->parameters(), Options(0.9));
  copy_parameters(*b, *a);
  restore(after, saved(before), second);
  train(*b, after, 5, 10, second);
  expect_same_parameters(*b, *want);
}

TEST(SavedOptim, GoesOnFromAnArchive) {
  const torch::Device cpu(torch::kCPU);
  const auto adamw = optim::AdamWOptions(0.02).amsgrad(true);
  expect_goes_on<torch::optim::AdamW, optim::AdamW, optim::AdamW>(adamw, tpu(), tpu());
  expect_goes_on<torch::optim::AdamW, torch::optim::AdamW, optim::AdamW>(adamw, cpu, tpu());
  expect_goes_on<torch::optim::AdamW, optim::AdamW, torch::optim::AdamW>(adamw, tpu(), cpu);
  const auto adam = optim::AdamOptions(0.02).weight_decay(0.1);
  expect_goes_on<torch::optim::Adam, torch::optim::Adam, optim::Adam>(adam, cpu, tpu());
  const auto sgd = optim::SGDOptions(0.05).momentum(0.9);
  expect_goes_on<torch::optim::SGD, optim::SGD, torch::optim::SGD>(sgd, tpu(), cpu);
  expect_goes_on<torch::optim::SGD, torch::optim::SGD, optim::SGD>(sgd, cpu, tpu());
}

TEST(SavedOptim, GoesOnFromNamedTensorsWithoutCompilingAgain) {
  auto want = net(torch::kCPU), there = net(tpu());
  torch::optim::AdamW truth(want->parameters(), 0.02);
  optim::AdamW opt(there->parameters(), 0.02);
  opt.set_schedule([](const Tensor& steps) { return steps * 0 + 1; });
  auto step = compile([&](const Tensor& x, const Tensor& y) { return train_step(*there, opt, x, y, true); });
  auto run = [&](int from, int to) {
    for (int i = from; i < to; ++i) {
      const auto [x, y] = batch(i, tpu());
      (void)step(x, y);
    }
  };
  run(0, 4);
  optim::NamedTensors kept;
  for (const auto& [name, t] : opt.named_state()) kept.emplace_back(name, t.cpu().clone());
  EXPECT_EQ(kept.front().first, "state.0.step");
  Tensors weights;
  for (const auto& p : there->parameters()) weights.push_back(p.detach().cpu().clone());
  run(7, 9);  // steps that are taken back
  const auto replayed = step.report().replayed;
  opt.load_named_state(kept);
  {
    torch::NoGradGuard guard;
    for (size_t i = 0; i < weights.size(); ++i) there->parameters()[i].copy_(weights[i]);
  }
  run(4, 8);
  EXPECT_GE(step.report().replayed, replayed + 2) << step.report().why_traced;
  for (int i = 0; i < 8; ++i) {
    const auto [x, y] = batch(i, torch::kCPU);
    train_step(*want, truth, x, y, true);
  }
  expect_same_parameters(*there, *want);
}

TEST(SavedOptim, WrongNamedTensorsChangeNothing) {
  auto w = torch::ones({3}, tpu()).requires_grad_();
  optim::Adam opt(Tensors{w}, 0.1);
  w.sum().backward();
  opt.step();
  const auto good = opt.named_state();
  auto missing = good, wrong = good, foreign = good;
  missing.pop_back();
  wrong.back().second = torch::zeros({4});
  foreign.emplace_back("state.0.momentum_buffer", torch::zeros({3}));
  for (auto& bad : {missing, wrong, foreign}) {
    auto zeros = bad;
    for (auto& [name, t] : zeros) t = torch::zeros_like(t);
    EXPECT_THROW(opt.load_named_state(zeros), ArgumentError);
  }
  for (const auto& [name, t] : opt.named_state()) EXPECT_NE(t.sum().item<double>(), 0) << name;
}

}  // namespace
}  // namespace tpubridge
