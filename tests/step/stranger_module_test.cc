// Modules and variables of compiled steps as strangers change them between calls, named to nobody.
#include "tests/step/stranger.h"

namespace tpubridge::stranger {
namespace {

// What a step captures: by reference, by value, in an object; and a change of it.
enum class Way { reference, value, object, function };
struct World {
  std::shared_ptr<Net> net;
  std::string comment = "a class of the user's own has other members, too";
  Tensor run(const Tensor& x) { return net->forward(x); }
};

template <class Change>
void expect_seen(Way way, Change change) {
  const auto report = expect_same(
      [&](torch::Device device, bool compiled) {
        auto w = std::make_shared<World>(World{std::make_shared<Net>(device)});
        Program p;
        auto& net = w->net;
        auto* world = w.get();
        if (way == Way::reference)
          set_call(p, compiled, [&net](const Tensor& x) { return net->forward(x).detach(); });
        if (way == Way::value)
          set_call(p, compiled, [net](const Tensor& x) { return net->forward(x).detach(); });
        if (way == Way::object)
          set_call(p, compiled, [world](const Tensor& x) { return world->run(x).detach(); });
        if (way == Way::function) {
          const std::array<double, 8> large{2, 3, 5, 7, 11, 13, 17, 19};
          set_call(p, compiled, std::function<Tensor(const Tensor&)>([&net, large](const Tensor& x) {
                     return net->forward(x).detach() * large[2];
                   }));
        }
        p.state = [w] { return w->net->parameters(); };
        p.change = [w, change, device](int i) {
          torch::NoGradGuard no_grad;
          if (i >= 5) change(*w->net, i);
        };
        return p;
      },
      20);
  EXPECT_GT(report.replayed, 0) << report.why_traced;
}

const auto all_ways = {Way::reference, Way::value, Way::object, Way::function};

TEST(StrangerModule, ANumberInIt) {
  for (Way way : all_ways) expect_seen(way, [](Net& n, int) { n.factor = 3; });
}
TEST(StrangerModule, AFlagInIt) {
  for (Way way : all_ways) expect_seen(way, [](Net& n, int i) { n.squares = i == 6 || i == 7; });
}
TEST(StrangerModule, ALayerIsReplaced) {
  for (Way way : all_ways)
    expect_seen(way, [](Net& n, int i) {
      if (i != 6) return;
      torch::manual_seed(9);
      torch::nn::Linear other(5, 2);
      other->to(n.first->weight.device(), torch::kDouble);
      n.last = n.replace_module("last", other);
    });
}
TEST(StrangerModule, AWeightIsReplaced) {
  for (Way way : all_ways)
    expect_seen(way, [](Net& n, int i) {
      if (i == 6) n.last->weight = (n.last->weight * 2).detach();
    });
}
TEST(StrangerModule, AWeightIsWrittenTo) {
  for (Way way : all_ways) expect_seen(way, [](Net& n, int) { n.last->weight.mul_(1.1); });
}

struct WithDropout : torch::nn::Module {
  explicit WithDropout(torch::Device device) {
    drop = register_module("drop", torch::nn::Dropout(0.999999));
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
    to(device, torch::kDouble);
  }
  Tensor forward(const Tensor& x) { return drop(norm(x)); }
  torch::nn::Dropout drop{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
struct WithFunctions : torch::nn::Module {
  explicit WithFunctions(torch::Device device) {
    first = register_module("first", torch::nn::Linear(4, 4));
    torch::nn::init::eye_(first->weight);
    torch::nn::init::zeros_(first->bias);
    to(device, torch::kDouble);
  }
  Tensor forward(const Tensor& x) { return torch::dropout(first(x), 0.999999, is_training()); }
  torch::nn::Linear first{nullptr};
};

// In training everything is dropped; in evaluation nothing is.
template <class M>
void expect_modes_seen() {
  const auto report = expect_same(
      [](torch::Device device, bool compiled) {
        auto net = std::make_shared<M>(device);
        Program p;
        set_call(p, compiled, [net](const Tensor& x) { return net->forward(x).detach(); });
        p.state = [net] { return net->buffers(); };
        p.change = [net](int i) { net->train(i % 10 < 5); };
        return p;
      },
      18);
  EXPECT_GT(report.replayed, 0) << report.why_traced;
}
TEST(StrangerModule, ItsModeChanges) {
  expect_modes_seen<WithDropout>();
  expect_modes_seen<WithFunctions>();
}

TEST(StrangerModule, AModeThatNothingTells) {
  const auto report = expect_same(
      [](torch::Device, bool compiled) {
        auto train = std::make_shared<bool>(true);
        Program p;
        set_call(p, compiled, [train](const Tensor& x) { return torch::dropout(x, 0.999999, *train); });
        p.state = [] { return std::vector<Tensor>(); };
        p.change = [train](int i) { *train = i < 5; };
        return p;
      },
      10);
  EXPECT_EQ(report.replayed, 0);
  EXPECT_NE(report.why_traced.find("aten::dropout"), std::string::npos) << report.why_traced;
}

TEST(StrangerModule, ItDiesAndAnotherTakesItsPlace) {
  expect_same(
      [](torch::Device device, bool compiled) {
        auto net = std::make_shared<std::shared_ptr<Net>>(std::make_shared<Net>(device));
        auto& ref = *net;
        Program p;
        set_call(p, compiled, [&ref](const Tensor& x) { return ref->forward(x).detach(); });
        p.state = [net] { return (*net)->parameters(); };
        p.change = [net, device](int i) {
          if (i % 5 != 4) return;
          net->reset();
          *net = std::make_shared<Net>(device);
          (*net)->factor = i;
        };
        return p;
      },
      18);
}

TEST(StrangerStep, InsideOfAnotherOneHasVariablesToo) {
  const auto report = expect_same(
      [](torch::Device device, bool compiled) {
        struct Two {
          double factor = 2;
          Tensor t;
          std::function<Tensor(const Tensor&)> inner;
        };
        auto w = std::make_shared<Two>();
        w->t = torch::ones({4}, torch::kDouble).to(device);
        auto& factor = w->factor;
        auto& t = w->t;
        const auto body = [&factor, &t](const Tensor& x) { return x * factor + t; };
        Program p;
        if (compiled) {
          auto inner = std::make_shared<decltype(compile(body))>(body, StepOptions());
          set_call(p, true, [inner](const Tensor& x) { return (*inner)(x)*3; });
        } else {
          set_call(p, false, [body](const Tensor& x) { return body(x) * 3; });
        }
        p.state = [w] { return std::vector<Tensor>(); };
        p.change = [w](int i) {
          if (i == 5) w->factor = 5;
          if (i == 8) w->t = w->t * 2;
        };
        return p;
      },
      12);
  EXPECT_GT(report.replayed, 0);
}

TEST(StrangerStep, ItIsMoved) {
  double factor = 2;
  const auto body = [&factor](const Tensor& x) { return x * factor; };
  std::vector<decltype(compile(body))> steps;
  steps.push_back(compile(body));
  for (int i = 0; i < 12; ++i) {
    if (i == 5) {
      auto other = std::move(steps[0]);
      steps.clear();
      steps.push_back(std::move(other));
    }
    if (i == 8) factor = 7;
    expect_close(steps[0](data(i).to(tpu())), data(i) * factor);
  }
}

TEST(StrangerStep, AnotherThreadCallsIt) {
  double factor = 2;
  auto w = torch::ones({4}, torch::kDouble).to(tpu());
  auto step = compile([&](const Tensor& x) { return x * factor + w; });
  for (int i = 0; i < 12; ++i) {
    if (i == 7) factor = 3;
    if (i == 9) w = w * 2;
    std::thread([&] { expect_close(step(data(i).to(tpu())), data(i) * factor + w.cpu()); }).join();
  }
  EXPECT_GT(step.report().replayed, 1) << step.report().why_traced;
}

}  // namespace
}  // namespace tpubridge::stranger
