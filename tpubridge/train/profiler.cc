#include "tpubridge/train/profiler.h"

#include <exception>
#include <nlohmann/json.hpp>

#include "tpubridge/base/log.h"
#include "tpubridge/device/api.h"
#include "tpubridge/mesh/collectives.h"

namespace tpubridge {
namespace {

// The pending work as the program that it would be anyway, then the wait.
void wait_for_devices() {
  sync();
  barrier();
}

double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

}  // namespace

StepMeter::Counts StepMeter::counts() {
  const Metrics m = metrics();
  return {m.compiles, m.compile_seconds, m.host_to_device_bytes, m.device_to_host_bytes};
}

StepMeter::StepMeter(bool wait) : wait_(wait) {
  if (wait_) wait_for_devices();
  before_ = counts();
  begin_ = std::chrono::steady_clock::now();
}

StepRecord StepMeter::finish(int64_t id) const {
  if (wait_) wait_for_devices();
  StepRecord out;
  out.id = id;
  out.seconds = seconds_since(begin_);
  const Counts now = counts();
  out.device_bytes = all_device_memory().live;
  out.compiles = now.compiles - before_.compiles;
  out.compile_seconds = now.compile_seconds - before_.compile_seconds;
  out.host_to_device_bytes = now.to_device - before_.to_device;
  out.device_to_host_bytes = now.to_host - before_.to_host;
  return out;
}

TPUPerformanceProfiler::TPUPerformanceProfiler(bool enable_detailed) : detailed_(enable_detailed) {}

void TPUPerformanceProfiler::start_step() { step_.emplace(detailed_); }

void TPUPerformanceProfiler::end_step() {
  if (!step_) throw ArgumentError("a step was ended that was not started", {}, "Call start_step() first.");
  const StepMeter meter = *step_;
  step_.reset();
  records_.add(meter.finish(steps_));
  ++steps_;
}

void TPUPerformanceProfiler::record_step_metrics(int64_t step, double loss) { losses_.add({step, loss}); }

void TPUPerformanceProfiler::start_distributed_profiling() {
  wait_for_devices();  // what is pending, and the compile
  const auto begin = std::chrono::steady_clock::now();
  barrier();
  barrier_seconds_ = seconds_since(begin);
  devices_ = device_count();
}

ProfilerMetrics TPUPerformanceProfiler::get_metrics() const {
  ProfilerMetrics out;
  ProfilerMetrics::Compilation compilation;
  double sum = 0;
  for (const StepRecord& r : records_.all()) {
    out.step_times.push_back(r.seconds);
    sum += r.seconds;
    out.communication_stats.host_to_device_bytes += r.host_to_device_bytes;
    out.communication_stats.device_to_host_bytes += r.device_to_host_bytes;
    compilation.compiles += r.compiles;
    compilation.seconds += r.compile_seconds;
  }
  if (!out.step_times.empty()) out.avg_step_time = sum / static_cast<double>(out.step_times.size());
  out.total_steps = steps_;
  out.losses = losses_.all();
  const DeviceMemory memory = all_device_memory();
  out.memory_stats = {memory.live, memory.peak};
  out.communication_stats.devices = devices_;
  out.communication_stats.barrier_seconds = barrier_seconds_;
  if (detailed_) out.compilation_stats = compilation;
  return out;
}

ProfilerMetrics TPUPerformanceProfiler::finalize() {
  ProfilerMetrics out = get_metrics();
  step_.reset();
  steps_ = 0;
  records_.clear();
  losses_.clear();
  return out;
}

std::string ProfilerMetrics::to_json() const {
  nlohmann::ordered_json out = {
      {"step_times", step_times},
      {"avg_step_time", avg_step_time},
      {"total_steps", total_steps},
      {"memory_stats", {{"live_bytes", memory_stats.live_bytes}, {"peak_bytes", memory_stats.peak_bytes}}},
      {"communication_stats",
       {{"host_to_device_bytes", communication_stats.host_to_device_bytes},
        {"device_to_host_bytes", communication_stats.device_to_host_bytes}}}};
  if (communication_stats.devices > 0) {
    out["communication_stats"]["devices"] = communication_stats.devices;
    out["communication_stats"]["barrier_seconds"] = communication_stats.barrier_seconds;
  }
  if (compilation_stats)
    out["compilation_stats"] = {{"compiles", compilation_stats->compiles},
                                {"seconds", compilation_stats->seconds}};
  for (const auto& [step, loss] : losses) out["losses"].push_back({{"step", step}, {"loss", loss}});
  return out.dump(2);
}

AdvancedTPUProfiler::AdvancedTPUProfiler(bool wait) : wait_(wait) {}

AdvancedTPUProfiler::Scope::Scope(AdvancedTPUProfiler& profiler, int64_t id)
    : profiler_(profiler), id_(id), exceptions_(std::uncaught_exceptions()), meter_(profiler.wait_) {}

AdvancedTPUProfiler::Scope::~Scope() {
  if (std::uncaught_exceptions() > exceptions_) return;
  try {
    profiler_.add(meter_.finish(id_));
  } catch (const std::exception& e) {  // a destructor may not throw; the next use of the device will
    log::error("profiler.step_failed", {{"step", std::to_string(id_)}, {"problem", e.what()}});
  }
}

void AdvancedTPUProfiler::add(StepRecord step) { records_.add(step); }

BottleneckReport AdvancedTPUProfiler::analyze_bottlenecks() const {
  return tpubridge::analyze_bottlenecks(records_.all());
}

std::string AdvancedTPUProfiler::to_json() const {
  auto steps = nlohmann::ordered_json::array();
  for (const StepRecord& r : records_.all())
    steps.push_back({{"id", r.id},
                     {"seconds", r.seconds},
                     {"device_bytes", r.device_bytes},
                     {"compiles", r.compiles},
                     {"compile_seconds", r.compile_seconds},
                     {"host_to_device_bytes", r.host_to_device_bytes},
                     {"device_to_host_bytes", r.device_to_host_bytes}});
  const nlohmann::ordered_json out = {
      {"steps", steps}, {"analysis", nlohmann::ordered_json::parse(analyze_bottlenecks().to_json())}};
  return out.dump(2);
}

void AdvancedTPUProfiler::export_json(const Path& path) const { write_file(path, to_json() + "\n"); }

}  // namespace tpubridge
