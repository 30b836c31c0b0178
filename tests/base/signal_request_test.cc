// What is the same request, and what is a second one.
#include "tpubridge/base/signal_request.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace tpubridge {
namespace {

SignalRequest request;

TEST(SignalRequest, WithinASecondItIsTheSame) {
  request.clear();
  EXPECT_FALSE(request.again(SIGTERM));
  EXPECT_FALSE(request.again(SIGTERM)) << "timeout's: to the process, then to its group";
  EXPECT_EQ(request.signal(), SIGTERM);
  EXPECT_FALSE(request.again(SIGINT)) << "another one";
  EXPECT_EQ(request.signal(), SIGINT);
}

TEST(SignalRequest, LaterItIsTheEnd) {
  const pid_t child = fork();
  if (child == 0) {
    request.clear();
    std::signal(SIGTERM, [](int signal) {
      if (request.again(signal)) SignalRequest::give_up(signal);
    });
    std::raise(SIGTERM);
    std::raise(SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    std::raise(SIGTERM);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

}  // namespace
}  // namespace tpubridge
