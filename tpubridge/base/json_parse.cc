// From text to values. The library's own parser with a callback goes through all values of a list whenever
// one of them ends; building them here costs the same for each.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/json.h"
#include "tpubridge/base/text.h"

namespace tpubridge {
namespace {

using JsonValue = nlohmann::json;

constexpr size_t kMaxDepth = 200, kMaxBytes = 100'000'000, kMaxValues = 4'000'000;

struct SyntaxError {
  std::string message;
};

// Walks the text and says how far the parser has read.
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

// "[json.exception.parse_error.101] parse error at line 1, column 2: problem" → "problem"
std::string bare(std::string_view message) {
  if (const auto bracket = message.find("] "); bracket != message.npos) message.remove_prefix(bracket + 2);
  if (message.starts_with("parse error"))
    if (const auto colon = message.find(": "); colon != message.npos) message.remove_prefix(colon + 2);
  return std::string(message);
}

// What the parser calls. Refuses the second of two equal keys, which would win in silence, and what passes
// the limits.
class Builder {
 public:
  JsonValue root;

  bool null() { return put(nullptr); }
  bool boolean(bool v) { return put(v); }
  bool number_integer(int64_t v) { return put(v); }
  bool number_unsigned(uint64_t v) { return put(v); }
  bool number_float(double v, const std::string&) { return put(v); }
  bool string(std::string& v) { return put(std::move(v)); }
  bool binary(JsonValue::binary_t&) { return false; }  // JSON as text has none
  bool start_object(size_t) { return open(JsonValue::object()); }
  bool start_array(size_t) { return open(JsonValue::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    const auto [at, fresh] = open_.back()->get_ref<JsonValue::object_t&>().emplace(name, nullptr);
    if (!fresh) throw SyntaxError{fmt::format("the key {} stands twice in one object", quote(name))};
    member_ = &at->second;
    return true;
  }
  bool parse_error(size_t, const std::string&, const JsonValue::exception& e) {
    throw SyntaxError{bare(e.what())};
  }

 private:
  JsonValue& place(JsonValue value) {
    if (++values_ > kMaxValues)
      throw SyntaxError{fmt::format("it has more than {} values, the most that are read", kMaxValues)};
    if (open_.empty()) return root = std::move(value);
    if (open_.back()->is_object()) return *member_ = std::move(value);
    return open_.back()->emplace_back(std::move(value));
  }
  bool put(JsonValue value) {
    place(std::move(value));
    return true;
  }
  bool open(JsonValue value) {
    if (open_.size() == kMaxDepth)
      throw SyntaxError{fmt::format("nested more than {} levels deep", kMaxDepth)};
    open_.push_back(&place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<JsonValue*> open_;  // objects and lists that are not yet closed
  JsonValue* member_ = nullptr;   // where the value of the last key belongs
  size_t values_ = 0;
};

template <class E>
JsonValue parse_or_throw(std::string_view text, const std::string& source) {
  if (text.size() > kMaxBytes)
    throw E(fmt::format("{}: {} bytes of JSON; at most {} are read", source, text.size(), kMaxBytes),
            {{"source", source}}, "Is it the right file?", Code::invalid_argument);
  const char* furthest = text.data();
  std::string problem;
  try {
    Builder builder;
    JsonValue::sax_parse(Cursor{text.data(), &furthest}, Cursor{text.data() + text.size(), &furthest},
                         &builder);
    return std::move(builder.root);
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

}  // namespace

JsonValue parse_json(std::string_view text, std::string_view source) {
  return parse_or_throw<ConfigurationError>(text, std::string(source));
}

JsonValue parse_json_file(const Path& path) {
  return parse_or_throw<FileError>(read_file(path), path.string());
}

}  // namespace tpubridge
