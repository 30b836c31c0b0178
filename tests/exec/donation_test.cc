// What a program may take of its inputs: nothing that somebody still needs, whoever compiled it first.
#include <gtest/gtest.h>

#include "tests/exec/make.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/exec/compiler.h"
#include "tpubridge/exec/in_flight.h"

namespace tpubridge::exec {
namespace {

Value square(const Value& a) { return make("mul.Tensor", a, a); }

// A program that was compiled to take its input; f32[n].
void compile_taking(int64_t n) {
  Slot slot;
  slot.set(upload(std::vector<float>(static_cast<size_t>(n), 1)));
  slot.set(square(slot.value()));
  materialise(0, {}, "test");
}

TEST(Donation, BesideARecordingNothingIsTaken) {
  compile_taking(5);
  Slot slot;
  slot.set(upload(std::vector<float>(5, 3)));
  slot.set(square(slot.value()));  // only the trace has the input now
  EXPECT_EQ(download(compute_aside(slot.value()))[0], 9);
  EXPECT_EQ(download(compute_aside(slot.value()))[4], 9);
  materialise(0, {}, "test");
  EXPECT_EQ(download(slot.value())[4], 9);
}

TEST(Donation, CompiledBesideARecordingItTakesLater) {
  Slot slot;
  slot.set(upload(std::vector<float>(6000, 3)));
  slot.set(square(slot.value()));
  EXPECT_EQ(download(compute_aside(slot.value()))[0], 9);
  const auto compiled = [&] {
    const Lock lock(mutex());
    return compile_only(trace::collect(pending_values(0)), 0, "test");
  }();
  EXPECT_EQ(compiled->donated, (std::vector<int64_t>{0}));
  const auto compiles = compile_count();
  materialise(0, {}, "test");
  EXPECT_EQ(compile_count(), compiles);
  EXPECT_EQ(download(slot.value())[5999], 9);
}

TEST(Donation, DataOfTwoLeavesIsKept) {
  compile_taking(7);
  const Value held = upload(std::vector<float>(7, 4));
  Slot slot;
  slot.set(Node::leaf(held->data(0), held.shape(), 0));  // a node of its own, the same buffer
  slot.set(square(slot.value()));
  materialise(0, {}, "test");
  EXPECT_EQ(download(slot.value())[6], 16);
  EXPECT_EQ(download(held)[6], 4);
}

TEST(Donation, BothLeavesOfOneGraphMayHaveTheSameData) {
  {
    Slot slot;
    slot.set(make("mul.Tensor", upload(std::vector<float>(8, 2)), upload(std::vector<float>(8, 3))));
    materialise(0, {}, "test");  // takes one of the two
  }
  Slot slot;
  {
    const Value a = upload(std::vector<float>(8, 5));
    slot.set(make("mul.Tensor", Node::leaf(a->data(0), a.shape(), 0), Node::leaf(a->data(0), a.shape(), 0)));
  }
  materialise(0, {}, "test");
  EXPECT_EQ(download(slot.value())[7], 25);
}

TEST(Donation, AResultOfANodeWhoseOtherResultIsSeenIsKept) {
  compile_taking(9);
  // Two results, both computed.
  const Shape shape{DType::f32, {9}}, index{DType::s64, {9}};
  const Value sorted = Node::make(lower::find("sort"), {upload(std::vector<float>(9, 6))},
                                  {Ref{0}, int64_t{0}, false}, {shape, index}, 0, DType::f32);
  Value other(sorted.node(), 1);
  Slot slot;
  slot.set(Value(sorted.node(), 0));
  materialise(0, {other}, "test");
  slot.set(square(slot.value()));
  materialise(0, {}, "test");
  EXPECT_EQ(download(slot.value())[8], 36);
  std::vector<int64_t> places(9);
  to_host(other, places.data(), places.size() * sizeof(int64_t));
  EXPECT_EQ(places[8], 8);
}

// A tensor that lives on reads what a program of the same structure took before.
TEST(Donation, AViewThatIsTracedLaterKeepsTheInput) {
  compile_taking(10);
  const Value a = upload(std::vector<float>(10, 2));
  Slot first, second;
  first.set(square(a));
  second.set(make("mul.Tensor", first.value(), a));
  const Value kept = a;
  materialise(0, {}, "test");
  EXPECT_EQ(download(first.value())[9], 4);
  EXPECT_EQ(download(second.value())[9], 8);
  EXPECT_EQ(download(kept)[9], 2);
}

}  // namespace
}  // namespace tpubridge::exec
