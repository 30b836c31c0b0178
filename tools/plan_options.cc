#include "tools/plan_options.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace tpubridge::tools {
namespace {

using nlohmann::ordered_json;

ordered_json pairs_json(const PlanAxes& pairs) {
  ordered_json out = ordered_json::array();
  for (const auto& [name, size] : pairs) out.push_back({{"name", name}, {"size", size}});
  return out;
}

PlanAxes read_pairs(const JsonReader& from, std::string_view key) {
  PlanAxes out;
  for (const JsonReader& r : from.objects(key)) out.emplace_back(r.text("name"), r.integer("size"));
  return out;
}

// Sums of some of them stay in range.
int64_t plan_amount(const JsonReader& from, std::string_view key) {
  const int64_t n = from.integer(key);
  if (n < 0 || n > int64_t{1} << 56) throw ConfigurationError(fmt::format("{} is no amount: {}", key, n));
  return n;
}

ordered_json program_json(const PlannedProgram& p) {
  return {{"batch", p.batch},   {"tokens", p.tokens},      {"partitions", p.partitions},
          {"hash", p.hash},     {"weights", p.weights},    {"state", p.state},
          {"inputs", p.inputs}, {"constants", p.constants}};
}

PlannedProgram read_program_of(const JsonReader& r) {
  PlannedProgram p;
  p.batch = plan_amount(r, "batch");
  p.tokens = plan_amount(r, "tokens");
  p.partitions = plan_amount(r, "partitions");
  p.hash = r.text("hash");
  p.weights = plan_amount(r, "weights");
  p.state = plan_amount(r, "state");
  p.inputs = plan_amount(r, "inputs");
  p.constants = plan_amount(r, "constants");
  if (p.batch < 1 || p.partitions < 1 || p.hash.empty())
    throw ConfigurationError("a program has no batch, no partitions or no hash");
  return p;
}

}  // namespace

ordered_json to_json(const PlanOptions& o) {
  ordered_json out = {{"model", o.model},
                      {"train", o.train},
                      {"dtype", o.dtype},
                      {"weights", o.weights},
                      {"sizes", pairs_json(o.sizes)},
                      {"mesh", pairs_json(o.mesh)},
                      {"batches", o.batches},
                      {"in_range", o.in_range}};
  if (o.length) out["length"] = *o.length;
  return out;
}

PlanOptions read_plan_options(const JsonReader& from) {
  PlanOptions o;
  o.model = from.text("model");
  o.train = from.text("train");
  o.dtype = from.text("dtype");
  o.weights = from.text("weights");
  o.sizes = read_pairs(from, "sizes");
  o.mesh = read_pairs(from, "mesh");
  o.batches = from.integers("batches");
  o.in_range = from.flag("in_range");
  if (from.has("length")) o.length = from.integer("length");
  return o;
}

ordered_json to_json(const PlannedModel& m) {
  ordered_json matrices = ordered_json::array(), programs = ordered_json::array();
  for (const auto& w : m.matrices)
    matrices.push_back({{"sizes", w.sizes}, {"count", w.count}, {"name", w.name}});
  for (const auto& p : m.programs) programs.push_back(program_json(p));
  ordered_json out = {{"kind", m.kind},
                      {"loss", m.loss},
                      {"parameters", m.parameters},
                      {"least_batch", m.least_batch},
                      {"most_batch", m.most_batch},
                      {"any_batch", m.any_batch},
                      {"matrices", matrices},
                      {"programs", programs}};
  if (m.length) out["length"] = *m.length;
  return out;
}

PlannedModel read_planned_model(const JsonReader& from) {
  PlannedModel m;
  m.kind = from.text("kind");
  m.loss = from.text("loss");
  m.parameters = plan_amount(from, "parameters");
  m.least_batch = plan_amount(from, "least_batch");
  m.most_batch = plan_amount(from, "most_batch");
  m.any_batch = from.flag("any_batch");
  if (from.has("length")) m.length = plan_amount(from, "length");
  for (const JsonReader& r : from.objects("matrices"))
    m.matrices.push_back({r.integers("sizes"), plan_amount(r, "count"), r.text("name")});
  for (const JsonReader& r : from.objects("programs")) m.programs.push_back(read_program_of(r));
  if (m.least_batch < 1 || m.most_batch < m.least_batch)
    throw ConfigurationError("the range of batches is empty");
  return m;
}

}  // namespace tpubridge::tools
