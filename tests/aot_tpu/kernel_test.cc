// A Pallas kernel from JAX inside a program of ours, through Google's TPU compiler.
#include <gtest/gtest.h>

#include "tpubridge/aot/aot.h"
#include "tpubridge/base/files.h"
#include "tpubridge/hlo/hlo.h"
#include "tpubridge/hlo/module_text.h"

namespace tpubridge::aot {
namespace {

// Two calls of the kernel, other ops around them.
std::string program() {
  const auto kernel = hlo::ModuleText::parse(read_file(Path(TEST_DATA) / "kernels" / "pallas_tpu.mlir"));
  hlo::Builder b;
  const hlo::Value x = b.parameter({DType::f32, {256, 128}}), y = b.parameter({DType::f32, {256, 128}});
  const hlo::Value once = hlo::call(b, kernel.add_to(b, "pallas"), {x, hlo::multiply(x, y)})[0];
  return b.finish({hlo::add(hlo::call(b, kernel.add_to(b, "pallas"), {once, y})[0], x)});
}

TEST(Kernels, APallasKernelCompilesInAProgramOfOurs) {
  for (const char* tpu : {"v5e", "v6e"}) {
    const FitResult r = fit({.program = program(), .tpu = tpu});
    ASSERT_EQ(r.verdict, Verdict::fits) << r.tpu << ": " << r.message;
    EXPECT_EQ(r.arguments, 2 * 256 * 128 * 4);
    EXPECT_EQ(r.outputs, 256 * 128 * 4);
  }
}

TEST(Kernels, FunctionsOfAProcessAreNotForATpu) {
  const std::string text = R"(func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.custom_call @tpubridge_ffi(%a) {api_version = 4 : i32, backend_config = {tpubridge_op = "my::op"}} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32> })";
  EXPECT_THROW((void)fit({.program = text, .tpu = "v5e"}), UnsupportedError);
}

}  // namespace
}  // namespace tpubridge::aot
