// The one registry of tpubridge's environment variables. A new variable is one row of the table in env.cc.
//
// The environment is read, never changed. A variable that is set but empty counts as not set.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpubridge::env {

enum class Type { text, flag, integer, choice };
enum class Stability { stable, experimental, internal };  // internal: for the build and the tests
[[nodiscard]] std::string_view to_string(Type type);
[[nodiscard]] std::string_view to_string(Stability stability);

struct Variable {
  std::string_view name;
  Type type;
  std::string_view fallback;  // the value where it is not set; empty: none
  std::string_view allowed;   // integer: "1..256"; choice: "a|b|c"; otherwise empty
  std::string_view description;
  Stability stability;
};
[[nodiscard]] std::span<const Variable> all();  // sorted by name

// The value as it stands in the environment, checked by nobody.
[[nodiscard]] std::optional<std::string> raw(std::string_view name);

// The value of a registered variable, or its fallback. A value that is not allowed throws
// TPUConfigurationError with the name, the value and what is allowed. A name that is not in the table, or has
// another type, throws ArgumentError.
[[nodiscard]] std::string text(std::string_view name);  // empty where neither value nor fallback is there
[[nodiscard]] bool flag(std::string_view name);         // 1|true|on|yes, 0|false|off|no, in any case
[[nodiscard]] std::optional<int64_t> integer(std::string_view name);
[[nodiscard]] std::string choice(std::string_view name);  // in lower case

// The rules behind the getters, for a value that comes from elsewhere.
[[nodiscard]] bool parse_flag(const Variable& variable, std::string_view value);
[[nodiscard]] int64_t parse_integer(const Variable& variable, std::string_view value);
[[nodiscard]] std::string parse_choice(const Variable& variable, std::string_view value);

struct Problem {
  std::string name;     // as it stands in the environment
  std::string nearest;  // the known name most like it; empty where the name is known and its value is wrong
  std::string message;  // a sentence for the user
};
// What is wrong in the environment: TPUBRIDGE_* names that nobody reads, and values that are not allowed.
[[nodiscard]] std::vector<Problem> check_environment();

}  // namespace tpubridge::env
