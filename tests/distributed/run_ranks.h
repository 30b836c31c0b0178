// Starts test_ranks as several processes of one job.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tools/launcher.h"

namespace tpubridge::distributed {

inline std::vector<tools::Ended> run_ranks(int processes, const std::string& test,
                                           std::chrono::milliseconds grace = std::chrono::seconds(120)) {
  tools::Launch what;
  what.argv = {RANKS, "--gtest_filter=Ranks." + test, "--gtest_brief=1"};
  what.processes = processes;
  what.job = test + std::to_string(::getpid());
  what.grace = grace;
  return tools::launch(what);
}

inline void expect_all_pass(int processes, const std::string& test) {
  for (const auto& e : run_ranks(processes, test))
    EXPECT_TRUE(e.ok()) << test << ", rank " << e.rank << ": code " << e.code << ", signal " << e.signal;
}

}  // namespace tpubridge::distributed
