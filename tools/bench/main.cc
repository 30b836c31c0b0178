// The program tpubridge-bench: what `tpubridge bench` runs. No torch here; its headers and fmt do not agree.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/bench/bench.h"
#include "tools/program.h"
#include "tools/table.h"

namespace tpubridge::tools {
namespace {

std::string text_of(double value, const std::string& unit) {
  return unit == "s" ? human_time(value) : fmt::format("{:.2f} {}", value, unit);
}
std::string text_of(const std::optional<double>& value, const std::string& unit) {
  return value ? text_of(*value, unit) : std::string();
}

void print_table(const BenchReport& report, bool quick) {
  Table table({"", "", "here", "aim", "reference", ""});
  int missed = 0;
  std::string group;
  for (const BenchFigure& f : report.figures) {
    missed += f.met() ? 0 : 1;
    table.add({Table::Cell(f.group == group ? "" : f.group, Colour::bold), f.name,
               Table::Cell(text_of(f.value, f.unit), f.met() ? Colour::plain : Colour::red),
               text_of(f.aim, f.unit), text_of(f.reference, f.unit), Table::Cell(f.what, Colour::dim)});
    group = f.group;
  }
  print(table.str());
  print(fmt::format("{}; medians{}; {}\n", report.device, quick ? " of few runs" : "",
                    missed == 0 ? std::string("every aim is met")
                                : human_count(missed, "aim is missed", "aims are missed")));
}

nlohmann::ordered_json json_of(const BenchReport& report, bool quick) {
  nlohmann::ordered_json out = {{"device", report.device}, {"quick", quick}};
  auto& figures = out["figures"] = nlohmann::ordered_json::array();
  for (const BenchFigure& f : report.figures) {
    nlohmann::ordered_json row = {
        {"group", f.group}, {"name", f.name}, {"what", f.what}, {"value", f.value}, {"unit", f.unit}};
    row["aim"] = f.aim ? nlohmann::ordered_json(*f.aim) : nlohmann::ordered_json();
    row["reference"] = f.reference ? nlohmann::ordered_json(*f.reference) : nlohmann::ordered_json();
    row["met"] = f.aim ? nlohmann::ordered_json(f.met()) : nlohmann::ordered_json();
    figures.push_back(std::move(row));
  }
  return out;
}

int bench(const BenchOptions& options) {
  const BenchReport report = run_benchmarks(options);
  if (options.json)
    print_json(json_of(report, options.quick));
  else
    print_table(report, options.quick);
  return kOk;
}

}  // namespace
}  // namespace tpubridge::tools

int main(int argc, char** argv) {
  using namespace tpubridge::tools;
  return run_program(argc, argv, "Measures the backend API beside the reference's figures and our aims.",
                     "tpubridge bench", add_bench_options, bench);
}
