// What the modes say, and checking.
#include "tpubridge/config/config.h"

#include "tpubridge/config/fields.h"

namespace tpubridge {
namespace {

template <class T>
void say(Setting<T>& setting, T value) {
  setting.suggest(std::move(value), Origin::mode);
}

void apply_mode(Config& c, Mode mode) {
  TPUConfig& tpu = c.hardware.tpu;
  switch (mode) {
    case Mode::none:
      return;
    case Mode::inference:
      say(c.validation.enabled, false);
      say(c.optimization_level, Optimization::aggressive);
      say(tpu.mixed_precision, true);
      say(tpu.gradient_checkpointing, false);
      say(tpu.cache_max_size, int64_t{200});
      return;
    case Mode::training:
      say(c.validation.enabled, true);
      say(c.optimization_level, Optimization::balanced);
      say(tpu.mixed_precision, true);
      say(tpu.gradient_checkpointing, true);
      say(tpu.xla_optimization_level, int64_t{2});
      return;
    case Mode::development:
      say(c.validation.enabled, true);
      say(c.validation.strict, true);
      say(c.optimization_level, Optimization::conservative);
      say(c.runtime.log_level, log::Level::debug);
      say(tpu.precision, TPUPrecision::float32);
      say(tpu.mixed_precision, false);
      say(tpu.enable_strict_validation, true);
      say(tpu.xla_optimization_level, int64_t{0});
      return;
  }
  throw config::bad_value("mode", std::to_string(static_cast<int>(mode)), "one of Mode's");
}

void check_section(const config::Section& section, void* values) {
  auto problems = config::find_problems(section, values);
  if (!problems.empty()) throw std::move(problems.front());
}

}  // namespace

void Config::set_mode(Mode mode) {
  Config fresh;
  apply_mode(fresh, mode);
  for (const auto& section : config::sections())
    for (const auto& field : section.fields)
      config::copy(field.slot(section.of(fresh)), field.slot(section.of(*this)));
  mode_ = mode;
}

void TPUConfig::check() const {
  // Looked at, not changed. NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
  check_section(config::tpu_section(), const_cast<TPUConfig*>(this));
}

void Config::check() const {
  for (const auto& section : config::sections()) check_section(section, config::section_of(section, *this));
}

}  // namespace tpubridge
