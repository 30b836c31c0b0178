// Programs of four devices, run on four virtual CPU devices; expected numbers by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hlo/all_ops.h"
#include "tests/hlo/run.h"
#include "tpubridge/base/errors.h"

namespace tpubridge::hlo {
namespace {

using testing::HasSubstr;

Reference f32(std::vector<int64_t> dims, std::vector<long double> data) {
  return {{DType::f32, std::move(dims)}, std::move(data)};
}

// Device r holds 100·r + 0 … 100·r + 7 as [4, 2].
std::vector<std::vector<Reference>> inputs() {
  std::vector<std::vector<Reference>> out;
  for (int r = 0; r < 4; ++r) {
    out.push_back({f32({4, 2}, {})});
    for (int i = 0; i < 8; ++i) out.back()[0].data.push_back(100 * r + i);
  }
  return out;
}

class Collectives : public testing::Test {
 protected:
  static void SetUpTestSuite() { got() = run_on_cpus(collective_sample(), inputs()); }
  static std::vector<std::vector<Reference>>& got() {
    static std::vector<std::vector<Reference>> results;
    return results;
  }
  static void expect_result(int device, size_t result, const Reference& want) {
    ASSERT_EQ(got().size(), 4u);
    expect_equal(got()[static_cast<size_t>(device)].at(result), want, 0, "device " + std::to_string(device));
  }
};

TEST_F(Collectives, AllReduceAddsOverAllAndOverGroups) {
  const auto uneven = run_on_cpus(uneven_sample(), inputs());
  for (int r = 0; r < 4; ++r) {
    expect_result(r, 0, f32({4, 2}, {600, 604, 608, 612, 616, 620, 624, 628}));
    const auto want = r == 3 ? f32({4, 2}, {300, 301, 302, 303, 304, 305, 306, 307})
                             : f32({4, 2}, {300, 303, 306, 309, 312, 315, 318, 321});
    expect_equal(uneven[static_cast<size_t>(r)][0], want, 0, "uneven, device " + std::to_string(r));
  }
}

TEST_F(Collectives, AllReduceOfTwoArraysByARegion) {
  expect_result(0, 1, f32({4, 2}, {100, 101, 102, 103, 104, 105, 106, 107}));
  expect_result(2, 1, f32({4, 2}, {300, 301, 302, 303, 304, 305, 306, 307}));
  expect_result(1, 2, f32({4}, {201, 205, 209, 213}));
  expect_result(3, 2, f32({4}, {601, 605, 609, 613}));
}

TEST_F(Collectives, AllGatherJoinsTheGroup) {
  const auto left = f32({4, 4}, {0, 1, 100, 101, 2, 3, 102, 103, 4, 5, 104, 105, 6, 7, 106, 107});
  expect_result(0, 3, left);
  expect_result(1, 3, left);
  expect_result(
      3, 3, f32({4, 4}, {200, 201, 300, 301, 202, 203, 302, 303, 204, 205, 304, 305, 206, 207, 306, 307}));
}

TEST_F(Collectives, ReduceScatterGivesEachItsPart) {
  expect_result(0, 4, f32({1, 2}, {600, 604}));
  expect_result(3, 4, f32({1, 2}, {624, 628}));
  expect_result(0, 5, f32({4, 1}, {100, 102, 104, 106}));
  expect_result(1, 5, f32({4, 1}, {101, 103, 105, 107}));
  expect_result(3, 5, f32({4, 1}, {301, 303, 305, 307}));
}

TEST_F(Collectives, AllToAllSendsRows) {
  expect_result(0, 6, f32({1, 8}, {0, 1, 100, 101, 200, 201, 300, 301}));
  expect_result(2, 6, f32({1, 8}, {4, 5, 104, 105, 204, 205, 304, 305}));
}

TEST_F(Collectives, PermuteGivesZerosToWhoIsNoTarget) {
  expect_result(0, 7, f32({4, 2}, std::vector<long double>(8, 0)));
  expect_result(3, 7, f32({4, 2}, {200, 201, 202, 203, 204, 205, 206, 207}));
}

TEST_F(Collectives, IdsAndGlobalIds) {
  for (int r = 0; r < 4; ++r) {
    expect_result(r, 8, {{DType::s32, {}}, {static_cast<long double>(r)}});
    expect_result(r, 9, {{DType::s32, {}}, {0}});
  }
  expect_result(3, 10, f32({4, 2}, {200, 201, 202, 203, 204, 205, 206, 207}));
}

TEST(CollectiveBroadcast, IsReadButNotSupportedByTheCpuPlugin) {
  try {
    (void)run_on_cpus(broadcast_sample(), inputs());
    FAIL() << "compiled";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("code=UNIMPLEMENTED"));
    EXPECT_THAT(e.what(), HasSubstr("`collective-broadcast` is not supported by XLA:CPU"));
  }
}

// x is [4, 2] by rows over "data", w [2, 6] by columns over "model": device (d, m) holds rows 2d.., columns
// 3m...
TEST(Shardings, ShardyMultipliesPartByPart) {
  std::vector<std::vector<Reference>> in;
  for (int d = 0; d < 2; ++d)
    for (int m = 0; m < 2; ++m) {
      const long double base = 4 * d;
      in.push_back(
          {f32({2, 2}, {base, base + 1, base + 2, base + 3}), f32({2, 3}, {1.0L + m, 0, 2, 0, 1, 1})});
    }
  const auto got = run_on_cpus(sharded_sample(), in);
  // Rows (0,1), (2,3) and (4,5), (6,7) times columns ((1+m),0), (0,1), (2,1).
  expect_equal(got[0][0], f32({2, 3}, {0, 1, 1, 2, 3, 7}), 0, "device 0");
  expect_equal(got[1][0], f32({2, 3}, {0, 1, 1, 4, 3, 7}), 0, "device 1");
  expect_equal(got[2][0], f32({2, 3}, {4, 5, 13, 6, 7, 19}), 0, "device 2");
  expect_equal(got[3][0], f32({2, 3}, {8, 5, 13, 12, 7, 19}), 0, "device 3");
  for (const auto& device : got) expect_equal(device[1], f32({}, {14 + 16 + 54 + 64}), 0, "sum");
}

TEST(Shardings, GspmdSplitsAVector) {
  std::vector<std::vector<Reference>> in;
  for (int d = 0; d < 4; ++d) in.push_back({f32({2}, {2.0L * d, 2.0L * d + 1})});
  const auto got = run_on_cpus(gspmd_sample(), in);
  expect_equal(got[0][0], f32({2}, {0, 2}), 0, "device 0");
  expect_equal(got[3][0], f32({2}, {42, 56}), 0, "device 3");
  for (const auto& device : got) expect_equal(device[1], f32({}, {140}), 0, "sum");
}

// No target is registered in the plugin: that the compiler looks for it shows that all the rest was read.
TEST(CustomCall, EveryApiReachesTheCompiler) {
  using Api = CustomCall::Api;
  for (const Api api : {Api::original, Api::status, Api::status_unified, Api::typed_ffi}) {
    Builder b;
    const Value x = b.parameter({DType::f32, {2, 3}});
    const Function& f = b.function("inner", {{DType::f32, {}}}, [](In a) -> Values { return {a[0]}; });
    CustomCall call{.target = "nobody_has_this",
                    .api = api,
                    .has_side_effect = true,
                    .aliases = {{0, 0}},
                    .frontend_attributes = {{"key", std::string("value")}}};
    if (api == Api::typed_ffi)
      call.attributes = {{"scale", 0.5}, {"axis", int64_t{1}}, {"on", true}, {"name", std::string("n")}};
    else
      call.backend_config = "{\"json\": 1}";
    if (api == Api::original) {
      call.called = {f.name};
    } else {
      call.operand_layouts = {{0, 1}};
      call.result_layouts = {{1, 0}, {}};
    }
    const Values out = custom_call(b, {x}, {{DType::f32, {2, 3}}, {DType::s32, {}}}, call);
    try {
      (void)cpu()->compile({b.finish(out)});
      FAIL() << "compiled";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("nobody_has_this"));
      EXPECT_THAT(e.what(), testing::Not(HasSubstr("error:"))) << "the parser refused it";
    }
  }
}

}  // namespace
}  // namespace tpubridge::hlo
