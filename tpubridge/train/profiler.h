// What steps cost: time, device memory, compiles, copies to and from the host; and what to do about it.
//
//   AdvancedTPUProfiler profiler;
//   for (…) {
//     auto scope = profiler.profile_training_step(i);
//     step(x, y);
//   }
//   profiler.export_json("profile.json");
//
// Times are of the host's clock; memory is the ledger's, compiles and copies are metrics()'s, so what other
// threads do meanwhile is in them too. The newest 10 000 steps are kept. One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tpubridge/base/files.h"
#include "tpubridge/base/history.h"

namespace tpubridge {

struct StepRecord {
  int64_t id = 0;
  double seconds = 0;
  int64_t device_bytes = 0;  // live at its end, of all devices
  int64_t compiles = 0;
  double compile_seconds = 0;
  int64_t host_to_device_bytes = 0, device_to_host_bytes = 0;
};

enum class Trend : uint8_t { insufficient_data, increasing, decreasing, stable };
[[nodiscard]] std::string_view to_string(Trend trend);

struct BottleneckReport {
  struct {
    double mean = 0, min = 0, max = 0;
    double std = 0;  // of n - 1
    int64_t total_steps = 0;
    // The mean of the later half of the steps against that of the earlier one: more than 10 % apart, or
    // stable. Fewer than 3 steps are too few.
    Trend trend = Trend::insufficient_data;
  } step_time_analysis;
  struct {
    double mean_bytes = 0;
    int64_t max_bytes = 0;
  } memory_analysis;
  struct {
    int64_t compiles = 0;
    double total_seconds = 0;
  } compilation_analysis;
  struct {
    int64_t host_to_device_bytes = 0, device_to_host_bytes = 0;
  } communication_analysis;
  // Step times whose deviation is above a fifth of their mean; memory above twice its mean; compiles of more
  // than 10 seconds.
  std::vector<std::string> recommendations = {};

  [[nodiscard]] std::string to_json() const;
};
[[nodiscard]] BottleneckReport analyze_bottlenecks(std::span<const StepRecord> steps);

// Measures one step from its construction on. With `wait`, what was asked of the devices before it is done
// first, and what the step asked of them is done when finish() looks at the clock; without it, the time is
// what the step took on the host.
class StepMeter {
 public:
  explicit StepMeter(bool wait);
  [[nodiscard]] StepRecord finish(int64_t id) const;  // throws what went wrong on a device

 private:
  struct Counts {
    int64_t compiles = 0;
    double compile_seconds = 0;
    int64_t to_device = 0, to_host = 0;
  };
  static Counts counts();
  bool wait_;
  Counts before_;
  std::chrono::steady_clock::time_point begin_;
};

struct ProfilerMetrics {
  std::vector<double> step_times;
  double avg_step_time = 0;
  int64_t total_steps = 0;
  std::vector<std::pair<int64_t, double>> losses = {};  // by step, where recorded
  struct {
    int64_t live_bytes = 0, peak_bytes = 0;
  } memory_stats;
  struct {
    int64_t host_to_device_bytes = 0, device_to_host_bytes = 0;
    int devices = 0;             // 0 before start_distributed_profiling()
    double barrier_seconds = 0;  // one collective over all devices, measured there
  } communication_stats;
  struct Compilation {
    int64_t compiles = 0;
    double seconds = 0;
  };
  std::optional<Compilation> compilation_stats = {};  // where detailed

  [[nodiscard]] std::string to_json() const;
};

// Steps between two calls.
class TPUPerformanceProfiler {
 public:
  // Detailed: waits for the devices at both ends of a step, and tells of compiles.
  explicit TPUPerformanceProfiler(bool enable_detailed = false);

  void start_step();  // one that was started and not ended is forgotten
  void end_step();    // throws ArgumentError where none was started
  void record_step_metrics(int64_t step, double loss);
  // Measures a collective over all devices, now.
  void start_distributed_profiling();
  [[nodiscard]] ProfilerMetrics get_metrics() const;
  ProfilerMetrics finalize();  // the same; the next step begins anew

 private:
  static constexpr size_t kMostSteps = 10'000;
  bool detailed_;
  std::optional<StepMeter> step_;
  int64_t steps_ = 0;
  History<StepRecord> records_{kMostSteps};
  History<std::pair<int64_t, double>> losses_{kMostSteps};
  int devices_ = 0;
  double barrier_seconds_ = 0;
};

class AdvancedTPUProfiler {
 public:
  explicit AdvancedTPUProfiler(bool wait = true);

  // The step lasts as long as the scope. One that an exception ends is not written down.
  class Scope {
   public:
    Scope(AdvancedTPUProfiler& profiler, int64_t id);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    AdvancedTPUProfiler& profiler_;
    int64_t id_;
    int exceptions_;
    StepMeter meter_;
  };
  [[nodiscard]] Scope profile_training_step(int64_t id) { return {*this, id}; }
  void add(StepRecord step);  // one that was measured elsewhere

  [[nodiscard]] std::vector<StepRecord> steps() const { return records_.all(); }
  [[nodiscard]] BottleneckReport analyze_bottlenecks() const;
  // {"steps": […], "analysis": {…}}
  [[nodiscard]] std::string to_json() const;
  void export_json(const Path& path) const;  // whole or not at all; FileError

 private:
  bool wait_;
  History<StepRecord> records_{10'000};
};

}  // namespace tpubridge
