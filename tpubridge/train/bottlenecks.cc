// The analysis of measured steps: plain numbers in, rules over them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tpubridge/train/profiler.h"

namespace tpubridge {
namespace {

double mean_of(std::span<const StepRecord> steps) {
  double sum = 0;
  for (const auto& s : steps) sum += s.seconds;
  return sum / static_cast<double>(steps.size());
}

Trend trend_of(std::span<const StepRecord> steps) {
  if (steps.size() < 3) return Trend::insufficient_data;
  const double early = mean_of(steps.first(steps.size() / 2)), late = mean_of(steps.last(steps.size() / 2));
  if (late > 1.1 * early) return Trend::increasing;
  return late < 0.9 * early ? Trend::decreasing : Trend::stable;
}

template <class... Args>
std::string text(const char* format, Args... args) {
  char out[256];
  // The formats are the literals below. NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  std::snprintf(out, sizeof out, format, args...);
  return out;
}

void recommend(BottleneckReport& r) {
  const auto& time = r.step_time_analysis;
  const auto& memory = r.memory_analysis;
  if (time.std > 0.2 * time.mean)
    r.recommendations.push_back(text(
        "Step times vary (deviation %.3g s of a mean of %.3g s): look for changing shapes, which compile "
        "anew, and for data that comes late.",
        time.std, time.mean));
  if (static_cast<double>(memory.max_bytes) > 2 * memory.mean_bytes)
    r.recommendations.push_back(
        text("Memory peaks at %.3g bytes, over twice its mean of %.3g: checkpoint activations or use smaller "
             "batches.",
             static_cast<double>(memory.max_bytes), memory.mean_bytes));
  if (r.compilation_analysis.total_seconds > 10)
    r.recommendations.push_back(
        text("Compiling took %.1f s: keep shapes the same (buckets), and keep programs on disk.",
             r.compilation_analysis.total_seconds));
}

}  // namespace

std::string_view to_string(Trend trend) {
  switch (trend) {
    case Trend::insufficient_data:
      return "insufficient_data";
    case Trend::increasing:
      return "increasing";
    case Trend::decreasing:
      return "decreasing";
    case Trend::stable:
      break;
  }
  return "stable";
}

BottleneckReport analyze_bottlenecks(std::span<const StepRecord> steps) {
  BottleneckReport out;
  if (steps.empty()) return out;
  const auto n = static_cast<double>(steps.size());
  auto& time = out.step_time_analysis;
  time.total_steps = static_cast<int64_t>(steps.size());
  time.mean = mean_of(steps);
  time.min = time.max = steps[0].seconds;
  time.trend = trend_of(steps);
  double squares = 0, bytes = 0;
  for (const StepRecord& s : steps) {
    time.min = std::min(time.min, s.seconds);
    time.max = std::max(time.max, s.seconds);
    squares += (s.seconds - time.mean) * (s.seconds - time.mean);
    bytes += static_cast<double>(s.device_bytes);
    out.memory_analysis.max_bytes = std::max(out.memory_analysis.max_bytes, s.device_bytes);
    out.compilation_analysis.compiles += s.compiles;
    out.compilation_analysis.total_seconds += s.compile_seconds;
    out.communication_analysis.host_to_device_bytes += s.host_to_device_bytes;
    out.communication_analysis.device_to_host_bytes += s.device_to_host_bytes;
  }
  time.std = steps.size() > 1 ? std::sqrt(squares / (n - 1)) : 0;
  out.memory_analysis.mean_bytes = bytes / n;
  recommend(out);
  return out;
}

std::string BottleneckReport::to_json() const {
  const auto& time = step_time_analysis;
  const nlohmann::ordered_json out = {
      {"step_time_analysis",
       {{"mean", time.mean},
        {"min", time.min},
        {"max", time.max},
        {"std", time.std},
        {"total_steps", time.total_steps},
        {"trend", to_string(time.trend)}}},
      {"memory_analysis",
       {{"mean_bytes", memory_analysis.mean_bytes}, {"max_bytes", memory_analysis.max_bytes}}},
      {"compilation_analysis",
       {{"compiles", compilation_analysis.compiles}, {"total_seconds", compilation_analysis.total_seconds}}},
      {"communication_analysis",
       {{"host_to_device_bytes", communication_analysis.host_to_device_bytes},
        {"device_to_host_bytes", communication_analysis.device_to_host_bytes}}},
      {"recommendations", recommendations}};
  return out.dump(2);
}

}  // namespace tpubridge
