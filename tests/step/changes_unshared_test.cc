// Modules that no shared_ptr holds: variables, members of an object, behind a unique_ptr.
#include "tests/step/changes.h"

namespace tpubridge::changes {
namespace {

struct Unshared : torch::nn::Module {
  torch::nn::Linear layer{nullptr};
  double scale = 1.5;
  int times = 1;
  bool one_more = false;
  Unshared() {
    layer = register_module("layer", torch::nn::Linear(2, 2));
    const torch::NoGradGuard guard;
    layer->weight.fill_(1);
    layer->bias.fill_(0);
    to(tpu());
  }
  Tensor forward(const Tensor& x) {
    const Tensor y = layer(x) * scale * times + (one_more ? 1 : 0);
    return is_training() ? y : -y;
  }
};

void expect_followed(Unshared& net, auto step) {
  const torch::NoGradGuard guard;
  auto expect = [&](float want) {
    for (int i = 0; i < kSettled + 2; ++i) EXPECT_EQ(host(step(vec({2, 2}))), (Floats{want, want})) << i;
  };
  expect(6);
  net.scale = 2;
  expect(8);
  net.one_more = true;
  expect(9);
  net.times = 3;
  expect(25);
  net.eval();
  expect(-25);
  net.layer->weight.mul_(2);
  expect(-49);
  EXPECT_GT(step.report().replayed, 5) << step.report().why_traced;
}

TEST(ChangedUnsharedModule, AVariable) {
  Unshared net;
  expect_followed(net, compile([&](const Tensor& x) { return net.forward(x); }));
}

TEST(ChangedUnsharedModule, BehindAPointer) {
  Unshared net;
  expect_followed(net, compile([p = &net](const Tensor& x) { return p->forward(x); }));
}

TEST(ChangedUnsharedModule, OwnedByAUniquePointer) {
  auto net = std::make_unique<Unshared>();
  expect_followed(*net, compile([&](const Tensor& x) { return net->forward(x); }));
}

TEST(ChangedUnsharedModule, AMemberOfAnObject) {
  struct App {
    std::string name = "an app";
    Unshared net;
    Tensor run(const Tensor& x) { return net.forward(x); }
  };
  App here;
  expect_followed(here.net, compile([&](const Tensor& x) { return here.run(x); }));
  auto there = std::make_unique<App>();
  expect_followed(there->net, compile([p = there.get()](const Tensor& x) { return p->run(x); }));
}

}  // namespace
}  // namespace tpubridge::changes
