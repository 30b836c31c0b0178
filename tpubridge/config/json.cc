// The configuration as JSON: one document of nested objects, keys as the fields are named.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tpubridge/base/json.h"
#include "tpubridge/base/text.h"
#include "tpubridge/config/fields.h"

namespace tpubridge {
namespace config {
namespace {

using Json = nlohmann::json;

std::string shown(const Json& value) {
  std::string out = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (out.size() > 60) out = out.substr(0, 60) + "…";
  return out;
}

// Whether the value is of the field's type; takes it where it is.
bool assign(const Json& value, const Field& field, const Slot& slot) {
  if (auto* const* s = std::get_if<Setting<bool>*>(&slot))
    return value.is_boolean() && (*s)->suggest(value.get<bool>(), Origin::user);
  if (auto* const* s = std::get_if<Setting<int64_t>*>(&slot)) {
    if (!value.is_number_integer()) return false;
    const bool huge = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX};
    return (*s)->suggest(huge ? INT64_MAX : value.get<int64_t>(), Origin::user);
  }
  if (auto* const* s = std::get_if<Setting<double>*>(&slot))
    return value.is_number() && (*s)->suggest(value.get<double>(), Origin::user);
  if (auto* const* s = std::get_if<Setting<std::optional<double>>*>(&slot)) {
    if (value.is_null()) return (*s)->suggest(std::nullopt, Origin::user);
    return value.is_number() && (*s)->suggest(value.get<double>(), Origin::user);
  }
  if (auto* const* s = std::get_if<Setting<std::string>*>(&slot)) {
    if (value.is_null()) return (*s)->suggest(std::string(), Origin::user);
    return value.is_string() && (*s)->suggest(value.get<std::string>(), Origin::user);
  }
  const auto& choice = std::get<Choice>(slot);
  if (!value.is_string()) return false;
  const auto at = std::ranges::find(field.choices, value.get_ref<const std::string&>());
  return at != field.choices.end() &&
         choice.suggest(choice.setting, static_cast<int>(at - field.choices.begin()), Origin::user);
}

std::string wanted(const Field& field) {
  std::string range = allowed(field);
  if (!field.choices.empty()) return "one of " + range;
  if (!field.instead.empty()) return range;
  return fmt::format("{}{}{}", type_name(field), range.empty() ? "" : ", ", range);
}

// An unknown key: the same name in another section, or the nearest of this one.
TPUConfigurationError unknown(std::string_view prefix, std::string_view key,
                              std::span<const std::string_view> known, bool whole, std::string_view source) {
  const auto below = [&](std::string_view name) {
    return prefix.empty() ? std::string(name) : fmt::format("{}.{}", prefix, name);
  };
  std::string best = below(nearest(key, known));
  if (whole)
    for (const Section& s : sections())
      for (const Field& f : s.fields)
        if (f.name == key) best = full_name(s, f.name);
  return TPUConfigurationError(
      fmt::format("{} is no field of the configuration; did you mean {}?", quote(below(key)), best),
      {{"parameter", below(key)}, {"nearest", best}, {"known", join(known)}, {"source", std::string(source)}},
      "", Code::invalid_argument);
}

struct Reading {
  std::string_view source;
  const Sink& sink;
  bool whole;  // a document of a Config, not of a TPUConfig alone
};

bool is_object(const Json& value, const std::string& path, const Reading& r) {
  if (value.is_object()) return true;
  r.sink(bad_value(path, shown(value), "an object", r.source));
  return false;
}

void read_section(const Json& object, const Section& section, std::string_view prefix, void* values,
                  std::initializer_list<std::string_view> inner, const Reading& r) {
  std::vector<std::string_view> known(inner);
  for (const Field& f : section.fields) known.push_back(f.name);
  for (const auto& [key, value] : object.items()) {
    const std::string parameter = prefix.empty() ? key : fmt::format("{}.{}", prefix, key);
    const auto field = std::ranges::find(section.fields, key, &Field::name);
    if (field == section.fields.end()) {
      if (std::ranges::find(inner, key) == inner.end())
        r.sink(unknown(prefix, key, known, r.whole, r.source));
      continue;
    }
    const Slot slot = field->slot(values);
    if (!assign(value, *field, slot) || !in_range(slot, *field))
      r.sink(bad_value(parameter, shown(value), wanted(*field), r.source, field->instead));
  }
}

Json parse(std::string_view text, std::string_view source) {
  try {
    return parse_json(text, source);
  } catch (const ConfigurationError& e) {  // bad syntax; the same facts, as what a configuration throws
    throw TPUConfigurationError(e.message(), e.details(),
                                "Is the file whole? Write it again, or take the broken part out.", e.code());
  }
}

void read_mode(const Json& document, Config& config, const Reading& r) {
  const auto mode = document.find("mode");
  if (mode == document.end()) return;
  const auto names = mode_names();
  const auto at =
      mode->is_string() ? std::ranges::find(names, mode->get_ref<const std::string&>()) : names.end();
  if (at == names.end())
    r.sink(bad_value("mode", shown(*mode), "one of " + join(names), r.source));
  else
    config.set_mode(static_cast<Mode>(at - names.begin()));
}

void read_tpu(const Json& hardware, Config& config, const Reading& r) {
  if (!is_object(hardware, "hardware", r)) return;
  read_section(hardware, {"hardware", {}, nullptr}, "hardware", nullptr, {"tpu"}, r);
  const auto tpu = hardware.find("tpu");
  if (tpu != hardware.end() && is_object(*tpu, "hardware.tpu", r))
    read_section(*tpu, tpu_section(), "hardware.tpu", &config.hardware.tpu, {}, r);
}

// "key": value of one section, a line each.
void write_fields(std::string& out, const Section& section, void* values, Fields which, int indent,
                  bool& first) {
  for (const Field& f : section.fields) {
    const Slot slot = f.slot(values);
    if (which == Fields::chosen && origin(slot) != Origin::user) continue;
    fmt::format_to(std::back_inserter(out), "{}\n{:{}}\"{}\": {}", first ? "" : ",", "", indent, f.name,
                   value_text(slot, f));
    first = false;
  }
}

// One object of fields alone.
std::string object_text(const Section& section, void* values, Fields which, int indent) {
  std::string out = "{";
  bool first = true;
  write_fields(out, section, values, which, indent + 2, first);
  return out + (first ? "}" : fmt::format("\n{:{}}}}", "", indent));
}

[[noreturn]] void throw_it(TPUConfigurationError error) { throw TPUConfigurationError(std::move(error)); }

}  // namespace

void read_config(std::string_view text, std::string_view source, Config& config, const Sink& sink) {
  const Json document = parse(text, source);
  const Reading r{source, sink, true};
  if (!is_object(document, "the document", r)) return;
  read_mode(document, config, r);
  for (const Section& s : sections()) {
    if (s.path.empty()) {
      read_section(document, s, "", s.of(config), {"mode", "validation", "runtime", "hardware"}, r);
    } else if (s.path == "hardware.tpu") {
      if (const auto at = document.find("hardware"); at != document.end()) read_tpu(*at, config, r);
    } else if (const auto at = document.find(s.path);
               at != document.end() && is_object(*at, std::string(s.path), r)) {
      read_section(*at, s, s.path, s.of(config), {}, r);
    }
  }
}

}  // namespace config

TPUConfig TPUConfig::from_json(std::string_view text, std::string_view source) {
  const auto document = config::parse(text, source);
  const config::Sink sink = config::throw_it;
  const config::Reading r{source, sink, false};
  TPUConfig out;
  if (config::is_object(document, "the document", r))
    config::read_section(document, config::tpu_section(), "", &out, {}, r);
  return out;
}

TPUConfig TPUConfig::from_file(const Path& path) { return from_json(read_file(path), path.string()); }

std::string TPUConfig::to_json(Fields which) const {
  check();
  // Only read. NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
  return config::object_text(config::tpu_section(), const_cast<TPUConfig*>(this), which, 0) + "\n";
}

void TPUConfig::save(const Path& path, Fields which) const { write_file(path, to_json(which)); }

Config Config::from_json(std::string_view text, std::string_view source) {
  Config out;
  config::read_config(text, source, out, config::throw_it);
  return out;
}

Config Config::from_file(const Path& path) { return from_json(read_file(path), path.string()); }

std::string Config::to_json(Fields which) const {
  check();
  std::string out = fmt::format("{{\n  \"mode\": \"{}\"", to_string(mode_));
  bool first = false;
  for (const auto& s : config::sections()) {
    void* values = config::section_of(s, *this);
    if (s.path.empty())
      config::write_fields(out, s, values, which, 2, first);
    else if (s.path == "hardware.tpu")
      out += fmt::format(",\n  \"hardware\": {{\n    \"tpu\": {}\n  }}",
                         config::object_text(s, values, which, 4));
    else
      out += fmt::format(",\n  \"{}\": {}", s.path, config::object_text(s, values, which, 2));
  }
  return out + "\n}\n";
}

void Config::save(const Path& path, Fields which) const { write_file(path, to_json(which)); }

}  // namespace tpubridge
