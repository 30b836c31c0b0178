#include "tpubridge/aot/overflow.h"

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <string>

namespace tpubridge::aot {
namespace {

// The size that stands behind `marker`; blanks and an opening parenthesis between them are skipped.
std::optional<int64_t> size_after(std::string_view text, std::string_view marker) {
  auto at = text.find(marker);
  if (at == text.npos) return std::nullopt;
  at = text.find_first_not_of(" (", at + marker.size());
  if (at == text.npos) return std::nullopt;
  size_t end = at;
  while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '.'))
    ++end;
  while (end > at && text[end - 1] == '.') --end;  // the end of a sentence
  return parse_bytes(text.substr(at, end - at));
}

}  // namespace

std::optional<int64_t> parse_bytes(std::string_view text) {
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text[0]))) return std::nullopt;
  const std::string copy(text);  // strtod wants an end; from_chars for doubles is missing in older libraries
  char* rest = nullptr;
  const double number = std::strtod(copy.c_str(), &rest);
  std::string_view unit = rest;
  double scale = 1;
  if (!unit.empty() && unit[0] != 'B') {
    constexpr std::string_view units = "KMGTP";
    const auto power = units.find(unit[0]);
    if (power == units.npos) return std::nullopt;
    scale = std::ldexp(1.0, 10 * (static_cast<int>(power) + 1));
    unit.remove_prefix(1);
    if (unit.starts_with('i')) unit.remove_prefix(1);
  }
  if (!unit.empty() && unit != "B") return std::nullopt;
  const double bytes = number * scale;
  if (!(bytes >= 0 && bytes < 9e18)) return std::nullopt;
  return static_cast<int64_t>(std::llround(bytes));
}

std::optional<Overflow> parse_overflow(std::string_view message) {
  // "… the total memory required for HLO temporaries (24.00G) exceeds available HBM (15.75G) …"
  if (const auto available = size_after(message, "exceeds available HBM"))
    if (const auto needed = size_after(message, "HLO temporaries")) return Overflow{*needed, *available};

  // "… Used 128.05M of 128.00M hbm. Exceeded hbm capacity by 51.5K.\n\nTotal hbm usage >= 322.05M:\n reserved
  // 258.00M …": what is reserved is not part of the second figure.
  for (auto at = message.find("Used "); at != message.npos; at = message.find("Used ", at + 1)) {
    const std::string_view line = message.substr(at, message.find('\n', at) - at);
    const auto used = size_after(line, "Used "), of = size_after(line, " of ");
    if (used && of && line.find(" hbm") != line.npos) return Overflow{*used, *of};
  }
  return std::nullopt;
}

}  // namespace tpubridge::aot
