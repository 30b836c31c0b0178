// `tpubridge fit MODEL`: traces the model in a process that has torch, compiles its programs for TPUs that
// are not here, and goes on where it was when it is started again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/plan_options.h"
#include "tpubridge/aot/aot.h"

namespace tpubridge::tools {

struct FitModelOptions {
  PlanOptions plan;
  bool any_batch = false;  // look for the largest and the fastest
  std::vector<std::string> tpus;
  int slices = 1;
  double timeout = 0;  // seconds of each compile; 0: no limit
  int jobs = 0;
  bool fresh = false;     // what is stored does not count
  bool progress = false;  // shown on stderr
};

struct FitPoint {
  PlannedProgram program;
  aot::FitResult result;
  bool stored = false;  // it was known before
};

struct FitTarget {
  std::string tpu;               // "v5e:1x1"
  std::vector<FitPoint> points;  // by batch
  // Of those that fit. Null where none does.
  [[nodiscard]] const FitPoint* largest() const;
  [[nodiscard]] const FitPoint* fastest() const;    // a sample, by the compiler's estimate
  [[nodiscard]] const FitPoint* too_large() const;  // the smallest batch that does not fit
  [[nodiscard]] const FitPoint* failed() const;     // the first that gave no answer
};

struct FitPlan {
  FitModelOptions options;
  PlannedModel model;
  std::vector<FitTarget> targets;
  size_t traced = 0, compiled = 0, stored = 0;  // programs that were traced and compiled, answers of before
};

[[nodiscard]] FitPlan fit_model(const FitModelOptions& options);

}  // namespace tpubridge::tools
