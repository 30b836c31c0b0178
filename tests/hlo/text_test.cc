// The text of representative ops, and what surrounds them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hlo/run.h"
#include "tpubridge/hlo/hlo.h"

namespace tpubridge::hlo {
namespace {

using In = std::span<const Value>;
using testing::HasSubstr;
using testing::Not;

const Shape kMatrix{DType::f32, {2, 3}};

TEST(Text, WholeModule) {
  Builder b({.name = "step"});
  const Value x = b.parameter(kMatrix);
  EXPECT_EQ(b.finish({add(x, tanh(x))}),
            R"(module @step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%0: tensor<2x3xf32>) -> (tensor<2x3xf32>) {
    %1 = "stablehlo.tanh"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %2 = "stablehlo.add"(%0, %1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    "func.return"(%2) : (tensor<2x3xf32>) -> ()
  }
}
)");
  EXPECT_EQ(b.op_count(), 3u);
}

TEST(Text, AttributesStandInAngleBraces) {
  Builder b;
  const Value x = b.parameter(kMatrix);
  const Value t = transpose(x, {1, 0});
  const Value d = dot_general(x, t, {{1}, {0}}, {.lhs_precision = Precision::highest});
  const Value c = compare(x, x, Direction::le);
  const std::string text = b.finish({d, c});
  EXPECT_THAT(text, HasSubstr(R"("stablehlo.transpose"(%0) <{permutation = array<i64: 1, 0>}> : )"));
  EXPECT_THAT(
      text,
      HasSubstr("<{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], "
                "rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, "
                "#stablehlo<precision DEFAULT>]}> : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>"));
  EXPECT_THAT(text, HasSubstr("<{compare_type = #stablehlo<comparison_type FLOAT>, "
                              "comparison_direction = #stablehlo<comparison_direction LE>}> : "));
}

TEST(Text, RegionsNestAndNumbersStayUnique) {
  Builder b;
  const Value x = b.parameter({DType::s32, {}});
  const Values out = while_(
      {x}, [&](In c) -> Values { return {compare(c[0], x, Direction::lt)}; },
      [&](In c) -> Values { return {add(c[0], x)}; });
  EXPECT_THAT(b.finish(out), HasSubstr(R"(    %1 = "stablehlo.while"(%0) ({
^bb0(%2: tensor<i32>):
      %3 = "stablehlo.compare"(%2, %0) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%3) : (tensor<i1>) -> ()
}, {
^bb0(%5: tensor<i32>):
      %6 = "stablehlo.add"(%5, %0) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%6) : (tensor<i32>) -> ()
}) : (tensor<i32>) -> tensor<i32>
)"));
}

TEST(Text, Constants) {
  Builder b;
  const std::vector<float> two = {1, 2};
  const Values all = {constant(b, kMatrix, 1.5),
                      constant(b, DType::f32, 1e-5),
                      constant(b, DType::f64, -INFINITY),
                      constant(b, DType::bf16, NAN),
                      constant(b, DType::pred, true),
                      constant(b, DType::u64, UINT64_MAX),
                      constant(b, DType::c64, std::complex<double>(1, -2)),
                      dense<float>(b, {DType::f32, {2}}, two),
                      dense(b, DType::s32, {4, -5})};
  const std::string text = b.finish(all);
  for (const char* part :
       {"dense<1.5> : tensor<2x3xf32>", "dense<1.0e-05> : tensor<f32>",
        "dense<0xFFF0000000000000> : tensor<f64>", "dense<0x7FC0> : tensor<bf16>", "dense<true> : tensor<i1>",
        "dense<18446744073709551615> : tensor<ui64>", "dense<(1.0, -2.0)> : tensor<complex<f32>>",
        R"(dense<"0x0000803F00000040"> : tensor<2xf32>)", "dense<[4, -5]> : tensor<2xi32>"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(Text, ParameterAndResultAttributes) {
  Builder b({.name = "m",
             .replicas = 2,
             .partitions = 4,
             .meshes = {{"mesh", {{"x", 2}, {"y", 2}}, {0, 2, 1, 3}}}});
  const Sharding split{"mesh", {{"x"}, {"y"}}}, open{"mesh", {{"x"}, {}}, true, {"y"}};
  const Value a = b.parameter(kMatrix, {.alias_result = 0, .sharding = split, .name = "weight \"w\""});
  const Value c =
      b.parameter(kMatrix, {.donate = true, .mhlo_sharding = "{replicated}", .memory_kind = "pinned_host"});
  const Value d = b.parameter(kMatrix, {.sharding = open});
  const std::string text = b.finish({add(a, c), d}, {{.mhlo_sharding = "{replicated}", .name = "loss"},
                                                     {.sharding = split, .memory_kind = "device"}});
  for (
      const char* part :
      {"module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 2 : i32}",
       R"(sdy.mesh @mesh = <["x"=2, "y"=2], device_ids=[0, 2, 1, 3]>)",
       R"(%0: tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>, tf.aliasing_output = 0 : i32} loc("weight \"w\""))",
       R"(%1: tensor<2x3xf32> {mhlo.sharding = "{replicated}", mhlo.memory_kind = "pinned_host", jax.buffer_donor = true})",
       R"(%2: tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {?}], replicated={"y"}>})",
       R"(-> (tensor<2x3xf32> {mhlo.sharding = "{replicated}", jax.result_info = "loss"}, tensor<2x3xf32> {sdy.sharding = )"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(Text, LocationsAreWrittenOnceAndEndWithTheirScope) {
  Builder b;
  Value x = b.parameter(kMatrix);
  {
    const LocationScope outer(b, {.name = "aten::mm", .file = "train.cc", .line = 3, .column = 7});
    x = add(x, x);
    {
      const LocationScope inner(b, {.name = "inner"});
      x = tanh(x);
    }
    x = negate(x);
  }
  x = abs(x);
  const std::string text = b.finish({x});
  EXPECT_THAT(
      text,
      HasSubstr(
          "\"stablehlo.add\"(%0, %0) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc(#loc1)\n"));
  EXPECT_THAT(text, HasSubstr("\"stablehlo.tanh\"(%1) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc(#loc2)\n"));
  EXPECT_THAT(text,
              HasSubstr("\"stablehlo.negate\"(%2) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc(#loc1)\n"));
  EXPECT_THAT(text, HasSubstr("\"stablehlo.abs\"(%3) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n"));
  EXPECT_THAT(text, HasSubstr("#loc1 = loc(\"aten::mm\"(\"train.cc\":3:7))\n#loc2 = loc(\"inner\")\n"));
}

TEST(Text, PrivateFunctionsStandBesideMain) {
  Builder b;
  const Value x = b.parameter({DType::f32, {}});
  const Function& f =
      b.function("square", {{DType::f32, {}}}, [](In a) -> Values { return {multiply(a[0], a[0])}; });
  EXPECT_EQ(b.find_function("square"), &f);
  EXPECT_EQ(b.find_function("cube"), nullptr);
  EXPECT_THAT(b.finish(call(b, f, {x})),
              HasSubstr(R"(  func.func private @square(%1: tensor<f32>) -> (tensor<f32>) {
    %2 = "stablehlo.multiply"(%1, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "func.return"(%2) : (tensor<f32>) -> ()
  }
)"));
}

// Strings with quotes, backslashes, newlines and bytes beyond ASCII come back as they were.
TEST(Text, StringsAreEscapedForTheParser) {
  Builder b;
  const Value x = b.parameter({DType::f32, {}}, {.name = "a\"b\\c\nd é"});
  const LocationScope here(
      b, {.name = "lambda()::operator()<\"x\">\t", .file = "C:\\a b.cc", .line = 1, .column = 1});
  const std::string text = b.finish({add(x, x)});
  EXPECT_THAT(text, HasSubstr(R"(loc("a\"b\\c\0Ad \C3\A9"))"));
  const auto got = run_on_cpu(text, {{{DType::f32, {}}, {21}}});
  EXPECT_EQ(got[0].data[0], 42);
}

// A step that does nothing leaves no op behind.
TEST(Text, SugarLeavesOutWhatDoesNothing) {
  Builder b;
  const Value x = b.parameter(kMatrix);
  EXPECT_EQ(to_dtype(x, DType::f32), x);
  EXPECT_EQ(to_dims(x, {2, 3}), x);
  EXPECT_EQ(permute(x, {0, 1}), x);
  EXPECT_EQ(broadcast_to(x, {2, 3}), x);
  EXPECT_EQ(slice_dim(x, 1, 0, 3), x);
  EXPECT_EQ(broadcast(x, x), std::make_pair(x, x));
  EXPECT_EQ(reduce(x, {}, Reducer::add), x);
  EXPECT_EQ(b.op_count(), 0u);
}

// An exception thrown inside a region takes back the whole op; the program goes on.
TEST(Text, AFailedRegionLeavesNoTrace) {
  Builder b;
  const Value x = b.parameter({DType::s32, {}});
  const size_t before = b.text_size();
  EXPECT_THROW((void)while_(
                   {x}, [&](In c) -> Values { return {compare(c[0], x, Direction::lt)}; },
                   [&](In c) -> Values {
                     (void)add(c[0], c[0]);
                     throw std::runtime_error("stop");
                   }),
               std::runtime_error);
  EXPECT_EQ(b.text_size(), before);
  EXPECT_THROW((void)b.function("f", {}, [&](In) -> Values { throw std::runtime_error("stop"); }),
               std::runtime_error);
  const auto got = run_on_cpu(b.finish({add(x, x)}), {{{DType::s32, {}}, {4}}});
  EXPECT_EQ(got[0].data[0], 8);
}

}  // namespace
}  // namespace tpubridge::hlo
