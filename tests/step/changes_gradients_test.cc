// Gradients that a compiled step finds and leaves, where others read, take or write them between its calls.
#include "tests/step/changes.h"

namespace tpubridge::changes {
namespace {

TEST(ChangedGradients, AddUpUntilSomebodyOutsideZeroesThem) {
  auto w = parameter({1, 2});
  torch::optim::SGD opt({w}, torch::optim::SGDOptions(1));
  auto step = compile([&](const Tensor& x) { (w * x).sum().backward(); });
  Floats weight{1, 2};
  for (int round = 0; round < 4; ++round) {
    Floats sum{0, 0};
    for (int i = 1; i <= 3; ++i) {
      const auto f = static_cast<float>(i + round);
      step(vec({f, 2 * f}));
      sum[0] += f, sum[1] += 2 * f;
      EXPECT_EQ(host(w.grad()), sum) << round << i;
    }
    opt.step();
    weight[0] -= sum[0], weight[1] -= sum[1];
    EXPECT_EQ(host(w), weight) << round;
    opt.zero_grad(/*set_to_none=*/round % 2 == 0);
  }
}

// Functions that a gradient goes through: added, taken away and replaced while the step is replayed.
TEST(ChangedGradients, HooksComeAndGo) {
  const auto own = std::make_unique<Tensor>(parameter({1, 2}));
  auto step = compile([w = own.get()](const Tensor& x) { (*w * x).sum().backward(); });
  const auto expect = [&](const Floats& want, const char* when) {
    for (int i = 0; i < 5; ++i) {
      own->mutable_grad() = Tensor();
      step(vec({1, 2}));
      EXPECT_EQ(host(own->grad()), want) << when << i;
    }
  };
  const auto settled = [&] { return step.report().replayed; };
  expect({1, 2}, "none ");
  const auto by = [&](float f) { return own->register_hook([f](const Tensor& g) { return g * f; }); };
  const auto three = by(3);
  expect({3, 6}, "one ");
  const auto ten = by(10);
  expect({30, 60}, "two ");
  own->remove_hook(three);
  expect({10, 20}, "one was taken away ");
  own->remove_hook(ten);
  const auto two = by(2), five = by(5);
  expect({10, 20}, "replaced, and the same all together ");
  own->remove_hook(two);
  own->remove_hook(five);
  const auto seven = by(7), half = by(0.5);
  expect({3.5, 7}, "two were replaced ");
  own->remove_hook(seven);
  own->remove_hook(half);
  const auto before = settled();
  expect({1, 2}, "none is left ");
  EXPECT_GT(settled(), before) << step.report().why_traced;
}

// One in the step adds to the list at each call.
TEST(ChangedGradients, AHookThatTheStepItselfAdds) {
  const auto own = std::make_unique<Tensor>(parameter({1}));
  auto step = compile([w = own.get()](const Tensor& x) {
    const auto y = *w * x;
    w->register_hook([](const Tensor& g) { return g * 2; });
    y.sum().backward();
  });
  float want = 3;
  for (int i = 0; i < 5; ++i) {
    own->mutable_grad() = Tensor();
    step(vec({3}));
    EXPECT_EQ(host(own->grad()), Floats{want *= 2}) << i;
  }
  EXPECT_EQ(step.report().replayed, 0);
}

// Another one at each call, of a tensor that is given.
TEST(ChangedGradients, HooksOfArguments) {
  auto step = compile([](const Tensor& x) { (x * x).sum().backward(); });
  for (int i = 0; i < 10; ++i) {
    const auto x = parameter({1, 2});
    const auto f = static_cast<float>(i);
    if (i > 4) x.register_hook([f](const Tensor& g) { return g * f; });
    step(x);
    EXPECT_EQ(host(x.grad()), i > 4 ? (Floats{2 * f, 4 * f}) : (Floats{2, 4})) << i;
  }
  EXPECT_GE(step.report().replayed, 1);
}

// A step that always found none, and then does not.
TEST(ChangedGradients, BeginToAddUp) {
  auto w = parameter({1});
  auto step = compile([&](const Tensor& x) { (w * x).sum().backward(); });
  for (int i = 0; i < 4; ++i) {
    w.mutable_grad() = Tensor();
    step(vec({2}));
    EXPECT_EQ(host(w.grad()), Floats{2});
  }
  for (float i = 2; i <= 5; ++i) {
    step(vec({2}));
    EXPECT_EQ(host(w.grad()), Floats{2 * i});
  }
}

// Each finds none at first, and then what the other left.
TEST(ChangedGradients, TwoStepsShareParameters) {
  auto w = parameter({3});
  auto linear = compile([&](const Tensor& x) { (w * x).sum().backward(); });
  auto square = compile([&](const Tensor& x) { (w * w * x).sum().backward(); });
  for (int i = 0; i < 4; ++i) {
    w.mutable_grad() = Tensor();
    linear(vec({2}));
    EXPECT_EQ(host(w.grad()), Floats{2});
    w.mutable_grad() = Tensor();
    square(vec({2}));
    EXPECT_EQ(host(w.grad()), Floats{12});
  }
  for (int round = 0; round < 3; ++round) {
    w.mutable_grad() = Tensor();
    float sum = 0;
    for (float i = 1; i <= 4; ++i) {
      linear(vec({i}));
      EXPECT_EQ(host(w.grad()), Floats{sum += i}) << round;
      square(vec({i}));
      EXPECT_EQ(host(w.grad()), Floats{sum += 6 * i}) << round;
    }
  }
}

// Batches of two rows come first at the beginning, and of three rows later.
TEST(ChangedGradients, TwoBatchSizesAddUp) {
  auto w = parameter({1});
  auto step = compile([&](const Tensor& x) { (w * x).sum().backward(); });
  for (int round = 0; round < 8; ++round) {
    w.mutable_grad() = Tensor();
    float sum = 0;
    for (const int64_t rows : round < 4 ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{3, 2, 2}) {
      step(torch::full({rows}, 1.f + static_cast<float>(round)).to(tpu()));
      sum += static_cast<float>(rows * (round + 1));
      EXPECT_EQ(host(w.grad()), Floats{sum}) << round << " " << rows;
    }
  }
}

// Each size has a program, and both leave their gradients in the same parameter.
TEST(ChangedGradients, TwoBatchSizesTakeTurns) {
  auto w = parameter({1});
  auto step = compile([&](const Tensor& x) {
    w.mutable_grad() = Tensor();
    (w * x).sum().backward();
  });
  for (int i = 1; i <= 12; ++i) {
    const int64_t rows = 2 + i % 3;
    step(torch::full({rows}, static_cast<float>(i)).to(tpu()));
    EXPECT_EQ(host(w.grad()), Floats{static_cast<float>(rows * i)}) << i;
  }
}

TEST(ChangedGradients, OneThatIsReturnedIsTheCallers) {
  auto w = parameter({1, 1});
  auto step = compile([&](const Tensor& x) {
    w.mutable_grad() = Tensor();
    (w * x).sum().backward();
    return w.grad();
  });
  Tensors results;
  for (float i = 1; i <= 5; ++i) {
    results.push_back(step(vec({i, 3 * i})));
    EXPECT_EQ(host(w.grad()), (Floats{i, 3 * i}));
  }
  for (size_t i = 0; i < 5; ++i) {
    const auto f = static_cast<float>(i + 1);
    EXPECT_EQ(host(results[i]), (Floats{f, 3 * f})) << i;
  }
}

// Without zero_grad() the gradient is one tensor, written in place: what was returned goes along.
TEST(ChangedGradients, OneThatIsReturnedWhileItAddsUp) {
  auto w = parameter({1});
  auto step = compile([&](const Tensor& x) {
    (w * x).sum().backward();
    return w.grad();
  });
  Tensor first = step(vec({1}));
  for (float i = 2; i <= 6; ++i) EXPECT_EQ(host(step(vec({1}))), Floats{i});
  EXPECT_EQ(host(first), Floats{6});
  EXPECT_EQ(host(w.grad()), Floats{6});
}

TEST(ChangedGradients, OneThatIsTakenAway) {
  auto w = parameter({1});
  auto step = compile([&](const Tensor& x) { (w * x).sum().backward(); });
  for (float i = 1; i <= 5; ++i) {
    step(vec({2}));
    EXPECT_EQ(host(w.grad()), Floats{2 * i});
  }
  const auto held = w.grad();
  w.mutable_grad() = Tensor();
  step(vec({7}));
  EXPECT_EQ(host(w.grad()), Floats{7});
  step(vec({7}));
  EXPECT_EQ(host(w.grad()), Floats{14});
  EXPECT_EQ(host(held), Floats{10});
}

TEST(ChangedGradients, OneThatIsGiven) {
  auto w = parameter({1});
  auto step = compile([&](const Tensor& x) { (w * x).sum().backward(); });
  for (int i = 0; i < 5; ++i) step(vec({2}));
  const auto old = w.grad(), given = vec({100});
  w.mutable_grad() = given;
  step(vec({3}));
  EXPECT_EQ(host(w.grad()), Floats{103});
  EXPECT_EQ(host(given), Floats{103});  // added to in place, as torch does
  EXPECT_EQ(host(old), Floats{10});
}

TEST(ChangedGradients, OneThatIsScaledInPlace) {
  auto w = parameter({1});
  auto step = compile([&](const Tensor& x) { (w * x).sum().backward(); });
  for (int i = 0; i < 5; ++i) step(vec({2}));
  w.mutable_grad().mul_(0.5);
  step(vec({1}));
  EXPECT_EQ(host(w.grad()), Floats{6});
}

TEST(ChangedGradients, OneThatIsHeldKeepsItsValue) {
  auto w = parameter({1, 1});
  torch::optim::SGD opt({w}, torch::optim::SGDOptions(0.0));
  auto step = compile(
      [&](const Tensor& x) {
        opt.zero_grad();
        (w * x).sum().backward();
        opt.step();
      },
      {.optimizers = {&opt}});
  Tensors held;
  for (float i = 1; i <= 6; ++i) {
    step(vec({i, -i}));
    held.push_back(w.grad());
  }
  for (size_t i = 0; i < held.size(); ++i) {
    const auto f = static_cast<float>(i + 1);
    EXPECT_EQ(host(held[i]), (Floats{f, -f})) << i;
  }
}

TEST(ChangedGradients, OfAnArgument) {
  auto step = compile([](const Tensor& x) { (x * x).sum().backward(); });
  for (float i = 1; i <= 5; ++i) {
    auto x = parameter({i, 2 * i});
    step(x);
    EXPECT_EQ(host(x.grad()), (Floats{2 * i, 4 * i})) << i;
  }
  auto x = parameter({1, 2});
  for (float i = 1; i <= 4; ++i) {
    step(x);
    EXPECT_EQ(host(x.grad()), (Floats{2 * i, 4 * i})) << "the same one again " << i;
  }
}

TEST(ChangedGradients, StayWhenTheStepIsPrepared) {
  auto w = parameter({1, 1});
  auto step = compile([&](const Tensor& x) {
    w.mutable_grad() = Tensor();
    (w * x).sum().backward();
  });
  step(vec({1, 2}));
  const auto held = w.grad();
  step.prepare(vec({3, 4, 5}).slice(0, 1));
  EXPECT_EQ(host(w.grad()), (Floats{1, 2}));
  EXPECT_EQ(host(held), (Floats{1, 2}));
  EXPECT_TRUE(w.grad().is_same(held));
}

// Another step left some where this one, which zeroes them at its end, never found any.
TEST(ChangedGradients, OfAnotherStepAreZeroedToo) {
  auto w = parameter({1});
  auto step = compile([&](const Tensor& x) {
    (w * x).sum().backward();
    const auto sum = w.grad() * 1;
    w.mutable_grad() = Tensor();
    return sum;
  });
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(host(step(vec({2}))), Floats{2});
  (w * 10).sum().backward();
  EXPECT_EQ(host(step(vec({2}))), Floats{12});
  EXPECT_FALSE(w.grad().defined());
  EXPECT_EQ(host(step(vec({2}))), Floats{2});
}

// Nothing runs and nothing is left behind, with no optimizer named either.
TEST(ChangedGradients, NoneComesOfPreparing) {
  auto w = parameter({1}), frozen = vec({2});
  auto step = compile([&](const Tensor& x) { (w * frozen * x).sum().backward(); });
  step.prepare(vec({1}));
  EXPECT_FALSE(w.grad().defined());
  for (float i = 1; i <= 4; ++i) {
    step(vec({3}));
    EXPECT_EQ(host(w.grad()), Floats{6 * i});
  }
}

// A call that had nothing to clear does not tell that it would: with a gradient it is traced, until
// either way is known.
TEST(ChangedGradients, ClearedWhereNoneWasBefore) {
  for (const bool clears : {true, false}) {
    torch::nn::Linear net(2, 2);
    net->to(tpu());
    torch::optim::SGD opt(net->parameters(), torch::optim::SGDOptions(0.1));
    auto* const hidden = &opt;
    auto step = compile([=](const torch::Tensor& x) mutable {
      const torch::NoGradGuard quiet;
      auto y = net->forward(x);
      if (clears) hidden->zero_grad();
      return y;
    });
    const auto x = torch::ones({1, 2}).to(tpu());
    for (int i = 0; i < kSettled; ++i) (void)step(x);
    const int64_t before = step.report().replayed;
    EXPECT_GE(before, 1) << step.report().why_traced;
    for (int i = 0; i < kSettled; ++i) {
      net->weight.mutable_grad() = torch::full_like(net->weight.detach(), 0.5);
      (void)step(x);
      EXPECT_EQ(net->weight.grad().defined(), !clears) << i;
      if (clears) continue;
      EXPECT_EQ(net->weight.grad().sum().item<double>(), 2) << i;
    }
    net->weight.mutable_grad() = torch::Tensor();
    (void)step(x);
    EXPECT_GE(step.report().replayed, before + 2) << step.report().why_traced;
  }
}

}  // namespace
}  // namespace tpubridge::changes
