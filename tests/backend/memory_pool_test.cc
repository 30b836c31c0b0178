// Pools of tensors, monitoring, and what a TPU (the fake one) changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/backend/process.h"
#include "tests/device/check.h"
#include "tests/pjrt/fake.h"
#include "tpubridge/backend/memory_manager.h"
#include "tpubridge/backend/xla_compat.h"
#include "tpubridge/base/backend_errors.h"

namespace tpubridge {
namespace {

class MemoryPools : public RestoresTheProcess {};
class MemoryMonitoring : public RestoresTheProcess {};

// B2: a pool that looked for equal values handed one tensor out twice.
TEST_F(MemoryPools, KnowTensorsByIdentity) {
  TPUMemoryManager m;
  const auto id = m.create_memory_pool(2, {4});
  auto a = *m.get_tensor_from_pool(id), b = *m.get_tensor_from_pool(id);
  EXPECT_FALSE(m.get_tensor_from_pool(id)) << "all are in use";
  EXPECT_FALSE(m.return_tensor_to_pool(id, torch::zeros({4}, m.device()))) << "equal, but not the same";
  a.fill_(7);
  EXPECT_EQ(b.sum().item<float>(), 0);
  EXPECT_TRUE(m.return_tensor_to_pool(id, b));
  EXPECT_FALSE(m.return_tensor_to_pool(id, b)) << "twice";
  const auto c = *m.get_tensor_from_pool(id);
  EXPECT_FALSE(m.get_tensor_from_pool(id));
  EXPECT_EQ(a.sum().item<float>(), 28) << "another's tensor was not touched";
  EXPECT_EQ(c.storage().unsafeGetStorageImpl(), b.storage().unsafeGetStorageImpl());
  EXPECT_TRUE(m.return_tensor_to_pool(id, a.view({2, 2}))) << "a view is of the same storage";
  EXPECT_FALSE(m.return_tensor_to_pool(id, torch::Tensor()));
}

TEST_F(MemoryPools, FirstInFirstOutAndZeroed) {
  TPUMemoryManager m;
  const auto id = m.create_memory_pool(3, {2});
  const auto storage = [](const torch::Tensor& t) { return t.storage().unsafeGetStorageImpl(); };
  auto a = *m.get_tensor_from_pool(id), b = *m.get_tensor_from_pool(id);
  const auto* first = storage(b);
  b.fill_(5).requires_grad_();
  a.fill_(6);
  m.return_tensor_to_pool(id, b);
  m.return_tensor_to_pool(id, a);
  (void)*m.get_tensor_from_pool(id);  // the third, which nobody had
  const auto again = *m.get_tensor_from_pool(id);
  EXPECT_EQ(storage(again), first);
  EXPECT_TRUE(again.cpu().equal(torch::zeros({2})));
  EXPECT_FALSE(again.requires_grad()) << "as it was made";
}

TEST_F(MemoryPools, OfAnotherPoolAndToWhicheverItIsFrom) {
  TPUMemoryManager m;
  const auto p = m.create_memory_pool(1, {2}), q = m.create_memory_pool(1, {2});
  const auto t = *m.get_tensor_from_pool(p);
  EXPECT_FALSE(m.return_tensor_to_pool(q, t));
  EXPECT_FALSE(m.return_tensor_to_pool("none", t));
  EXPECT_TRUE(m.return_to_pool(t));
  EXPECT_FALSE(m.return_to_pool(t));
  EXPECT_FALSE(m.get_tensor_from_pool("none"));
  EXPECT_EQ(m.get_pool_stats(p)->available_tensors, 1u);
}

TEST_F(MemoryPools, AllocateFromAPool) {
  TPUMemoryManager m;
  const auto id = m.create_memory_pool(1, {2, 3});
  const auto t = m.allocate_tensor({2, 3}, torch::kFloat, false, id, "activations");
  EXPECT_EQ(m.get_pool_stats(id)->in_use_tensors, 1u);
  EXPECT_EQ(m.get_allocation_history().back().pool_id, id);
  const auto own = m.allocate_tensor({2, 3}, torch::kFloat, false, id);  // the pool has no more
  EXPECT_EQ(m.get_allocation_history().back().pool_id, "");
  EXPECT_TRUE(m.return_tensor_to_pool(id, t));
  EXPECT_FALSE(m.return_tensor_to_pool(id, own));
  (void)m.allocate_tensor({3, 2}, torch::kFloat, false, id);  // of other sizes
  EXPECT_EQ(m.get_pool_stats(id)->in_use_tensors, 0u);
}

TEST_F(MemoryPools, ManyThreads) {
  TPUMemoryManager m;
  const auto id = m.create_memory_pool(4, {2});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 100; ++k) {
        const auto t = m.get_tensor_from_pool(id);  // never more than four at once
        if (!t || !m.return_tensor_to_pool(id, *t)) ++wrong;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(m.get_pool_stats(id)->available_tensors, 4u);
}

TEST_F(MemoryMonitoring, TheIntervalAndDurationOfTheConfiguration) {
  TPUMemoryManager m(TPUConfig{.monitoring_interval_seconds = 0.002, .monitoring_duration_seconds = 0.006});
  m.synchronize();
  const auto x = m.allocate_tensor({1000});
  m.synchronize();
  const auto samples = m.monitor_memory();
  ASSERT_EQ(samples.size(), 3u);
  for (const auto& s : samples) EXPECT_EQ(s.allocated_memory, m.get_memory_stats().allocated_memory);
  EXPECT_LT(samples[0].timestamp, samples[2].timestamp);
  EXPECT_EQ(m.monitor_memory(0.001, 0.005).size(), 5u);
  EXPECT_EQ(m.monitor_memory(1, 0.001).size(), 1u);
  for (const double bad : {0.0, -1.0, std::nan("")}) {
    EXPECT_THROW((void)m.monitor_memory(bad), ArgumentError);
    EXPECT_THROW((void)m.monitor_memory(1, bad), ArgumentError);
    EXPECT_THROW(m.start_monitoring(bad), ArgumentError);
  }
  EXPECT_THROW((void)m.monitor_memory(1e-6, 1e6), ArgumentError);
}

void wait_until(const std::function<bool()>& done) {
  for (int i = 0; i < 20'000 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_F(MemoryMonitoring, InTheBackgroundAndBounded) {
  TPUMemoryManager m(TPUConfig{.monitoring_interval_seconds = 0.001, .monitoring_duration_seconds = 0.004});
  EXPECT_FALSE(m.is_monitoring());
  m.start_monitoring();
  EXPECT_TRUE(m.is_monitoring());
  wait_until([&] { return !m.monitoring_history().empty(); });
  const double first = m.monitoring_history().at(0).timestamp;
  wait_until([&] { return m.monitoring_history().front().timestamp > first; });
  EXPECT_GT(m.monitoring_history().front().timestamp, first) << "old ones go";
  EXPECT_EQ(m.monitoring_history().size(), 4u);
  const auto x = m.allocate_tensor({1'000'000});
  m.synchronize();
  const auto live = m.get_memory_stats().allocated_memory;
  wait_until([&] { return m.monitoring_history().back().allocated_memory == live; });
  m.stop_monitoring();
  EXPECT_FALSE(m.is_monitoring());
  const auto samples = m.monitoring_history();
  EXPECT_EQ(samples.size(), 4u) << "they stay";
  EXPECT_EQ(samples.back().allocated_memory, live);
  EXPECT_EQ(m.monitoring_history().back().timestamp, samples.back().timestamp) << "no more came";
  m.start_monitoring(1000.0);
  m.stop_monitoring();         // at once, not after the interval
  m.start_monitoring(1000.0);  // ended by the manager's destructor
}

TEST(MemoryOnATpu, StrictModeThrows) {
  expect_in_new_process([]() -> std::string {
    const pjrt::FakePlugin fake("generation=v5e,chips=1");
    Config c;
    c.runtime.plugin = fake.path();
    c.hardware.tpu.enable_strict_validation = true;
    TPUMemoryManager m(c);
    const auto id = m.create_memory_pool(1, {2});
    const auto t = *m.get_tensor_from_pool(id);
    if (m.get_tensor_from_pool(id)) return "an exhausted pool gave a tensor";
    m.return_tensor_to_pool(id, t);
    const std::pair<std::string, std::function<void()>> calls[] = {
        {"Memory pool '" + id + "' return failed: the tensor was returned already",
         [&] { m.return_tensor_to_pool(id, t); }},
        {"Memory pool '" + id + "' return failed: the tensor is not from this pool",
         [&] { m.return_tensor_to_pool(id, torch::zeros({2}, tpu())); }},
        {"Memory pool 'none' return failed: there is no such pool",
         [&] { m.return_tensor_to_pool("none", t); }},
        {"Memory pool 'none' get failed: there is no such pool",
         [&] { (void)m.get_tensor_from_pool("none"); }},
        {"Memory pool '" + id + "' allocate failed: its tensors are not [3] of Float",
         [&] { (void)m.allocate_tensor({3}, torch::kFloat, false, id); }}};
    for (const auto& [message, call] : calls) try {
        call();
        return "nothing was thrown: " + message;
      } catch (const TPUBackendError& e) {
        if (e.type_name() != "TPUMemoryPoolError" || e.message() != message) return e.message();
        if (e.detail("operation").empty() || e.detail("pool_id").empty()) return "facts are missing";
      }
    return "";
  });
}

TEST(MemoryOnATpu, GetMemoryInfo) {
  expect_in_new_process([]() -> std::string {
    const pjrt::FakePlugin fake("generation=v5e,chips=1,hbm_mb=1024");
    Config c;
    c.runtime.plugin = fake.path();
    TPUMemoryManager m(c);
    const auto x = torch::ones({64 << 20}).to(tpu());
    m.synchronize();
    const auto info = nlohmann::json::parse(m.get_memory_info().to_json());
    if (info["device"] != "tpu:0" || info["bytes_in_use"].get<int64_t>() < (256 << 20) ||
        info["bytes_limit"] != (1 << 30) || info["gb_in_use"] != 0.25 || info["gb_limit"] != 1.0 ||
        info["utilization_percent"] != 25.0)
      return info.dump();
    const auto same = xla_compat::get_memory_info(tpu());
    if (same.bytes_used != info["bytes_in_use"] || same.bytes_limit != info["bytes_limit"] ||
        same.peak_bytes_used < same.bytes_used)
      return "two accounts of one memory";
    if (!m.optimize_memory() || !m.clear_cache()) return "they say false on a TPU";
    fake.configure("fail=call_error:function=PJRT_Device_MemoryStats");
    const auto failed = nlohmann::json::parse(m.get_memory_info().to_json());
    if (failed.size() != 1 ||
        !failed["error"].get<std::string>().starts_with("Failed to get TPU memory info: "))
      return failed.dump();
    fake.configure("fail=call_error:function=PJRT_Device_MemoryStats");
    try {
      (void)xla_compat::get_memory_info(tpu());
      return "figures of a device that gives none";
    } catch (const TPUDeviceError&) {
    }
    fake.configure("fail=device_lost");
    const auto y = x * 3;
    log::set_level(log::Level::off);
    return m.optimize_memory_usage() ? "a lost device was not noticed" : "";
  });
}

}  // namespace
}  // namespace tpubridge
