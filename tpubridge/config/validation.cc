// The checks, in the order in which they are told.
#include "tpubridge/config/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "tpubridge/base/text.h"
#include "tpubridge/config/fields.h"

namespace tpubridge {
namespace {

using Status = ValidationStatus;
using Clock = std::chrono::steady_clock;
using Problems = std::vector<TPUConfigurationError>;
constexpr size_t kMostProblems = 100;  // of a file: nobody reads more

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Adds findings and clocks them.
class Findings {
 public:
  // `problems` were found before; they come first, and no field is told of twice.
  Findings(const TPUConfig& config, const Problems& problems) : config_(config) {
    for (const auto& e : problems) fail(e);
  }

  // Of a field: failed where it is out of range.
  void field(std::string_view name, const std::string& good) {
    const auto& section = config::tpu_section();
    const auto& f = *std::ranges::find(section.fields, name, &config::Field::name);
    // Looked at, not changed. NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
    const auto slot = f.slot(const_cast<TPUConfig*>(&config_));
    std::string value = config::value_text(slot, f);
    if (value.starts_with('"')) value = value.substr(1, value.size() - 2);
    const std::string parameter = config::full_name(section, name);
    if (!config::in_range(slot, f))
      fail(config::bad_value(parameter, value, config::allowed(f)));
    else if (!told(parameter))
      add(Status::passed, fmt::format("{}: {}", good, value), {{"field", parameter}, {"value", value}});
  }
  void pass(std::string message) { add(Status::passed, std::move(message), {}); }
  void warn(std::string_view field, std::string message, std::string recommendation) {
    add(Status::warning, std::move(message),
        {{"field", field.empty() ? "" : fmt::format("hardware.tpu.{}", field)},
         {"recommendation", std::move(recommendation)}});
  }
  void fail(const TPUConfigurationError& e) {
    std::string parameter = e.detail("parameter");
    if (told(parameter)) return;
    const std::string allowed = e.detail("allowed"), nearest = e.detail("nearest");
    add(Status::failed, e.message(),
        {{"field", parameter},
         {"value", e.detail("value")},
         {"recommendation", !e.hint().empty() ? e.hint()
                            : nearest.empty() ? fmt::format("Allowed: {}.", allowed)
                                              : fmt::format("Write {}, or take it out.", nearest)}});
    told_.push_back(std::move(parameter));
  }

  ValidationSummary finish() {
    summary_.execution_time = seconds_since(start_);
    return std::move(summary_);
  }

 private:
  void add(Status status, std::string message, std::vector<std::pair<std::string, std::string>> metadata) {
    summary_.add(status, std::move(message), std::move(metadata));
    summary_.reports.back().execution_time = seconds_since(last_);
    last_ = Clock::now();
  }
  bool told(const std::string& parameter) const { return std::ranges::find(told_, parameter) != told_.end(); }

  const TPUConfig& config_;
  ValidationSummary summary_;
  std::vector<std::string> told_;  // fields that failed
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

void basics(Findings& out, const TPUConfig& c) {
  out.field("version", "TPU version valid");
  out.field("topology", "TPU topology valid");
  out.field("compilation_mode", "TPU compilation mode valid");
  if (c.precision == TPUPrecision::float64)
    out.warn("precision", "precision float64 is emulated on a TPU, and slow",
             "Use bfloat16, float16 or float32.");
  else
    out.field("precision", "precision valid");
}

void here(Findings& out, const TPUConfig& asked, const TPURuntime& runtime) {
  if (!runtime.available) {
    if (runtime.problem.empty())
      out.warn("", "no TPU is available here: programs run on a simulated one",
               "`tpubridge doctor` says what is missing.");
    else
      out.warn("", "the TPU cannot be opened: " + runtime.problem, "`tpubridge doctor` looks into it.");
    return;
  }
  out.pass("a TPU is available");
  out.pass("device: " + runtime.device_kind);
  out.pass(fmt::format("world size: {}", runtime.world_size));
  if (runtime.world_size > 1 && asked.topology.is_set() && asked.topology == TPUTopology::single)
    out.warn("topology",
             fmt::format("there are {} devices, but the topology is set to single", runtime.world_size),
             "Leave the topology at auto, or use one device.");
}

void memory(Findings& out, const TPUConfig& c) {
  out.field("memory_fraction", "memory fraction valid");
  if (c.gradient_checkpointing)
    out.pass("gradient checkpointing is on");
  else
    out.warn("gradient_checkpointing", "gradient checkpointing is off: training keeps every activation",
             "Turn it on where a model does not fit.");
}

void compilation(Findings& out, const TPUConfig& c) {
  out.field("xla_optimization_level", "XLA optimization level valid");
  if (c.enable_xla_dynamic_shapes)
    out.pass("XLA dynamic shapes enabled: inputs may vary in size");
  else
    out.warn("enable_xla_dynamic_shapes", "XLA dynamic shapes disabled: every input must have the same sizes",
             "Pad inputs to one size, or enable dynamic shapes.");
}

// What the reference does not look at is said only where it is wrong, so that its counts hold.
void others(Findings& out, const TPUConfig& c) {
  // Looked at, not changed. NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
  for (const auto& e : config::find_problems(config::tpu_section(), const_cast<TPUConfig*>(&c))) out.fail(e);
  try {
    TPUConfig flags;
    flags.xla_flags = c.xla_flags;
    (void)compile_options(flags);
  } catch (const TPUConfigurationError& e) {
    out.fail(e);
  }
}

void for_version(Findings& out, const TPUConfig& c) {
  const TPUVersion v = c.version;
  const bool large = v == TPUVersion::v5p || v == TPUVersion::v6e || v == TPUVersion::v7;
  if (large && c.xla_optimization_level < 2)
    out.warn("xla_optimization_level",
             fmt::format("XLA optimization level {} is low for a {}", c.xla_optimization_level.value(),
                         to_string(v)),
             "Consider level 2.");
  if (large && c.memory_fraction < 0.9)
    out.warn(
        "memory_fraction",
        fmt::format("memory fraction {} leaves much of a {} unused", c.memory_fraction.value(), to_string(v)),
        "A fraction of 0.9 or more usually works.");
  if (v == TPUVersion::v5e && c.xla_optimization_level > 1)
    out.warn("xla_optimization_level",
             fmt::format("XLA optimization level {} may be less stable on a v5e",
                         c.xla_optimization_level.value()),
             "Consider level 1.");
}

void look(Findings& out, const TPUConfig& config, const TPUConfig& full, const TPURuntime& runtime) {
  basics(out, full);
  here(out, config, runtime);
  memory(out, full);
  compilation(out, full);
  for_version(out, full);
  others(out, full);
}

// The whole configuration, after what was already found when it was read.
ValidationSummary look_at(const Config& config, const TPURuntime& runtime, const Problems& problems) {
  const TPUConfig full = resolved(config.hardware.tpu, runtime);
  Findings out(full, problems);
  for (const auto& section : config::sections())
    if (&section != &config::tpu_section())
      for (const auto& e : config::find_problems(section, config::section_of(section, config))) out.fail(e);
  look(out, config.hardware.tpu, full, runtime);
  return out.finish();
}

ValidationSummary strictly(ValidationSummary s, bool strict) {
  if (!strict || s.is_valid()) return s;
  const auto bad = std::ranges::find(s.reports, Status::failed, &ValidationReport::status);
  throw validation_error("configuration", bad->message,
                         {{"field", bad->detail("field")},
                          {"failed", std::to_string(s.failed)},
                          {"warnings", std::to_string(s.warnings)}},
                         bad->detail("recommendation"));
}

}  // namespace

ValidationSummary validate_tpu_configuration(const TPUConfig& config, const TPURuntime& runtime) {
  const TPUConfig full = resolved(config, runtime);
  Findings out(full, {});
  look(out, config, full, runtime);
  return strictly(out.finish(), config.enable_strict_validation);
}

ValidationSummary validate(const Config& config, const TPURuntime& runtime) {
  if (!config.validation.enabled) return {};
  return strictly(look_at(config, runtime, {}),
                  config.validation.strict || config.hardware.tpu.enable_strict_validation);
}

CheckedConfig check_configuration(std::string_view text, std::string_view source) {
  Config config;
  Problems problems;
  size_t found = 0;
  config::read_config(text, source, config, [&](TPUConfigurationError e) {
    if (++found <= kMostProblems) problems.push_back(std::move(e));
  });
  if (found > kMostProblems)
    problems.emplace_back(fmt::format("{} more problems are not listed", found - kMostProblems),
                          Details{{"source", std::string(source)}}, "Mend the first ones, then look again.");
  const TPURuntime runtime = look_for_tpu(problems.empty() ? config : Config());
  CheckedConfig out{look_at(config, runtime, problems), ""};
  if (out.summary.is_valid()) {
    config.hardware.tpu = resolved(config.hardware.tpu, runtime);
    out.effective = config.to_json();
  }
  return out;
}

}  // namespace tpubridge
