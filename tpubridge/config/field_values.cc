// What can be asked of a field: its type, its value as text, whether it is in range.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tpubridge/base/text.h"
#include "tpubridge/config/fields.h"

namespace tpubridge::config {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // clang 14 does not find it by itself

bool between(double v, const Field& f) { return v >= f.low && v <= f.high; }  // a NaN is not

std::string number_text(double v) {
  return std::isfinite(v) ? fmt::format("{}", v) : std::isnan(v) ? "nan" : "inf";
}

// A fresh one, to look at the types of the fields.
const Slot fresh(const Field& field) {
  static Config config;
  for (const Section& s : sections())
    if (&field >= s.fields.data() && &field < s.fields.data() + s.fields.size())
      return field.slot(s.of(config));
  throw ArgumentError("a field that is in no section", {{"name", std::string(field.name)}});
}

}  // namespace

std::string full_name(const Section& section, std::string_view field) {
  return section.path.empty() ? std::string(field) : fmt::format("{}.{}", section.path, field);
}

std::string_view type_name(const Field& field) {
  return std::visit(
      Overloaded{[](Setting<bool>*) { return "true or false"; },
                 [](Setting<int64_t>*) { return "a whole number"; },
                 [](Setting<double>*) { return "a number"; },
                 [](Setting<std::optional<double>>*) { return "a number or null"; },
                 [](Setting<std::string>*) { return "a text"; }, [](const Choice&) { return "a choice"; }},
      fresh(field));
}

std::string allowed(const Field& field) {
  if (!field.choices.empty()) return join(field.choices);
  if (!field.instead.empty()) return "false";
  if (field.low == field.high) return {};
  const auto bound = [](double v) {
    return std::abs(v) < 1e15 && v == std::floor(v) ? fmt::format("{:.0f}", v) : fmt::format("{}", v);
  };
  return fmt::format("{} to {}", bound(field.low), bound(field.high));
}

std::string value_text(const Slot& slot, const Field& field) {
  return std::visit(
      Overloaded{
          [](Setting<bool>* s) { return std::string(s->value() ? "true" : "false"); },
          [](Setting<int64_t>* s) { return std::to_string(s->value()); },
          [](Setting<double>* s) { return number_text(s->value()); },
          [](Setting<std::optional<double>>* s) {
            return s->value() ? number_text(*s->value()) : std::string("null");
          },
          [](Setting<std::string>* s) {
            return nlohmann::json(s->value()).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
          },
          [&](const Choice& c) {
            const auto i = static_cast<size_t>(c.get(c.setting));
            return i < field.choices.size() ? fmt::format("\"{}\"", field.choices[i]) : fmt::format("#{}", i);
          }},
      slot);
}

Origin origin(const Slot& slot) {
  return std::visit(
      Overloaded{[](auto* s) { return s->origin(); }, [](const Choice& c) { return c.origin(c.setting); }},
      slot);
}

bool in_range(const Slot& slot, const Field& field) {
  return std::visit(
      Overloaded{
          [&](Setting<bool>* s) { return field.instead.empty() || !s->value(); },
          [&](Setting<int64_t>* s) { return between(static_cast<double>(s->value()), field); },
          [&](Setting<double>* s) { return between(s->value(), field); },
          [&](Setting<std::optional<double>>* s) { return !s->value() || between(*s->value(), field); },
          [&](Setting<std::string>* s) {  // what is no UTF-8 could not be written
            if (!field.choices.empty())
              return std::ranges::find(field.choices, s->value()) != field.choices.end();
            try {
              (void)nlohmann::json(s->value()).dump();
              return true;
            } catch (const nlohmann::json::exception&) {
              return false;
            }
          },
          [&](const Choice& c) { return static_cast<size_t>(c.get(c.setting)) < field.choices.size(); }},
      slot);
}

void copy(const Slot& from, const Slot& to) {
  if (origin(to) == Origin::user) return;
  std::visit(Overloaded{[&](const Choice& f) {
                          const auto& t = std::get<Choice>(to);
                          t.assign(t.setting, f.setting);
                        },
                        [&](auto* f) { *std::get<decltype(f)>(to) = *f; }},
             from);
}

TPUConfigurationError bad_value(const std::string& parameter, const std::string& value,
                                const std::string& wanted, std::string_view source, std::string_view hint) {
  Details details = {{"parameter", parameter}, {"value", value}, {"allowed", wanted}};
  if (!source.empty()) details.emplace_back("source", source);
  return TPUConfigurationError(
      fmt::format("Invalid configuration for '{}': {} - it must be {}", parameter, value, wanted),
      std::move(details), std::string(hint), Code::invalid_argument);
}

std::vector<TPUConfigurationError> find_problems(const Section& section, void* values) {
  std::vector<TPUConfigurationError> out;
  for (const Field& f : section.fields) {
    const Slot slot = f.slot(values);
    if (in_range(slot, f)) continue;
    const bool text = std::holds_alternative<Setting<std::string>*>(slot) && f.choices.empty();
    out.push_back(bad_value(full_name(section, f.name), value_text(slot, f), text ? "UTF-8" : allowed(f), {},
                            f.instead));
  }
  return out;
}

}  // namespace tpubridge::config
