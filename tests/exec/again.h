// The client is opened once in a process: a test that needs another runs itself again in one of its own.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tpubridge/base/subprocess.h"

namespace tpubridge::exec {

inline Outcome again(std::vector<std::pair<std::string, std::string>> environment) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  Command command;
  command.argv = {std::filesystem::read_symlink("/proc/self/exe"),
                  std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name()};
  command.environment = std::move(environment);
  command.deadline = std::chrono::seconds(120);
  return run_command(command);
}

// True in the process where the fake plugin is the device, with these failures; elsewhere starts that one.
inline bool on_fake_plugin(const std::string& settings = "") {
  if (std::getenv("TEST_ON_FAKE") != nullptr) return true;
  const Outcome outcome =
      again({{"TPUBRIDGE_PLUGIN", FAKE_PLUGIN}, {"FAKE_PJRT", settings}, {"TEST_ON_FAKE", "1"}});
  EXPECT_TRUE(outcome.ok()) << outcome.str() << outcome.out << outcome.err;
  return false;
}

}  // namespace tpubridge::exec
