// Profilers: what a step is told to have cost is what it did, and the rules on numbers made by hand.
#include "tpubridge/train/profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<StepRecord> steps_of(std::initializer_list<double> seconds) {
  std::vector<StepRecord> out;
  for (const double s : seconds) out.push_back({.id = static_cast<int64_t>(out.size()), .seconds = s});
  return out;
}

TEST(Bottlenecks, FiguresOfTheSteps) {
  auto steps = steps_of({1, 2, 3, 4});
  steps[0].device_bytes = 100;
  steps[3].device_bytes = 300;
  steps[1].compiles = 2;
  steps[1].compile_seconds = 1.5;
  steps[2].compile_seconds = 0.25;
  steps[2].host_to_device_bytes = 7;
  steps[3].device_to_host_bytes = 9;
  const BottleneckReport r = analyze_bottlenecks(steps);
  EXPECT_EQ(r.step_time_analysis.mean, 2.5);
  EXPECT_EQ(r.step_time_analysis.min, 1);
  EXPECT_EQ(r.step_time_analysis.max, 4);
  EXPECT_DOUBLE_EQ(r.step_time_analysis.std, std::sqrt(5.0 / 3)) << "n - 1";
  EXPECT_EQ(r.step_time_analysis.total_steps, 4);
  EXPECT_EQ(r.memory_analysis.mean_bytes, 100);
  EXPECT_EQ(r.memory_analysis.max_bytes, 300);
  EXPECT_EQ(r.compilation_analysis.compiles, 2);
  EXPECT_EQ(r.compilation_analysis.total_seconds, 1.75);
  EXPECT_EQ(r.communication_analysis.host_to_device_bytes, 7);
  EXPECT_EQ(r.communication_analysis.device_to_host_bytes, 9);
  const auto json = nlohmann::json::parse(r.to_json());
  EXPECT_EQ(json["step_time_analysis"]["trend"], "increasing");
  for (const char* key :
       {"memory_analysis", "compilation_analysis", "communication_analysis", "recommendations"})
    EXPECT_TRUE(json.contains(key)) << key;
}

TEST(Bottlenecks, Trends) {
  const auto trend = [](std::initializer_list<double> s) {
    return to_string(analyze_bottlenecks(steps_of(s)).step_time_analysis.trend);
  };
  EXPECT_EQ(trend({}), "insufficient_data");
  EXPECT_EQ(trend({1, 5}), "insufficient_data");
  EXPECT_EQ(trend({1, 1, 1.09}), "stable");
  EXPECT_EQ(trend({1, 1, 1.11}), "increasing");
  EXPECT_EQ(trend({1, 1, 0.91}), "stable");
  EXPECT_EQ(trend({1, 1, 5, 0.8, 1}), "stable") << "a tenth exactly, and the middle counts for neither";
  EXPECT_EQ(trend({1, 1, 0.8, 0.9}), "decreasing");
}

TEST(Bottlenecks, Recommendations) {
  EXPECT_TRUE(analyze_bottlenecks({}).recommendations.empty());
  auto steps = steps_of({1, 1, 1, 1});
  EXPECT_TRUE(analyze_bottlenecks(steps).recommendations.empty());
  EXPECT_TRUE(analyze_bottlenecks(steps_of({1, 1.3, 1, 1.3})).recommendations.empty()) << "0.17 of 1.15";
  EXPECT_THAT(analyze_bottlenecks(steps_of({1, 1.6, 1, 1.6})).recommendations,
              ElementsAre(HasSubstr("Step times vary")));
  for (auto& s : steps) s.device_bytes = 10;
  steps[0].device_bytes = 30;  // the mean is 15
  EXPECT_TRUE(analyze_bottlenecks(steps).recommendations.empty()) << "twice, not more";
  steps[0].device_bytes = 31;
  EXPECT_THAT(analyze_bottlenecks(steps).recommendations, ElementsAre(HasSubstr("Memory peaks")));
  steps[0].device_bytes = 10;
  steps[0].compile_seconds = steps[1].compile_seconds = 5;
  EXPECT_TRUE(analyze_bottlenecks(steps).recommendations.empty());
  steps[1].compile_seconds = 5.5;
  EXPECT_THAT(analyze_bottlenecks(steps).recommendations, ElementsAre(HasSubstr("Compiling took 10.5 s")));
}

// A size that nothing else computes: a program of its own.
void work(int64_t size) { (void)(torch::ones({size}).to(tpu()) * 3).sum().item<float>(); }

TEST(Profiler, TellsWhatAStepDid) {
  TPUPerformanceProfiler p(/*enable_detailed=*/true);
  for (int i = 0; i < 2; ++i) {
    p.start_step();
    work(1237);
    p.end_step();
    p.record_step_metrics(i, 0.5 - i);
  }
  const ProfilerMetrics m = p.get_metrics();
  EXPECT_EQ(m.total_steps, 2);
  ASSERT_EQ(m.step_times.size(), 2u);
  EXPECT_GT(m.step_times[0], 0);
  EXPECT_DOUBLE_EQ(m.avg_step_time, (m.step_times[0] + m.step_times[1]) / 2);
  ASSERT_TRUE(m.compilation_stats);
  EXPECT_EQ(m.compilation_stats->compiles, 1) << "the second step finds the first one's";
  EXPECT_GT(m.compilation_stats->seconds, 0);
  EXPECT_EQ(m.communication_stats.host_to_device_bytes, 2 * 1237 * 4);
  EXPECT_GE(m.communication_stats.device_to_host_bytes, 2 * 4);
  EXPECT_EQ(m.memory_stats.live_bytes, all_device_memory().live);
  EXPECT_THAT(m.losses, ElementsAre(std::pair(int64_t{0}, 0.5), std::pair(int64_t{1}, -0.5)));
  const auto json = nlohmann::json::parse(m.to_json());
  for (const char* key : {"step_times", "avg_step_time", "total_steps", "memory_stats", "communication_stats",
                          "compilation_stats"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(p.finalize().total_steps, 2);
  EXPECT_EQ(p.get_metrics().total_steps, 0);
}

TEST(Profiler, WithoutDetailsItDoesNotWait) {
  TPUPerformanceProfiler p;
  const auto before = metrics().executions;
  p.start_step();
  const auto x = torch::ones({3}, tpu()) + 1;
  p.end_step();
  EXPECT_EQ(metrics().executions, before);
  EXPECT_FALSE(p.get_metrics().compilation_stats);
  EXPECT_THROW(p.end_step(), ArgumentError) << "none was started";
  EXPECT_EQ(p.get_metrics().total_steps, 1);
  EXPECT_EQ(x.sum().item<float>(), 6);
}

TEST(Profiler, ACollectiveIsMeasured) {
  TPUPerformanceProfiler p;
  EXPECT_EQ(p.get_metrics().communication_stats.devices, 0);
  p.start_distributed_profiling();
  EXPECT_EQ(p.get_metrics().communication_stats.devices, device_count());
  EXPECT_GT(p.get_metrics().communication_stats.barrier_seconds, 0);
}

TEST(Profiler, ScopesOfSteps) {
  AdvancedTPUProfiler p;
  torch::Tensor kept;
  const auto before = all_device_memory().live;
  {
    const auto scope = p.profile_training_step(7);
    kept = torch::ones({1009}, tpu()) * 2;
  }
  EXPECT_THROW(
      {
        const auto scope = p.profile_training_step(8);
        throw ArgumentError("a step that failed");
      },
      ArgumentError);
  const auto steps = p.steps();
  ASSERT_EQ(steps.size(), 1u) << "a failed step is none";
  EXPECT_EQ(steps[0].id, 7);
  EXPECT_EQ(steps[0].compiles, 1);
  EXPECT_GE(steps[0].device_bytes - before, 1009 * 4) << "the scope waited for it";
  p.add({.id = 9, .seconds = 100});
  EXPECT_EQ(p.analyze_bottlenecks().step_time_analysis.max, 100);
  const TempFolder folder;
  p.export_json(folder.path() / "profile.json");
  const auto json = nlohmann::json::parse(read_file(folder.path() / "profile.json"));
  EXPECT_EQ(json["steps"].size(), 2u);
  EXPECT_EQ(json["steps"][1]["id"], 9);
  EXPECT_EQ(json["analysis"]["step_time_analysis"]["total_steps"], 2);
  EXPECT_THROW(p.export_json(folder.path() / "none" / "profile.json"), FileError);
}

TEST(Profiler, KeepsABoundedNumberOfSteps) {
  AdvancedTPUProfiler p;
  for (int i = 0; i < 10'010; ++i) p.add({.id = i});
  EXPECT_EQ(p.steps().size(), 10'000u);
  EXPECT_EQ(p.steps().front().id, 10);
}

}  // namespace
}  // namespace tpubridge
