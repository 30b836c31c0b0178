// Processes that fork or end while other threads use the device.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "tests/device/check.h"
#include "tests/exec/again.h"
#include "tpubridge/base/errors.h"

namespace tpubridge {
namespace {

std::atomic<int> using_the_device{0};

void train_for_ever(int which) {
  torch::nn::Linear model(4, 3 + which);
  model->to(tpu());
  ++using_the_device;
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  for (int64_t i = 1;; ++i) {
    optimizer.zero_grad();
    const auto loss =
        model->forward(torch::ones({1 + i % 40, 4}, tpu())).square().mean();  // compiles again and again
    loss.backward();
    optimizer.step();
    (void)loss.item<float>();
  }
}

// What a child does: 0 where the device refuses in words, whatever it is asked for.
int use_in_child(const torch::Tensor& x) {
  const auto refuses = [](auto f) {
    try {
      f();
      return false;
    } catch (const TPUDeviceError& e) {
      return std::string(e.what()).find("forked") != std::string::npos;
    }
  };
  return refuses([&] { (void)(x + 1); }) && refuses([&] { (void)x.cpu(); }) && refuses([] { sync(); }) &&
                 refuses([] { (void)torch::ones({2}, tpu()); })
             ? 0
             : 1;
}

// In a process of its own: its threads never end.
TEST(Ending, ForksWhileOthersWork) {
  if (std::getenv("TEST_AGAIN") == nullptr) {
    const Outcome outcome = exec::again({{"TEST_AGAIN", "1"}});
    EXPECT_TRUE(outcome.ok()) << outcome.str() << outcome.out << outcome.err;
    return;
  }
  const auto x = torch::ones({4}, tpu()) * 2;
  sync();
  for (int i = 0; i < 3; ++i) std::thread(train_for_ever, i).detach();
  for (int i = 0; i < 25; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(7));
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const int code = use_in_child(x);
      { const auto dies = x; }
      _exit(code);
    }
    int status = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (waitpid(child, &status, WNOHANG) == 0 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (kill(child, SIGKILL) == 0) waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status)) << i;
    ASSERT_EQ(WEXITSTATUS(status), 0) << i;
  }
  EXPECT_EQ(x[1].item<float>(), 2);
  std::fflush(nullptr);
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST(Ending, ExitsWhileOthersWork) {
  if (const char* after = std::getenv("TEST_AGAIN")) {
    (void)torch::ones({2}, tpu()).cpu();
    for (int i = 0; i < 3; ++i) std::thread(train_for_ever, i).detach();
    while (using_the_device < 3) std::this_thread::yield();  // before that they are libtorch's users alone
    std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(after)));
    std::exit(7);
  }
  for (const char* after : {"1", "150", "400", "700", "1200", "1900"}) {
    const Outcome outcome = exec::again({{"TEST_AGAIN", after}});
    EXPECT_EQ(outcome.code, 7) << after << " ms: " << outcome.str() << outcome.err;
  }
}

}  // namespace
}  // namespace tpubridge
