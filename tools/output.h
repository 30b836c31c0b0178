// How the command speaks: colours on a terminal alone, sizes and times for people, errors as text or JSON.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tpubridge::tools {

enum class Colour { plain, bold, dim, red, green, yellow, blue };

// Whether text that goes to `stream` may be coloured: a terminal, NO_COLOR not set, TERM not "dumb".
[[nodiscard]] bool coloured(std::FILE* stream);
[[nodiscard]] std::string paint(std::string_view text, Colour colour, std::FILE* stream = stdout);

[[nodiscard]] std::string human_bytes(int64_t bytes);  // "1.5 GiB", "512 B"
[[nodiscard]] std::string human_time(double seconds);  // "1.2 s", "34 ms", "5.6 µs"
[[nodiscard]] std::string human_count(int64_t n, std::string_view one, std::string_view many);  // "1 device"

// To stdout, whole: what cannot be written is a FileError. Control characters are escaped, but for the
// colours of paint().
void print(std::string_view text);
void print_json(const nlohmann::ordered_json& value);  // one document, indented, with a newline
void print_error(const std::exception& error, bool json);
// `code`; where it is kOk and not all that went to stdout could be written, kFailed with a word on stderr.
[[nodiscard]] int finish(int code);

}  // namespace tpubridge::tools
