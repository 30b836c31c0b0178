// The one table of the configuration's fields: reading, writing, checking and the manual are made from it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tpubridge/base/errors.h"
#include "tpubridge/config/config.h"

namespace tpubridge::config {

// A setting of some enum, by number.
struct Choice {
  void* setting;
  int (*get)(const void*);
  Origin (*origin)(const void*);
  bool (*suggest)(void*, int, Origin);
  void (*assign)(void*, const void*);  // value and origin of another one
};
using Slot = std::variant<Setting<bool>*, Setting<int64_t>*, Setting<double>*,
                          Setting<std::optional<double>>*, Setting<std::string>*, Choice>;

struct Field {
  std::string_view name;
  Slot (*slot)(void* section);
  double low = 0, high = 0;                        // numbers: both included
  std::span<const std::string_view> choices = {};  // enums: their names in order; texts: all that is allowed
  std::string_view variable = {};                  // of the environment
  std::string_view description;
  std::string_view effect;        // what acts upon it
  std::string_view instead = {};  // a flag that may not be true: what to do in its place
};

struct Section {
  std::string_view path;  // "hardware.tpu"; empty: the document itself
  std::span<const Field> fields;
  void* (*of)(Config& config);
};
[[nodiscard]] std::span<const Section> sections();  // the document itself first
[[nodiscard]] const Section& tpu_section();
[[nodiscard]] std::span<const std::string_view> mode_names();

[[nodiscard]] std::string full_name(const Section& section, std::string_view field);
[[nodiscard]] std::string_view type_name(const Field& field);  // "true or false", "number", …
[[nodiscard]] std::string allowed(const Field& field);         // "0.1 to 1", "auto, v4, …"; empty: anything
[[nodiscard]] std::string value_text(const Slot& slot, const Field& field);  // as JSON; not finite: "nan"
[[nodiscard]] Origin origin(const Slot& slot);
[[nodiscard]] bool in_range(const Slot& slot, const Field& field);
void copy(const Slot& from, const Slot& to);  // of one field; what the user set in `to` stays

// A copy gives slots that may be read only.
[[nodiscard]] inline void* section_of(const Section& s, const Config& c) {
  return s.of(const_cast<Config&>(c));
}

[[nodiscard]] TPUConfigurationError bad_value(const std::string& parameter, const std::string& value,
                                              const std::string& wanted, std::string_view source = {},
                                              std::string_view hint = {});
// Every field of the section that is out of range, in order.
[[nodiscard]] std::vector<TPUConfigurationError> find_problems(const Section& section, void* values);

// Where problems go while a text is read: thrown at once, or gathered.
using Sink = std::function<void(TPUConfigurationError)>;
void read_config(std::string_view text, std::string_view source, Config& config, const Sink& sink);

}  // namespace tpubridge::config
