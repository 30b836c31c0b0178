// TPUMemoryManager: the seeds' seven tests with values, and what must not go wrong again: live figures,
// bounded histories.
#include "tpubridge/backend/memory_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/backend/process.h"
#include "tests/device/check.h"
#include "tpubridge/base/backend_errors.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

constexpr int64_t kV5e = 16'909'336'064;  // bytes of the simulated device

class TestTPUMemoryManager : public RestoresTheProcess {};

TEST_F(TestTPUMemoryManager, MemoryManagerCreation) {
  TPUMemoryManager m(TPUConfig{.memory_fraction = 0.5});
  EXPECT_EQ(m.device(), torch::Device("tpu:0"));
  EXPECT_EQ(m.get_memory_stats().memory_fraction, 0.5);
  EXPECT_EQ(m.get_memory_stats().total_memory, kV5e);
  EXPECT_EQ(device_memory().limit, kV5e / 2) << "the fraction is enforced";
  EXPECT_THAT(m.repr(),
              MatchesRegex(R"(TPUMemoryManager\(allocated=[0-9]+\.[0-9]MB, pools=0, fraction=0\.5\))"));
  Config c;
  c.hardware.tpu.memory_fraction = 0.25;
  EXPECT_EQ(TPUMemoryManager(c).get_memory_stats().memory_fraction, 0.25);
  TPUBackend backend;
  EXPECT_EQ(TPUMemoryManager(backend).get_memory_stats().memory_fraction, 0.9);
}

TEST_F(TestTPUMemoryManager, AllocateTensor) {
  TPUMemoryManager m;
  const auto x = m.allocate_tensor({3, 4}, torch::kDouble, /*requires_grad=*/true, {}, "weights");
  EXPECT_EQ(x.device(), m.device());
  EXPECT_TRUE(x.requires_grad());
  EXPECT_TRUE(x.detach().cpu().equal(torch::zeros({3, 4}, torch::kDouble)));
  const auto history = m.get_allocation_history();
  ASSERT_EQ(history.size(), 1u);
  EXPECT_EQ(history[0].shape, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(history[0].dtype, torch::kDouble);
  EXPECT_EQ(history[0].bytes, 96);
  EXPECT_EQ(history[0].purpose, "weights");
  EXPECT_EQ(history[0].pool_id, "");
  (void)m.allocate_tensor({2});
  EXPECT_EQ(m.get_allocation_history()[1].purpose, "unknown");
}

TEST_F(TestTPUMemoryManager, OptimizeTensorLayout) {
  TPUMemoryManager m;
  const auto x = torch::arange(12, torch::kFloat).view({3, 4});
  const auto padded = m.optimize_tensor_layout(x.to(m.device())).cpu();
  EXPECT_EQ(padded.sizes(), (std::vector<int64_t>{8, 8}));
  EXPECT_TRUE(padded.slice(0, 0, 3).slice(1, 0, 4).equal(x));
  EXPECT_EQ(padded.sum().item<float>(), 66) << "zeros beside it";
  const auto image = torch::ones({2, 3, 5, 7});
  EXPECT_EQ(m.optimize_tensor_layout(image).sizes(), (std::vector<int64_t>{2, 8, 5, 7}));
  EXPECT_EQ(m.optimize_tensor_layout(image).select(1, 3).abs().sum().item<float>(), 0);
  for (const auto& fits :
       {torch::ones({8, 16}), torch::ones({5}), torch::ones({1, 3, 5}), torch::ones({1, 8, 3, 3})})
    EXPECT_TRUE(m.optimize_tensor_layout(fits).is_same(fits)) << fits.sizes();
  const auto lanes = TensorLayout::lanes_128;
  EXPECT_EQ(m.optimize_tensor_layout(x, lanes).sizes(), (std::vector<int64_t>{8, 128}));
  EXPECT_EQ(m.optimize_tensor_layout(torch::ones({9, 129}), lanes).sizes(), (std::vector<int64_t>{16, 256}));
  EXPECT_EQ(m.optimize_tensor_layout(image, lanes).sizes(), (std::vector<int64_t>{2, 128, 5, 7}));
  const auto tile = torch::ones({8, 128});
  EXPECT_TRUE(m.optimize_tensor_layout(tile, lanes).is_same(tile));
}

TEST_F(TestTPUMemoryManager, CreateMemoryPool) {
  TPUMemoryManager m;
  m.synchronize();
  const auto before = m.get_memory_stats();
  const std::string id = m.create_memory_pool(10, {100, 100});
  EXPECT_THAT(id, MatchesRegex("tpu_pool_0_[0-9]+"));
  EXPECT_THAT(m.create_memory_pool(1, {1}), MatchesRegex("tpu_pool_1_[0-9]+"));
  const auto with = m.get_memory_stats();
  EXPECT_EQ(with.reserved_memory - before.reserved_memory, 10 * 40'000 + 4) << "allocated already";
  EXPECT_EQ(with.cached_memory, 10 * 40'000 + 4);
  EXPECT_EQ(with.allocated_memory, before.allocated_memory) << "nobody has them";
  const auto t = m.get_tensor_from_pool(id);
  ASSERT_TRUE(t);
  EXPECT_TRUE(t->cpu().equal(torch::zeros({100, 100})));
  EXPECT_EQ(m.get_memory_stats().active_tensors, 1);
  EXPECT_TRUE(m.return_tensor_to_pool(id, *t));
  EXPECT_EQ(m.get_memory_stats().active_tensors, 0);
}

// B11: what is there, not what ever was.
TEST_F(TestTPUMemoryManager, GetMemoryStats) {
  TPUMemoryManager m;
  m.synchronize();
  const auto before = m.get_memory_stats();
  for (int i = 0; i < 3; ++i) {
    const auto x = m.allocate_tensor({1000, 1000});
    m.synchronize();
    const auto with = m.get_memory_stats();
    EXPECT_EQ(with.allocated_memory - before.allocated_memory, 4'000'000) << i;
    EXPECT_EQ(with.reserved_memory, with.allocated_memory + with.cached_memory);
    EXPECT_EQ(with.available_memory, device_memory().limit - with.reserved_memory);
    EXPECT_EQ(with.active_tensors, 1);
    EXPECT_GE(with.peak_memory, with.reserved_memory);
  }
  const auto after = m.get_tpu_memory_stats();
  EXPECT_EQ(after.allocated_memory, before.allocated_memory);
  EXPECT_EQ(after.active_tensors, 0);
  EXPECT_GE(after.peak_memory, before.allocated_memory + 4'000'000);
  m.reset_peak_memory();
  EXPECT_EQ(m.get_memory_stats().peak_memory, after.reserved_memory);
  const auto json = nlohmann::json::parse(after.to_json());
  for (const char* key : {"allocated_memory", "cached_memory", "reserved_memory", "available_memory",
                          "memory_fraction", "active_tensors", "peak_memory"})
    EXPECT_TRUE(json.contains(key)) << key;
}

TEST_F(TestTPUMemoryManager, GetPoolStats) {
  TPUMemoryManager m;
  EXPECT_EQ(m.get_pool_stats().total_pools, 0u);
  const auto a = m.create_memory_pool(4, {2, 2}), b = m.create_memory_pool(1, {3}, torch::kInt);
  const auto t = m.get_tensor_from_pool(a);
  const auto stats = m.get_pool_stats(a);
  ASSERT_TRUE(stats);
  EXPECT_EQ(stats->pool_id, a);
  EXPECT_EQ(stats->total_tensors, 4u);
  EXPECT_EQ(stats->available_tensors, 3u);
  EXPECT_EQ(stats->in_use_tensors, 1u);
  EXPECT_EQ(stats->utilization, 0.25);
  EXPECT_GT(stats->created_at, 1.6e9);
  EXPECT_EQ(stats->tensor_bytes, 16);
  const AllPoolStats all = m.get_pool_stats();
  EXPECT_EQ(all.total_pools, 2u);
  EXPECT_EQ(all.pool_details.at(b).available_tensors, 1u);
  EXPECT_FALSE(m.get_pool_stats("none"));
  EXPECT_TRUE(m.clear_pool(a));
  EXPECT_FALSE(m.clear_pool(a));
  EXPECT_FALSE(m.return_tensor_to_pool(a, *t)) << "there is no such pool any more";
  EXPECT_EQ(t->sum().item<float>(), 0) << "but its user still has it";
  m.clear_memory_pools();
  EXPECT_EQ(m.get_pool_stats().total_pools, 0u);
}

// B20: bounded by age and by number.
TEST_F(TestTPUMemoryManager, OptimizeMemoryUsage) {
  TPUMemoryManager none(TPUConfig{.allocation_history_retention_seconds = 0});
  (void)none.allocate_tensor({2});
  EXPECT_EQ(none.get_allocation_history().size(), 0u);
  TPUMemoryManager m;
  const auto x = m.allocate_tensor({2}) + 1;
  EXPECT_TRUE(m.optimize_memory_usage());
  EXPECT_EQ(m.get_allocation_history().size(), 1u) << "young enough";
  EXPECT_FALSE(m.optimize_memory()) << "there is no TPU";
  EXPECT_FALSE(m.clear_cache());
  const auto before = metrics().executions;
  EXPECT_EQ(x.sum().item<float>(), 2);
  EXPECT_EQ(metrics().executions, before + 1) << "x itself was computed by the wait";
  m.empty_cache();
  const auto compiled = metrics().compiles;
  EXPECT_EQ(x.sum().item<float>(), 2);
  EXPECT_EQ(metrics().compiles, compiled + 1) << "the programs in memory are gone";
  m.cleanup();
  EXPECT_EQ(m.get_allocation_history().size(), 0u);
}

TEST_F(TestTPUMemoryManager, TheHistoryHasAHardBound) {
  TPUMemoryManager m;
  for (size_t i = 0; i < TPUMemoryManager::kMostAllocations + 5; ++i)
    (void)m.allocate_tensor({1}, torch::kFloat, false, {}, std::to_string(i));
  const auto history = m.get_allocation_history();
  EXPECT_EQ(history.size(), TPUMemoryManager::kMostAllocations);
  EXPECT_EQ(history.front().purpose, "5");
  EXPECT_EQ(m.get_memory_stats().active_tensors, 0);
}

TEST_F(TestTPUMemoryManager, BadSizesAreToldBeforeAnythingIsAllocated) {
  TPUMemoryManager m(
      TPUConfig{.version = TPUVersion::v7, .memory_fraction = 0.1, .v7_memory_gb = 1.0});  // 50 MB
  m.synchronize();
  const auto before = m.get_memory_stats().reserved_memory;
  EXPECT_THROW((void)m.allocate_tensor({20'000'000}), TPUMemoryLimitError);
  EXPECT_THROW((void)m.allocate_tensor({2, -1}), ArgumentError);
  EXPECT_THROW((void)m.allocate_tensor({int64_t{1} << 40, int64_t{1} << 40}), ArgumentError);
  EXPECT_EQ(m.allocate_tensor({0, 5}).numel(), 0);
  for (const int64_t count : {0, -1})
    EXPECT_THROW((void)m.create_memory_pool(count, {2}), TPUMemoryPoolError);
  EXPECT_THROW((void)m.create_memory_pool(2, {2, 0}), TPUMemoryPoolError);
  EXPECT_THROW((void)m.create_memory_pool(2, {-2}), TPUMemoryPoolError);
  EXPECT_THROW((void)m.create_memory_pool(int64_t{1} << 62, {8}), TPUMemoryPoolError);
  try {
    (void)m.create_memory_pool(20, {1'000'000});
    FAIL() << "80 MB went into 50";
  } catch (const TPUOutOfMemoryError& e) {
    EXPECT_EQ(e.detail("needed"), "80000000");
    EXPECT_THAT(e.message(), HasSubstr("20 tensors of [1000000]"));
  }
  EXPECT_EQ(m.get_memory_stats().reserved_memory, before);
  EXPECT_EQ(m.get_pool_stats().total_pools, 0u);
  EXPECT_TRUE(m.check_memory_available(40'000'000));
  EXPECT_FALSE(m.check_memory_available(60'000'000));
}

TEST_F(TestTPUMemoryManager, EstimatesSizes) {
  EXPECT_EQ(TPUMemoryManager::estimate_tensor_size({3, 5}), 60);
  EXPECT_EQ(TPUMemoryManager::estimate_tensor_size({3, 5}, torch::kBFloat16), 30);
  EXPECT_EQ(TPUMemoryManager::estimate_tensor_size({}, torch::kDouble), 8);
  EXPECT_EQ(TPUMemoryManager::estimate_tensor_size({int64_t{1} << 40, int64_t{1} << 40, 0}), 0);
}

TEST_F(TestTPUMemoryManager, RecommendsForAModel) {
  torch::nn::Sequential model(torch::nn::Linear(63, 32), torch::nn::Linear(32, 8),
                              torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3)),
                              torch::nn::BatchNorm2d(16));
  const ModelMemory memory = TPUMemoryManager::optimize_model_memory(*model);
  const int64_t parameters = 63 * 32 + 32 + 32 * 8 + 8 + 3 * 16 * 9 + 16 + 2 * 16;
  EXPECT_EQ(memory.parameter_count, parameters);
  EXPECT_EQ(memory.parameter_bytes, parameters * 4);
  EXPECT_EQ(memory.buffer_bytes, 2 * 16 * 4 + 8);
  EXPECT_EQ(memory.total_bytes, memory.parameter_bytes + memory.buffer_bytes);
  EXPECT_EQ(memory.total_mb, static_cast<double>(memory.total_bytes) / 1048576);
  ASSERT_EQ(memory.recommendations.size(), 2u);
  EXPECT_EQ(memory.recommendations[0].type, "dimension_padding");
  EXPECT_EQ(memory.recommendations[0].layer, "0");
  EXPECT_EQ(memory.recommendations[0].current, "63x32");
  EXPECT_THAT(memory.recommendations[0].expected_benefit, HasSubstr("64x32"));
  EXPECT_THAT(memory.recommendations[0].expected_benefit, HasSubstr("1.6 %"));  // 1 - 63/64
  EXPECT_EQ(memory.recommendations[1].layer, "2");
  EXPECT_THAT(memory.recommendations[1].expected_benefit, HasSubstr("62.5 %"));  // 3 of 8
  EXPECT_EQ(nlohmann::json::parse(memory.to_json())["recommendations"][1]["current"], "3x16");
  EXPECT_EQ(model_memory(*torch::nn::Linear(7, 8)).recommendations.at(0).layer, "");
  EXPECT_EQ(model_memory(*torch::nn::Dropout()).total_bytes, 0);
}

TEST_F(TestTPUMemoryManager, GetMemoryInfoWithoutATpu) {
  TPUMemoryManager m;
  EXPECT_EQ(nlohmann::json::parse(m.get_memory_info().to_json()),
            nlohmann::json::parse(R"({"error": "TPU not available"})"));
}

}  // namespace
}  // namespace tpubridge
