#include "tpubridge/distributed/no_pipe_signal.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace tpubridge::distributed {
namespace {

// To a pipe that nobody reads: the signal would end this process.
int error_of_a_write() {
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  ::close(ends[0]);
  const char byte = 0;
  const int error = ::write(ends[1], &byte, 1) == 1 ? 0 : errno;
  ::close(ends[1]);
  return error;
}

bool is_blocked() {
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, nullptr, &now);
  return sigismember(&now, SIGPIPE) == 1;
}

TEST(NoPipeSignal, ABrokenConnectionIsAnError) {
  {
    const NoPipeSignal none;
    EXPECT_EQ(error_of_a_write(), EPIPE);
    {
      const NoPipeSignal again;
      EXPECT_EQ(error_of_a_write(), EPIPE);
    }
    EXPECT_TRUE(is_blocked());
    std::thread([] { EXPECT_EQ(error_of_a_write(), EPIPE); }).join();  // started meanwhile
  }
  EXPECT_FALSE(is_blocked());  // and nothing came of it
}

TEST(NoPipeSignal, WhatCameBeforeStays) {
  sigset_t it, before, pending;
  sigemptyset(&it);
  sigaddset(&it, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &it, &before);
  EXPECT_EQ(error_of_a_write(), EPIPE);
  {
    const NoPipeSignal none;
    EXPECT_EQ(error_of_a_write(), EPIPE);
  }
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 1);
  const timespec now{};
  EXPECT_EQ(sigtimedwait(&it, nullptr, &now), SIGPIPE);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace tpubridge::distributed
