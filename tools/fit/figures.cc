#include "tools/fit/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/output.h"
#include "tpubridge/aot/generations.h"

namespace tpubridge::tools {
namespace {

const aot::Generation& generation_of(const std::string& tpu) { return *aot::parse_slice(tpu).generation; }

// Edge of the matrix units.
int64_t unit_of(const aot::Generation& g) { return g.name == "v6e" || g.name == "v7" ? 256 : 128; }

// How much more work it is than of a size that is a multiple.
double waste(int64_t size, int64_t unit) {
  const int64_t whole = (size + unit - 1) / unit * unit;
  return static_cast<double>(whole) / static_cast<double>(size) - 1;
}

struct Wasteful {
  const PlannedWeights* weights;
  double waste;
};

std::vector<Wasteful> wasteful(const PlannedModel& model, int64_t unit) {
  constexpr double kWorthATold = 0.03;
  std::vector<Wasteful> out;
  for (const auto& w : model.matrices) {
    double all = 1;
    for (const int64_t s : w.sizes)
      if (s > 0) all *= 1 + waste(s, unit);
    if (all - 1 >= kWorthATold) out.push_back({&w, all - 1});
  }
  std::ranges::sort(out, [](const Wasteful& a, const Wasteful& b) { return a.waste > b.waste; });
  return out;
}

void advise_sizes(const FitPlan& plan, std::vector<std::string>& out) {
  constexpr size_t kMost = 4;
  std::map<int64_t, std::string> units;  // and the generations that have them
  for (const auto& t : plan.targets) {
    const auto& g = generation_of(t.tpu);
    std::string& names = units[unit_of(g)];
    if (names.find(g.name) == names.npos) names += (names.empty() ? "" : ", ") + std::string(g.name);
  }
  for (const auto& [unit, names] : units) {
    const auto found = wasteful(plan.model, unit);
    std::string text;
    for (size_t i = 0; i < std::min(found.size(), kMost); ++i) {
      const auto& w = *found[i].weights;
      text += fmt::format(
          "{}{} [{}, {}]{} does {:.0f} % more work than its numbers need", i ? "; " : "", w.name, w.sizes[0],
          w.sizes[1], w.count > 1 ? fmt::format(" and {} like it", w.count - 1) : "", 100 * found[i].waste);
    }
    if (found.size() > kMost) text += fmt::format("; and {} other sizes", found.size() - kMost);
    if (!text.empty())
      out.push_back(fmt::format("{}: the matrix units take multiples of {}. {}.", names, unit, text));
  }
}

// The smallest slice that a point would fit if it were split evenly, and how to ask for it.
std::string grown(const FitPlan& plan, const std::string& tpu, const FitPoint& point) {
  const int64_t needed = point.result.needed, hbm = point.result.hbm_bytes, batch = point.program.batch;
  const auto& g = generation_of(tpu);
  const int64_t devices = (needed + hbm - 1) / hbm;
  for (const auto& slice : slices_of(g.name)) {
    const int64_t there = aot::parse_slice(slice).devices();
    if (there < devices) continue;
    std::string text =
        fmt::format("{}: split evenly over its {} devices it would take {} of {} on each, by arithmetic",
                    slice, there, human_bytes(needed / there), human_bytes(hbm));
    if (!plan.options.plan.weights.empty())
      return text + "; weights in few bits are not planned over a mesh: without --weights it can be compiled";
    if (batch % there == 0)
      return text + fmt::format("; `--tpu {} --mesh fsdp={}` compiles it", slice, there);
    const int64_t whole = (batch + there - 1) / there * there;
    if (!plan.model.any_batch || whole > plan.model.most_batch)
      return text + fmt::format(", but its batch of {} cannot be split into {}", batch, there);
    return text + fmt::format("; `--tpu {} --mesh fsdp={} --batch {}` compiles it", slice, there, whole);
  }
  return fmt::format("{}: no slice is large enough, a pod has {} chips", g.name, g.pod_chips);
}

void advise_fitting(const FitPlan& plan, std::vector<std::string>& out) {
  const bool any = std::ranges::any_of(plan.targets, [](const auto& t) { return t.largest() != nullptr; });
  if (any) return;
  std::vector<std::string> slices;
  for (const auto& t : plan.targets) {
    const FitPoint* p = t.too_large();
    if (!p || p->result.needed <= 0 || p->result.hbm_bytes <= 0) continue;
    out.push_back(fmt::format("{}: {} too much at a batch of {}", t.tpu,
                              human_bytes(std::max<int64_t>(p->result.needed - p->result.hbm_bytes, 0)),
                              p->program.batch));
    if (plan.options.plan.mesh.empty()) slices.push_back(grown(plan, t.tpu, *p));
  }
  out.insert(out.end(), slices.begin(), slices.end());
}

void advise_weights(const FitPlan& plan, std::vector<std::string>& out) {
  const auto& o = plan.options.plan;
  for (const auto& t : plan.targets) {
    const FitPoint* p = t.too_large();
    if (t.largest() || !p || !o.train.empty() || !o.weights.empty() || plan.model.kind == "torch.export")
      continue;
    if (2 * p->program.weights < p->result.needed) continue;
    out.emplace_back(
        "More than half of it is weights: `--weights int8` takes a half to a quarter of that, int4 half as "
        "much again");
    return;
  }
}

}  // namespace

std::vector<HbmPart> hbm_parts(const FitPoint& point) {
  const auto& [program, r, stored] = point;
  if (r.compile_seconds <= 0) return {};
  const int64_t known = program.weights + program.state + program.inputs + program.constants;
  return {{"weights_bytes", "weights", program.weights},
          {"optimizer_bytes", "optimizer", program.state},
          {"inputs_bytes", "inputs", program.inputs},
          {"constants_bytes", "constants", program.constants},
          {"layout_bytes", "layout", r.arguments - known},
          {"new_outputs_bytes", "outputs", std::max<int64_t>(r.outputs - r.aliased, 0)},
          {"temporaries_bytes", "temporaries", r.temporaries},
          {"code_bytes", "code", r.code}};
}

const char* to_text(Binds binds) {
  switch (binds) {
    case Binds::compute:
      return "compute";
    case Binds::hbm:
      return "HBM";
    case Binds::neither:
      return "neither";
    default:
      return "unknown";
  }
}

Figures figures_of(const FitPoint& point, const std::string& tpu, const Prices& prices) {
  const aot::Generation& g = generation_of(tpu);
  const aot::FitResult& r = point.result;
  Figures f;
  f.tokens = point.program.tokens > 0;
  f.chips = static_cast<double>(point.program.partitions) / g.devices_per_chip;
  if (r.compile_seconds <= 0) return f;
  f.compute_seconds = r.flops / g.bf16_flops;
  f.hbm_seconds = r.bytes_accessed / g.bandwidth;
  f.partly = r.unestimated > 0;
  if (!r.optimal_seconds || *r.optimal_seconds <= 0) return f;
  f.seconds = r.optimal_seconds;
  // Where one of the two takes half of the time or more. Bytes that stay on the chip are counted as well, so
  // they may come to more than all of the time; and ops without an estimate add to it.
  const double most = std::max(f.compute_seconds, f.hbm_seconds);
  f.binds = most < *f.seconds / 2                ? Binds::neither
            : f.compute_seconds >= f.hbm_seconds ? Binds::compute
                                                 : Binds::hbm;
  const auto made = static_cast<double>(f.tokens ? point.program.tokens : point.program.batch);
  f.per_second = made / *f.seconds;
  if (const Price* price = prices.of(g.name))
    f.price_per_million = price->chip_hour * f.chips * *f.seconds / 3600 / made * 1e6;
  return f;
}

std::vector<std::string> slices_of(std::string_view generation) {
  static constexpr std::string_view flat[] = {"1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"};
  static constexpr std::string_view deep[] = {"2x2x1", "2x2x2", "2x2x4",  "2x4x4",   "4x4x4",    "4x4x8",
                                              "4x8x8", "8x8x8", "8x8x16", "8x16x16", "16x16x16", "16x16x24"};
  const aot::Generation& g = *aot::find_generation(generation);
  std::vector<std::string> out;
  for (const auto& dims : g.dimensions == 2 ? std::span<const std::string_view>(flat) : deep) {
    const std::string name = fmt::format("{}:{}", g.name, dims);
    int chips = 1, n = 0;
    for (const char c : dims) n = c == 'x' ? (chips *= n, 0) : n * 10 + (c - '0');
    if (chips * n <= g.pod_chips) out.push_back(name);
  }
  return out;
}

std::vector<std::string> advice(const FitPlan& plan) {
  std::vector<std::string> out;
  advise_fitting(plan, out);
  advise_weights(plan, out);
  advise_sizes(plan, out);
  return out;
}

}  // namespace tpubridge::tools
