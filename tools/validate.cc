// `tpubridge validate CONFIG.json`: looks a configuration over and says what is wrong, doubtful and good.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tpubridge/config/validation.h"

namespace tpubridge::tools {
namespace {

struct ValidateOptions {
  std::string file;
  bool strict = false;
};

Table::Cell mark(ValidationStatus status) {
  switch (status) {
    case ValidationStatus::passed:
      return {"ok", Colour::green};
    case ValidationStatus::warning:
      return {"warning", Colour::yellow};
    case ValidationStatus::failed:
      return {"failed", Colour::red};
    case ValidationStatus::skipped:
      break;
  }
  return {"skipped", Colour::dim};
}

std::string text_of(const ValidationSummary& s) {
  Table table;
  for (const auto& r : s.reports) {
    table.add({mark(r.status), r.message});
    if (const auto advice = r.detail("recommendation"); !advice.empty())
      table.add({"", Table::Cell("→ " + advice, Colour::dim)});
  }
  return table.str() + fmt::format("{}, {} passed, {}, {} failed{}\n",
                                   human_count(s.total_tests, "check", "checks"), s.passed,
                                   human_count(s.warnings, "warning", "warnings"), s.failed,
                                   s.skipped > 0 ? fmt::format(", {} skipped", s.skipped) : "");
}

int validate_file(const ValidateOptions& options, bool json) {
  set_phase("validating");
  const CheckedConfig checked = check_configuration(read_file(options.file), options.file);
  const ValidationSummary& s = checked.summary;
  const bool good = s.is_valid() && (!options.strict || s.warnings == 0);
  if (json) {
    auto out = nlohmann::ordered_json::parse(s.to_json());
    out["file"] = options.file;
    out["strict"] = options.strict;
    out["good"] = good;
    out["config"] = checked.effective.empty() ? nlohmann::ordered_json()
                                              : nlohmann::ordered_json::parse(checked.effective);
    print_json(out);
  } else {
    print(text_of(s));
  }
  return good ? kOk : kFailed;
}

}  // namespace

void add_validate(CLI::App& root, Invocation& call) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* app = root.add_subcommand("validate", "Check a configuration file");
  app->add_option("CONFIG", options->file, "JSON file (docs/configuration.md)")->required();
  app->add_flag("--strict", options->strict, "Warnings count as failures, a missing TPU among them");
  add_json(*app, call);
  app->footer(
      "Examples:\n"
      "  tpubridge validate run.json\n"
      "  tpubridge validate run.json --strict --json");
  app->callback(
      [options, &call] { call.body = [options, &call] { return validate_file(*options, call.json); }; });
}

}  // namespace tpubridge::tools
