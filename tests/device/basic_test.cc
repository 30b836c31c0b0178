// The thinnest path: tensors go to the device, are computed there, and come back.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

TEST(Device, AddsThroughACompiledProgram) {
  const auto before = metrics();
  const auto a = torch::tensor({1.0f, 2.0f, 3.0f}).to(tpu()),
             b = torch::tensor({10.0f, 20.0f, 30.0f}).to(tpu());
  const auto c = (a + b).cpu();
  EXPECT_TRUE(c.equal(torch::tensor({11.0f, 22.0f, 33.0f})));
  const auto after = metrics();
  EXPECT_EQ(after.executions - before.executions, 1);
  EXPECT_EQ(after.fallback_count(), before.fallback_count());
}

TEST(Device, NamesItself) {
  const auto t = torch::ones({2}, tpu());
  EXPECT_EQ(t.device().str(), "tpu:0");
  EXPECT_EQ(torch::Device("tpu:0"), t.device());
}

TEST(Device, Prints) {
  std::ostringstream out;
  out << torch::full({2}, 1.5, tpu());
  EXPECT_NE(out.str().find("1.5000"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("tpu"), std::string::npos) << out.str();
}

TEST(Device, GivesItems) {
  EXPECT_EQ(torch::full({}, 7, torch::TensorOptions(tpu()).dtype(torch::kLong)).item<int64_t>(), 7);
  EXPECT_TRUE((torch::ones({3}, tpu()) == torch::ones({3}, tpu())).all().item<bool>());
}

TEST(Device, ScalarsAreInputsOfTheProgram) {
  const auto x = torch::ones({4}, tpu());
  sync();
  EXPECT_FLOAT_EQ((x * 2.5).cpu()[0].item<float>(), 2.5f);
  const auto compiles = metrics().compiles;
  for (int i = 0; i < 3; ++i) EXPECT_FLOAT_EQ((x * (3.5 + i)).cpu()[0].item<float>(), 3.5f + i);
  EXPECT_EQ(metrics().compiles, compiles);
}

TEST(Device, FallsBackToTheCpuAndCounts) {
  FallbackScope quiet(Fallback::allow);
  const auto x = torch::rand({4, 4});
  const auto before = metrics().fallback_count();
  expect_close(torch::histc(x.to(tpu()), 3), torch::histc(x, 3));
  EXPECT_GT(metrics().fallback_count(), before);
  FallbackScope strict(Fallback::error);
  EXPECT_THROW(torch::histc(x.to(tpu()), 3), UnsupportedError);
}

TEST(Device, MixedDevicesAreRefused) {
  EXPECT_THROW(torch::ones({2}) + torch::ones({2}, tpu()), c10::Error);
  EXPECT_THROW(torch::ones({2, 2}, tpu()).mm(torch::ones({2, 2})), c10::Error);
}

TEST(Device, ShapeErrorsComeAtTheCall) {
  const auto a = torch::ones({2, 3}, tpu()), b = torch::ones({4}, tpu());
  EXPECT_THROW(a + b, std::exception);
  EXPECT_THROW(a.mm(a), std::exception);
}

}  // namespace
}  // namespace tpubridge
