// Numbers, flags and tensors that change after replay began, in every place where a function may find them.
#include <iostream>
#include <map>

#include "tests/step/changes.h"

namespace tpubridge::changes {
namespace {

enum class Kind {
  a_double,
  a_float,
  an_int,
  a_long,
  a_flag,
  a_second_flag,
  a_tensor,
  an_optional,
  a_zero,
  last
};

struct Knobs {
  int64_t before = 0;
  double number = 1.5;
  float small = 0.75;
  int index = 0;
  int64_t length = 1;
  bool first = false, second = false;
  std::optional<double> maybe;
  double zero = 0;
  Tensor tensor;

  [[nodiscard]] Tensor run(Kind kind, const Tensor& x) const {
    switch (kind) {
      case Kind::a_double:
        return x * number;
      case Kind::a_float:
        return x * small;
      case Kind::an_int:
        return x.slice(0, index, index + 1) * 2;
      case Kind::a_long:
        return x.slice(0, 0, length) * 2;
      case Kind::a_flag:
        return first ? x * 2 : x + 1;
      case Kind::a_second_flag:
        return second ? x * 2 : x + 1;
      case Kind::an_optional:
        return maybe ? x * *maybe : x + 1;
      case Kind::a_zero:
        return x + zero;
      default:
        return x * tensor;
    }
  }
  void change(Kind kind) {
    switch (kind) {
      case Kind::a_double:
        number += 1;
        break;
      case Kind::a_float:
        small *= 2;
        break;
      case Kind::an_int:
        index = (index + 1) % 3;
        break;
      case Kind::a_long:
        length = length % 3 + 1;
        break;
      case Kind::a_flag:
        first = !first;
        break;
      case Kind::a_second_flag:
        second = !second;
        break;
      case Kind::an_optional:
        maybe = maybe ? *maybe + 1 : 3.5;
        break;
      case Kind::a_zero:
        zero += 1;
        break;
      default:
        tensor = vec({9, 8, 7}) * number;
        number += 1;
    }
  }
};

// The same on the host, by hand: what the function gives without a step around it.
void expect_followed(Kind kind, Knobs& knobs, const std::function<Tensor(const Tensor&)>& plain, auto step) {
  for (int change = 0; change < 3; ++change) {
    for (int i = 0; i < kSettled; ++i) {
      const Tensor x = vec({1, 2, static_cast<float>(3 + i)});
      ASSERT_EQ(host(step(x)), host(plain(x)))
          << "kind " << int(kind) << ", change " << change << ", call " << i;
    }
    EXPECT_GT(step.report().replayed, change) << "kind " << int(kind) << ": " << step.report().why_traced;
    knobs.change(kind);
  }
}

Knobs fresh() {
  Knobs out;
  out.tensor = vec({2, 3, 4});
  return out;
}

template <class Try>
void for_all_kinds(Try&& one) {
  for (int kind = 0; kind < int(Kind::last); ++kind) one(Kind(kind));
}

TEST(ChangedPlaces, AnObjectOnTheStack) {
  for_all_kinds([](Kind kind) {
    Knobs k = fresh();
    auto fn = [&](const Tensor& x) { return k.run(kind, x); };
    expect_followed(kind, k, fn, compile(fn));
  });
}

TEST(ChangedPlaces, AMemberOfAnObjectOnTheStack) {
  struct Model {
    std::vector<int> sizes = {1, 2, 3};
    Knobs inner = fresh();
  };
  for_all_kinds([](Kind kind) {
    Model m;
    auto fn = [&](const Tensor& x) { return m.inner.run(kind, x); };
    expect_followed(kind, m.inner, fn, compile(fn));
  });
}

TEST(ChangedPlaces, AnObjectOnTheHeap) {
  for_all_kinds([](Kind kind) {
    auto k = std::make_unique<Knobs>(fresh());
    auto fn = [&, p = k.get()](const Tensor& x) { return p->run(kind, x); };
    expect_followed(kind, *k, fn, compile(fn));
  });
}

TEST(ChangedPlaces, AnObjectThatIsShared) {
  for_all_kinds([](Kind kind) {
    auto k = std::make_shared<Knobs>(fresh());
    auto fn = [kind, k](const Tensor& x) { return k->run(kind, x); };
    expect_followed(kind, *k, fn, compile(fn));
  });
}

TEST(ChangedPlaces, BehindAPointerOfAnObject) {
  if (!kKnowsBlocks) GTEST_SKIP();
  struct Model {
    virtual ~Model() = default;
    std::unique_ptr<Knobs> config = std::make_unique<Knobs>(fresh());
    std::shared_ptr<Knobs> shared = std::make_shared<Knobs>(fresh());
    Kind kind = Kind::a_double;
    Tensor own(const Tensor& x) { return config->run(kind, x); }
    Tensor of_all(const Tensor& x) { return shared->run(kind, x); }
  };
  for_all_kinds([](Kind kind) {
    auto m = std::make_unique<Model>();
    m->kind = kind;
    auto fn = [p = m.get()](const Tensor& x) { return p->own(x); };
    expect_followed(kind, *m->config, fn, compile(fn));
    Model other;
    other.kind = kind;
    auto second = [&](const Tensor& x) { return other.of_all(x); };
    expect_followed(kind, *other.shared, second, compile(second));
  });
}

TEST(ChangedPlaces, AnElementOfAVector) {
  if (!kKnowsBlocks) GTEST_SKIP();
  for_all_kinds([](Kind kind) {
    std::vector<Knobs> all = {fresh(), fresh(), fresh()};
    auto fn = [&](const Tensor& x) { return all[1].run(kind, x); };
    expect_followed(kind, all[1], fn, compile(fn));
  });
}

TEST(ChangedPlaces, AnElementOfAMap) {
  if (!kKnowsBlocks) GTEST_SKIP();
  for_all_kinds([](Kind kind) {
    std::map<std::string, Knobs> all;
    all["one"] = fresh();
    auto fn = [&](const Tensor& x) { return all.at("one").run(kind, x); };
    expect_followed(kind, all.at("one"), fn, compile(fn));
  });
}

Knobs the_global;

TEST(ChangedPlaces, AGlobal) {
  static Kind kind;
  for_all_kinds([](Kind k) {
    kind = k;
    the_global = fresh();
    auto fn = [](const Tensor& x) { return the_global.run(kind, x); };
    expect_followed(k, the_global, fn, compile(fn));
  });
  the_global = {};
}

TEST(ChangedPlaces, AStaticOfAFunction) {
  for_all_kinds([](Kind kind) {
    static Knobs k;
    k = fresh();
    auto fn = [kind](const Tensor& x) { return k.run(kind, x); };
    expect_followed(kind, k, fn, compile(fn));
    k = {};
  });
}

struct Net : torch::nn::Module {
  torch::nn::Linear layer{nullptr};
  double factor = 1.5;
  bool doubled = false;
  Net() { layer = register_module("layer", torch::nn::Linear(2, 2)); }
  Tensor forward(const Tensor& x) {
    return torch::dropout(layer(x), 0.5, is_training()) * (doubled ? 2 : factor);
  }
};
std::shared_ptr<Net> the_net;
std::unique_ptr<torch::optim::Adam> the_optimizer;

TEST(ChangedPlaces, AModelAndItsOptimizerThatAreGlobal) {
  the_net = std::make_shared<Net>();
  the_net->eval();
  the_net->to(tpu());
  the_optimizer = std::make_unique<torch::optim::Adam>(the_net->parameters(), torch::optim::AdamOptions(0.1));
  auto copy = std::make_shared<Net>();
  copy->eval();
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < 2; ++i) copy->parameters()[i].copy_(the_net->parameters()[i].cpu());
  torch::optim::Adam beside(copy->parameters(), torch::optim::AdamOptions(0.1));
  auto train = [](Net& net, torch::optim::Optimizer& optimizer, const Tensor& x) {
    const torch::AutoGradMode grad(true);
    optimizer.zero_grad();
    auto loss = net.forward(x).square().sum();
    loss.backward();
    optimizer.step();
    return loss.detach();
  };
  auto step = compile([&train](const Tensor& x) { return train(*the_net, *the_optimizer, x); });
  auto options = [](torch::optim::Optimizer & o) -> auto& {
    return static_cast<torch::optim::AdamOptions&>(o.param_groups()[0].options());
  };
  for (int i = 0; i < 30; ++i) {
    const auto x = torch::tensor({1.f, static_cast<float>(i % 3)});
    ASSERT_NEAR(host(step(x.to(tpu())))[0], host(train(*copy, beside, x))[0], 1e-4) << i;
    if (i == 6) the_net->factor = copy->factor = 2.5;
    if (i == 12) the_net->doubled = copy->doubled = true;
    if (i == 18) options(*the_optimizer).lr(0.01), options(beside).lr(0.01);
  }
  EXPECT_GT(step.report().replayed, 12) << step.report().why_traced;
  the_net->train();
  bool dropped = false;
  for (int i = 0; i < 6; ++i) {
    const auto before = host(the_net->layer->weight);
    (void)step(vec({1, 1}));
    dropped = dropped || host(the_net->layer->weight) != before;
  }
  EXPECT_TRUE(dropped);
  the_optimizer.reset();
  the_net.reset();
}

TEST(ChangedPlaces, AStreamThatIsUsedIsNoVariable) {
  auto step = compile([](const Tensor& x) { return x + the_global.number; });
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(host(step(vec({2}))), Floats{3.5});
  const auto traced = step.report().traced;
  std::cin.width(17);
  std::cout.precision(11);
  EXPECT_EQ(host(step(vec({2}))), Floats{3.5});
  EXPECT_EQ(step.report().traced, traced) << step.report().why_traced;
  std::cin.width(0);
  std::cout.precision(6);
}

// What changes at every call beside what is used costs no replay.
TEST(ChangedPlaces, CountersBesideItAreForgotten) {
  struct Model {
    double factor = 1.5, sum = 0;
    int64_t calls = 0;
    std::vector<double> history;
    Tensor run(const Tensor& x) { return x * factor; }
  };
  Model on_stack;
  auto on_heap = std::make_unique<Model>();
  for (Model* m : {&on_stack, on_heap.get()}) {
    auto step = compile([m](const Tensor& x) { return m->run(x); });
    for (int i = 0; i < 40; ++i) {
      ASSERT_EQ(host(step(vec({2}))), Floats{3});
      ++m->calls;
      m->sum += 0.1 * i;
      m->history.push_back(m->sum);
    }
    EXPECT_GE(step.report().replayed, 28) << step.report().why_traced;
    m->factor = 2;
    EXPECT_EQ(host(step(vec({2}))), Floats{4});
  }
}

}  // namespace
}  // namespace tpubridge::changes
