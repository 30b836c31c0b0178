// What a child that limits itself may still take.
#include "tpubridge/base/limits.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace tpubridge {
namespace {

TEST(Limits, NoCoreFileAndNoMoreMemoryThanThereIs) {
  const pid_t child = fork();
  if (child == 0) {
    limit_this_process();
    rlimit core{1, 1};
    getrlimit(RLIMIT_CORE, &core);
    if (core.rlim_cur != 0 || core.rlim_max != 0) _exit(1);
    int signal = 0;
    if (prctl(PR_GET_PDEATHSIG, &signal) != 0 || signal != SIGKILL) _exit(2);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const size_t all =
        static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const auto map = [](size_t size) {
      return mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    };
    if (map(all + (size_t{1} << 20)) != MAP_FAILED) _exit(3);
    if (map(all / 4) == MAP_FAILED) _exit(4);
#endif
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace tpubridge
