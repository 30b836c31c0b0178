// Optimizers in compiled steps as strangers use them: named or not, read beside, stepped twice, of any class.
#include "tests/step/stranger_optimizer.h"

namespace tpubridge::stranger {
namespace {

TEST(StrangerOptimizer, NobodyNamedIt) {
  EXPECT_GT(expect_same(training<SGD>(SGDOptions(0.1), plain, false), 12).replayed, 1);
  EXPECT_GT(expect_same(training<SGD>(SGDOptions(0.1).momentum(0.9), plain, false), 12).replayed, 1);
  EXPECT_GT(expect_same(training<Adam>(AdamOptions(0.1), plain, false), 12).replayed, 1);
}

TEST(StrangerOptimizer, NobodyNamedItAndItCannotBeFound) {
  struct Owner {
    explicit Owner(torch::Device d)
        : net(std::make_shared<Net>(d)), opt(net->parameters(), SGDOptions(0.1)) {}
    std::shared_ptr<Net> net;
    std::array<double, 9> more{};
    SGD opt;
    Tensor train(const Tensor& x) { return plain(*net, opt, x); }
  };
  const auto report = expect_same(
      [](torch::Device device, bool compiled) {
        auto owner = std::make_shared<Owner>(device);
        Program p;
        auto* self = owner.get();
        set_call(p, compiled, [self](const Tensor& x) { return self->train(x); });
        p.state = [owner] { return owner->net->parameters(); };
        p.change = [owner](int i) {
          if (i == 6) set_rate(owner->opt, 0.02);
        };
        return p;
      },
      10);
  EXPECT_EQ(report.replayed, 0);
  EXPECT_NE(report.why_traced.find("torch::optim::SGD"), std::string::npos) << report.why_traced;
}

TEST(StrangerOptimizer, ValuesAreReadAfterItsStep) {
  const auto reads = [](Net& net, torch::optim::Optimizer& opt, const Tensor& x) {
    opt.zero_grad();
    const auto loss = loss_of(net.forward(x));
    loss.backward();
    opt.step();
    return loss.detach() * net.first->weight[0][0].item<double>();
  };
  for (bool named : {true, false})
    expect_same(training<Adam>(AdamOptions(0.1), reads, named, {.host_reads = HostReads::trace}), 12);
}

TEST(StrangerOptimizer, TheStepUsesTheRateToo) {
  const auto uses = [](Net& net, torch::optim::Optimizer& opt, const Tensor& x) {
    opt.zero_grad();
    const auto loss = loss_of(net.forward(x)) * (1 + opt.param_groups()[0].options().get_lr());
    loss.backward();
    opt.step();
    return loss.detach();
  };
  for (bool named : {true, false}) expect_same(training<SGD>(SGDOptions(0.1), uses, named), 12);
}

// One of ours tells of itself while it steps; what the function itself makes of its rate is looked at too,
// also where a step inside names it and is called by one that does not.
TEST(StrangerOptimizer, AnUnnamedOneOfOursWhoseRateTheStepUsesToo) {
  struct Owner {
    explicit Owner(torch::Device d) : net(std::make_shared<Net>(d)) {
      if (d.is_cpu())
        opt = std::make_unique<Adam>(net->parameters(), AdamOptions(0.1));
      else
        opt = std::make_unique<tpubridge::optim::Adam>(net->parameters(), AdamOptions(0.1));
    }
    Tensor train(const Tensor& x) {
      opt->zero_grad();
      const auto loss = loss_of(net->forward(x)) * (1 + opt->param_groups()[0].options().get_lr());
      loss.backward();
      opt->step();
      return loss.detach();
    }
    std::shared_ptr<Net> net;
    std::array<double, 200> more{};
    std::unique_ptr<torch::optim::Optimizer> opt;
  };
  for (bool nested : {false, true}) {
    const auto report = expect_same(
        [nested](torch::Device device, bool compiled) {
          auto owner = std::make_shared<Owner>(device);
          Program p;
          auto* self = owner.get();
          const auto train = [self](const Tensor& x) { return self->train(x); };
          if (nested && compiled) {
            auto inner = std::make_shared<decltype(compile(train))>(
                train, StepOptions{.optimizers = {self->opt.get()}});
            set_call(p, compiled, [inner](const Tensor& x) { return (*inner)(x); });
          } else {
            set_call(p, compiled, train);
          }
          p.state = [owner] { return owner->net->parameters(); };
          p.change = [owner](int i) {
            if (i == 2 || i == 6) set_rate(*owner->opt, 0.1 / i);
          };
          return p;
        },
        12);
    EXPECT_GT(report.replayed, 1) << report.why_traced;
  }
}

// The function runs once a call, or not at all.
TEST(StrangerOptimizer, TheFunctionCountsItsCalls) {
  const auto report = expect_same(
      [](torch::Device device, bool compiled) {
        auto net = std::make_shared<Net>(device);
        auto opt = std::make_shared<Adam>(net->parameters(), AdamOptions(0.1));
        auto count = std::make_shared<int>(0);
        Program p;
        set_call(p, compiled,
                 [=](const Tensor& x) {
                   opt->zero_grad();
                   const auto loss = loss_of(net->forward(x)) / ++*count;
                   loss.backward();
                   opt->step();
                   return loss.detach();
                 },
                 {.optimizers = {opt.get()}});
        p.state = [net] { return net->parameters(); };
        return p;
      },
      8);
  EXPECT_EQ(report.replayed, 0);
}

TEST(StrangerOptimizer, ItStepsTwice) {
  const auto twice = [](Net& net, torch::optim::Optimizer& opt, const Tensor& x) {
    Tensor loss;
    for (int i = 0; i < 2; ++i) {
      opt.zero_grad();
      loss = loss_of(net.forward(x));
      loss.backward();
      opt.step();
    }
    return loss.detach();
  };
  EXPECT_GT(expect_same(training<Adam>(AdamOptions(0.1), twice, true), 12).replayed, 1);
  EXPECT_GT(expect_same(training<SGD>(SGDOptions(0.1), twice, true), 12).replayed, 1);
}

TEST(StrangerOptimizer, TheLossIsAClosure) {
  const auto closure = [](Net& net, torch::optim::Optimizer& opt, const Tensor& x) {
    return opt
        .step([&] {
          opt.zero_grad();
          auto loss = loss_of(net.forward(x)) * 0.1;
          loss.backward();
          return loss;
        })
        .detach();
  };
  EXPECT_GT(expect_same(training<Adam>(AdamOptions(0.1).weight_decay(0.1), closure, true), 12).replayed, 1);
}

struct Halving : SGD {
  using SGD::SGD;
  Tensor step(LossClosure closure = nullptr) override {
    auto& o = static_cast<SGDOptions&>(param_groups()[0].options());
    o.lr(o.lr() / 2);
    return SGD::step(closure);
  }
};

TEST(StrangerOptimizer, AClassOfTheirOwn) {
  for (bool named : {true, false}) {
    const auto report = expect_same(training<Halving>(SGDOptions(0.1), plain, named), 12);
    EXPECT_EQ(report.replayed, 0);
    EXPECT_NE(report.why_traced.find(named ? "Halving" : "SGD"), std::string::npos) << report.why_traced;
  }
}

TEST(StrangerOptimizer, LineSearch) {
  const auto closure = [](Net& net, torch::optim::Optimizer& opt, const Tensor& x) {
    return opt
        .step([&] {
          opt.zero_grad();
          auto loss = loss_of(net.forward(x));
          loss.backward();
          return loss;
        })
        .detach();
  };
  const auto report =
      expect_same(training<torch::optim::LBFGS>(torch::optim::LBFGSOptions(0.1).max_iter(3), closure, true,
                                                {.host_reads = HostReads::trace}),
                  5);
  EXPECT_EQ(report.replayed, 0);
}

}  // namespace
}  // namespace tpubridge::stranger
