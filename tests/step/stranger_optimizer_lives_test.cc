// Optimizers that are replaced, made anew, fail, or are given more, between calls of a compiled step and
// inside.
#include "tests/step/stranger_optimizer.h"

namespace tpubridge::stranger {
namespace {

TEST(StrangerOptimizer, AnotherTakesItsPlace) {
  const auto report = expect_same(
      [](torch::Device device, bool compiled) {
        struct World {
          std::shared_ptr<Net> net;
          std::unique_ptr<torch::optim::Optimizer> opt;
        };
        auto w = std::make_shared<World>(World{std::make_shared<Net>(device), nullptr});
        w->opt = std::make_unique<SGD>(w->net->parameters(), SGDOptions(0.1));
        auto& net = w->net;
        auto& opt = w->opt;
        Program p;
        set_call(p, compiled, [&net, &opt](const Tensor& x) { return plain(*net, *opt, x); });
        p.state = [w] { return w->net->parameters(); };
        p.change = [w](int i) {
          if (i == 6) w->opt = std::make_unique<SGD>(w->net->parameters(), SGDOptions(0.01));
          if (i == 11) w->opt = std::make_unique<Adam>(w->net->parameters(), AdamOptions(0.01));
          if (i == 14) set_rate(*w->opt, 0.1);
        };
        return p;
      },
      18);
  EXPECT_GT(report.replayed, 1);
}

struct Failure : std::runtime_error {
  Failure() : std::runtime_error("in the middle") {}
};

// Whatever happens in a recorded call, the optimizer is the user's own again afterwards.
TEST(StrangerOptimizer, AFailureLeavesItAsItWas) {
  auto net = std::make_shared<Net>(tpu());
  Adam opt(net->parameters(), AdamOptions(0.1).weight_decay(0.3));
  bool fails = false, prepares = false;
  auto step = compile([&, net](const Tensor& x) {
    opt.zero_grad();
    const auto loss = opt.step([&] {
      auto l = loss_of(net->forward(x));
      l.backward();
      if (fails) throw Failure();
      return l;
    });
    if (prepares) throw Failure();
    return loss.detach();
  });
  const auto expect_whole = [&](int64_t steps) {
    EXPECT_EQ(typeid(opt), typeid(Adam));
    auto& options = opt.param_groups()[0].options();
    EXPECT_EQ(typeid(options), typeid(AdamOptions));
    EXPECT_EQ(options.get_lr(), 0.1);
    EXPECT_EQ(static_cast<AdamOptions&>(options).weight_decay(), 0.3);
    for (const auto& [parameter, state] : opt.state())
      EXPECT_EQ(static_cast<torch::optim::AdamParamState&>(*state).step(), steps);
  };
  const auto x = data(1).to(tpu());
  const auto before = net->last->weight.detach().clone();
  step.prepare(x);
  EXPECT_TRUE(opt.state().empty());
  expect_whole(0);
  for (bool* where : {&fails, &prepares}) {
    *where = true;
    EXPECT_THROW((void)step(x), Failure);
    EXPECT_TRUE(opt.state().empty());
    expect_whole(0);
    expect_close(net->last->weight, before);
    *where = false;
  }
  for (int i = 0; i < 5; ++i) {
    (void)step(x);
    expect_whole(i + 1);
  }
  fails = true;
  EXPECT_THROW((void)step(x), Failure);
  expect_whole(5);
}

TEST(StrangerOptimizer, ItsOptionsAreReplacedInTheStep) {
  const auto replaces = [](Net& net, torch::optim::Optimizer& opt, const Tensor& x) {
    opt.zero_grad();
    const auto loss = loss_of(net.forward(x));
    loss.backward();
    auto& group = opt.param_groups()[0];
    group.set_options(std::make_unique<SGDOptions>(group.options().get_lr() * 0.9));
    opt.step([&] {
      group.set_options(std::make_unique<SGDOptions>(group.options().get_lr() * 0.9));
      return loss;
    });
    return loss.detach();
  };
  for (bool named : {true, false})
    EXPECT_EQ(expect_same(training<SGD>(SGDOptions(0.1), replaces, named), 8).replayed, 0);
}

TEST(StrangerOptimizer, ItIsMadeAnewInTheStep) {
  const auto report = expect_same(
      [](torch::Device device, bool compiled) {
        auto net = std::make_shared<Net>(device);
        auto opt = std::make_shared<std::unique_ptr<SGD>>();
        auto calls = std::make_shared<int>(0);
        *opt = std::make_unique<SGD>(net->parameters(), SGDOptions(0.1));
        auto& ref = *opt;
        Program p;
        set_call(p, compiled, [net, &ref, calls](const Tensor& x) {
          if (++*calls % 2 == 0) ref.reset();
          if (*calls % 3 != 1) ref = std::make_unique<SGD>(net->parameters(), SGDOptions(0.1 / *calls));
          if (!ref) ref = std::make_unique<SGD>(net->parameters(), SGDOptions(0.05));
          return plain(*net, *ref, x);
        });
        p.state = [net, opt] { return net->parameters(); };
        return p;
      },
      12);
  EXPECT_EQ(report.replayed, 0);
}

// Memory of one is used again for the next.
TEST(StrangerOptimizer, AnotherKindStandsInItsPlace) {
  expect_same(
      [](torch::Device device, bool compiled) {
        auto net = std::make_shared<Net>(device);
        auto opt = std::make_shared<std::unique_ptr<torch::optim::Optimizer>>();
        *opt = std::make_unique<SGD>(net->parameters(), SGDOptions(0.1));
        auto& ref = *opt;
        Program p;
        set_call(p, compiled, [net, &ref](const Tensor& x) { return plain(*net, *ref, x); });
        p.state = [net] { return net->parameters(); };
        p.change = [=](int i) {
          if (i % 5 != 4) return;
          opt->reset();
          if (i == 4) *opt = std::make_unique<Adam>(net->parameters(), AdamOptions(0.01));
          if (i == 9)
            *opt = std::make_unique<torch::optim::AdamW>(net->parameters(), torch::optim::AdamWOptions(0.01));
          if (i == 14) *opt = std::make_unique<SGD>(net->parameters(), SGDOptions(0.2));
          if (i == 19)
            *opt = std::make_unique<torch::optim::RMSprop>(net->parameters(),
                                                           torch::optim::RMSpropOptions(0.01));
        };
        return p;
      },
      24);
}

// Counts of their own for parameters that come later.
TEST(StrangerOptimizer, ALayerIsThawed) {
  expect_same(
      [](torch::Device device, bool compiled) {
        auto net = std::make_shared<Net>(device);
        for (auto& p : net->first->parameters()) p.requires_grad_(false);
        auto opt = std::make_shared<Adam>(net->parameters(), AdamOptions(0.1));
        Program p;
        set_call(p, compiled, [=](const Tensor& x) { return plain(*net, *opt, x); });
        p.state = [net] { return net->parameters(); };
        p.change = [=](int i) {
          if (i == 6 || i == 9) net->first->parameters()[i == 6 ? 0 : 1].requires_grad_(true);
        };
        return p;
      },
      14);
}

TEST(StrangerOptimizer, ParametersAreAdded) {
  expect_same(
      [](torch::Device device, bool compiled) {
        auto net = std::make_shared<Net>(device);
        auto opt = std::make_shared<Adam>(net->first->parameters(), AdamOptions(0.1));
        Program p;
        set_call(p, compiled, [=](const Tensor& x) { return plain(*net, *opt, x); },
                 {.optimizers = {opt.get()}});
        p.state = [net] { return net->parameters(); };
        p.change = [=](int i) {
          if (i == 6) opt->add_param_group({net->last->parameters()});
          if (i == 9) opt->param_groups()[1].options().set_lr(0.01);
        };
        return p;
      },
      14);
}

}  // namespace
}  // namespace tpubridge::stranger
