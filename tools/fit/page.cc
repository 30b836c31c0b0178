// The page of HTML that `tpubridge fit MODEL --html` writes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/fit/plan_report.h"
#include "tools/fit/svg.h"
#include "tools/fit_report.h"
#include "tools/output.h"
#include "tpubridge/aot/generations.h"

namespace tpubridge::tools {
namespace {

constexpr std::string_view kStyle =
    "body{font-family:sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;font-size:14px}td,th{padding:4px 9px;border-bottom:1px solid "
    "#ddd;text-align:left}"
    "h2{margin-top:1.6em}.no{color:#c0392b}.yes{color:#2e7d32}svg{width:100%;height:auto}p{line-height:1.4}";

// The points that stand for each target: the largest batch that fits, else the smallest that does not.
std::vector<std::pair<const FitTarget*, const FitPoint*>> shown(const FitPlan& plan) {
  std::vector<std::pair<const FitTarget*, const FitPoint*>> out;
  for (const auto& t : plan.targets)
    if (const FitPoint* p = t.largest() ? t.largest() : t.too_large()) out.emplace_back(&t, p);
  return out;
}

std::string hbm_bars(const FitPlan& plan) {
  std::vector<StackedBar> bars;
  for (const auto& [target, point] : shown(plan)) {
    StackedBar bar{fmt::format("{}, batch {}", target->tpu, point->program.batch), {}, 0, {}};
    const auto parts = hbm_parts(*point);
    for (const auto& p : parts) bar.parts.emplace_back(p.name, static_cast<double>(p.bytes));
    if (parts.empty()) bar.parts.emplace_back("needed", static_cast<double>(point->result.needed));
    bar.limit = static_cast<double>(point->result.hbm_bytes);
    bar.label =
        fmt::format("{} of {}", human_bytes(point->result.needed), human_bytes(point->result.hbm_bytes));
    bars.push_back(std::move(bar));
  }
  return bars_svg(bars);
}

// FLOP/s over FLOPs a byte: under the roof of each generation, what the estimate says.
std::string roofline(const FitPlan& plan) {
  std::vector<Curve> curves;
  int colour = 0;
  for (const auto& [target, point] : shown(plan)) {
    const auto& r = point->result;
    if (!r.optimal_seconds || r.bytes_accessed <= 0 || r.flops <= 0) continue;
    const auto& g = *aot::parse_slice(target->tpu).generation;
    const double ridge = g.bf16_flops / g.bandwidth, at = r.flops / r.bytes_accessed;
    const double from = std::min(at, ridge) / 8, to = std::max(at, ridge) * 8;
    curves.push_back({std::string(g.name) + ", the roof",
                      {{from, from * g.bandwidth}, {ridge, g.bf16_flops}, {to, g.bf16_flops}},
                      true,
                      colour});
    curves.push_back({fmt::format("{}, batch {}", target->tpu, point->program.batch),
                      {{at, r.flops / *r.optimal_seconds}},
                      false,
                      colour++});
  }
  return curves_svg(curves, {"FLOPs a byte of HBM", true}, {"FLOP/s of one device", true});
}

enum class OverBatch { hbm, time };
std::string batch_curve(const FitPlan& plan, OverBatch what) {
  std::vector<Curve> curves;
  int colour = 0;
  size_t longest = 0;
  for (const auto& t : plan.targets) {
    Curve c{t.tpu, {}, true, colour++};
    for (const auto& p : t.points) {
      const auto batch = static_cast<double>(p.program.batch);
      if (what == OverBatch::hbm && p.result.needed > 0)
        c.points.emplace_back(batch, static_cast<double>(p.result.needed) / (1 << 30));
      if (what == OverBatch::time && p.result.verdict == aot::Verdict::fits && p.result.optimal_seconds)
        c.points.emplace_back(batch, *p.result.optimal_seconds / batch * 1e6);
    }
    longest = std::max(longest, c.points.size());
    curves.push_back(std::move(c));
  }
  if (longest < 2) return "";  // one batch is no curve
  return what == OverBatch::hbm ? curves_svg(curves, {"batch", true}, {"GiB of HBM on one device", false})
                                : curves_svg(curves, {"batch", true}, {"µs a sample", false});
}

std::string page_table(const FitPlan& plan, const Prices& prices) {
  const bool tokens = std::ranges::any_of(plan.targets, [](const auto& t) {
    return std::ranges::any_of(t.points, [](const auto& p) { return p.program.tokens > 0; });
  });
  std::string out = fmt::format(
      "<table><tr><th>TPU</th><th>batch</th><th>fits</th><th>HBM</th><th>time a "
      "run</th><th>binds</th><th>{}/s</th>"
      "<th>{}/1M</th></tr>\n",
      tokens ? "tokens" : "samples", html_text(prices.currency));
  for (const auto& t : plan.targets)
    for (const auto& p : t.points) {
      const Figures f = figures_of(p, t.tpu, prices);
      const bool fits = p.result.verdict == aot::Verdict::fits;
      const char* more = f.partly ? "&gt; " : "";
      out += fmt::format(
          "<tr><td>{}</td><td>{}</td><td class=\"{}\">{}</td><td>{} of "
          "{}</td><td>{}{}</td><td>{}</td><td>{}{}</td>"
          "<td>{}</td></tr>\n",
          html_text(t.tpu), p.program.batch, fits ? "yes" : "no",
          fits ? "yes" : html_text(to_string(p.result.verdict)), human_bytes(p.result.needed),
          human_bytes(p.result.hbm_bytes), more, f.seconds ? human_time(*f.seconds) : "unknown",
          to_text(f.binds) + std::string(f.partly ? " ?" : ""), f.partly ? "&lt; " : "",
          f.per_second ? human_rate(*f.per_second) : "unknown",
          f.price_per_million ? more + human_price(*f.price_per_million) : "unknown");
    }
  return out + "</table>\n";
}

std::string page_section(std::string_view title, std::string_view text, const std::string& plot) {
  return plot.empty() ? "" : fmt::format("<h2>{}</h2>\n<p>{}</p>\n{}", title, text, plot);
}

}  // namespace

std::string plan_html(const FitPlan& plan, const Prices& prices) {
  const std::string name = html_text(Path(plan.options.plan.model).filename().string());
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}: will it "
      "fit</title><style>{1}</style>"
      "</head><body>\n<h1>{0}</h1>\n<p>{2}, {3} parameters: {4}.</p>\n",
      name, kStyle, html_text(plan.model.kind), human_flops(static_cast<double>(plan.model.parameters)),
      html_text(plan_title(plan)));
  if (!plan.options.plan.train.empty())
    out += fmt::format("<p>The loss is {}.</p>\n", html_text(plan.model.loss));
  out += page_table(plan, prices);
  for (const auto& [generation, price] : prices.chips)
    out += fmt::format("<p>{}: {} {} for a chip and hour ({}, {}).</p>\n", html_text(generation),
                       human_price(price.chip_hour), html_text(prices.currency), html_text(price.source),
                       html_text(price.date));
  out += page_section("Memory of one device",
                      "The mark is what the device has. Temporaries hold activations and gradients.",
                      hbm_bars(plan));
  out += page_section(
      "Roofline", "The roof is the vendor's peak (bf16) and bandwidth; the point is the compiler's estimate.",
      roofline(plan));
  out += page_section("Memory over the batch", "", batch_curve(plan, OverBatch::hbm));
  out +=
      page_section("Time over the batch", "By the compiler's estimate.", batch_curve(plan, OverBatch::time));
  const auto sentences = advice(plan);
  if (!sentences.empty()) out += "<h2>Advice</h2>\n<ul>\n";
  for (const auto& s : sentences) out += "<li>" + html_text(s) + "</li>\n";
  if (!sentences.empty()) out += "</ul>\n";
  return out +
         "<p>Made by tpubridge fit. Nothing here was measured on a TPU: it is what its compiler says.</p>\n"
         "</body></html>\n";
}

}  // namespace tpubridge::tools
