// The device's programs on disk, and compiles past their deadline. The client and its cache are opened once
// per process, so each test runs itself again in processes of their own.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/exec/again.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/exec/cache.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/lower/table.h"

namespace tpubridge::exec {
namespace {

using trace::Node;
using trace::Ref;
using trace::Value;

Value cube() {
  const std::vector<float> x = {1, 2, 3};
  const Value a = to_device(x.data(), {DType::f32, {3}}, {}, 0);
  const auto multiply = [](const Value& l, const Value& r) {
    return Node::make(lower::find("mul.Tensor"), {l, r}, {Ref{0}, Ref{1}}, {l.shape()}, 0, DType::f32);
  };
  return multiply(a, multiply(a, a));
}

std::vector<float> values(const Value& v) {
  std::vector<float> out(3);
  to_host(v, out.data(), out.size() * sizeof(float));
  return out;
}

Outcome with_disk(std::vector<std::pair<std::string, std::string>> environment) {
  environment.emplace_back("TPUBRIDGE_CACHE", "1");
  return again(std::move(environment));
}

TEST(ExecDisk, AnotherProcessLoadsThePrograms) {
  if (const char* expected = std::getenv("TEST_COMPILES")) {
    const Value y = cube();
    materialise(0, {y}, "test");
    EXPECT_EQ(values(y), (std::vector<float>{1, 8, 27}));
    const Metrics m = metrics();
    EXPECT_EQ(std::to_string(m.compiles), expected);
    EXPECT_EQ(m.disk.hits, 1 - m.compiles);
    EXPECT_EQ(m.disk.misses, m.compiles);
    EXPECT_EQ(m.disk.stores, m.compiles);
    EXPECT_EQ(m.cache_hits, 1 - m.compiles);
    EXPECT_NE(report().find(m.compiles == 1 ? "0 hits" : "1 hits"), std::string::npos) << report();
    return;
  }
  const TempFolder folder;
  for (const char* compiles : {"1", "0"}) {
    const Outcome outcome =
        with_disk({{"TPUBRIDGE_CACHE_DIR", folder.path().string()}, {"TEST_COMPILES", compiles}});
    EXPECT_TRUE(outcome.ok()) << outcome.str() << outcome.out << outcome.err;
  }
}

TEST(ExecDisk, ValuesStayPendingPastTheDeadline) {
  if (std::getenv("TEST_DEADLINE") != nullptr) {
    const Value y = cube();
    EXPECT_THROW(materialise(0, {y}, "test"), XLACompilationTimeoutError);
    EXPECT_TRUE(y->is_pending());
    programs().set_deadline(std::chrono::minutes(1));
    materialise(0, {y}, "test");
    EXPECT_EQ(values(y), (std::vector<float>{1, 8, 27}));
    EXPECT_EQ(metrics().compiles, 1);
    return;
  }
  const TempFolder folder;
  const Outcome outcome = with_disk({{"TPUBRIDGE_CACHE_DIR", folder.path().string()},
                                     {"TPUBRIDGE_COMPILE_TIMEOUT", "1"},
                                     {"TPUBRIDGE_PLUGIN", FAKE_PLUGIN},
                                     {"FAKE_PJRT", "fail=compile_slow:ms=2500"},
                                     {"TEST_DEADLINE", "1"}});
  EXPECT_TRUE(outcome.ok()) << outcome.str() << outcome.out << outcome.err;
}

}  // namespace
}  // namespace tpubridge::exec
