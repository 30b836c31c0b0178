#include "tpubridge/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/text.h"

namespace tpubridge {
namespace {

using Json = nlohmann::json;
constexpr int kMaxDepth = 200;

struct SyntaxError {
  std::string message;
};

// Walks the text and says how far the parser has read, which its callbacks do not.
struct Cursor {
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** furthest;

  reference operator*() const { return *at; }
  Cursor& operator++() {
    *furthest = ++at;
    return *this;
  }
  bool operator==(const Cursor& other) const { return at == other.at; }
};

// Refuses what the parser lets pass: the second of two equal keys, which would win in silence, and depth.
class Strict {
 public:
  void see(int depth, Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    if (depth > kMaxDepth) throw SyntaxError{fmt::format("nested more than {} levels deep", kMaxDepth)};
    if (event == Event::object_start) open_.emplace_back();
    if (event == Event::object_end) open_.pop_back();
    if (event == Event::key && !open_.back().insert(parsed.get<std::string>()).second)
      throw SyntaxError{
          fmt::format("the key {} stands twice in one object", quote(parsed.get<std::string>()))};
  }

 private:
  std::vector<std::set<std::string>> open_;  // the keys seen in each object that is not yet closed
};

// "[json.exception.parse_error.101] parse error at line 1, column 2: problem" → "problem"
std::string bare(std::string_view message) {
  if (const auto bracket = message.find("] "); bracket != message.npos) message.remove_prefix(bracket + 2);
  if (message.starts_with("parse error"))
    if (const auto colon = message.find(": "); colon != message.npos) message.remove_prefix(colon + 2);
  return std::string(message);
}

template <class E>
Json parse_or_throw(std::string_view text, const std::string& source) {
  const char* furthest = text.data();
  std::string problem;
  Strict strict;
  try {
    return Json::parse(Cursor{text.data(), &furthest}, Cursor{text.data() + text.size(), &furthest},
                       [&](int depth, Json::parse_event_t event, const Json& parsed) {
                         strict.see(depth, event, parsed);
                         return true;
                       });
  } catch (const Json::exception& e) {
    problem = bare(e.what());
  } catch (const SyntaxError& e) {
    problem = e.message;
  }
  const auto read = static_cast<size_t>(furthest - text.data());
  const bool at_end = problem.find("unexpected end of input") != problem.npos;
  const std::string_view before =
      text.substr(0, read == 0 || at_end ? read : read - 1);  // what is not at fault
  const auto line = std::ranges::count(before, '\n') + 1;
  const size_t column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  throw E(fmt::format("{}:{}:{}: bad JSON: {}", source, line, column, problem),
          {{"source", source}, {"line", std::to_string(line)}, {"column", std::to_string(column)}}, "",
          Code::invalid_argument);
}

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

Json parse_json(std::string_view text, std::string_view source) {
  return parse_or_throw<ConfigurationError>(text, std::string(source));
}
Json parse_json_file(const Path& path) { return parse_or_throw<FileError>(read_file(path), path.string()); }

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
