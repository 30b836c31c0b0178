// Programs of hand-made graphs: parameters, numbers, results and donation as the caller relies on them.
#include "tpubridge/lower/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tpubridge/base/errors.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

using testing::HasSubstr;
using trace::Node;
using trace::Ref;

trace::Value leaf(Shape shape) {
  return Node::leaf(std::make_shared<trace::DeviceData>(), std::move(shape), 0);
}
trace::Value multiply(const trace::Value& a, const trace::Value& b) {
  return Node::make(find("mul.Tensor"), {a, b}, {Ref{0}, Ref{1}}, {a.shape()}, 0, DType::f32);
}
trace::Value number(DType dtype, double real, int64_t integer) {
  trace::Number n;
  n.dtype = dtype;
  n.real = real;
  n.integer = integer;
  return Node::number(n, 0);
}

TEST(Program, TakesLeavesThenNumbers) {
  const auto y =
      multiply(multiply(leaf({DType::f32, {2, 3}}), number(DType::f32, 2.5, 0)), number(DType::f32, 0.5, 0));
  const auto graph = trace::collect({y});
  const std::string text = program(graph, {});
  EXPECT_THAT(text, HasSubstr("tensor<2x3xf32>"));
  EXPECT_THAT(text, HasSubstr("tensor<2xf32>"));  // both numbers in one vector
  const auto packs = number_packs(graph);
  ASSERT_EQ(packs.size(), 1u);
  EXPECT_EQ(packs[0].shape, (Shape{DType::f32, {2}}));
  const auto* v = reinterpret_cast<const float*>(packs[0].bytes.data());
  EXPECT_EQ(v[0], 2.5f);
  EXPECT_EQ(v[1], 0.5f);
}

TEST(Program, PacksNumbersByElementType) {
  const auto y =
      multiply(multiply(leaf({DType::f32, {2}}), number(DType::s64, 0, 7)), number(DType::f64, 0.1, 0));
  const auto packs = number_packs(trace::collect({y}));
  ASSERT_EQ(packs.size(), 2u);
  EXPECT_EQ(packs[0].shape.dtype, DType::f64);
  EXPECT_EQ(packs[1].shape.dtype, DType::s64);
  EXPECT_EQ(*reinterpret_cast<const int64_t*>(packs[1].bytes.data()), 7);
}

TEST(Program, MarksDonatedParameters) {
  const auto a = leaf({DType::f32, {2}}), y = multiply(a, a);
  const auto graph = trace::collect({y});
  EXPECT_THAT(program(graph, {{.leaf = 0}}), HasSubstr("jax.buffer_donor"));
  EXPECT_THAT(program(graph, {{.leaf = 0, .root = 0}}), HasSubstr("tf.aliasing_output = 0"));
  EXPECT_THAT(program(graph, {}), testing::Not(HasSubstr("jax.buffer_donor")));
}

// For one row XLA would write a transposed weight out at every call: the product must read the weight itself.
TEST(Program, ProductsReadTransposedMatricesAsTheyAre) {
  const auto x = leaf({DType::f32, {1, 3}}), weight = leaf({DType::f32, {5, 3}});
  const auto turned = Node::make(find("tpubridge::view"), {weight},
                                 {Ref{0}, Dims{5, 3}, Dims{3, 1}, Dims{3, 5}, Dims{1, 3}, int64_t{0}},
                                 {{DType::f32, {3, 5}}}, 0, DType::f32);
  const auto y = Node::make(find("mm"), {x, turned}, {Ref{0}, Ref{1}, int64_t{0}}, {{DType::f32, {1, 5}}}, 0,
                            DType::f32);
  const std::string text = program(trace::collect({y}), {});
  EXPECT_THAT(text, HasSubstr("rhs_contracting_dimensions = [1]"));
  EXPECT_THAT(text, HasSubstr("(tensor<1x3xf32>, tensor<5x3xf32>) -> tensor<1x5xf32>"));
}

// Zeros of [3, 4] with rows `from` to `to` written over.
trace::Value rows_of_zeros(int64_t from, int64_t to) {
  const Shape whole{DType::f32, {3, 4}};
  const auto zeros = Node::make(find("tpubridge::zeros"), {}, {}, {whole}, 0, DType::f32);
  return Node::make(find("tpubridge::update"), {zeros, leaf({DType::f32, {to - from, 4}})},
                    {Ref{0}, Ref{1}, Dims{3, 4}, Dims{4, 1}, Dims{to - from, 4}, Dims{4, 1}, from * 4},
                    {whole}, 0, DType::f32);
}
trace::Value plus(const trace::Value& a, const trace::Value& b) {
  return Node::make(find("add.Tensor"), {a, b}, {Ref{0}, Ref{1}, int64_t{1}}, {a.shape()}, 0, DType::f32);
}

TEST(Program, PiecesThatCoverTheWholeAreNotAdded) {
  const auto text = [](const trace::Value& y) { return program(trace::collect({y}), {}); };
  const std::string concatenated = "stablehlo.concatenate";
  EXPECT_THAT(text(plus(rows_of_zeros(0, 1), rows_of_zeros(1, 3))), HasSubstr(concatenated));
  const auto three = plus(plus(rows_of_zeros(2, 3), rows_of_zeros(0, 1)), rows_of_zeros(1, 2));
  EXPECT_THAT(text(three), HasSubstr(concatenated));
  // With a gap, one over another, or something else among them they are.
  const auto gap = plus(rows_of_zeros(0, 1), rows_of_zeros(2, 3));
  const auto twice = plus(rows_of_zeros(0, 2), rows_of_zeros(1, 3));
  const auto more = plus(plus(rows_of_zeros(0, 1), leaf({DType::f32, {3, 4}})), rows_of_zeros(1, 3));
  for (const auto& y : {gap, twice, more}) EXPECT_THAT(text(y), testing::Not(HasSubstr(concatenated)));
}

// Neither pieces of a sum nor what could be padded is looked for without end.
TEST(Program, LongChainsAreLoweredAsTheyAre) {
  const Shape odd{DType::bf16, {67, 67}};
  const auto weight = leaf(odd), piece = leaf(odd);
  const auto make = [&](const char* name, const trace::Value& a, const trace::Value& b) {
    return Node::make(find(name), {a, b}, {Ref{0}, Ref{1}, int64_t{1}}, {odd}, 0, DType::bf16);
  };
  trace::Value y = make("mm", piece, weight);
  for (int i = 0; i < 20000; ++i) y = i % 2 ? make("add.Tensor", y, y) : make("add.Tensor", piece, y);
  const std::string text = program(trace::collect({make("mm", y, weight)}), {}, Platform::cuda);
  EXPECT_THAT(text, testing::Not(HasSubstr("stablehlo.concatenate")));
  EXPECT_THAT(text, HasSubstr("(tensor<67x67xbf16>, tensor<bf16>) -> tensor<72x72xbf16>"));
}

// A row of the gradient has one element that is not zero: its sum needs no pass over the row.
TEST(Program, TheGradientOfACrossEntropySumsNoRows) {
  const Shape rows{DType::f32, {4, 5}}, one{DType::f32, {}};
  const auto y = leaf(rows), target = leaf({DType::s64, {4}}), g = leaf(one), weight = leaf(one);
  const trace::Arg none, mean{int64_t{1}}, axis{int64_t{1}}, ignore{int64_t{-100}};
  const auto gradient = [&](const trace::Value& dy) {
    return program(trace::collect({Node::make(find("_log_softmax_backward_data"), {dy, y},
                                              {Ref{0}, Ref{1}, axis, DType::f32}, {rows}, 0, DType::f32)}),
                   {});
  };
  const auto dy = Node::make(find("nll_loss_backward"), {g, y, target, weight},
                             {Ref{0}, Ref{1}, Ref{2}, none, mean, ignore, Ref{3}}, {rows}, 0, DType::f32);
  EXPECT_THAT(gradient(dy), testing::Not(HasSubstr("stablehlo.reduce")));
  EXPECT_THAT(gradient(multiply(dy, y)), HasSubstr("stablehlo.reduce"));
}

std::string attention_text(DType type, int64_t width, bool causal, Platform platform) {
  const Shape shape{type, {2, 4, 64, width}};
  const auto q = leaf(shape), k = leaf(shape), v = leaf(shape);
  const std::vector<trace::Arg> args{
      Ref{0},         Ref{1}, Ref{2}, trace::Arg{},          trace::Arg{0.0}, trace::Arg{causal},
      trace::Arg{.5}, {},     {},     trace::Arg{int64_t{0}}};
  const Shape sums{DType::f32, {2, 4, 64}};
  const auto out = Node::make(find("_scaled_dot_product_fused_attention_overrideable"), {q, k, v}, args,
                              {shape, sums}, 0, type);
  return program(trace::collect({out}), {}, platform);
}

TEST(Program, AttentionIsCudnnsOnCudaAlone) {
  const std::string call = "__cudnn$fmhaSoftmax";
  const std::string text = attention_text(DType::bf16, 32, true, Platform::cuda);
  EXPECT_THAT(text, HasSubstr(call));
  EXPECT_THAT(text, HasSubstr("CAUSAL"));
  EXPECT_THAT(text, HasSubstr("tensor<2x64x4x32xbf16>"));  // length before heads
  EXPECT_THAT(attention_text(DType::f16, 32, false, Platform::cuda), HasSubstr("NO_MASK"));
  EXPECT_THAT(attention_text(DType::f32, 32, true, Platform::cuda), testing::Not(HasSubstr(call)));
  EXPECT_THAT(attention_text(DType::bf16, 36, true, Platform::cuda), testing::Not(HasSubstr(call)));
  for (Platform p : {Platform::any, Platform::cpu, Platform::tpu})
    EXPECT_THAT(attention_text(DType::bf16, 32, true, p), testing::Not(HasSubstr(call)));
}

TEST(Table, NamesAreUniqueAndFound) {
  const auto rows = all_rows();
  EXPECT_GT(rows.size(), 200u);
  for (const auto* row : rows) {
    EXPECT_EQ(find(row->name), row);
    EXPECT_NE(row->lower, nullptr);
  }
  EXPECT_EQ(find("no_such_op"), nullptr);
}

TEST(Broadcast, SaysWhatDoesNotFit) {
  const Dims a{2, 3}, b{3}, c{4};
  EXPECT_EQ(broadcast({&a, &b}), a);
  EXPECT_THROW((void)broadcast({&a, &c}), ArgumentError);
}

}  // namespace
}  // namespace tpubridge::lower
