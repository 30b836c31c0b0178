// Programs of one hash live side by side.
#include "tpubridge/exec/cache.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/exec/make.h"
#include "tpubridge/exec/compiler.h"
#include "tpubridge/exec/options.h"
#include "tpubridge/trace/equal_hashes.h"

namespace tpubridge::exec {
namespace {

// In an empty cache, which is what it was before afterwards.
class ExecCache : public testing::Test {
 protected:
  ExecCache() { set_cache_capacity(set_cache_capacity(0)); }
  ~ExecCache() override { set_cache_capacity(set_cache_capacity(0)); }
};

TEST_F(ExecCache, GraphsOfOneHashHaveProgramsOfTheirOwn) {
  const trace::EqualHashes all;
  const auto collisions = metrics().hash_collisions;
  for (int round = 0; round < 3; ++round) {
    const auto compiles = compile_count();
    const Value most = make("maximum", upload({1, 2, 3}), upload({4, 5, 6}));
    materialise(0, {most}, "test");
    const Value product = make("mul.Tensor", upload({1, 2, 3}), upload({4, 5, 6}));
    materialise(0, {product}, "test");
    EXPECT_EQ(download(most), (std::vector<float>{4, 5, 6}));
    EXPECT_EQ(download(product), (std::vector<float>{4, 10, 18}));
    EXPECT_EQ(compile_count() - compiles, round == 0 ? 2 : 0);
  }
  EXPECT_EQ(cache_size(), 2u);
  EXPECT_GT(metrics().hash_collisions, collisions);
}

TEST_F(ExecCache, AForgottenProgramTakesNoOtherWithIt) {
  const trace::EqualHashes all;
  const auto run = [](const char* op) {
    const Value y = make(op, upload({2, 3}), upload({4, 5}));
    materialise(0, {y}, "test");
    return download(y)[1];
  };
  const auto old = set_cache_capacity(2);
  EXPECT_EQ(run("maximum"), 5);
  EXPECT_EQ(run("mul.Tensor"), 15);
  EXPECT_EQ(run("minimum"), 3);  // the maximum is forgotten
  const auto compiles = compile_count();
  EXPECT_EQ(run("mul.Tensor"), 15);
  EXPECT_EQ(run("minimum"), 3);
  EXPECT_EQ(compile_count(), compiles);
  EXPECT_EQ(run("maximum"), 5);
  EXPECT_EQ(compile_count(), compiles + 1);
  set_cache_capacity(old);
}

// One text, two structures: a value that is computed aside or held, with nothing else about it.
TEST_F(ExecCache, ATextIsFoundUnderAnotherStructure) {
  const auto run = [](bool wide) {
    const Value a = upload({1, 2}), b = upload({3, 4});
    // The same program, but for a constant that the row does not read.
    const Value y = Node::make(lower::find("mul.Tensor"), {a, b},
                               wide ? std::vector<trace::Arg>{Ref{0}, Ref{1}, trace::Arg{}}
                                    : std::vector<trace::Arg>{Ref{0}, Ref{1}},
                               {a.shape()}, 0, DType::f32);
    materialise(0, {y}, "test");
    return download(y)[1];
  };
  EXPECT_EQ(run(false), 8);
  const auto compiles = compile_count();
  EXPECT_EQ(run(true), 8);
  EXPECT_EQ(compile_count(), compiles);
  EXPECT_EQ(cache_size(), 2u);
}

TEST_F(ExecCache, OptionsArePartOfAProgram) {
  const auto run = [](const CompileSettings& settings) {
    const CompileScope scope(settings);
    const Value y = make("mul.Tensor", upload({1, 2}), upload({3, 4}));
    materialise(0, {y}, "test");
    return scope.compiles();
  };
  const auto with = [](const char* name, bool value) {
    pjrt::CompileOptions options;
    options.overrides[name] = value;
    return CompileSettings(options);
  };
  const CompileSettings none, first = with("xla_cpu_enable_fast_math", false),
                              second = with("xla_cpu_enable_fast_math", true);
  EXPECT_EQ(run(none), 1);
  EXPECT_EQ(run(first), 1);
  EXPECT_EQ(run(second), 1);
  for (const auto* again : {&none, &first, &second}) EXPECT_EQ(run(*again), 0);
  EXPECT_EQ(cache_size(), 3u);
}

TEST(ExecMode, FieldsDoNotRunIntoEachOther) {
  Mode a, b;
  a.add("x", "1y=1:2");
  b.add("x", "1");
  b.add("y", "2");
  EXPECT_FALSE(a == b);
}

// What telling apart costs where nothing has to be told apart. Printed, not judged: machines differ.
TEST_F(ExecCache, ComparingAGraphIsCheap) {
  Slot slot;
  slot.set(upload(std::vector<float>(16, 1)));
  const auto build = [&] {
    static const auto spec = std::make_shared<const trace::Spec>(
        lower::find("add.Tensor"), std::vector<trace::Arg>{Ref{0}, Ref{1}}, std::vector{slot.value().shape()},
        DType::f32);
    Value y = slot.value();
    for (int i = 0; i < 3000; ++i) {
      std::vector<Value> in{y, slot.value()};
      y = Node::make(spec, in, 0);
    }
    return y;
  };
  const Value y = build();
  const trace::Graph graph = trace::collect({y});
  const trace::Outline outline = trace::outline_of(graph);
  const auto time = [](auto f) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i) f();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / 100 /
           3000;
  };
  bool all = true;
  const double compare = time([&] { all = all && trace::matches(graph, outline); });
  const double collect = time([&] { all = all && trace::collect({y}).nodes.size() == 3000; });
  EXPECT_TRUE(all);
  printf("%.1f ns per node to compare, %.1f ns to collect and hash\n", compare, collect);
}

}  // namespace
}  // namespace tpubridge::exec
