// Locks between processes: owners that live, end, and are killed.
#include "tpubridge/cache/lock.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "tests/cache/make.h"

namespace tpubridge::cache {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

class Lock : public testing::Test {
 protected:
  // A process that holds the lock until it is killed.
  pid_t owner() const {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      const FileLock lock(path, milliseconds(0));
      [[maybe_unused]] const auto n = write(ready[1], lock.held() ? "y" : "n", 1);
      while (true) pause();
    }
    char held = 0;
    EXPECT_EQ(read(ready[0], &held, 1), 1);
    EXPECT_EQ(held, 'y');
    close(ready[0]), close(ready[1]);
    return child;
  }
  static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  TempFolder folder;
  Path path = folder.path() / "x.lock";
};

TEST_F(Lock, OneOwnerAndNoFileLeft) {
  {
    const FileLock first(path, milliseconds(0)), second(path, milliseconds(0));
    EXPECT_TRUE(first.held());
    EXPECT_FALSE(first.waited());
    EXPECT_FALSE(second.held());
    EXPECT_TRUE(second.timed_out());
  }
  EXPECT_TRUE(names_in(folder.path()).empty());
  EXPECT_TRUE(FileLock(path, milliseconds(0)).held());
}

TEST_F(Lock, AnotherProcessHoldsItUntilItIsKilled) {
  const pid_t child = owner();
  EXPECT_TRUE(FileLock(path, milliseconds(20)).timed_out());
  std::thread killer([&] { end(child); });
  const FileLock lock(path, minutes(1));
  killer.join();
  EXPECT_TRUE(lock.held());
}

TEST_F(Lock, AMovedLockIsReleasedOnce) {
  FileLock first(path, milliseconds(0));
  {
    const FileLock second(std::move(first));
    EXPECT_TRUE(second.held());
    EXPECT_FALSE(FileLock(path, milliseconds(0)).held());
  }
  EXPECT_TRUE(FileLock(path, milliseconds(0)).held());
}

TEST_F(Lock, NoTwoThreadsAreInsideAtOnce) {
  std::atomic<int> inside{0}, most{0}, entered{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const FileLock lock(path, minutes(1));
        EXPECT_TRUE(lock.held());
        const int now = ++inside;
        if (now > most) most = now;
        ++entered;
        --inside;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(entered, 200);
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST_F(Lock, WithoutAFolderThereIsNone) {
  const FileLock lock(folder.path() / "missing" / "x.lock", minutes(1));
  EXPECT_FALSE(lock.held());
  EXPECT_FALSE(lock.timed_out());
}

}  // namespace
}  // namespace tpubridge::cache
