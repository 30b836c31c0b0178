// What the tests of backend/ share: a configuration is the whole process's.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "tpubridge/backend/xla_device_manager.h"
#include "tpubridge/base/log.h"
#include "tpubridge/exec/cache.h"
#include "tpubridge/exec/options.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/tpubridge.h"

namespace tpubridge {

// Leaves the process as it was before any configuration.
class RestoresTheProcess : public ::testing::Test {
 protected:
  void SetUp() override { sync(); }
  void TearDown() override {
    set_memory_limit(0);
    set_fallback(Fallback::warn);
    log::set_level(log::Level::warn);
    const exec::Lock lock(exec::mutex());
    exec::set_compile_options({});
    exec::set_cache_capacity(1024);
    exec::set_graph_limit(20000);
    exec::set_programs(cache::ProgramCache(exec::client()));
  }
};

inline std::shared_ptr<XLADeviceManager> manager() { return std::make_shared<XLADeviceManager>(); }

// In a process of its own, where nothing has opened the device yet. `body` gives what is wrong, if anything.
template <class F>
void expect_in_new_process(F&& body) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::string problem;
        try {
          problem = body();
        } catch (const std::exception& e) {
          problem = e.what();
        }
        fputs(problem.c_str(), stderr);
        _exit(problem.empty() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace tpubridge
