// What `tpubridge fit` asks tpubridge-plan, which sees torch, and what it answers: one JSON document each
// way.
//
// A PlannedProgram is all that is to be known of a program but its text, so that an answer of before can be
// used again without tracing.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tpubridge/base/json.h"

namespace tpubridge::tools {

using PlanAxes = std::vector<std::pair<std::string, int64_t>>;

struct PlanOptions {
  std::string model;
  std::string train;    // adamw, sgd; empty: a call
  std::string dtype;    // bf16, f32; empty: as the model says
  std::string weights;  // int8, int4; empty: as they are
  std::optional<int64_t> length;
  PlanAxes sizes, mesh;          // sizes: of an export, by symbol
  std::vector<int64_t> batches;  // one program each; empty: the model's own, or 1
  bool in_range = false;         // of the batches those alone that the model takes
};

struct PlannedWeights {  // matrices of one size
  std::vector<int64_t> sizes;
  int64_t count = 0;
  std::string name;  // of the first
  bool operator==(const PlannedWeights&) const = default;
};

struct PlannedProgram {
  int64_t batch = 0, tokens = 0;  // tokens of the whole batch; 0: it is no model of a language
  int64_t partitions = 1;
  std::string hash;  // of its text
  // On each device, as the elements lie in a row.
  int64_t weights = 0, state = 0, inputs = 0, constants = 0;
};

struct PlannedModel {
  std::string kind, loss;
  int64_t parameters = 0;  // numbers, not tensors
  int64_t least_batch = 1, most_batch = 1;
  bool any_batch = false;
  std::optional<int64_t> length;
  std::vector<PlannedWeights> matrices;
  std::vector<PlannedProgram> programs;
};

[[nodiscard]] nlohmann::ordered_json to_json(const PlanOptions& options);
[[nodiscard]] PlanOptions read_plan_options(const JsonReader& from);
[[nodiscard]] nlohmann::ordered_json to_json(const PlannedModel& model);
[[nodiscard]] PlannedModel read_planned_model(const JsonReader& from);

}  // namespace tpubridge::tools
