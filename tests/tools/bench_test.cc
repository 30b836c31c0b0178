// `tpubridge bench`: every group runs and gives figures. How fast is nobody's business here.
#include <cmath>
#include <set>

#include "tests/tools/command.h"

namespace tpubridge::tools_test {
namespace {

using testing::HasSubstr;

bool can_bench() { return std::filesystem::exists(std::string(BUILD_DIR) + "/bin/tpubridge-bench"); }

TEST(Bench, EveryGroupGivesFigures) {
  if (!can_bench()) GTEST_SKIP() << "built without torch";
  const auto ran = tpubridge({"bench", "--quick", "--json"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  const auto report = ran.json();
  EXPECT_EQ(report["quick"], true);
  EXPECT_THAT(report["device"].get<std::string>(), HasSubstr("simulated"));
  std::set<std::string> groups, names;
  for (const auto& f : report["figures"]) {
    groups.insert(f["group"]);
    EXPECT_TRUE(names.insert(f["name"]).second) << f["name"] << " stands twice";
    const double value = f["value"];
    EXPECT_TRUE(std::isfinite(value)) << f["name"];
    EXPECT_TRUE(f["unit"] == "%" || value > 0) << f["name"];
    EXPECT_EQ(f["met"].is_null(), f["aim"].is_null()) << f["name"];
    EXPECT_TRUE(f["aim"].is_null() || f["met"] == (value <= f["aim"].get<double>())) << f["name"];
  }
  EXPECT_THAT(groups, testing::ElementsAre("backend", "compiler", "configuration", "integration", "memory",
                                           "optimizer", "trainer", "validation"));
  for (const char* name : {"config_creation", "model_preparation_cached", "synchronization", "allocation",
                           "json_round_trip", "model_validation", "trainer_overhead"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(Bench, OneGroupAsATable) {
  if (!can_bench()) GTEST_SKIP() << "built without torch";
  const auto ran = tpubridge({"bench", "configuration", "--quick"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("config_creation"));
  EXPECT_THAT(ran.out, HasSubstr("130 µs")) << "the seeds' figure";
  EXPECT_THAT(ran.out, testing::Not(HasSubstr("synchronization")));
  EXPECT_EQ(tpubridge({"bench", "speed"}).code, 64);
}

}  // namespace
}  // namespace tpubridge::tools_test
