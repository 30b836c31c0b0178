// `tpubridge demo`: every section comes out right.
#include "tests/tools/command.h"

namespace tpubridge::tools_test {
namespace {

using testing::HasSubstr;

const Environment kCpu = {{"TPUBRIDGE_PLUGIN", CPU_PLUGIN}};
const Path kProgram = Path(BUILD_DIR) / "bin/tpubridge-demo";

TEST(Demo, AllSections) {
  if (!std::filesystem::exists(kProgram)) GTEST_SKIP() << "built without torch";
  const Ran ran = tpubridge({"demo", "--json"}, kCpu);
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  const auto json = ran.json();
  EXPECT_EQ(json["ok"], true);
  std::vector<std::string> names;
  for (const auto& s : json["sections"]) {
    EXPECT_EQ(s["ok"], true) << s;
    names.push_back(s["section"]);
  }
  EXPECT_THAT(names, testing::ElementsAre("configuration", "backend", "optimizer", "compiler", "memory",
                                          "validation"));
  EXPECT_EQ(json["sections"][1]["shown"]["a TPU"], "no: a simulation, XLA's CPU plugin");
}

TEST(Demo, OneSectionAsText) {
  if (!std::filesystem::exists(kProgram)) GTEST_SKIP() << "built without torch";
  const Ran ran = tpubridge({"demo", "memory"}, kCpu);
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("memory ok\n"));
  EXPECT_THAT(ran.out, HasSubstr("64 x 32"));
  EXPECT_EQ(tpubridge({"demo", "dance"}).code, 64);
}

}  // namespace
}  // namespace tpubridge::tools_test
