#include "tools/fit/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/fit_report.h"
#include "tools/output.h"
#include "tools/table.h"

namespace tpubridge::tools {
namespace {

using aot::Verdict;

struct Line {
  const FitTarget* target;
  const FitPoint* point;
  std::string what;  // "largest", "fastest", …
};

// What the table shows: of a search the ends, else all.
std::vector<Line> lines_of(const FitPlan& plan) {
  std::vector<Line> out;
  for (const auto& t : plan.targets) {
    if (!plan.options.any_batch) {
      for (const auto& p : t.points) out.push_back({&t, &p, ""});
      continue;
    }
    const FitPoint *largest = t.largest(), *fastest = t.fastest();
    if (largest) out.push_back({&t, largest, largest == fastest ? "largest, fastest" : "largest"});
    if (fastest && fastest != largest) out.push_back({&t, fastest, "fastest"});
    if (!largest && t.too_large()) out.push_back({&t, t.too_large(), ""});
    if (t.failed()) out.push_back({&t, t.failed(), ""});
  }
  return out;
}

std::string bound(bool partly, const char* sign, const std::string& text) {
  return partly ? std::string(sign) + " " + text : text;
}

std::string hbm_cell(const aot::FitResult& r) {
  if (r.needed <= 0 || r.hbm_bytes <= 0) return "-";
  return fmt::format("{} of {} ({:.0f}%)", human_bytes(r.needed), human_bytes(r.hbm_bytes),
                     100.0 * static_cast<double>(r.needed) / static_cast<double>(r.hbm_bytes));
}

Table::Cell fits_cell(const aot::FitResult& r) {
  if (r.verdict == Verdict::fits) return {"yes", Colour::green};
  if (r.verdict == Verdict::does_not_fit) return {"no", Colour::red};
  return {std::string(to_string(r.verdict)), Colour::yellow};
}

std::string part_cell(const std::vector<HbmPart>& parts, std::string_view key) {
  for (const auto& p : parts)
    if (p.key == key) return human_bytes(p.bytes);
  return "-";
}

std::vector<Table::Cell> row_of_plan(const FitPlan& plan, const Line& line, const Prices& prices) {
  const auto& r = line.point->result;
  const auto parts = hbm_parts(*line.point);
  const Figures f = figures_of(*line.point, line.target->tpu, prices);
  std::vector<Table::Cell> row = {
      line.target->tpu + (plan.options.slices > 1 ? fmt::format(" × {}", plan.options.slices) : ""),
      fmt::format("{}", line.point->program.batch), fits_cell(r), hbm_cell(r),
      part_cell(parts, "weights_bytes")};
  if (!plan.options.plan.train.empty()) row.emplace_back(part_cell(parts, "optimizer_bytes"));
  row.emplace_back(part_cell(parts, "temporaries_bytes"));
  row.emplace_back(f.seconds ? bound(f.partly, ">", human_time(*f.seconds)) : "-");
  row.emplace_back(to_text(f.binds) + std::string(f.partly && f.seconds ? " ?" : ""));
  row.emplace_back(f.per_second ? bound(f.partly, "<", human_rate(*f.per_second)) : "-");
  if (!prices.chips.empty())
    row.emplace_back(f.price_per_million ? bound(f.partly, ">", human_price(*f.price_per_million))
                                         : "unknown");
  row.emplace_back(line.what);
  return row;
}

std::string collectives_text(const FitPlan& plan) {
  std::string out;
  for (const auto& t : plan.targets)
    for (const auto& p : t.points) {
      if (p.result.collectives.empty()) continue;
      std::string all;
      for (const auto& c : p.result.collectives)
        all += fmt::format("{}{} {} ({})", all.empty() ? "" : ", ", c.count, c.kind, human_bytes(c.bytes));
      out += fmt::format("  {}, batch {}: {}\n", t.tpu, p.program.batch, all);
    }
  return out.empty() ? "" : "\nBetween devices, bytes of one of them:\n" + out;
}

std::string said_of(const FitPlan& plan) {
  std::string out;
  for (const auto& t : plan.targets)
    if (const FitPoint* p = t.failed()) {
      out += fmt::format("\n{}, batch {}: {}", t.tpu, p->program.batch, to_string(p->result.verdict));
      if (!p->result.message.empty()) out += ": " + p->result.message;
      while (out.ends_with('\n')) out.pop_back();
      out += "\n" + (p->result.hint.empty() ? "" : "  " + p->result.hint + "\n");
    }
  return out;
}

std::string search_text(const FitPlan& plan) {
  if (!plan.options.any_batch) return "";
  std::string out;
  for (const auto& t : plan.targets) {
    const FitPoint *largest = t.largest(), *more = t.too_large();
    if (!largest) continue;
    out += fmt::format("  {}: {} fits, ", t.tpu, largest->program.batch);
    out += more ? fmt::format("{} does not\n", more->program.batch)
                : std::string("nothing larger was found to be too large\n");
  }
  return out.empty() ? "" : "\nBatches:\n" + out;
}

nlohmann::ordered_json point_json(const FitPoint& point, const FitTarget& target, const Prices& prices) {
  const aot::FitResult& r = point.result;
  nlohmann::ordered_json out = fit_result_json(r);
  out["batch"] = point.program.batch;
  if (point.program.tokens > 0) out["tokens"] = point.program.tokens;
  out["stored"] = point.stored;
  const auto parts = hbm_parts(point);
  if (!parts.empty()) {
    nlohmann::ordered_json all = nlohmann::ordered_json::object();
    for (const auto& p : parts) all[p.key] = p.bytes;
    out["hbm"] = std::move(all);
  }
  const Figures f = figures_of(point, target.tpu, prices);
  out["binds"] = to_text(f.binds);
  out["estimate_is_partial"] = f.partly;
  if (r.compile_seconds > 0) {
    out["compute_seconds"] = f.compute_seconds;
    out["hbm_seconds"] = f.hbm_seconds;
  }
  if (f.per_second) out[f.tokens ? "tokens_per_second" : "samples_per_second"] = *f.per_second;
  out["chips_used"] = f.chips;
  out["price_per_million"] = f.price_per_million ? nlohmann::ordered_json(*f.price_per_million) : nullptr;
  nlohmann::ordered_json moved = nlohmann::ordered_json::array();
  for (const auto& c : r.collectives)
    moved.push_back({{"kind", c.kind}, {"count", c.count}, {"bytes", c.bytes}});
  if (!moved.empty()) out["collectives"] = std::move(moved);
  return out;
}

nlohmann::ordered_json batch_or_null(const FitPoint* p) {
  return p ? nlohmann::ordered_json(p->program.batch) : nullptr;
}

}  // namespace

std::string human_rate(double n) {
  std::string out = human_flops(n);
  return n < 100 ? fmt::format("{:.3g}", n) : out;
}
std::string human_price(double price) { return fmt::format("{:.3g}", price); }

std::string plan_title(const FitPlan& plan) {
  const auto& o = plan.options.plan;
  std::string out = o.train.empty() ? "a call" : "a training step with " + o.train;
  if (!o.dtype.empty()) out += ", " + o.dtype;
  if (!o.weights.empty()) out += ", weights " + o.weights;
  if (plan.model.length) out += fmt::format(", length {}", *plan.model.length);
  for (const auto& [name, size] : o.sizes) out += fmt::format(", {} = {}", name, size);
  for (size_t i = 0; i < o.mesh.size(); ++i)
    out += fmt::format("{}{}={}", i ? "," : ", mesh ", o.mesh[i].first, o.mesh[i].second);
  return out;
}

std::string plan_table(const FitPlan& plan, const Prices& prices) {
  const bool train = !plan.options.plan.train.empty();
  bool tokens = false, partly = false;
  const auto lines = lines_of(plan);
  for (const auto& l : lines) {
    tokens = tokens || l.point->program.tokens > 0;
    partly = partly || l.point->result.unestimated > 0;
  }
  std::string out = fmt::format("{} ({}, {} parameters): {}\n", plan.options.plan.model, plan.model.kind,
                                human_flops(static_cast<double>(plan.model.parameters)), plan_title(plan));
  if (train) out += fmt::format("The loss is {}.\n", plan.model.loss);
  std::vector<std::string> head = {"TPU", "batch", "fits", "HBM", "weights"};
  if (train) head.emplace_back("optimizer");
  for (const char* name : {"temporaries", "time/run", "binds"}) head.emplace_back(name);
  head.emplace_back(tokens ? "tokens/s" : "samples/s");
  if (!prices.chips.empty())
    head.push_back(fmt::format("{}/1M {}", prices.currency, tokens ? "tokens" : "samples"));
  head.emplace_back("");
  Table table(std::move(head));
  for (const auto& line : lines) table.add(row_of_plan(plan, line, prices));
  out += "\n" + table.str() + said_of(plan) + search_text(plan) + collectives_text(plan);
  const auto sentences = advice(plan);
  if (!sentences.empty()) out += "\n";
  for (const auto& s : sentences) out += s + "\n";
  out += fmt::format(
      "\nHBM is of one device; the time is the compiler's own estimate. {} compiled now, {} known before.\n",
      plan.compiled, plan.stored);
  if (partly)
    out +=
        "> and <: the compiler has no estimate for some ops, and they are not counted; ?: so what binds is a "
        "guess.\n";
  return out;
}

nlohmann::ordered_json plan_json(const FitPlan& plan, const Prices& prices) {
  const auto& o = plan.options.plan;
  nlohmann::ordered_json out = {{"model", o.model},
                                {"kind", plan.model.kind},
                                {"parameters", plan.model.parameters},
                                {"what", plan_title(plan)},
                                {"fits", plan_exit_code(plan) == kOk}};
  if (!o.train.empty()) out["train"] = o.train, out["loss"] = plan.model.loss;
  if (plan.model.length) out["length"] = *plan.model.length;
  out["currency"] = prices.currency;
  out["targets"] = nlohmann::ordered_json::array();
  for (const auto& t : plan.targets) {
    nlohmann::ordered_json points = nlohmann::ordered_json::array();
    for (const auto& p : t.points) points.push_back(point_json(p, t, prices));
    nlohmann::ordered_json one = {{"tpu", t.tpu}, {"slices", plan.options.slices}};
    one["largest_batch"] = batch_or_null(t.largest());
    one["fastest_batch"] = batch_or_null(t.fastest());
    one["too_large_batch"] = batch_or_null(t.too_large());
    one["points"] = std::move(points);
    out["targets"].push_back(std::move(one));
  }
  out["advice"] = advice(plan);
  out["compiled"] = plan.compiled;
  out["stored"] = plan.stored;
  out["traced"] = plan.traced;
  return out;
}

int plan_exit_code(const FitPlan& plan) {
  int code = kOk;
  for (const auto& t : plan.targets) {
    if (t.failed() || t.points.empty()) return kFailed;
    const bool short_of = plan.options.any_batch ? t.largest() == nullptr : t.too_large() != nullptr;
    if (short_of) code = kDoesNotFit;
  }
  return code;
}

}  // namespace tpubridge::tools
