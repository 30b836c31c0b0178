// Graphs: order, structure hashes, what is live and what is private.
#include "tpubridge/trace/graph.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/trace/make.h"

namespace tpubridge::trace {
namespace {

TEST(Graph, OperandsComeBeforeUsers) {
  const Value a = leaf(), b = op(kAdd, {a, a}), c = op(kMul, {b, a}), d = op(kAdd, {c, b});
  const Graph g = collect({d});
  ASSERT_EQ(g.nodes.size(), 3u);
  EXPECT_EQ(g.nodes[0], b.node());
  EXPECT_EQ(g.nodes[2], d.node());
  EXPECT_EQ(g.leaves.size(), 1u);
}

TEST(Graph, HashTellsSharedOperandsFromEqualOnes) {
  const Value a = leaf(), b = leaf(), x = op(kAdd, {a, a}), y = op(kAdd, {a, b}), z = op(kAdd, {b, b});
  EXPECT_NE(collect({x}).hash, collect({y}).hash);
  EXPECT_EQ(collect({x}).hash, collect({z}).hash);
}

TEST(Graph, HashKnowsConstantsAndNotNumbers) {
  const Value a = leaf();
  EXPECT_NE(collect({op(kAdd, {a}, {int64_t{1}})}).hash, collect({op(kAdd, {a}, {int64_t{2}})}).hash);
  EXPECT_EQ(collect({op(kAdd, {a, number(1.5)})}).hash, collect({op(kAdd, {a, number(2.5)})}).hash);
  EXPECT_NE(collect({op(kAdd, {a})}).hash, collect({op(kMul, {a})}).hash);
}

TEST(Graph, HashKnowsWhichValuesAreWanted) {
  const Value a = leaf();
  Value x = op(kAdd, {a, a}), y = op(kMul, {x, a});
  const auto both = collect({x, y}).hash;
  x = Value();
  EXPECT_NE(collect({y}).hash, both);
}

TEST(Graph, AValueInTwoStoragesIsOneRootAndNotInHand) {
  const Value a = leaf();
  Value both = Node::make(&kSplit, {a}, {}, {kShape, kShape}, 0, DType::f32);
  const Value first(both.node(), 1), second = first;
  both = Value();
  auto of_storages = [&] {  // a list in braces would hold references of its own
    std::vector<Value> roots;
    roots.push_back(first);
    roots.push_back(second);
    return collect(std::move(roots)).roots;
  };
  ASSERT_EQ(of_storages().size(), 1u);
  EXPECT_EQ(of_storages()[0].index(), 1u);
  const Value third = first;
  EXPECT_EQ(of_storages().size(), 2u);  // somebody else may ask for the other result
}

TEST(Graph, ValuesInHandAreComputedToo) {
  // Two references beyond the graph's: one alone could be the storage's that asked.
  const Value a = leaf(), held = op(kAdd, {a, a}), again = held, y = op(kMul, {held, a});
  const Graph g = collect({y});
  ASSERT_EQ(g.roots.size(), 2u);
  EXPECT_EQ(g.roots[0], held);
}

TEST(Graph, LeavesThatOnlyTheGraphHoldsArePrivate) {
  const Value visible = leaf(), y = op(kAdd, {leaf(), visible});
  const Graph g = collect({y});
  EXPECT_EQ(private_leaves(g), (std::vector<int64_t>{0}));
}

TEST(Graph, OutputsOfOneNodeAreLeavesOfTheirOwn) {
  const Value first = Node::make(&kSplit, {leaf()}, {}, {kShape, kShape}, 0, DType::f32);
  const Value second(first.node(), 1);
  first->resolve({std::make_shared<DeviceData>(), std::make_shared<DeviceData>()});
  EXPECT_EQ(collect({op(kAdd, {first, second})}).leaves.size(), 2u);
  // The structure is that of two separate leaves.
  EXPECT_EQ(collect({op(kAdd, {first, second})}).hash, collect({op(kAdd, {leaf(), leaf()})}).hash);
}

TEST(Node, LongChainsAreDroppedWithoutRecursion) {
  Value v = leaf();
  for (int i = 0; i < 300000; ++i) v = op(kAdd, {v, v});
  EXPECT_EQ(own_lane().pending, 300000);
  EXPECT_EQ(collect({v}).nodes.size(), 300000u);
  v = Value();
  EXPECT_EQ(own_lane().pending, 0);
}

TEST(Node, PoisonKeepsTheFirstError) {
  const Value v = op(kAdd, {leaf()});
  v->poison(std::make_exception_ptr(std::runtime_error("first")));
  EXPECT_FALSE(v->is_pending());
  EXPECT_THROW((void)v->data(0), std::runtime_error);
}

}  // namespace
}  // namespace tpubridge::trace
