#include "tpubridge/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/text.h"

namespace tpubridge {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& source, const std::string& path, const std::string& problem,
                         std::string hint = {}) {
  throw ConfigurationError(fmt::format("{}: {} {}", source, path.empty() ? "the document" : path, problem),
                           {{"source", source}, {"key", path}}, std::move(hint), Code::invalid_argument);
}

[[noreturn]] void refuse_type(const std::string& source, const std::string& path, const Json& value,
                              std::string_view wanted) {
  std::string shown = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (shown.size() > 60) shown = shown.substr(0, 60) + "…";
  refuse(source, path, fmt::format("must be {}, but is {}", wanted, shown));
}

// One converter per type: nothing where the value does not fit.
std::optional<std::string> as_text(const Json& v) {
  if (!v.is_string()) return std::nullopt;
  return v.get<std::string>();
}
std::optional<int64_t> as_integer(const Json& v) {
  if (!v.is_number_integer()) return std::nullopt;
  if (v.is_number_unsigned() && v.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return v.get<int64_t>();
}
std::optional<double> as_number(const Json& v) {
  if (!v.is_number()) return std::nullopt;
  return v.get<double>();
}
std::optional<bool> as_flag(const Json& v) {
  if (!v.is_boolean()) return std::nullopt;
  return v.get<bool>();
}
constexpr std::string_view kText = "text", kInteger = "a whole number of 64 bits", kNumber = "a number",
                           kFlag = "true or false", kObject = "an object", kList = "a list";

std::string below(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

template <class T>
T convert(std::optional<T> (*as)(const Json&), const Json& value, const std::string& source,
          const std::string& path, std::string_view wanted) {
  if (auto out = as(value)) return *std::move(out);
  refuse_type(source, path, value, wanted);
}

template <class T>
std::vector<T> convert_list(std::optional<T> (*as)(const Json&), const Json& value, const std::string& source,
                            const std::string& path, std::string_view wanted) {
  if (!value.is_array()) refuse_type(source, path, value, kList);
  std::vector<T> out;
  for (size_t i = 0; i < value.size(); ++i)
    out.push_back(convert(as, value[i], source, fmt::format("{}[{}]", path, i), wanted));
  return out;
}

}  // namespace

JsonReader::JsonReader(std::shared_ptr<const Json> value, std::string source, std::string path)
    : value_(std::move(value)), source_(std::move(source)), path_(std::move(path)) {
  if (!value_->is_object()) refuse_type(source_, path_, *value_, kObject);
}
JsonReader::JsonReader(Json value, std::string_view source)
    : JsonReader(std::make_shared<const Json>(std::move(value)), std::string(source), "") {}

JsonReader JsonReader::of_text(std::string_view text, std::string_view source) {
  return {parse_json(text, source), source};
}
JsonReader JsonReader::of_file(const Path& path) { return {parse_json_file(path), path.string()}; }

bool JsonReader::has(std::string_view key) const {
  const auto it = value_->find(key);
  return it != value_->end() && !it->is_null();
}

std::vector<std::string> JsonReader::keys() const {
  std::vector<std::string> out;
  for (const auto& item : value_->items()) out.push_back(item.key());
  return out;
}

const Json& JsonReader::at(std::string_view key) const {
  const auto it = value_->find(key);
  if (it == value_->end()) refuse(source_, below(path_, key), "is missing");
  return *it;
}

std::string JsonReader::text(std::string_view key) const {
  return convert(as_text, at(key), source_, below(path_, key), kText);
}
std::string JsonReader::text(std::string_view key, std::string_view fallback) const {
  return has(key) ? text(key) : std::string(fallback);
}
int64_t JsonReader::integer(std::string_view key) const {
  return convert(as_integer, at(key), source_, below(path_, key), kInteger);
}
int64_t JsonReader::integer(std::string_view key, int64_t fallback) const {
  return has(key) ? integer(key) : fallback;
}
double JsonReader::number(std::string_view key) const {
  return convert(as_number, at(key), source_, below(path_, key), kNumber);
}
double JsonReader::number(std::string_view key, double fallback) const {
  return has(key) ? number(key) : fallback;
}
bool JsonReader::flag(std::string_view key) const {
  return convert(as_flag, at(key), source_, below(path_, key), kFlag);
}
bool JsonReader::flag(std::string_view key, bool fallback) const { return has(key) ? flag(key) : fallback; }

std::vector<std::string> JsonReader::texts(std::string_view key) const {
  return convert_list(as_text, at(key), source_, below(path_, key), kText);
}
std::vector<int64_t> JsonReader::integers(std::string_view key) const {
  return convert_list(as_integer, at(key), source_, below(path_, key), kInteger);
}
std::vector<double> JsonReader::numbers(std::string_view key) const {
  return convert_list(as_number, at(key), source_, below(path_, key), kNumber);
}

JsonReader JsonReader::object(std::string_view key) const {
  return {std::shared_ptr<const Json>(value_, &at(key)), source_, below(path_, key)};
}

std::vector<JsonReader> JsonReader::objects(std::string_view key) const {
  const Json& list = at(key);
  const std::string path = below(path_, key);
  if (!list.is_array()) refuse_type(source_, path, list, kList);
  std::vector<JsonReader> out;
  for (size_t i = 0; i < list.size(); ++i)
    out.push_back({std::shared_ptr<const Json>(value_, &list[i]), source_, fmt::format("{}[{}]", path, i)});
  return out;
}

void JsonReader::only(std::initializer_list<std::string_view> known) const {
  const std::span<const std::string_view> names(known.begin(), known.size());
  for (const auto& item : value_->items()) {
    if (std::ranges::find(names, item.key()) != names.end()) continue;
    refuse(source_, below(path_, item.key()), "is not a known key",
           fmt::format("Did you mean {}? Known keys: {}.", nearest(item.key(), names), join(names)));
  }
}

}  // namespace tpubridge
