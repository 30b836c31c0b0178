// Kernels from JAX as ops.
#include <gtest/gtest.h>

#include "tests/device/check.h"
#include "tpubridge/base/files.h"

namespace tpubridge {
namespace {

Path file(const std::string& name) { return Path(TEST_DATA) / "kernels" / name; }

at::Tensor attention_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const auto mask = torch::ones({q.size(0), q.size(0)}, torch::kBool).tril();
  const auto scores = q.matmul(k.t()) / std::sqrt(static_cast<double>(q.size(1)));
  return torch::softmax(scores.masked_fill(mask.logical_not(), -INFINITY), -1).matmul(v);
}

const UserOp& attention() {
  static const UserOp op =
      register_kernel("kernel_test::attention", {file("attention_8.mlir"), file("attention_12.mlir")},
                      {.gradient_files = {file("attention_8_grad.mlir"), file("attention_12_grad.mlir")}});
  return op;
}

TEST(KernelOp, ValuesAndGradientsOfTheCpu) {
  torch::manual_seed(2);
  for (const int64_t rows : {8, 12, 8}) {
    std::vector<at::Tensor> host, there;
    for (const int64_t width : {16, 16, 4}) {
      host.push_back(torch::randn({rows, width}).requires_grad_());
      there.push_back(host.back().detach().to(tpu()).requires_grad_());
    }
    const auto want = attention_cpu(host[0], host[1], host[2]),
               got = attention()(there[0], there[1], there[2]);
    expect_close(got, want, 5);
    // Twice in one program: the function is there once.
    expect_close(attention()(there[0] + 1, there[1], got * 2), attention_cpu(host[0] + 1, host[1], want * 2),
                 10);
    want.square().sum().backward();
    got.square().sum().backward();
    for (size_t i = 0; i < 3; ++i) expect_close(there[i].grad(), host[i].grad(), 20);
  }
}

TEST(KernelOp, IntegersAndSeveralResults) {
  const auto op = register_kernel("kernel_test::top", file("top.mlir"));
  torch::manual_seed(3);
  const auto x = torch::randn({6, 5});
  const auto ids = torch::tensor({5, 0, 3, 3}, torch::kInt);
  const auto r = op.call({x.to(tpu()), ids.to(tpu())});
  const auto rows = x.index_select(0, ids.to(torch::kLong));
  expect_close(r[0], rows.square().sum(1));
  expect_close(r[1], rows.argmax(1).to(torch::kInt));
}

TEST(KernelOp, ReplaysInACompiledStep) {
  auto step = compile([&](const torch::Tensor& q) { return attention()(q, q * 2, q.slice(1, 0, 4)).sum(); });
  for (int i = 0; i < 4; ++i) {
    const auto q = torch::randn({8, 16});
    expect_close(step(q.to(tpu())), attention_cpu(q, q * 2, q.slice(1, 0, 4)).sum(), 20);
  }
}

template <class E, class F>
std::string words_of(F f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "no such error";
}
bool holds(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

TEST(KernelOp, OtherShapesAndTypesAreRefusedWithThoseOfTheFiles) {
  const auto x = torch::ones({9, 16}, tpu());
  const auto words = words_of<ArgumentError>([&] { (void)attention()(x, x, x); });
  EXPECT_TRUE(holds(words, "f32[9,16]") && holds(words, "f32[12,4]") && holds(words, "attention_8.mlir"))
      << words;
  const auto y = torch::ones({8, 16}, at::device(tpu()).dtype(torch::kDouble));
  EXPECT_THROW((void)attention()(y, y, y.slice(1, 0, 4)), ArgumentError);
  const auto z = torch::ones({8, 16}, tpu());
  expect_close(attention()(z, z, z.slice(1, 0, 4)), torch::ones({8, 4}));
}

TEST(KernelOp, AKernelOfAnotherPlatformNamesIt) {
  const auto op = register_kernel("kernel_test::pallas", file("pallas_tpu.mlir"));
  const auto x = torch::ones({256, 128}, tpu());
  const auto words = words_of<UnsupportedError>([&] { (void)op(x, x); });
  EXPECT_TRUE(holds(words, "kernel_test::pallas") && holds(words, "pallas_tpu.mlir") &&
              holds(words, "for tpu") && holds(words, "cpu"))
      << words;
}

TEST(KernelOp, FilesThatCannotBeTakenInSayWhy) {
  const auto refused = [](const std::string& name) {
    return words_of<ProgramError>([&] { (void)register_kernel("kernel_test::refused", file(name)); });
  };
  EXPECT_TRUE(holds(refused("attention_8.mlirbc"), "bytecode"));
  EXPECT_TRUE(holds(refused("several_platforms.mlir"), "several platforms"));
  EXPECT_TRUE(holds(refused("dynamic.mlir"), "fixed shape")) << refused("dynamic.mlir");
  EXPECT_TRUE(holds(refused("dynamic.mlir"), "dynamic.mlir"));
  EXPECT_THROW(register_kernel("kernel_test::refused", file("nobody.mlir")), FileError);
  EXPECT_THROW(register_kernel("kernel_test::refused", std::vector<Path>{}), ArgumentError);
  EXPECT_THROW(register_kernel("kernel_test::refused(Tensor x) -> Tensor", file("attention_8.mlir")),
               ArgumentError);
  EXPECT_THROW(register_kernel("kernel_test::refused2", file("attention_8.mlir"),
                               {.gradient_files = {file("top.mlir")}}),
               ArgumentError);
  (void)attention();
  EXPECT_THROW(register_kernel("kernel_test::attention", file("attention_8.mlir")), ArgumentError);
}

}  // namespace
}  // namespace tpubridge
