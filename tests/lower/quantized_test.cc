// The program of a product with a weight of few bits, as a TPU's compiler wants it: both dimensions of the
// groups contracted, so that nothing of the weight's size is written out.
#include "tpubridge/lower/quantized.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tpubridge/base/files.h"
#include "tpubridge/lower/program.h"

namespace tpubridge::lower {
namespace {

using testing::HasSubstr;
using testing::Not;
using trace::Node;
using trace::Ref;

trace::Value data(Shape shape) {
  return Node::leaf(std::make_shared<trace::DeviceData>(), std::move(shape), 0);
}

// x [rows, in] times the transposition of a weight [out, in]. Nobody else holds a node on the way to it.
trace::Value traced_product(DType numbers, bool apart, int64_t rows, int64_t in, int64_t out, int64_t group) {
  const int64_t groups = in / group, width = numbers == DType::u8 ? group / 2 : group;
  const auto x = data({DType::bf16, {rows, in}});
  const auto packed = data({numbers, apart ? Dims{groups, out, width} : Dims{out, groups, width}});
  const auto scales = data({DType::bf16, apart ? Dims{groups, out} : Dims{out, groups}});
  const auto weight = Node::make(find("tpubridge::dequantize"), {packed, scales}, {Ref{0}, Ref{1}, apart},
                                 {{DType::bf16, {out, in}}}, 0, DType::bf16);
  const auto turned = Node::make(find("tpubridge::view"), {weight},
                                 {Ref{0}, Dims{out, in}, Dims{in, 1}, Dims{in, out}, Dims{1, in}, int64_t{0}},
                                 {{DType::bf16, {in, out}}}, 0, DType::bf16);
  return Node::make(find("mm"), {x, turned}, {Ref{0}, Ref{1}, int64_t{0}}, {{DType::bf16, {rows, out}}}, 0,
                    DType::bf16);
}
std::string product(DType numbers, bool apart, int64_t rows, int64_t in, int64_t out, int64_t group) {
  return lower::program(trace::collect({traced_product(numbers, apart, rows, in, out, group)}), {},
                        Platform::tpu);
}

TEST(QuantizedProduct, ContractsTheGroupsThatLieApart) {
  const std::string text = product(DType::s4, true, 4, 64, 24, 16);
  EXPECT_THAT(text, HasSubstr("(tensor<4x4x16xbf16>, tensor<4x24x16xbf16>) -> tensor<4x24xf32>"));
  EXPECT_THAT(text, HasSubstr("tensor<4x24x16xi4>"));
  EXPECT_THAT(text, HasSubstr(") -> (tensor<4x24xbf16>) {"));  // and nothing else
  EXPECT_THAT(text, Not(HasSubstr("(tensor<4x64xbf16>, tensor<24x64xbf16>)")));
}

TEST(QuantizedProduct, SideBySideItIsAProductOfMatrices) {
  const std::string text = product(DType::u8, false, 4, 64, 24, 16);
  EXPECT_THAT(text, HasSubstr("(tensor<4x64xbf16>, tensor<24x64xbf16>) -> tensor<4x24xf32>"));
}

// What docs/quantize.md has times of; WRITE_PROGRAMS=FOLDER writes them there for `tpubridge fit`.
TEST(QuantizedProduct, OfTheDocs) {
  const char* folder = std::getenv("WRITE_PROGRAMS");
  for (const auto& [name, type] : {std::pair("int8", DType::s8), std::pair("int4", DType::s4)}) {
    const std::string text = product(type, true, 64, 8192, 8192, 128);
    EXPECT_THAT(text, HasSubstr("%0: tensor<64x8192x128x" + std::string(mlir(type)) + ">"));
    if (folder) write_file(Path(folder) / (std::string(name) + ".mlir"), text);
  }
}

}  // namespace
}  // namespace tpubridge::lower
