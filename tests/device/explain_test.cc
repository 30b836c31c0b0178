// explain() names what differs from the nearest earlier program: dimension, element type, constant, op,
// results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/device/torch_api.h"
#include "tpubridge/tpubridge.h"

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const torch::Device kTpu("tpu");

torch::Tensor input(at::IntArrayRef sizes, torch::Dtype dtype = torch::kFloat) {
  return torch::ones(sizes, torch::kFloat).to(dtype).to(kTpu);
}

// Runs the op and gives the note of the compile that it caused.
template <class F>
tpubridge::Recompile compiled_by(F f) {
  const size_t before = tpubridge::recompiles().size();
  const torch::Tensor result = f();
  tpubridge::sync();
  const auto all = tpubridge::recompiles();
  EXPECT_EQ(all.size(), before + 1);
  return all.back();
}

TEST(Explain, NamesTheDimensionThatChanged) {
  auto f = [](int64_t rows) { return torch::cosh(torch::matmul(input({rows, 7}), input({7, 3}))) * 3; };
  compiled_by([&] { return f(5); });
  const auto note = compiled_by([&] { return f(6); });
  EXPECT_EQ(note.reason, "sync");
  EXPECT_EQ(note.ops, 3u);
  EXPECT_THAT(
      note.differences,
      ElementsAre("input 0, first read by op 1 of 3, mm: f32[6,7] instead of f32[5,7] (dimension 0: 5 → 6)"));
  EXPECT_THAT(tpubridge::explain(), HasSubstr("(dimension 0: 5 → 6)"));
}

TEST(Explain, SaysWhatToWriteWhereSizesChangeAgainAndAgain) {
  // Running sums: an op that no program for many sizes has.
  auto f = [](int64_t rows) {
    return torch::acosh(torch::matmul(input({rows, 5}), input({5, 3}))).cumsum(0) * 2;
  };
  EXPECT_EQ(compiled_by([&] { return f(20); }).advice, "");
  EXPECT_EQ(compiled_by([&] { return f(9); }).advice, "") << "twice may be the last batch";
  EXPECT_THAT(compiled_by([&] { return f(17); }).advice, HasSubstr("pad to a few fixed sizes (32 here)"));
  EXPECT_THAT(tpubridge::explain(), HasSubstr("pad to a few"));
  // A cache that grows: the third length is the fourth program, since there was nothing to append to at
  // first.
  auto cache = input({1, 4});
  tpubridge::sync();
  std::string last;
  for (int i = 0; i < 3; ++i)
    last = compiled_by([&] {
             cache = torch::cat({cache, input({1, 4})}).atan().cumsum(0);
             return cache;
           }).advice;
  EXPECT_THAT(last, HasSubstr("keep a tensor of the final length"));
}

TEST(Explain, NamesAProgramForManySizes) {
  auto f = [](int64_t rows) { return torch::acosh(torch::matmul(input({rows, 5}), input({5, 3}))) * 3; };
  compiled_by([&] { return f(20); });
  compiled_by([&] { return f(9); });
  const int64_t hits = tpubridge::metrics().cache_hits;
  const auto note = compiled_by([&] { return f(17); });
  EXPECT_THAT(note.differences, ElementsAre("a program for many sizes"));
  EXPECT_EQ(tpubridge::metrics().cache_hits, hits) << "it was compiled";
  EXPECT_EQ(note.advice, "");
  const int64_t compiles = tpubridge::metrics().compiles;
  (void)f(25).cpu();
  EXPECT_EQ(tpubridge::metrics().compiles, compiles);
}

TEST(Explain, NamesTheElementType) {
  compiled_by([] { return torch::sinh(input({11})).tan(); });
  const auto note = compiled_by([] { return torch::sinh(input({11}, torch::kDouble)).tan(); });
  EXPECT_THAT(note.differences, ElementsAre(HasSubstr("f64[11] instead of f32[11] (element type)")));
}

TEST(Explain, NamesTheConstant) {
  auto f = [](int64_t dim) { return torch::asinh(input({4, 4})).cumsum(dim); };
  compiled_by([&] { return f(0); });
  const auto note = compiled_by([&] { return f(1); });
  EXPECT_THAT(note.differences, ElementsAre("op 2 of 2, cumsum: constant argument 1 is 1 instead of 0"));
}

TEST(Explain, NamesTheOpsThatDiffer) {
  compiled_by([] { return torch::atan(torch::erf(torch::expm1(input({13})))).neg(); });
  const auto note = compiled_by([] { return torch::atan(torch::log1p(torch::expm1(input({13})))).neg(); });
  EXPECT_THAT(note.differences, ElementsAre("after 1 equal ops: log1p instead of erf; then 2 equal ops"));
}

TEST(Explain, NamesResultsThatAreHeld) {
  torch::Tensor held;
  compiled_by([] { return torch::acosh(input({17}) + 1).exp2(); });
  const auto note = compiled_by([&] {
    held = torch::acosh(input({17}) + 1);
    return held.exp2();
  });
  EXPECT_THAT(note.differences, ElementsAre(HasSubstr("2 results instead of 1")));
}

TEST(Explain, AProgramLikeNoOther) {
  const auto note =
      compiled_by([] { return torch::trunc(torch::reciprocal(torch::frac(input({19}) + 0.25))); });
  EXPECT_THAT(note.differences, IsEmpty());
}

}  // namespace
