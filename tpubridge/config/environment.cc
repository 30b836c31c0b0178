// The configuration from the environment: the variables of base/env.cc that stand in the table of fields.
#include <charconv>

#include "tpubridge/base/env.h"
#include "tpubridge/config/fields.h"

namespace tpubridge {
namespace {

double number(std::string_view variable, const std::string& text, const config::Field& field) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || !(out >= field.low && out <= field.high))
    throw config::bad_value(std::string(variable), text, "a number, " + config::allowed(field));
  return out;
}

int index_of(std::span<const std::string_view> names, const std::string& name) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<int>(i);
  // The registry has let it pass, so its row and the field's disagree.
  throw ArgumentError("a variable allows what its field does not know", {{"value", name}});
}

// The registry checks the value against its own row; the rows allow what the fields do.
void take(const config::Field& field, const config::Slot& slot) {
  const std::string_view v = field.variable;
  if (auto* const* s = std::get_if<Setting<bool>*>(&slot))
    **s = env::flag(v);
  else if (auto* const* s = std::get_if<Setting<int64_t>*>(&slot))
    **s = *env::integer(v);
  else if (auto* const* s = std::get_if<Setting<double>*>(&slot))
    **s = number(v, env::text(v), field);
  else if (auto* const* s = std::get_if<Setting<std::string>*>(&slot))
    **s = env::text(v);
  else if (const auto* c = std::get_if<config::Choice>(&slot))
    c->suggest(c->setting, index_of(field.choices, env::choice(v)), Origin::user);
}

template <class Wanted>
void take_all(Config& config, Wanted&& wanted) {
  for (const auto& section : config::sections())
    for (const auto& field : section.fields) {
      if (field.variable.empty() || !env::raw(field.variable)) continue;
      const config::Slot slot = field.slot(section.of(config));
      if (wanted(slot)) take(field, slot);
    }
}

}  // namespace

void Config::override_from_environment() {
  Config next = *this;  // all or nothing
  if (env::raw("TPUBRIDGE_MODE"))
    next.set_mode(static_cast<Mode>(index_of(config::mode_names(), env::choice("TPUBRIDGE_MODE"))));
  take_all(next, [](const config::Slot&) { return true; });
  *this = std::move(next);
}

void Config::complete_from_environment() {
  Config next = *this;
  if (mode_ == Mode::none && env::raw("TPUBRIDGE_MODE"))
    next.set_mode(static_cast<Mode>(index_of(config::mode_names(), env::choice("TPUBRIDGE_MODE"))));
  take_all(next, [](const config::Slot& slot) { return config::origin(slot) != Origin::user; });
  *this = std::move(next);
}

Config Config::from_environment() {
  const std::string file = env::text("TPUBRIDGE_CONFIG");
  Config out = file.empty() ? Config() : from_file(file);
  out.override_from_environment();
  return out;
}

}  // namespace tpubridge
