// Numbers that are one input of a program because they are equal: by hand-made graphs.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/exec/make.h"
#include "tpubridge/trace/shared_numbers.h"

namespace tpubridge::exec {
namespace {

Value number(double real) { return Node::number({.dtype = DType::f32, .real = real}, 0); }

// The product of an array and all the numbers.
float product(const std::vector<Value>& numbers) {
  Value v = upload({1, 1});
  for (const Value& n : numbers) v = make("mul.Tensor", v, n);
  materialise(0, {v}, "test");
  return download(v)[0];
}

std::vector<Value> numbers(size_t count, double real) {
  std::vector<Value> out;
  for (size_t i = 0; i < count; ++i) out.push_back(number(real));
  return out;
}

trace::SharedNumbers shared(const std::vector<double>& reals) {
  Value v = upload({1, 1});
  for (const double r : reals) v = make("mul.Tensor", v, number(r));
  const Lock lock(mutex());
  return trace::shared_numbers(trace::collect({v}, /*held_too=*/false));
}

// Twenty equal numbers are one input, and so is one number that is used twenty times: the same text, for
// graphs that take other numbers.
TEST(Numbers, OneTextForTwoGraphs) {
  EXPECT_EQ(product(numbers(20, 2)), 1 << 20);
  EXPECT_EQ(product(std::vector<Value>(20, number(2))), 1 << 20);
  auto some = numbers(20, 2);
  some[7] = number(1.5);
  EXPECT_EQ(product(some), 1.5f * (1 << 19));
  EXPECT_EQ(product(std::vector<Value>(20, number(1.5))), std::pow(1.5f, 20.0f));
  EXPECT_EQ(product(numbers(20, 1.5)), std::pow(1.5f, 20.0f));
  some[7] = number(-1.5), some[8] = number(0.25);
  EXPECT_EQ(product(some), -1.5f * (1 << 16));
}

TEST(Numbers, TheOtherGraphFirst) {
  EXPECT_EQ(product(std::vector<Value>(24, number(2))), 1 << 24);
  auto some = numbers(24, 2);
  EXPECT_EQ(product(some), 1 << 24);
  some[23] = number(4);
  EXPECT_EQ(product(some), 1 << 25);
}

TEST(Numbers, ManyOfOneValueAreShared) {
  EXPECT_TRUE(shared(std::vector<double>(15, 2)).empty()) << "few in all";
  EXPECT_EQ(shared(std::vector<double>(16, 2)), trace::SharedNumbers(16, 0));
  std::vector<double> different;
  for (int i = 0; i < 20; ++i) different.push_back(i / 3);
  EXPECT_TRUE(shared(different).empty()) << "three of each";
  std::vector<double> zeros(16, 0.0);
  for (int i = 0; i < 8; ++i) zeros[2 * i] = -0.0;
  EXPECT_EQ(shared(zeros)[15], 1) << "by their bits";
}

TEST(Numbers, WhatIsSharedInBoth) {
  using trace::SharedNumbers;
  EXPECT_EQ(trace::shared_in_both({0, 0, 0, 0}, {0, 0, 2, 2}), (SharedNumbers{0, 0, 2, 2}));
  EXPECT_EQ(trace::shared_in_both({0, 0, 2, 2}, {0, 1, 1, 1}), (SharedNumbers{0, 1, 2, 2}));
  EXPECT_TRUE(trace::shared_in_both({0, 0, 2, 2}, {0, 1, 0, 1}).empty());
  EXPECT_TRUE(trace::shared_in_both({0, 0}, {}).empty());
}

}  // namespace
}  // namespace tpubridge::exec
