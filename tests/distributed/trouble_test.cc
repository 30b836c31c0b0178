// Ranks that differ, die, stop or do not come; what the others must say stands in ranks/trouble.cc.
#include <csignal>

#include "tests/distributed/run_ranks.h"
#include "tpubridge/base/files.h"

namespace tpubridge::distributed {
namespace {

using std::chrono::seconds;

// All but one pass; that one ends so.
void expect_others_pass(int processes, const std::string& test, int lost, int signal,
                        seconds grace = seconds(60)) {
  for (const auto& e : run_ranks(processes, test, grace)) {
    if (e.rank == lost)
      EXPECT_EQ(e.signal, signal) << test;
    else
      EXPECT_TRUE(e.ok()) << test << ", rank " << e.rank << ": code " << e.code << ", signal " << e.signal;
  }
}

TEST(Trouble, OtherSizes) { expect_all_pass(3, "OtherSizes"); }
TEST(Trouble, OneThatDoesSomethingElse) { expect_all_pass(3, "OneThatDoesSomethingElse"); }
TEST(Trouble, OneThatDies) { expect_others_pass(3, "OneThatDies", 1, SIGKILL); }
TEST(Trouble, TheOneThatServesDies) { expect_others_pass(3, "TheOneThatServesDies", 0, SIGKILL); }
TEST(Trouble, OneThatStops) {
  for (const auto& e : run_ranks(3, "OneThatStops", seconds(15))) {
    EXPECT_EQ(e.signal, e.rank == 2 ? SIGKILL : 0);
    EXPECT_EQ(e.code, e.rank == 2 ? 0 : 42);
  }
}
TEST(Trouble, TheOneThatServesStopsWhileTheyJoin) {
  for (const auto& e : run_ranks(3, "TheOneThatServesStopsWhileTheyJoin", seconds(30))) {
    EXPECT_EQ(e.signal, e.rank == 0 ? SIGKILL : 0);
    EXPECT_EQ(e.code, e.rank == 0 ? 0 : 42);
  }
}
TEST(Trouble, AllStopAndGoOn) { expect_all_pass(3, "AllStopAndGoOn"); }
TEST(Trouble, OneThatRunsACollectiveAgain) { expect_all_pass(3, "OneThatRunsACollectiveAgain"); }
TEST(Trouble, OneThatLeavesBeforeTheOthers) { expect_all_pass(3, "OneThatLeavesBeforeTheOthers"); }
TEST(Trouble, SomebodyIsMissing) { expect_all_pass(2, "SomebodyIsMissing"); }
TEST(Trouble, OtherWorlds) { expect_all_pass(2, "OtherWorlds"); }
TEST(Trouble, TwoOfOneRank) { expect_all_pass(3, "TwoOfOneRank"); }
TEST(Trouble, NobodyServes) { expect_all_pass(1, "NobodyServes"); }
TEST(Trouble, ThePortIsTaken) { expect_all_pass(1, "ThePortIsTaken"); }
TEST(Trouble, OneAloneNeedsNoPort) { expect_all_pass(1, "OneAloneNeedsNoPort"); }

TEST(Trouble, KilledAtRandomMomentsAndStartedAgain) {
  const TempFolder folder;
  ::setenv("TPUBRIDGE_TEST_STATE", (folder.path() / "state.pt").c_str(), 1);
  int failed = 0;
  for (int attempt = 0; attempt < 8; ++attempt) {
    ::setenv("TPUBRIDGE_TEST_ATTEMPT", std::to_string(attempt).c_str(), 1);
    bool good = true;
    for (const auto& e : run_ranks(3, "KilledAtSomeMoment", seconds(60))) {
      EXPECT_TRUE(e.ok() || e.signal == SIGKILL || e.code == 9)
          << e.rank << ": " << e.code << " " << e.signal;
      EXPECT_FALSE(e.told) << "rank " << e.rank << " did not end by itself";
      good = good && e.ok();
    }
    failed += !good;
    EXPECT_TRUE(good || attempt < 6);
  }
  EXPECT_GE(failed, 3);
}

TEST(Random, Programs) { expect_all_pass(3, "RandomPrograms"); }
TEST(Random, Steps) { expect_all_pass(3, "RandomSteps"); }

}  // namespace
}  // namespace tpubridge::distributed
