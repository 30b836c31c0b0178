// Compiled steps where replaying carelessly would be wrong.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <thread>

#include "tests/device/check.h"
#include "tpubridge/base/errors.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;

Tensor vec(std::vector<float> v) { return torch::tensor(v).to(tpu()); }
std::vector<float> host(const Tensor& t) {
  const auto c = t.detach().cpu().contiguous();
  return {c.data_ptr<float>(), c.data_ptr<float>() + c.numel()};
}
using Floats = std::vector<float>;

struct Batch {
  Tensor x;
  std::vector<Tensor> more;
};
auto tpubridge_fields(Batch& b) { return std::tie(b.x, b.more); }

TEST(Compile, TakesAndGivesStructs) {
  auto f = compile([](Batch b, double factor, std::map<std::string, Tensor> named) {
    return std::make_tuple(Batch{b.x * factor, {b.more[0] + named["k"]}}, std::optional<Tensor>(b.more[1]));
  });
  for (float i = 0; i < 5; ++i) {
    const auto [b, o] =
        f(Batch{vec({i}), {vec({2 * i}), vec({7})}}, 3.0, std::map<std::string, Tensor>{{"k", vec({1})}});
    EXPECT_EQ(host(b.x), Floats{3 * i});
    EXPECT_EQ(host(b.more[0]), Floats{2 * i + 1});
    EXPECT_EQ(host(*o), Floats{7});
  }
  EXPECT_EQ(f.report().replayed, 3) << f.report().why_traced;
  const auto [b, o] =
      f(Batch{vec({1}), {vec({2}), vec({7})}}, 5.0, std::map<std::string, Tensor>{{"k", vec({1})}});
  EXPECT_EQ(host(b.x), Floats{5});
}

TEST(Compile, AWriteFromOutsideIsSeen) {
  auto w = vec({1, 2});
  auto f = compile([&](const Tensor& x) { return x * w; });
  for (int i = 0; i < 16; ++i) EXPECT_EQ(host(f(vec({1, 1}))), (Floats{1, 2}));
  w.mul_(10);  // pending when the step begins
  EXPECT_EQ(host(f(vec({1, 1}))), (Floats{10, 20}));
  w.copy_(torch::tensor({5.f, 6.f}));
  EXPECT_EQ(host(f(vec({1, 1}))), (Floats{5, 6}));
  EXPECT_GE(f.report().replayed, 4) << f.report().why_traced;
}

TEST(Compile, ANumberThatChangesOnTheHostKeepsTheStepTraced) {
  double factor = 2;
  auto f = compile([&](const Tensor& x) { return x * factor; });
  for (int i = 0; i < 5; ++i, factor += 0.5)
    EXPECT_EQ(host(f(vec({10})))[0], static_cast<float>(10 * factor));
  EXPECT_EQ(f.report().replayed, 0);
  EXPECT_THAT(f.report().why_traced, HasSubstr("a number of mul.Tensor changed on the host"));
}

TEST(Compile, ANumberIsWhatItsBitsAre) {
  auto f = compile([](const Tensor& x) { return torch::where(x > 0, torch::full_like(x, NAN), x); });
  for (int i = 0; i < 10; ++i) {
    const auto y = host(f(vec({1, -2})));
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_EQ(y[1], -2);
  }
  EXPECT_GE(f.report().replayed, 1) << f.report().why_traced;
  // Nothing that is looked at tells of the environment: two calls that differ by it are not alike.
  auto g = compile([](const Tensor& x) { return x.fill_(std::atof(std::getenv("TPUBRIDGE_TEST_ZERO"))); });
  for (const char* zero : {"0", "-0", "0", "-0"}) {
    setenv("TPUBRIDGE_TEST_ZERO", zero, 1);
    EXPECT_EQ(std::signbit(host(g(vec({1})))[0]), *zero == '-');
  }
  unsetenv("TPUBRIDGE_TEST_ZERO");
}

TEST(Compile, HostTensorsAreCopiedAgainWhenTheyChange) {
  auto table = torch::tensor({1.f, 2.f});
  auto f = compile([&](const Tensor& x) { return x + table.to(tpu()); });
  for (int i = 0; i < 4; ++i) EXPECT_EQ(host(f(vec({1, 1}))), (Floats{2, 3}));
  table.add_(1);
  EXPECT_EQ(host(f(vec({1, 1}))), (Floats{3, 4}));
  auto g = compile([&](const Tensor& cpu) { return cpu.to(tpu()) * 2; });
  for (float i = 0; i < 14; ++i) EXPECT_EQ(host(g(torch::tensor({i}))), Floats{2 * i});
  EXPECT_GE(g.report().replayed, 1);
}

TEST(Compile, ReadingOnTheHostIsRefusedAndNothingHasHappened) {
  auto state = vec({1});
  auto f = compile([&](const Tensor& x) {
    state.add_(x);
    return state * state.item<float>();
  });
  try {
    f(vec({5}));
    FAIL() << "nothing was thrown";
  } catch (const UnsupportedError& e) {
    EXPECT_THAT(e.what(), HasSubstr("item"));
    EXPECT_THAT(e.detail("called from"), HasSubstr("test_step+0x"));
  }
  EXPECT_EQ(host(state), Floats{1});
  auto traced =
      compile([&](const Tensor& x) { return x * state.item<float>(); }, {.host_reads = HostReads::trace});
  for (int i = 0; i < 4; ++i, state.add_(1))
    EXPECT_EQ(host(traced(vec({3})))[0], 3 * static_cast<float>(i + 1));
  EXPECT_EQ(traced.report().replayed, 0);
  EXPECT_THAT(traced.report().why_traced, HasSubstr("reads a value on the host"));
}

TEST(Compile, AnExceptionLeavesTheStateAsItWas) {
  auto state = vec({1, 2});
  bool fail = false;
  auto f = compile([&](const Tensor& x) {
    state.add_(x);
    state.slice(0, 0, 1).mul_(100);
    const auto r = torch::rand({2}, tpu());
    if (fail) throw std::runtime_error("enough");
    return state + 0 * r;
  });
  (void)f(vec({1, 1}));
  const auto before = host(state);
  const auto generator = at::globalContext().defaultGenerator(tpu()).get_state();
  fail = true;
  EXPECT_THROW(f(vec({1, 1})), std::runtime_error);
  EXPECT_EQ(host(state), before);
  EXPECT_TRUE(at::globalContext().defaultGenerator(tpu()).get_state().equal(generator));
  fail = false;
  EXPECT_EQ(host(f(vec({1, 1}))), (Floats{20100, 4}));
}

TEST(Compile, ReturnsAnAliasOfACapturedTensor) {
  auto w = vec({1, 2, 3, 4});
  auto f = compile([&](const Tensor& x) {
    w.add_(x);
    return w.view({2, 2});
  });
  for (int i = 1; i <= 16; ++i) {
    const auto r = f(vec({1, 1, 1, 1}));
    EXPECT_TRUE(r.is_alias_of(w));
    EXPECT_EQ(host(r)[0], static_cast<float>(1 + i));
  }
  EXPECT_GE(f.report().replayed, 1);
}

TEST(Compile, ACapturedTensorThatIsFreedOrReplaced) {
  auto w = vec({2});
  auto f = compile([&](const Tensor& x) { return x * w; });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(host(f(vec({3}))), Floats{6});
  w = vec({5});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(host(f(vec({3}))), Floats{15});
  w = torch::full({1}, 4.f, tpu());
  EXPECT_EQ(host(f(vec({3}))), Floats{12});
}

TEST(Compile, OtherShapesAreOtherPrograms) {
  auto f = compile([](const Tensor& x) { return x.cumsum(0) * 2; }, {.programs = 2});
  for (int round = 0; round < 3; ++round)
    for (int64_t n : {2, 3})
      EXPECT_EQ(f(torch::ones({n}, tpu()))[n - 1].item<float>(), static_cast<float>(2 * n));
  EXPECT_EQ(f.report().replayed, 2);
  EXPECT_EQ(f.report().programs, 2u);
  for (int64_t n : {4, 5, 2})
    EXPECT_EQ(f(torch::ones({n}, tpu()))[n - 1].item<float>(), static_cast<float>(2 * n));
  EXPECT_EQ(f.report().programs, 2u);
}

TEST(Compile, ArgumentsThatShareMemory) {
  auto f = compile([](Tensor a, Tensor b) {
    a.add_(1);
    return a + b;
  });
  for (int i = 0; i < 4; ++i) EXPECT_EQ(host(f(vec({1}), vec({10}))), Floats{12});
  auto a = vec({1});
  EXPECT_EQ(host(f(a, a)), Floats{4});
  EXPECT_EQ(host(a), Floats{2});
  auto w = vec({1});
  auto g = compile([&](const Tensor& x) {
    w.add_(x);
    return w + x;
  });
  for (int i = 0; i < 4; ++i) (void)g(vec({1}));
  EXPECT_EQ(host(g(w)), Floats{20});  // w is 5, then 10
}

TEST(Compile, CompiledStepsInsideCompiledSteps) {
  auto inner = compile([](const Tensor& x) { return x * 3; });
  auto outer = compile([&](const Tensor& x) { return inner(x) + 1; });
  for (float i = 0; i < 16; ++i) EXPECT_EQ(host(outer(vec({i}))), Floats{3 * i + 1});
  EXPECT_GE(outer.report().replayed, 1);
  EXPECT_EQ(inner.report().calls, 0);
}

TEST(Compile, StepsRunOnSeveralThreads) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t k = 0; k < 4; ++k)
    threads.emplace_back([&, k] {
      auto state = torch::zeros({3}, tpu());
      auto f = compile([&](const Tensor& x) {
        state.add_(x);
        return state * 2;
      });
      for (int i = 1; i <= 20; ++i) {
        const auto r = f(torch::full({3}, static_cast<float>(k + 1), tpu()));
        wrong[k] += r[1].item<float>() != static_cast<float>(2 * i) * static_cast<float>(k + 1);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_THAT(wrong, testing::Each(0));
}

TEST(Compile, SharedStepFromSeveralThreads) {
  auto f = compile([](const Tensor& x) { return x * x; });
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t k = 0; k < 4; ++k)
    threads.emplace_back([&, k] {
      for (int i = 0; i < 10; ++i)
        wrong[k] +=
            f(torch::full({1}, static_cast<float>(k), tpu())).item<float>() != static_cast<float>(k * k);
    });
  for (auto& t : threads) t.join();
  EXPECT_THAT(wrong, testing::Each(0));
}

TEST(Compile, ClipsGradientsOnTheDevice) {
  torch::manual_seed(8);
  auto a = torch::randn({5}).requires_grad_(), b = a.detach().to(tpu()).requires_grad_();
  auto f = compile([&](const Tensor& x) {
    b.mutable_grad().reset();
    (b * b * x).sum().backward();
    return clip_grad_norm_({b}, 0.1);
  });
  for (float i = 1; i < 16; ++i) {
    a.mutable_grad().reset();
    (a * a * i).sum().backward();
    const double want = torch::nn::utils::clip_grad_norm_({a}, 0.1);
    EXPECT_NEAR(f(vec({i})).item<double>(), want, 1e-5 * want);
    expect_close(b.grad(), a.grad());
  }
  EXPECT_GE(f.report().replayed, 2) << f.report().why_traced;
  EXPECT_THROW(clip_grad_norm_({b}, -1), ArgumentError);
}

TEST(Compile, WrongOptionsAreNamed) {
  auto id = [](const Tensor& x) { return x; };
  EXPECT_THROW((void)compile(id, {.programs = 0}), ArgumentError);
  EXPECT_THROW((void)compile(id, {.optimizers = {nullptr}}), ArgumentError);
  EXPECT_THROW((void)compile(id, {.modules = {nullptr}}), ArgumentError);
}

}  // namespace
}  // namespace tpubridge
