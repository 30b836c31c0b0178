// Element types and shapes: names, sizes, MLIR text both ways, sizes that overflow.
#include "tpubridge/base/shape.h"

#include <gtest/gtest.h>

#include <set>

#include "tpubridge/base/errors.h"

namespace tpubridge {
namespace {

struct Fact {
  DType dtype;
  const char *name, *mlir;
  int bytes;
};
// By hand from XLA's type names and MLIR's language reference.
const std::vector<Fact> kFacts = {
    {DType::pred, "pred", "i1", 1},
    {DType::s2, "s2", "i2", 1},
    {DType::s4, "s4", "i4", 1},
    {DType::s8, "s8", "i8", 1},
    {DType::s16, "s16", "i16", 2},
    {DType::s32, "s32", "i32", 4},
    {DType::s64, "s64", "i64", 8},
    {DType::u2, "u2", "ui2", 1},
    {DType::u4, "u4", "ui4", 1},
    {DType::u8, "u8", "ui8", 1},
    {DType::u16, "u16", "ui16", 2},
    {DType::u32, "u32", "ui32", 4},
    {DType::u64, "u64", "ui64", 8},
    {DType::f4e2m1fn, "f4e2m1fn", "f4E2M1FN", 1},
    {DType::f8e3m4, "f8e3m4", "f8E3M4", 1},
    {DType::f8e4m3, "f8e4m3", "f8E4M3", 1},
    {DType::f8e4m3fn, "f8e4m3fn", "f8E4M3FN", 1},
    {DType::f8e4m3b11fnuz, "f8e4m3b11fnuz", "f8E4M3B11FNUZ", 1},
    {DType::f8e4m3fnuz, "f8e4m3fnuz", "f8E4M3FNUZ", 1},
    {DType::f8e5m2, "f8e5m2", "f8E5M2", 1},
    {DType::f8e5m2fnuz, "f8e5m2fnuz", "f8E5M2FNUZ", 1},
    {DType::f8e8m0fnu, "f8e8m0fnu", "f8E8M0FNU", 1},
    {DType::bf16, "bf16", "bf16", 2},
    {DType::f16, "f16", "f16", 2},
    {DType::f32, "f32", "f32", 4},
    {DType::f64, "f64", "f64", 8},
    {DType::c64, "c64", "complex<f32>", 8},
    {DType::c128, "c128", "complex<f64>", 16},
    {DType::token, "token", "!stablehlo.token", 0},
};

TEST(DType, NamesSizesAndBack) {
  ASSERT_EQ(kFacts.size(), static_cast<size_t>(kDTypeCount));
  std::set<DType> seen;
  for (const Fact& f : kFacts) {
    SCOPED_TRACE(f.name);
    seen.insert(f.dtype);
    EXPECT_EQ(name(f.dtype), f.name);
    EXPECT_EQ(mlir(f.dtype), f.mlir);
    EXPECT_EQ(bits(f.dtype), f.bytes * 8);
    EXPECT_EQ(dtype_from_name(f.name), f.dtype);
    EXPECT_EQ(dtype_from_mlir(f.mlir), f.dtype);
  }
  EXPECT_EQ(seen.size(), kFacts.size());
  EXPECT_EQ(dtype_from_name("i32"), std::nullopt);
  EXPECT_EQ(dtype_from_mlir("s32"), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
}

TEST(DType, Kinds) {
  for (const Fact& f : kFacts) {
    SCOPED_TRACE(f.name);
    const char c = f.name[0];
    EXPECT_EQ(is_float(f.dtype), c == 'f' || c == 'b');
    EXPECT_EQ(is_signed_int(f.dtype), c == 's');
    EXPECT_EQ(is_unsigned_int(f.dtype), c == 'u');
    EXPECT_EQ(is_int(f.dtype), c == 's' || c == 'u');
    EXPECT_EQ(is_complex(f.dtype), c == 'c');
  }
}

TEST(Shape, MlirRoundTripOfEveryType) {
  for (const Fact& f : kFacts) {
    if (f.dtype == DType::token) continue;
    for (const auto& dims : {std::vector<int64_t>{}, {0}, {7}, {2, 3}, {1, 0, 1099511627776}}) {
      const Shape shape{f.dtype, dims};
      EXPECT_EQ(shape_from_mlir(shape.mlir()), shape) << shape.mlir();
    }
  }
  EXPECT_EQ((Shape{DType::f32, {2, 3}}.mlir()), "tensor<2x3xf32>");
  EXPECT_EQ((Shape{DType::c64, {}}.mlir()), "tensor<complex<f32>>");
  EXPECT_EQ((Shape{DType::token, {}}.mlir()), "!stablehlo.token");
  EXPECT_EQ((Shape{DType::bf16, {4}}.str()), "bf16[4]");
  EXPECT_EQ((Shape{DType::pred, {}}.str()), "pred[]");
}

TEST(Shape, MlirThatIsNoStaticTensor) {
  for (const auto* bad :
       {"", "f32", "tensor<>", "tensor<2x3>", "tensor<?x3xf32>", "tensor<*xf32>", "tensor<2xs32>",
        "tensor<-2xf32>", "tensor<2 x f32>", "tensor<2xf32", "tensor<99999999999999999999xf32>",
        "tensor<2xx3xf32>", "tensor<2xf32>>", "memref<2xf32>", "tensor<2"})
    EXPECT_EQ(shape_from_mlir(bad), std::nullopt) << bad;
  EXPECT_EQ(shape_from_mlir("tensor<2xf32, #enc>"), (Shape{DType::f32, {2}}))
      << "an encoding says nothing of the shape";
}

TEST(Shape, Sizes) {
  EXPECT_EQ((Shape{DType::f32, {2, 3}}.elements()), 6);
  EXPECT_EQ((Shape{DType::f32, {2, 3}}.bytes()), 24);
  EXPECT_EQ((Shape{DType::c128, {}}.bytes()), 16);
  EXPECT_EQ((Shape{DType::s4, {5}}.bytes()), 5);
  EXPECT_EQ((Shape{DType::f32, {5, 0}}.bytes()), 0);
  EXPECT_EQ((Shape{DType::f32, {2, 3}}.rank()), 2);
}

TEST(Shape, SizesThatOverflow) {
  const int64_t half = int64_t{1} << 62;
  EXPECT_EQ((Shape{DType::u8, {half}}.bytes()), half);
  EXPECT_THROW((void)(Shape{DType::u8, {half, 2}}.elements()), ArgumentError);
  EXPECT_THROW((void)(Shape{DType::f32, {half}}.bytes()), ArgumentError);
  EXPECT_EQ((Shape{DType::f32, {half}}.elements()), half);
  EXPECT_THROW((void)(Shape{DType::f32, {-1}}.elements()), ArgumentError);
  try {
    (void)Shape{DType::f32, {half, half}}.bytes();
    FAIL();
  } catch (const ArgumentError& e) {
    EXPECT_NE(std::string(e.what()).find("f32[4611686018427387904,4611686018427387904]"), std::string::npos);
  }
}

TEST(Shape, Equality) {
  EXPECT_EQ((Shape{DType::f32, {2}}), (Shape{DType::f32, {2}}));
  EXPECT_NE((Shape{DType::f32, {2}}), (Shape{DType::s32, {2}}));
  EXPECT_NE((Shape{DType::f32, {2}}), (Shape{DType::f32, {2, 1}}));
  EXPECT_EQ(dims_str(std::vector<int64_t>{}), "[]");
}

}  // namespace
}  // namespace tpubridge
