// Ops of TORCH_LIBRARY with a lowering of ours, beside their CPU kernels.
#include <gtest/gtest.h>
#include <torch/library.h>

#include <thread>

#include "tests/device/check.h"
#include "tpubridge/hlo/hlo.h"

namespace tpubridge {
namespace {

at::Tensor swish_cpu(const at::Tensor& x, double beta) { return x * torch::sigmoid(x * beta); }
at::Tensor shifted_cpu(const at::Tensor& x, const at::Scalar& by) { return x + by; }
at::Tensor told_meta(const at::Tensor& x) { return at::empty_like(x); }

TORCH_LIBRARY(lowering_test, m) {
  m.def("swish(Tensor x, float beta) -> Tensor");
  m.def("shifted(Tensor x, Scalar by) -> Tensor");
  m.def("told(Tensor x) -> Tensor");
  m.def("both(Tensor x, Tensor? y, int[] sizes) -> (Tensor, Tensor)");
  m.def("words(Tensor x) -> str");
}
TORCH_LIBRARY_IMPL(lowering_test, CPU, m) {
  m.impl("swish", swish_cpu);
  m.impl("shifted", shifted_cpu);
}
TORCH_LIBRARY_IMPL(lowering_test, Meta, m) { m.impl("told", told_meta); }

std::vector<at::Tensor> swish_gradient(const GradientCall& c) {
  const double beta = c.arguments[1].toDouble();
  const auto &x = c.inputs[0], s = torch::sigmoid(x * beta);
  return {c.gradients[0] * (s + x * beta * s * (1 - s))};
}

const UserOp& swish() {
  static const UserOp op = register_lowering(
      "lowering_test::swish",
      [](const LoweringCall& c) {
        const hlo::Value x = c.tensor("x");
        const hlo::Value beta = hlo::constant(c.builder(), x.shape(), c.number("beta"));
        return hlo::multiply(x, hlo::logistic(hlo::multiply(x, beta)));
      },
      swish_gradient);
  return op;
}

TEST(Lowering, ValuesAndGradientsOfTheCpu) {
  torch::manual_seed(1);
  const auto x = torch::randn({3, 5});
  for (const auto& device : {torch::Device("cpu"), tpu()}) {
    auto in = x.to(device).requires_grad_();
    const auto out = swish()(in, 1.5);
    expect_close(out, swish_cpu(x, 1.5));
    const auto grad = torch::autograd::grad({(out * out).sum()}, {in}, {}, {}, /*create_graph=*/true)[0];
    auto host = x.clone().requires_grad_();
    const auto want = swish_cpu(host, 1.5);
    const auto first = torch::autograd::grad({(want * want).sum()}, {host}, {}, {}, true)[0];
    expect_close(grad, first, 5);
    const auto second = torch::autograd::grad({grad.sum()}, {in})[0];
    expect_close(second, torch::autograd::grad({first.sum()}, {host})[0], 20);
  }
}

TEST(Lowering, OtherShapesTypesAndNumbersBetweenCalls) {
  (void)swish();
  for (const auto& dims : std::vector<std::vector<int64_t>>{{4}, {2, 3}, {0, 3}, {2, 3, 4}, {}})
    for (const double beta : {1.0, 0.25, 7.0}) {
      const auto x = torch::randn(dims);
      expect_close(swish()(x.to(tpu()), beta), swish_cpu(x, beta));
    }
  const auto x = torch::randn({4}, torch::kDouble);
  expect_close(swish()(x.to(tpu()), 2.0), swish_cpu(x, 2.0));
  const auto view = torch::randn({4, 6});
  expect_close(swish()(view.to(tpu()).t().slice(0, 1, 4), 2.0), swish_cpu(view.t().slice(0, 1, 4), 2.0));
}

TEST(Lowering, AScalarIsAnInputOfTheProgram) {
  const auto op = register_lowering("lowering_test::shifted", [](const LoweringCall& c) {
    const hlo::Value x = c.tensor("x");
    return hlo::add(x, hlo::broadcast_in_dim(c.value("by", x.dtype()), x.dims(), {}));
  });
  const auto x = torch::arange(4.0);
  expect_close(op(x.to(tpu()), at::Scalar(2.5)), x + 2.5);
  const auto none = expect_no_compile();
  expect_close(op(x.to(tpu()), at::Scalar(3.5)), x + 3.5);
}

TEST(Lowering, ReplaysInACompiledStep) {
  auto w = torch::full({4}, 0.5f, tpu()).requires_grad_();
  auto host = torch::full({4}, 0.5f).requires_grad_();
  auto step = compile([&](const torch::Tensor& x) {
    auto loss = (swish()(x * w, 1.25)).sum();
    const auto g = torch::autograd::grad({loss}, {w})[0];
    torch::NoGradGuard no_grad;
    w.sub_(g * 0.1);
    return loss.detach();
  });
  for (int i = 0; i < 5; ++i) {
    const auto x = torch::arange(4.0) + i;
    auto loss = swish_cpu(x * host, 1.25).sum();
    const auto g = torch::autograd::grad({loss}, {host})[0];
    const auto got = step(x.to(tpu()));
    {
      torch::NoGradGuard no_grad;
      host.sub_(g * 0.1);
    }
    expect_close(got, loss.detach(), 5);
    expect_close(w, host, 5);
  }
}

TEST(Lowering, OtherShapesThanTheMetaKernelAreAnErrorThatNamesTheOp) {
  const auto op = register_lowering("lowering_test::told", [](const LoweringCall& c) {
    return hlo::reshape(c.tensor("x"), {c.tensor("x").elements()});
  });
  expect_close(op(torch::ones({3}, tpu())), torch::ones({3}));
  try {
    (void)op(torch::ones({2, 2}, tpu()));
    FAIL() << "no error";
  } catch (const ProgramError& e) {
    EXPECT_NE(std::string(e.what()).find("lowering_test::told gives f32[4]"), std::string::npos) << e.what();
    EXPECT_EQ(e.detail("op"), "lowering_test::told");
  }
  expect_close(op(torch::ones({5}, tpu())), torch::ones({5}));  // nothing was lost
}

TEST(Lowering, OptionalTensorsListsAndSeveralResults) {
  const auto op = register_lowering("lowering_test::both", [](const LoweringCall& c) {
    const auto x = c.tensor("x");
    return hlo::Values{c.has("y") ? hlo::add(x, c.tensor("y")) : x, hlo::reshape(x, c.integers("sizes"))};
  });
  const auto x = torch::arange(6.0).to(tpu());
  const auto with = op.call({x, x, std::vector<int64_t>{2, 3}}),
             without = op.call({x, c10::IValue(), std::vector<int64_t>{3, 2}});
  expect_close(with[0], torch::arange(6.0) * 2);
  expect_close(with[1], torch::arange(6.0).view({2, 3}));
  expect_close(without[0], torch::arange(6.0));
  EXPECT_THROW(op.call({x, x, std::vector<int64_t>{4, 2}}), ProgramError);
}

TEST(Lowering, WithoutAGradientBackwardSaysSo) {
  const auto op = register_lowering("lowering_test::plain(Tensor x) -> Tensor",
                                    [](const LoweringCall& c) { return hlo::tanh(c.tensor("x")); });
  auto x = torch::ones({2}, tpu()).requires_grad_();
  const auto y = op(x);
  expect_close(y, torch::tanh(torch::ones({2})));
  EXPECT_THROW(y.sum().backward(), UnsupportedError);
}

TEST(Lowering, WrongRegistrationsAreRefused) {
  const auto same = [](const LoweringCall& c) { return c.tensor("x"); };
  EXPECT_THROW(register_lowering("no_namespace", same), ArgumentError);
  EXPECT_THROW(register_lowering("lowering_test::nobody", same), ArgumentError);
  EXPECT_THROW(register_lowering("aten::relu", same), ArgumentError);
  EXPECT_THROW(register_lowering("lowering_test::broken(Tensor -> x", same), ArgumentError);
  EXPECT_THROW(register_lowering("lowering_test::words", same), UnsupportedError);
  EXPECT_THROW(register_lowering("lowering_test::empty(Tensor x) -> Tensor", {}), ArgumentError);
  EXPECT_THROW(register_lowering("lowering_test::words(Tensor x) -> Tensor", same), ArgumentError);
  (void)swish();
  EXPECT_THROW(register_lowering("lowering_test::swish", same), ArgumentError);  // not silently the old one
}

TEST(Lowering, AMistakeInItNamesTheOp) {
  const auto op =
      register_lowering("lowering_test::mistake(Tensor x, int n) -> Tensor", [](const LoweringCall& c) {
        switch (c.integer("n")) {
          case 0:
            return Lowered(c.tensor("nobody"));
          case 1:
            throw std::runtime_error("a bad day");
          case 2:
            return Lowered(hlo::Value());
          case 3:
            return Lowered(hlo::Values{});
          case 4:
            return Lowered(hlo::add(c.tensor("x"), hlo::constant(c.builder(), DType::f32, 1.0)));
          default:
            return Lowered(c.tensor("x"));
        }
      });
  const auto x = torch::ones({2}, tpu());
  for (int64_t n = 0; n < 5; ++n) {
    try {
      (void)op(x, n);
      ADD_FAILURE() << n;
    } catch (const Error& e) {
      EXPECT_EQ(e.detail("op"), "lowering_test::mistake") << n << ": " << e.what();
    }
  }
  expect_close(op(x, int64_t{5}), torch::ones({2}));
  EXPECT_THROW(op(x), ArgumentError);
  EXPECT_THROW(op(x, std::string("five")), ArgumentError);
}

TEST(Lowering, ThreadsCallItAtOnce) {
  (void)swish();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 20; ++i) {
        const auto x = torch::full({t + 1, 3}, 0.1f * static_cast<float>(i));
        expect_close(swish()(x.to(tpu()), 1.0 + t), swish_cpu(x, 1.0 + t));
      }
    });
  for (auto& t : threads) t.join();
}

}  // namespace
}  // namespace tpubridge
