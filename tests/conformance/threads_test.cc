// Eight threads at once, and ends that come while work is under way.
#include <atomic>
#include <thread>

#include "tests/conformance/conformance.h"

namespace tpubridge::pjrt {
namespace {

class Threads : public Conformance {};
INSTANTIATE_TEST_SUITE_P(Plugin, Threads, testing::ValuesIn(plugins_under_test()), plugin_name);

constexpr int kThreads = 8;

void together(const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
  for (auto& t : threads) t.join();
}

TEST_P(Threads, ExecuteOneProgram) {
  const auto program = client().compile({kAddSub});
  std::atomic<int> wrong{0}, runs{0};
  together([&](int i) {
    const auto x = static_cast<float>(i);
    for (int round = 0; round < 50; ++round) {
      const auto y = static_cast<float>(round);
      const Buffer a = floats({x, x, x, x}), b = floats({y, 1, 2, 3});
      const Buffer* const arguments[] = {&a, &b};
      const auto out = program.execute(arguments);
      if (out[0].to_vector<float>() != std::vector<float>{x + y, x + 1, x + 2, x + 3}) ++wrong;
      if (out[1].to_vector<float>() != std::vector<float>{x - y, x - 1, x - 2, x - 3}) ++wrong;
      ++runs;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(runs, kThreads * 50);
}

TEST_P(Threads, CompileAndRunProgramsOfTheirOwn) {
  std::atomic<int> wrong{0};
  together([&](int i) {
    for (int round = 0; round < 3; ++round) {
      const int n = 2 + i * 3 + round;
      const std::string t = "tensor<" + std::to_string(n) + "xi32>";
      const auto program =
          client().compile({"func.func @main() -> " + t + " { %0 = stablehlo.iota dim = 0 : " + t +
                            " return %0 : " + t + " }"});
      const auto out = program.execute({})[0].to_vector<int32_t>();
      if (out.size() != static_cast<size_t>(n) || out.back() != n - 1) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(Threads, OnEveryDeviceAtOnce) {
  const auto program = client().compile({kAddSub}, {.portable = true});
  std::atomic<int> wrong{0};
  together([&](int i) {
    const size_t d = static_cast<size_t>(i) % device_count();
    for (int round = 0; round < 20; ++round) {
      const Buffer a = floats({1, 2, 3, 4}, {4}, d);
      const Buffer* const arguments[] = {&a, &a};
      if (program.execute(arguments, {.device = &device(d)})[0].to_vector<float>() !=
          std::vector<float>{2, 4, 6, 8})
        ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(Threads, AClientMayEndWhileItsWorkRuns) {
  if (GetParam().name == "named") GTEST_SKIP() << "a TPU belongs to one client";
  std::atomic<int> called{0};
  for (int round = 0; round < 5; ++round) {
    auto own = Client::create(Plugin::load(GetParam().path), GetParam().options);
    const Device& d = *own->addressable_devices()[0];
    std::vector<Buffer> held;
    held.push_back(own->to_device(std::vector<float>(64 * 64, 1), {DType::f32, {64, 64}}, d));
    auto program = std::make_unique<LoadedExecutable>(own->compile({heavy(60)}));
    const Buffer* const arguments[] = {&held[0]};
    auto out = program->execute(arguments);
    out[0].ready().on_ready([&](const std::exception_ptr&) { ++called; });
    out.clear();
    held.clear();
    program.reset();
    own.reset();  // the callback is all that is left
  }
  for (int i = 0; i < 6000 && called < 5; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(called, 5);
}

}  // namespace
}  // namespace tpubridge::pjrt
