// When two graphs are the same program.
#include "tpubridge/trace/outline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/trace/make.h"
#include "tpubridge/trace/equal_hashes.h"

namespace tpubridge::trace {
namespace {

// One after the other, so that the first has no say in the second.
bool same(const Value& a, const Value& b) {
  const Outline first = outline_of(collect({a}));
  const Graph second = collect({b});
  const bool by_graph = matches(second, first);
  EXPECT_EQ(by_graph, first == outline_of(second));
  return by_graph;
}

// 256 results of one node reach as far as the next node's place, where the two are packed into one word.
TEST(Structure, ManyResultsOfANodeAreNotTheNextNode) {
  const Value a = leaf();
  const Value many = Node::make(&kSplit, {a}, {}, std::vector<Shape>(600, kShape), 0, DType::f32);
  const Value next = op(kAdd, {Value(many.node(), 0)});
  const Value reads_result = op(kMul, {Value(many.node(), 256)}), reads_next = op(kMul, {next});
  const auto graph = [&](const Value& y) { return collect({next, y}, /*held_too=*/false); };
  EXPECT_NE(graph(reads_result).hash, graph(reads_next).hash);
  const Graph by_result = graph(reads_result);
  const Outline outline = outline_of(by_result);
  EXPECT_FALSE(matches(graph(reads_next), outline));

  // The same for what is computed.
  const Graph result = collect({next, Value(many.node(), 256)}, false), twice = collect({next}, false);
  EXPECT_NE(result.hash, twice.hash);
  EXPECT_NE(result.hash, collect({next, Value(many.node(), 512)}, false).hash);
}

TEST(Structure, TellsApartWhatDiffers) {
  const Value a = leaf(), b = leaf();
  EXPECT_TRUE(same(op(kAdd, {a, b}), op(kAdd, {b, a})));
  EXPECT_FALSE(same(op(kAdd, {a, b}), op(kAdd, {a, a})));
  EXPECT_FALSE(same(op(kAdd, {a, b}), op(kMul, {a, b})));
  EXPECT_FALSE(same(op(kAdd, {a}, {int64_t{1}}), op(kAdd, {a}, {int64_t{2}})));
  EXPECT_FALSE(same(op(kAdd, {a}, {int64_t{1}}), op(kAdd, {a}, {int64_t{1}, Arg{}})));
  EXPECT_FALSE(same(op(kAdd, {a}), op(kAdd, {a}, {}, {DType::f32, {2, 2}})));
  EXPECT_FALSE(same(op(kAdd, {a}), op(kAdd, {leaf({DType::f32, {2, 2}})})));
  EXPECT_FALSE(same(op(kAdd, {a}), op(kAdd, {a}, {}, kShape, 1)));
  EXPECT_FALSE(same(op(kAdd, {a, number(1)}), op(kAdd, {a, number(1, DType::f64)})));
  EXPECT_FALSE(same(op(kAdd, {a, number(1)}), op(kAdd, {a, leaf({DType::f32, {}})})));
  EXPECT_FALSE(same(op(kAdd, {op(kAdd, {a, a}), a}), op(kAdd, {a, op(kAdd, {a, a})})));
}

TEST(Structure, DoublesCountByTheirBits) {
  const Value a = leaf();
  const double nan = std::nan("1"), other = std::nan("2");
  const auto with = [&](Arg arg) { return op(kAdd, {a}, {std::move(arg)}); };
  EXPECT_TRUE(same(with(nan), with(nan)));
  EXPECT_FALSE(same(with(nan), with(other)));
  EXPECT_FALSE(same(with(0.0), with(-0.0)));
  EXPECT_TRUE(same(with(std::vector{0.5, nan}), with(std::vector{0.5, nan})));
  EXPECT_FALSE(same(with(std::vector{0.0}), with(std::vector{-0.0})));
  EXPECT_FALSE(same(with(1.0), with(int64_t{1})));
}

TEST(Structure, EqualHashesProveNothing) {
  const EqualHashes all;
  const Value a = leaf(), x = op(kAdd, {a, a}), y = op(kMul, {a, a});
  EXPECT_EQ(collect({x}).hash, collect({y}).hash);
  EXPECT_FALSE(same(x, y));
  EXPECT_TRUE(same(x, op(kAdd, {a, a})));
}

}  // namespace
}  // namespace tpubridge::trace
