// From hand-made graphs to values, without torch's headers.
#include "tpubridge/exec/materialise.h"

#include <gtest/gtest.h>

#include "tests/exec/make.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/exec/cache.h"

namespace tpubridge::exec {
namespace {

const Shape kShape{DType::f32, {4}};

Value multiply(const Value& a, const Value& b) { return make("mul.Tensor", a, b); }

TEST(Materialise, ComputesLiveAndWantedValuesInOneProgram) {
  const Value a = upload({1, 2, 3, 4});
  Slot slot;
  slot.set(multiply(a, a));
  const Value wanted = multiply(slot.value(), a);
  const auto before = metrics().executions;
  materialise(0, {wanted}, "test");
  EXPECT_EQ(metrics().executions - before, 1);
  EXPECT_EQ(download(wanted), (std::vector<float>{1, 8, 27, 64}));
  EXPECT_EQ(download(slot.value()), (std::vector<float>{1, 4, 9, 16}));
}

TEST(Materialise, FindsTheProgramAgainByStructure) {
  auto run = [](float x) {
    const Value a = upload({x, x, x}), y = multiply(a, multiply(a, a));
    materialise(0, {y}, "test");
    return download(y)[0];
  };
  EXPECT_EQ(run(2), 8);
  const auto compiles = compile_count();
  EXPECT_EQ(run(3), 27);
  EXPECT_EQ(compile_count(), compiles);
}

TEST(Materialise, GivesPrivateInputsToTheProgram) {
  Slot slot;
  slot.set(upload(std::vector<float>(1024, 2)));
  const auto live = metrics().live_device_bytes;
  for (int i = 0; i < 3; ++i) {
    slot.set(multiply(slot.value(), slot.value()));
    materialise(0, {}, "test");
  }
  EXPECT_EQ(download(slot.value())[999], 256);
  materialise(0, {},
              "test");  // where programs run elsewhere, what they hold goes when they are known to have ended
  EXPECT_EQ(metrics().live_device_bytes, live);
}

TEST(Materialise, KeepsInputsThatSomebodyStillSees) {
  Value a = upload({3, 3});
  const auto square = [&] {
    const Value y = multiply(a, a);
    materialise(0, {y}, "test");
    return download(y)[0];
  };
  EXPECT_EQ(square(), 9);
  EXPECT_EQ(square(), 9);
  EXPECT_EQ(download(a)[1], 3);
}

TEST(Materialise, NumbersTravelWithTheCall) {
  auto scaled = [](double by) {
    trace::Number n;
    n.real = by;
    const Value y = multiply(upload({1, 2}), Node::number(n, 0));
    materialise(0, {y}, "test");
    return download(y)[1];
  };
  EXPECT_FLOAT_EQ(scaled(2.5), 5);
  const auto compiles = compile_count();
  EXPECT_FLOAT_EQ(scaled(-7.25), -14.5);
  EXPECT_EQ(compile_count(), compiles);
}

TEST(Materialise, AProgramThatCannotBeBuiltPoisonsItsValues) {
  // Dimensions that do not broadcast: the row throws, the value keeps the reason.
  const Value bad = Node::make(lower::find("mul.Tensor"), {upload({1, 2}), upload({1, 2, 3})},
                               {Ref{0}, Ref{1}}, {kShape}, 0, DType::f32);
  EXPECT_THROW(materialise(0, {bad}, "test"), ProgramError);
  EXPECT_THROW((void)download(bad), ProgramError);
}

TEST(Cache, ForgetsTheLeastRecentlyUsed) {
  const auto run = [](int64_t n) {
    const Value a = upload(std::vector<float>(8, 1));
    Value y = a;
    for (int64_t i = 0; i < n; ++i) y = multiply(y, a);
    materialise(0, {y}, "test");
  };
  const auto old = set_cache_capacity(2);
  run(11), run(12), run(13);
  EXPECT_EQ(cache_size(), 2u);
  const auto compiles = compile_count();
  run(13);
  EXPECT_EQ(compile_count(), compiles);
  run(11);
  EXPECT_EQ(compile_count(), compiles + 1);
  set_cache_capacity(old);
}

TEST(Devices, OutOfRangeNamesTheRange) {
  try {
    (void)device(1000);
    FAIL() << "no error";
  } catch (const TPUDeviceError& e) {
    EXPECT_NE(std::string(e.what()).find("tpu:1000"), std::string::npos);
  }
}

}  // namespace
}  // namespace tpubridge::exec
