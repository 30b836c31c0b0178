// Fields of a JSON value that anybody may have written: each is there and of its type, or a FileError says
// where it is not. Not for users.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/text.h"

namespace tpubridge::exported {

using nlohmann::json;

// The place in words ("model.pt2: models/model.json, node add_1") goes along for messages.
struct Place {
  const std::string* file;
  std::string what;

  [[nodiscard]] Place in(std::string_view part) const { return {file, fmt::format("{}, {}", what, part)}; }
  [[noreturn]] void refuse(std::string_view problem) const {
    throw FileError(fmt::format("{}: {}: {}", *file, printable(what), printable(problem)), {{"path", *file}},
                    "Export the model again, or load it where it was made.", Code::invalid_argument);
  }
};

inline const json& field(const json& object, const char* key, const Place& place) {
  if (!object.is_object()) place.refuse(fmt::format("expected an object with \"{}\"", key));
  const auto at = object.find(key);
  if (at == object.end()) place.refuse(fmt::format("\"{}\" is missing", key));
  return *at;
}
inline const json& list_field(const json& object, const char* key, const Place& place) {
  const json& out = field(object, key, place);
  if (!out.is_array()) place.refuse(fmt::format("\"{}\" is no list", key));
  return out;
}
inline const json& object_field(const json& object, const char* key, const Place& place) {
  const json& out = field(object, key, place);
  if (!out.is_object()) place.refuse(fmt::format("\"{}\" is no object", key));
  return out;
}
inline const std::string& as_text(const json& value, const Place& place) {
  if (!value.is_string()) place.refuse("expected a text");
  return value.get_ref<const std::string&>();
}
inline const std::string& text_field(const json& object, const char* key, const Place& place) {
  const json& out = field(object, key, place);
  if (!out.is_string()) place.refuse(fmt::format("\"{}\" is no text", key));
  return out.get_ref<const std::string&>();
}
inline int64_t as_integer(const json& value, const Place& place) {
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX))
    place.refuse("expected a whole number of 64 bits");
  return value.get<int64_t>();
}
inline int64_t integer_field(const json& object, const char* key, const Place& place) {
  return as_integer(field(object, key, place), place.in(key));
}
inline bool as_flag(const json& value, const Place& place) {
  if (!value.is_boolean()) place.refuse("expected true or false");
  return value.get<bool>();
}
// The one member of an object that stands for a choice ({"as_int": 3}).
inline std::pair<const std::string&, const json&> choice(const json& object, const Place& place) {
  if (!object.is_object() || object.size() != 1) place.refuse("expected an object with one member");
  return {object.begin().key(), object.begin().value()};
}

}  // namespace tpubridge::exported
