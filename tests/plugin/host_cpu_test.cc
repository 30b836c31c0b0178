// Programs large enough to be vectorised. On a machine that hides SVE of a CPU that has it, these killed the
// process.
#include <gtest/gtest.h>

#include "tests/pjrt/cpu.h"

namespace tpubridge::pjrt {
namespace {

template <class T>
std::vector<T> run(const std::string& op, const std::vector<T>& x, DType type) {
  const Shape shape{type, {static_cast<int64_t>(x.size())}};
  const std::string t = shape.mlir();
  const auto program = cpu()->compile({"func.func @main(%x: " + t + ") -> " + t + " { %y = stablehlo." + op +
                                       " %x, %x : " + t + " return %y : " + t + " }"});
  const Buffer in = cpu()->to_device(x, shape, *cpu()->addressable_devices()[0]);
  const Buffer* const arguments[] = {&in};
  return program.execute(arguments)[0].template to_vector<T>();
}

TEST(HostCpu, VectorisedProgramsRun) {
  constexpr size_t kSize = 100'003;  // no multiple of any vector
  std::vector<float> floats(kSize), sums(kSize);
  std::vector<int64_t> longs(kSize), squares(kSize);
  std::vector<int32_t> ints(kSize), ones(kSize, 1);
  for (size_t i = 0; i < kSize; ++i) {
    floats[i] = static_cast<float>(i);
    sums[i] = static_cast<float>(2 * i);
    longs[i] = static_cast<int64_t>(i) - 7;
    squares[i] = longs[i] * longs[i];
    ints[i] = static_cast<int32_t>(i) + 1;
  }
  EXPECT_EQ(run("add", floats, DType::f32), sums);
  EXPECT_EQ(run("multiply", longs, DType::s64), squares);
  EXPECT_EQ(run("divide", ints, DType::s32), ones);
}

}  // namespace
}  // namespace tpubridge::pjrt
