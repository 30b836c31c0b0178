#include "tools/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tpubridge/base/env.h"
#include "tpubridge/base/errors.h"

namespace tpubridge::tools {
namespace {

std::string json_text(const nlohmann::ordered_json& value) {
  return value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// The message on its own lines, then the facts, then what to do. A message about a place in a file
// ("a.mlir:3:10: error: …") already says these.
std::string error_text(const Error& e) {
  const bool located = !e.detail("line").empty();
  std::string out = located ? e.message() : paint("error:", Colour::red, stderr) + " " + e.message();
  if (out.back() != '\n') out += '\n';
  for (const auto& [key, value] : e.details())
    if (!located || (key != "file" && key != "line" && key != "column"))
      out += fmt::format("  {}: {}\n", paint(key, Colour::dim, stderr), value);
  if (!e.hint().empty()) out += fmt::format("  {} {}\n", paint("→", Colour::blue, stderr), e.hint());
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

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void print_json(const nlohmann::ordered_json& value) { print(json_text(value)); }

void print_error(const std::exception& error, bool json) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  if (json) {
    using nlohmann::ordered_json;
    const ordered_json inner = ours ? ordered_json::parse(ours->to_json())
                                    : ordered_json{{"error_type", "InternalError"},
                                                   {"message", error.what()},
                                                   {"details", ordered_json::object()}};
    print_json({{"error", inner}});
    return;
  }
  const std::string text =
      ours ? error_text(*ours) : fmt::format("{} {}\n", paint("error:", Colour::red, stderr), error.what());
  std::fflush(stdout);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace tpubridge::tools
