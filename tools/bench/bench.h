// What tpubridge-bench measures, without its command line. No torch here.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench_options.h"

namespace tpubridge::tools {

struct BenchFigure {
  std::string group, name, what;
  double value = 0;  // seconds, or percent
  std::string unit = "s";
  std::optional<double> reference = {};  // what the reference's report says
  std::optional<double> aim = {};        // at most
  [[nodiscard]] bool met() const { return !aim || value <= *aim; }
};

struct BenchReport {
  std::string device;  // "TPU v5e (simulated)"
  std::vector<BenchFigure> figures;
};

// Throws what the measured calls throw.
[[nodiscard]] BenchReport run_benchmarks(const BenchOptions& options);

}  // namespace tpubridge::tools
