// Ops of compiled programs, as the CPU plugin tells them, and of protobufs that nobody wrote.
#include "tpubridge/capi/opcodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/pjrt/cpu.h"

namespace tpubridge::pjrt {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Not;

TEST(HloOpcodes, OfACompiledProgram) {
  const Program program = cpu()
                              ->compile({R"(module {
    func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.sine %a : tensor<2xf32>
      return %0 : tensor<2xf32>
    }
  })"})
                              .info()
                              .optimized_program();
  const auto ops = hlo_opcodes(program.code, program.format);
  EXPECT_THAT(ops, Contains("sine"));
  EXPECT_THAT(ops, Contains("parameter"));
  EXPECT_THAT(ops, Not(Contains("cosine")));
}

TEST(HloOpcodes, OfWhatIsNone) {
  EXPECT_THAT(hlo_opcodes("", "hlo"), IsEmpty());
  EXPECT_THAT(hlo_opcodes("\x1a\x7f", "hlo"), IsEmpty()) << "longer than the text";
  EXPECT_THAT(hlo_opcodes({"\x18\x01\x1a\x02\x10\x05", 6}, "hlo"), IsEmpty()) << "numbers where texts stand";
  EXPECT_THAT(hlo_opcodes({"\x1a\x06\x12\x04\x12\x02if", 8}, "hlo"), testing::ElementsAre("if"));
  EXPECT_THAT(hlo_opcodes({"\x1a\x06\x12\x04\x12\x02if", 8}, "mlir"), IsEmpty());
}

}  // namespace
}  // namespace tpubridge::pjrt
