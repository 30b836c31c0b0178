// A package with executables of Google's TPU compiler for three generations, made and read here.
#include <set>

#include "tests/tools/command.h"
#include "tpubridge/package/package.h"

namespace tpubridge::tools_test {
namespace {

TEST(PackageForTpus, HoldsAnExecutableForEachGeneration) {
  if (!std::filesystem::exists(Path(BUILD_DIR) / "bin/tpubridge-compile"))
    GTEST_SKIP() << "built without torch";
  const TempFolder folder;
  const std::string out = (folder.path() / "mlp.tbp").string();
  Command command;
  command.argv = {std::string(BUILD_DIR) + "/bin/tpubridge",
                  "compile",
                  std::string(TEST_DATA) + "/pt2/mlp.pt2",
                  "--out",
                  out,
                  "--tpu",
                  "v5e:1x1,v6e:1x1,v7:2x2x1"};
  command.environment = {{"TPUBRIDGE_PLUGIN", CPU_PLUGIN}, {"TPU_SKIP_MDS_QUERY", "1"}};
  command.deadline = std::chrono::minutes(14);
  const Outcome outcome = run_command(command);
  ASSERT_TRUE(outcome.ok()) << outcome.str() << outcome.err;
  const package::Package package(out);
  const auto& made = package.manifest().programs.at(0).executables;
  ASSERT_EQ(made.size(), 4U);
  std::set<std::string> hashes;
  for (const auto& e : made) {
    EXPECT_GT(package.bytes(e.entry).size(), 1000U) << e.machine.target;
    hashes.insert(e.entry.hash);
  }
  EXPECT_EQ(hashes.size(), made.size());
  EXPECT_EQ(made[1].machine.device_kind, "TPU v5 lite");
  EXPECT_EQ(made[2].machine.device_kind, "TPU v6 lite");
  EXPECT_EQ(made[3].machine.device_kind, "TPU7x");
}

}  // namespace
}  // namespace tpubridge::tools_test
