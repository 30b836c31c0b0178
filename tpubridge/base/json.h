// Reading JSON with errors that name the file, the place in it, and what was expected.
//
// Syntax: line and column; a key that stands twice is refused, and so are more than 200 levels, 4 million
// values or 100 MB. Time and memory grow with the length of the text alone. Content: the path of the value
// ("mesh.axes[1]"), what it is and what it must be; for an unknown key the nearest known one. Bad syntax in a
// file throws FileError, everything else ConfigurationError.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/base/files.h"

namespace tpubridge {

// `source` names the text in errors ("--config").
[[nodiscard]] nlohmann::json parse_json(std::string_view text, std::string_view source);
[[nodiscard]] nlohmann::json parse_json_file(const Path& path);

// One object of a document. Copies are cheap and keep the document alive.
class JsonReader {
 public:
  // Throws where the value is no object.
  JsonReader(nlohmann::json value, std::string_view source);
  [[nodiscard]] static JsonReader of_text(std::string_view text, std::string_view source);
  [[nodiscard]] static JsonReader of_file(const Path& path);

  [[nodiscard]] bool has(std::string_view key) const;  // there, and not null
  [[nodiscard]] std::vector<std::string> keys() const;

  // The value of a key. Without a fallback the key must be there; with one, a missing or null value gives it.
  [[nodiscard]] std::string text(std::string_view key) const;
  [[nodiscard]] std::string text(std::string_view key, std::string_view fallback) const;
  [[nodiscard]] int64_t integer(std::string_view key) const;  // 3, not 3.0
  [[nodiscard]] int64_t integer(std::string_view key, int64_t fallback) const;
  [[nodiscard]] double number(std::string_view key) const;  // 3 or 3.5
  [[nodiscard]] double number(std::string_view key, double fallback) const;
  [[nodiscard]] bool flag(std::string_view key) const;
  [[nodiscard]] bool flag(std::string_view key, bool fallback) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const;
  [[nodiscard]] std::vector<int64_t> integers(std::string_view key) const;
  [[nodiscard]] std::vector<double> numbers(std::string_view key) const;
  [[nodiscard]] JsonReader object(std::string_view key) const;
  [[nodiscard]] std::vector<JsonReader> objects(std::string_view key) const;

  // Throws where the object has a key that is not listed.
  void only(std::initializer_list<std::string_view> known) const;

  [[nodiscard]] const nlohmann::json& json() const { return *value_; }

 private:
  JsonReader(std::shared_ptr<const nlohmann::json> value, std::string source, std::string path);
  [[nodiscard]] const nlohmann::json& at(std::string_view key) const;

  std::shared_ptr<const nlohmann::json> value_;  // shares the ownership of the whole document
  std::string source_, path_;                    // path_ is empty at the root
};

}  // namespace tpubridge
