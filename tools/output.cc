#include "tools/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tpubridge/base/env.h"
#include "tpubridge/base/files.h"
#include "tpubridge/base/text.h"

namespace tpubridge::tools {
namespace {

std::string json_text(const nlohmann::ordered_json& value) {
  std::string text = value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  // It escapes what is below a space. Terminals obey U+007F to U+009F too; outside of a string there is none.
  for (size_t at = 0; (at = text.find_first_of("\x7f\xc2", at)) != text.npos; ++at) {
    const bool two = text[at] != 0x7f;
    const int point = two ? static_cast<unsigned char>(text[at + 1]) : 0x7f;
    if (point < 0xa0) text.replace(at, two ? 2 : 1, fmt::format("\\u{:04x}", point));
  }
  return text;
}

// Escapes what paint() does not write: ESC [ digits m.
std::string tamed(std::string_view text) {
  std::string out;
  const bool colours = coloured(stdout);
  while (!text.empty()) {
    const size_t escape = colours ? std::min(text.find('\033'), text.size()) : text.size();
    out += printable(text.substr(0, escape));
    text.remove_prefix(escape);
    if (text.empty()) break;
    const size_t end = text.find_first_not_of("0123456789", 2);
    const bool ours = text.starts_with("\033[") && end != text.npos && text[end] == 'm';
    const std::string_view part = text.substr(0, ours ? end + 1 : 1);
    out += ours ? std::string(part) : printable(part);
    text.remove_prefix(part.size());
  }
  return out;
}

bool write_out(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

void print_raw(std::string_view text) {
  if (!write_out(text)) throw file_error("write", "standard output", errno);
}

// The message on its own lines, then the facts, then what to do. A message about a place in a file
// ("a.mlir:3:10: error: …") already says these.
std::string error_text(const Error& e) {
  const bool located = !e.detail("line").empty();
  const std::string message = printable(e.message());
  std::string out = located ? message : paint("error:", Colour::red, stderr) + " " + message;
  if (out.back() != '\n') out += '\n';
  for (const auto& [key, value] : e.details())
    if (!located || (key != "file" && key != "line" && key != "column"))
      out += fmt::format("  {}: {}\n", paint(printable(key), Colour::dim, stderr), printable(value));
  if (!e.hint().empty())
    out += fmt::format("  {} {}\n", paint("→", Colour::blue, stderr), printable(e.hint()));
  return out;
}

}  // namespace

bool coloured(std::FILE* stream) {
  if (env::raw("NO_COLOR") || env::raw("TERM").value_or("dumb") == "dumb") return false;
  return isatty(fileno(stream)) == 1;
}

std::string paint(std::string_view text, Colour colour, std::FILE* stream) {
  static constexpr std::array<int, 7> codes = {0, 1, 2, 31, 32, 33, 34};
  if (colour == Colour::plain || !coloured(stream)) return std::string(text);
  return fmt::format("\033[{}m{}\033[0m", codes[static_cast<size_t>(colour)], text);
}

std::string human_bytes(int64_t bytes) {
  static constexpr std::array<std::string_view, 5> units = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (std::abs(bytes) < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; std::abs(value) >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, std::abs(value) < 100 ? 1 : 0, units[unit]);
}

std::string human_time(double seconds) {
  static constexpr std::array<std::pair<double, std::string_view>, 4> units = {
      {{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}}};
  for (const auto& [size, name] : units)
    if (seconds >= size * 0.9995 || name == "ns") return fmt::format("{:.3g} {}", seconds / size, name);
  return {};
}

std::string human_count(int64_t n, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

void print(std::string_view text) { print_raw(tamed(text)); }

void print_json(const nlohmann::ordered_json& value) { print_raw(json_text(value)); }

int finish(int code) {
  std::cout.flush();
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout;
  if (code != kOk || written) return code;
  print_error(file_error("write", "standard output", errno == 0 ? EIO : errno), false);
  return kFailed;
}

void print_error(const std::exception& error, bool json) {
  // Of the standard library: paths that are too long, links in a circle, a folder that is gone.
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return print_error(file_error("use", file->path1(), file->code().value()), json);
  const auto* ours = dynamic_cast<const Error*>(&error);
  if (json) {
    using nlohmann::ordered_json;
    const ordered_json inner = ours ? ordered_json::parse(ours->to_json())
                                    : ordered_json{{"error_type", "InternalError"},
                                                   {"message", error.what()},
                                                   {"details", ordered_json::object()}};
    if (write_out(json_text({{"error", inner}}))) return;
  }
  const std::string text =
      ours ? error_text(*ours)
           : fmt::format("{} {}\n", paint("error:", Colour::red, stderr), printable(error.what()));
  std::fflush(stdout);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace tpubridge::tools
