// Several threads at once: they trace, compute and read while another one changes the caches below them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/exec/make.h"
#include "tpubridge/exec/cache.h"

namespace tpubridge::exec {
namespace {

std::vector<float> filled(size_t n, float with) { return std::vector<float>(n, with); }

// Until it goes out of scope.
class Meanwhile {
 public:
  template <class F>
  explicit Meanwhile(F body)
      : thread_([this, body] {
          while (!stop_) body();
        }) {}
  ~Meanwhile() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// apply() puts another cache of programs in the place of the one that a compile in the background works with.
TEST(ExecThreads, ProgramsAreReplacedWhileTheyCompile) {
  const auto before = metrics();
  const Meanwhile replacing([] { set_programs(cache::ProgramCache(client(), nullptr)); });
  for (size_t n = 1; n <= 24; ++n) {
    const TierScope tiers(true);
    const Value one = upload(filled(200, 1));
    Value y = make("mul.Tensor", upload(filled(200, 3)), upload(filled(200, 2)));
    for (size_t i = 0; i < n; ++i) y = make("mul.Tensor", y, one);  // each is another program
    materialise(0, {y}, "test");
    EXPECT_EQ(download(y)[n], 6);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  auto now = metrics();
  EXPECT_GE(now.quick_programs - before.quick_programs, 24);
  while (now.replaced_programs - before.replaced_programs < now.quick_programs - before.quick_programs &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    now = metrics();
  }
  EXPECT_EQ(now.replaced_programs - before.replaced_programs, now.quick_programs - before.quick_programs);
}

TEST(ExecThreads, TraceComputeAndReadTogether) {
  const size_t old = set_cache_capacity(1024);
  {
    size_t capacity = 0;
    const Meanwhile changing([&] {
      set_cache_capacity(capacity++ % 4);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 4; ++t)
      threads.emplace_back([t] {
        Slot slot;
        for (size_t i = 0; i < 30; ++i) {
          const size_t n = 300 + i % 3;
          const Value a = upload(filled(n, static_cast<float>(t + 2)));
          {
            const Lock lock(mutex());
            slot.set(make("mul.Tensor", a, a));
          }
          const Value y = [&] {
            const Lock lock(mutex());
            return make("maximum", slot.value(), a);
          }();
          materialise(0, {y}, "test");
          EXPECT_EQ(download(y)[n - 1], static_cast<float>((t + 2) * (t + 2)));
          materialise(0, {}, "test");
          const Value kept = [&] {
            const Lock lock(mutex());
            return slot.value();
          }();
          EXPECT_EQ(download(kept)[0], static_cast<float>((t + 2) * (t + 2)));
          (void)metrics();
          (void)cache_size();
        }
      });
    for (auto& t : threads) t.join();
  }
  set_cache_capacity(old);
}

}  // namespace
}  // namespace tpubridge::exec
