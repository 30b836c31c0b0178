// The registry of environment variables: getters, bad values, unknown names.
#include "tpubridge/base/env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "tests/base/scoped_env.h"
#include "tpubridge/base/errors.h"

namespace tpubridge {
namespace {

using env::Stability;
using env::Type;
using env::Variable;
using ::testing::HasSubstr;

constexpr Variable kFlag{"TPUBRIDGE_X", Type::flag, "0", "", "", Stability::internal};
constexpr Variable kInt{"TPUBRIDGE_N", Type::integer, "", "1..1024", "", Stability::internal};
constexpr Variable kAnyInt{"TPUBRIDGE_M", Type::integer, "", "", "", Stability::internal};
constexpr Variable kChoice{"TPUBRIDGE_C", Type::choice, "a", "a|bb|ccc", "", Stability::internal};

TEST(Env, TableIsWellFormed) {
  std::set<std::string_view> names;
  for (const Variable& v : env::all()) {
    SCOPED_TRACE(v.name);
    EXPECT_TRUE(v.name.starts_with("TPUBRIDGE_"));
    EXPECT_TRUE(names.insert(v.name).second) << "named twice";
    EXPECT_FALSE(v.description.empty());
    if (v.fallback.empty()) continue;
    if (v.type == Type::flag) {
      EXPECT_NO_THROW((void)env::parse_flag(v, v.fallback));
    }
    if (v.type == Type::integer) {
      EXPECT_NO_THROW((void)env::parse_integer(v, v.fallback));
    }
    if (v.type == Type::choice) {
      EXPECT_EQ(env::parse_choice(v, v.fallback), v.fallback);
    }
  }
  for (const auto needed :
       {"TPUBRIDGE_LOG", "TPUBRIDGE_PLUGIN", "TPUBRIDGE_CPU_DEVICES", "TPUBRIDGE_CACHE_DIR", "TPUBRIDGE_DEPS",
        "TPUBRIDGE_TEST_PLUGIN", "TPUBRIDGE_AOT_CHILD", "TPUBRIDGE_LIBTPU", "TPUBRIDGE_TORCH_DIR"})
    EXPECT_TRUE(names.contains(needed)) << needed;
}

TEST(Env, TextAndEmptyMeansUnset) {
  const ScopedEnv a("TPUBRIDGE_PLUGIN", "/x/y.so");
  EXPECT_EQ(env::text("TPUBRIDGE_PLUGIN"), "/x/y.so");
  const ScopedEnv b("TPUBRIDGE_PLUGIN", "");
  EXPECT_EQ(env::text("TPUBRIDGE_PLUGIN"), "");
  EXPECT_EQ(env::raw("TPUBRIDGE_PLUGIN"), std::nullopt);
}

TEST(Env, IntegerAndItsLimits) {
  const ScopedEnv a("TPUBRIDGE_CPU_DEVICES", "8");
  EXPECT_EQ(env::integer("TPUBRIDGE_CPU_DEVICES"), 8);
  const ScopedEnv b("TPUBRIDGE_CPU_DEVICES", nullptr);
  EXPECT_EQ(env::integer("TPUBRIDGE_CPU_DEVICES"), std::nullopt);
  EXPECT_EQ(env::parse_integer(kInt, "1"), 1);
  EXPECT_EQ(env::parse_integer(kInt, "1024"), 1024);
  EXPECT_EQ(env::parse_integer(kAnyInt, "-5"), -5);
  for (const auto bad : {"0", "1025", "-1", "8x", " 8", "eight", "99999999999999999999", "0x8", "1.5", ""})
    EXPECT_THROW((void)env::parse_integer(kInt, bad), TPUConfigurationError) << bad;
}

TEST(Env, Flag) {
  for (const auto yes : {"1", "true", "ON", "Yes"}) EXPECT_TRUE(env::parse_flag(kFlag, yes)) << yes;
  for (const auto no : {"0", "False", "off", "NO"}) EXPECT_FALSE(env::parse_flag(kFlag, no)) << no;
  for (const auto bad : {"2", "maybe", "truee", ""})
    EXPECT_THROW((void)env::parse_flag(kFlag, bad), TPUConfigurationError) << bad;
}

TEST(Env, Choice) {
  EXPECT_EQ(env::parse_choice(kChoice, "a"), "a");
  EXPECT_EQ(env::parse_choice(kChoice, "BB"), "bb");
  EXPECT_EQ(env::parse_choice(kChoice, "ccc"), "ccc");
  for (const auto bad : {"", "b", "a|bb", "|", "cccc"})
    EXPECT_THROW((void)env::parse_choice(kChoice, bad), TPUConfigurationError) << bad;
  const ScopedEnv unset("TPUBRIDGE_LOG", nullptr);
  EXPECT_EQ(env::choice("TPUBRIDGE_LOG"), "warn");
}

TEST(Env, BadValueNamesVariableValueAndWhatIsAllowed) {
  const ScopedEnv a("TPUBRIDGE_CPU_DEVICES", "many");
  try {
    (void)env::integer("TPUBRIDGE_CPU_DEVICES");
    FAIL() << "accepted";
  } catch (const TPUConfigurationError& e) {
    EXPECT_EQ(e.detail("variable"), "TPUBRIDGE_CPU_DEVICES");
    EXPECT_EQ(e.detail("value"), "many");
    EXPECT_EQ(e.detail("allowed"), "1..1024");
    EXPECT_EQ(e.code(), Code::invalid_argument);
    EXPECT_THAT(e.what(), HasSubstr("TPUBRIDGE_CPU_DEVICES=\"many\""));
  }
}

TEST(Env, UnregisteredNameOrOtherTypeIsACallersError) {
  EXPECT_THROW((void)env::text("TPUBRIDGE_NO_SUCH"), ArgumentError);
  EXPECT_THROW((void)env::flag("TPUBRIDGE_PLUGIN"), ArgumentError);
  EXPECT_THROW((void)env::text("TPUBRIDGE_LOG"), ArgumentError);
}

TEST(Env, CheckReportsUnknownNamesWithTheNearest) {
  const ScopedEnv a("TPUBRIDGE_PLUGN", "x"), b("TPUBRIDGE_CPU_DEVICE", "2"), c("TPUBRIDGE_LOG", "info");
  const auto problems = env::check_environment();
  const auto of = [&](std::string_view name) {
    return std::ranges::find(problems, name, &env::Problem::name);
  };
  ASSERT_NE(of("TPUBRIDGE_PLUGN"), problems.end());
  EXPECT_EQ(of("TPUBRIDGE_PLUGN")->nearest, "TPUBRIDGE_PLUGIN");
  EXPECT_THAT(of("TPUBRIDGE_PLUGN")->message, HasSubstr("TPUBRIDGE_PLUGIN"));
  ASSERT_NE(of("TPUBRIDGE_CPU_DEVICE"), problems.end());
  EXPECT_EQ(of("TPUBRIDGE_CPU_DEVICE")->nearest, "TPUBRIDGE_CPU_DEVICES");
  EXPECT_EQ(of("TPUBRIDGE_LOG"), problems.end());
}

TEST(Env, CheckReportsBadValues) {
  const ScopedEnv a("TPUBRIDGE_LOG", "loud"), b("TPUBRIDGE_CPU_DEVICES", "0");
  const auto problems = env::check_environment();
  ASSERT_EQ(std::ranges::count(problems, "TPUBRIDGE_LOG", &env::Problem::name), 1);
  const auto log = std::ranges::find(problems, "TPUBRIDGE_LOG", &env::Problem::name);
  EXPECT_EQ(log->nearest, "");
  EXPECT_THAT(log->message, HasSubstr("loud"));
  EXPECT_EQ(std::ranges::count(problems, "TPUBRIDGE_CPU_DEVICES", &env::Problem::name), 1);
}

}  // namespace
}  // namespace tpubridge
