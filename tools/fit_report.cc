#include "tools/fit_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/output.h"
#include "tools/table.h"

namespace tpubridge::tools {
namespace {

using aot::FitResult;
using aot::Verdict;

// Whether the compiler came to its end, so that all numbers are there.
bool compiled(const FitResult& r) { return r.compile_seconds > 0; }

Table::Cell verdict_cell(const FitResult& r) {
  const bool good = r.verdict == Verdict::fits, bad = r.verdict == Verdict::does_not_fit;
  return {good  ? "yes"
          : bad ? "no"
                : std::string(to_string(r.verdict)),
          good  ? Colour::green
          : bad ? Colour::red
                : Colour::yellow};
}

std::string share(double part, double of) {
  const double percent = 100 * part / of;
  return fmt::format("{:.{}f}%", percent, percent < 9.95 ? 1 : 0);
}

std::string hbm_text(const FitResult& r) {
  if (r.needed == 0 || r.hbm_bytes == 0) return "-";
  return fmt::format("{} of {} ({})", human_bytes(r.needed), human_bytes(r.hbm_bytes),
                     share(static_cast<double>(r.needed), static_cast<double>(r.hbm_bytes)));
}

std::string time_text(const FitResult& r) {
  if (!r.optimal_seconds) return "-";
  return (r.unestimated > 0 ? "> " : "") + human_time(*r.optimal_seconds);
}

std::vector<Table::Cell> row_of(const FitResult& r) {
  const auto bytes = [&](int64_t n) { return compiled(r) ? human_bytes(n) : std::string("-"); };
  const auto used = r.utilization();
  return {r.tpu,
          verdict_cell(r),
          hbm_text(r),
          bytes(r.arguments),
          bytes(r.temporaries),
          compiled(r) ? human_flops(r.flops) : "-",
          time_text(r),
          used ? (r.unestimated > 0 ? "< " : "") + share(*used, 1) : "-",
          compiled(r) ? human_time(r.compile_seconds) : "-"};
}

// The compiler's words with the line of the program that they are about, where they name one.
std::string explain(const FitResult& r, const ProgramFile& program) {
  const XLACompilationError complaint(r.message, {}, r.hint, r.status);
  std::string text = r.message, hint = r.hint;
  if (r.verdict == Verdict::compile_error) {
    if (const auto located = locate(complaint, program)) {
      try {
        std::rethrow_exception(located);
      } catch (const Error& e) {
        text = e.message();
        if (!e.hint().empty()) hint = e.hint();
      }
    }
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (!hint.empty()) text += "\n" + hint;
  return text;
}

std::string indented(std::string_view text) {
  std::string out = "  ";
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out + "\n";
}

const char* key_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return "fits";
    case Verdict::does_not_fit:
      return "does_not_fit";
    case Verdict::compile_error:
      return "compile_error";
    case Verdict::crashed:
      return "crashed";
    case Verdict::timed_out:
      return "timed_out";
    default:
      return "cancelled";
  }
}

}  // namespace

nlohmann::ordered_json fit_result_json(const FitResult& r) {
  nlohmann::ordered_json out = {
      {"tpu", r.tpu},     {"verdict", key_of(r.verdict)}, {"device_kind", r.device_kind},
      {"chips", r.chips}, {"devices", r.devices},         {"hbm_bytes", r.hbm_bytes}};
  if (r.needed > 0) out["needed_bytes"] = r.needed;
  if (compiled(r)) {
    out["arguments_bytes"] = r.arguments;
    out["outputs_bytes"] = r.outputs;
    out["aliased_bytes"] = r.aliased;
    out["temporaries_bytes"] = r.temporaries;
    out["code_bytes"] = r.code;
    out["peak_bytes"] = r.peak;
    out["flops"] = r.flops;
    out["bytes_accessed"] = r.bytes_accessed;
    out["compile_seconds"] = r.compile_seconds;
  }
  out["peak_flops_per_second"] = r.peak_flops;
  if (r.optimal_seconds) out["optimal_seconds"] = *r.optimal_seconds;
  if (compiled(r)) out["unestimated_ops"] = r.unestimated;
  if (const auto used = r.utilization()) out["utilization"] = *used;
  if (!r.executable.empty()) out["executable"] = r.executable.string();
  if (!r.message.empty()) out["message"] = r.message;
  if (!r.hint.empty()) out["hint"] = r.hint;
  if (!r.xla_code.empty()) out["xla_code"] = r.xla_code;
  return out;
}

std::string human_flops(double flops) {
  constexpr std::array units = {"", " K", " M", " G", " T", " P", " E"};
  size_t unit = 0;
  while (flops >= 999.5 && unit + 1 < units.size()) flops /= 1000, ++unit;
  return unit == 0 ? fmt::format("{:.0f}", flops) : fmt::format("{:.3g}{}", flops, units[unit]);
}

std::string fit_table(std::span<const FitResult> results, const ProgramFile& program) {
  Table table(
      {"TPU", "fits", "peak HBM", "arguments", "temporaries", "FLOPs", "time/run", "of peak", "compile"});
  std::vector<std::pair<std::string, std::string>> remarks;  // what was said, and of which TPUs
  for (const FitResult& r : results) {
    table.add(row_of(r));
    if (r.message.empty()) continue;
    const std::string said = explain(r, program);
    const auto same = std::ranges::find(remarks, said, &std::pair<std::string, std::string>::first);
    if (same == remarks.end())
      remarks.emplace_back(said, r.tpu);
    else
      same->second += ", " + r.tpu;
  }
  std::string out = table.str();
  for (const auto& [said, tpus] : remarks) out += fmt::format("\n{}\n{}", tpus, indented(said));
  if (std::ranges::any_of(results, compiled))
    out +=
        "\nOf one device; the time is the compiler's own estimate, the share is of the peak bf16 FLOP/s.\n";
  if (std::ranges::any_of(results, [](const FitResult& r) { return r.unestimated > 0; }))
    out += "> and <: the compiler has no estimate for some ops, and they are not counted.\n";
  return out;
}

nlohmann::ordered_json fit_json(std::span<const FitResult> results, const ProgramFile& program) {
  nlohmann::ordered_json out = {{"program", program.path.string()},
                                {"fits", fit_exit_code(results) == kOk},
                                {"results", nlohmann::ordered_json::array()}};
  for (const FitResult& r : results) out["results"].push_back(fit_result_json(r));
  return out;
}

int fit_exit_code(std::span<const FitResult> results) {
  int code = kOk;
  for (const FitResult& r : results) {
    if (r.verdict == Verdict::does_not_fit && code == kOk) code = kDoesNotFit;
    if (r.verdict != Verdict::does_not_fit && r.verdict != Verdict::fits) code = kFailed;
  }
  return code;
}

}  // namespace tpubridge::tools
