// C++ functions as ops, on the CPU plugin.
#include <gtest/gtest.h>
#include <torch/library.h>

#include <atomic>
#include <thread>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

std::vector<Shape> like_x(const OpCall& c) { return {c.shape("x")}; }

// y = a·x + b, rows of x one after the other.
void scaled(const ffi::Call& c) {
  const auto x = c.input("x").as<const float>();
  const auto y = c.output().as<float>();
  const auto a = static_cast<float>(c.number("a"));
  const float b = c.has_input("b") ? c.input("b").as<const float>()[0] : 0;
  for (size_t i = 0; i < x.size(); ++i) y[i] = a * x[i] + b;
}
const UserOp& scaled_op() {
  static const UserOp op =
      register_ffi("ffi_test::scaled(Tensor x, float a, Tensor? b=None) -> Tensor", scaled, like_x,
                   {.gradient = [](const GradientCall& c) -> std::vector<at::Tensor> {
                     std::vector<at::Tensor> out = {c.gradients[0] * c.arguments[1].toDouble()};
                     if (c.inputs.size() > 1) out.push_back(c.gradients[0].sum());
                     return out;
                   }});
  return op;
}

TEST(FfiOp, ValuesAndGradients) {
  const auto x = torch::arange(12.0).view({3, 4}), b = torch::tensor(2.0f);
  expect_close(scaled_op()(x.to(tpu()), 3.0), x * 3);
  expect_close(scaled_op()(x.to(tpu()), 3.0, b.to(tpu())), x * 3 + 2);
  expect_close(scaled_op()(x.t().to(tpu()), -1.0), -x.t());  // not contiguous
  expect_close(scaled_op()(x.to(tpu()).t().slice(0, 1, 3), 2.0), x.t().slice(0, 1, 3) * 2);
  auto in = x.to(tpu()).requires_grad_();
  scaled_op()((in * in), 3.0).sum().backward();
  expect_close(in.grad(), 6 * x);
}

TEST(FfiOp, AfterTheDeviceWasOpenedAgain) {
  const auto x = torch::arange(6.0);
  for (int i = 0; i < 3; ++i) {
    expect_close(scaled_op()(x.to(tpu()), 3.0), x * 3);
    reopen_device();
  }
  expect_close(scaled_op()(x.to(tpu()), 2.0), x * 2);
}

TEST(FfiOp, BetweenOtherOpsOfOneProgram) {
  const auto x = torch::randn({8, 8});
  const auto there = x.to(tpu());
  const auto before = metrics().executions;
  const auto got = torch::relu(scaled_op()(there.matmul(there), 0.5) + 1).sum(1).cpu();
  EXPECT_LE(metrics().executions, before + 1);
  expect_close(got, torch::relu(x.matmul(x) * 0.5 + 1).sum(1), 10);
}

TEST(FfiOp, ConstantsOfEveryKindAndSeveralResults) {
  const auto op = register_ffi(
      "ffi_test::kinds(Tensor[] xs, int n, bool up, str word, int[] list, ScalarType t) -> (Tensor, Tensor)",
      [](const ffi::Call& c) -> std::string {
        if (c.integer("n") != 7 || !c.flag("up") || c.text("word") != "a \"b\", c" || c.text("t") != "f32" ||
            c.integers("list") != std::vector<int64_t>{4, -5})
          return "wrong constants";
        if (c.inputs().size() != 2 || c.input("xs.1").dim(0) != 3 || c.input("xs.0").dtype != DType::s64 ||
            c.stream())
          return "wrong inputs";
        c.output(0).as<int64_t>()[0] = c.input("xs.0").as<int64_t>()[1];
        c.output(1).as<float>()[2] = c.input("xs.1").as<float>()[2];
        c.output(1).as<float>()[0] = c.output(1).as<float>()[1] = 1;
        return "";
      },
      [](const OpCall& c) {
        return std::vector<Shape>{{DType::s64, {}}, c.shapes("xs")[1]};
      });
  const auto r =
      op.call({c10::List<at::Tensor>({torch::tensor({5, 6}).to(tpu()), torch::arange(3.0).to(tpu())}),
               int64_t{7}, true, "a \"b\", c", std::vector<int64_t>{4, -5}, at::kFloat});
  EXPECT_EQ(r[0].item<int64_t>(), 6);
  expect_close(r[1], torch::tensor({1.0f, 1.0f, 2.0f}));
}

std::atomic<int> mood{0};
const UserOp& moody() {
  static const UserOp op = register_ffi(
      "ffi_test::moody(Tensor x) -> Tensor",
      [](const ffi::Call& c) -> std::string {
        if (mood == 1) throw std::runtime_error("a bad day");
        if (mood == 2) return "no thanks";
        if (mood == 3) throw 42;
        if (mood == 4) (void)c.input("nobody");
        scaled(ffi::Call({c.inputs().begin(), c.inputs().end()}, {c.outputs().begin(), c.outputs().end()},
                         nullptr, {{"a", 2.0}, {"tpubridge_inputs", std::string("x")}}));
        return "";
      },
      like_x);
  return op;
}

TEST(FfiOp, AnErrorNamesTheOpAndNothingElseIsLost) {
  const auto x = torch::arange(4.0).to(tpu());
  for (const auto& [kind, words] : std::vector<std::pair<int, std::string>>{
           {1, "a bad day"}, {2, "no thanks"}, {3, "no std::exception"}, {4, "no input 'nobody'"}}) {
    mood = kind;
    const auto bystander = x * 3;
    const auto y = moody()(x + 1);
    try {
      (void)y.cpu();
      ADD_FAILURE() << kind;
    } catch (const KernelError& e) {
      EXPECT_EQ(e.detail("op"), "ffi_test::moody");
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
    expect_close(bystander, torch::arange(4.0) * 3);
    expect_close(x, torch::arange(4.0));
    mood = 0;
    expect_close(moody()(x + 1), (torch::arange(4.0) + 1) * 2);
  }
}

TEST(FfiOp, AFailedStepLeavesItsStateAsItWas) {
  mood = 0;
  auto state = torch::ones({64, 64}, tpu());
  auto step = compile([&](const torch::Tensor& x) {
    state.add_(moody()(x));
    return state.sum();
  });
  const auto x = torch::ones({64, 64}, tpu());
  float want = 64 * 64;
  for (int i = 0; i < 9; ++i) {
    mood = i % 3 == 1 ? 1 : 0;
    if (mood == 1) {
      EXPECT_THROW((void)step(x).item<float>(), KernelError) << i;
    } else {
      want += 2 * 64 * 64;
      EXPECT_EQ(step(x).item<float>(), want) << i;
    }
    EXPECT_EQ(state.sum().item<float>(), want) << i;
  }
  mood = 0;
}

TEST(FfiOp, ThreadsAndDevicesCallItAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([t] {
      const torch::Device device("tpu:" + std::to_string(t % device_count()));
      for (int i = 0; i < 25; ++i) {
        const auto x = torch::full({t + 1, 7}, static_cast<float>(i));
        expect_close(scaled_op()(x.to(device), 1.0 + t), x * (1.0 + t));
      }
    });
  for (auto& t : threads) t.join();
}

TEST(FfiOp, WrongRegistrationsAndCallsAreRefused) {
  (void)scaled_op();
  EXPECT_THROW(register_ffi("ffi_test::scaled", scaled, like_x), ArgumentError);
  EXPECT_THROW(register_ffi("ffi_test::floats(Tensor x, float[] v) -> Tensor", scaled, like_x),
               UnsupportedError);
  const auto no_shapes = register_ffi("ffi_test::no_shapes(Tensor x) -> Tensor", scaled);
  EXPECT_THROW(no_shapes(torch::ones({2}, tpu())), ArgumentError);
  const auto two = register_ffi("ffi_test::two(Tensor x) -> Tensor", scaled,
                                [](const OpCall& c) { return std::vector<Shape>(2, c.shape("x")); });
  EXPECT_THROW(two(torch::ones({2}, tpu())), ProgramError);
  const auto narrow = register_ffi(
      "ffi_test::narrow(Tensor x) -> Tensor", [](const ffi::Call& c) { (void)c.input(0).as<double>(); },
      like_x);
  EXPECT_THROW(narrow(torch::ones({2}, tpu())).cpu(), KernelError);
}

}  // namespace
}  // namespace tpubridge
