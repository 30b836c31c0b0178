#include "tpubridge/aot/generations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/text.h"

namespace tpubridge::aot {
namespace {

constexpr std::array<std::string_view, 2> kV4 = {"tpuv4", "pufferfish"};
constexpr std::array<std::string_view, 4> kV5e = {"v5lite", "v5litepod", "viperlite", "tpuv5e"};
constexpr std::array<std::string_view, 2> kV5p = {"viperfish", "tpuv5p"};
constexpr std::array<std::string_view, 3> kV6e = {"v6", "trillium", "tpuv6e"};
constexpr std::array<std::string_view, 4> kV7 = {"v7x", "tpu7x", "tpu7", "ironwood"};

// hbm_bytes was asked of libtpu's compiler; peaks, bandwidths, cores, HBM and pods stand on the page named.
constexpr std::array kTable = {
    Generation{"v4", "Pufferfish", kV4, "v4", "megacore", "TPU v4", "2x2x1", 3, 4096, 1, 33'014'413'312,
               275e12, 1.2e12, 2, 32, 275e12, std::nullopt, "cloud.google.com/tpu/docs/v4"},
    Generation{"v5e", "Viperlite", kV5e, "v5e", "", "TPU v5 lite", "1x1", 2, 256, 1, 16'909'336'064, 197e12,
               0.819e12, 1, 16, 393e12, std::nullopt, "cloud.google.com/tpu/docs/v5e"},
    Generation{"v5p", "Viperfish", kV5p, "v5p", "megacore", "TPU v5", "2x2x1", 3, 8960, 1, 102'786'660'352,
               459e12, 2.765e12, 2, 95, std::nullopt, 459e12, "cloud.google.com/tpu/docs/v5p"},
    Generation{"v6e", "Trillium", kV6e, "v6e", "", "TPU v6 lite", "1x1", 2, 256, 1, 33'546'042'880, 918e12,
               1.638e12, 1, 32, 1836e12, 918e12, "cloud.google.com/tpu/docs/v6e, tpu7x"},
    Generation{"v7", "Ironwood", kV7, "tpu7x", "", "TPU7x", "2x2x1", 3, 9216, 2, 101'724'450'816, 1153.5e12,
               3.69e12, 2, 192, std::nullopt, 2307e12, "cloud.google.com/tpu/docs/tpu7x"},
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

const Generation& find(std::string_view name, std::string_view whole) {
  std::vector<std::string_view> known, all;
  for (const Generation& g : kTable) {
    if (g.name == name || std::ranges::find(g.aliases, name) != g.aliases.end()) return g;
    known.push_back(g.name);
    all.push_back(g.name);
    all.insert(all.end(), g.aliases.begin(), g.aliases.end());
  }
  throw ArgumentError(
      fmt::format("there is no TPU {}; the nearest name is {}", quote(whole), nearest(name, all)),
      {{"known", join(known)}}, "Name a generation alone (v5e) or with a topology (v5e:2x2)",
      Code::invalid_argument);
}

std::optional<std::vector<int>> parse_dims(std::string_view text) {
  std::vector<int> out;
  for (;;) {
    const auto end = std::min(text.find('x'), text.size());
    int n = 0;
    const auto [next, failed] = std::from_chars(text.data(), text.data() + end, n);
    if (failed != std::errc() || next != text.data() + end || n < 1) return std::nullopt;
    out.push_back(n);
    if (end == text.size()) return out;
    text.remove_prefix(end + 1);
  }
}

[[noreturn]] void refuse(const Generation& g, std::string_view whole, const std::string& why) {
  throw ArgumentError(fmt::format("{} is no slice of {} chips: {}", quote(whole), g.name, why),
                      {{"smallest", fmt::format("{}:{}", g.name, g.smallest_slice)},
                       {"largest", fmt::format("{} chips", g.pod_chips)}},
                      fmt::format("Write it as {}:{}", g.name, g.dimensions == 2 ? "2x4" : "2x2x2"),
                      Code::invalid_argument);
}

}  // namespace

std::span<const Generation> generations() { return kTable; }
const Generation* find_generation(std::string_view name) {
  const auto at = std::ranges::find_if(
      kTable, [&](const Generation& g) { return g.name == name || g.device_kind == name; });
  return at == kTable.end() ? nullptr : &*at;
}

int Slice::chips() const {
  int out = 1;
  for (const int d : dims) out *= d;
  return out;
}
std::string Slice::name() const { return fmt::format("{}:{}", generation->name, fmt::join(dims, "x")); }
std::string Slice::topology() const {
  return fmt::format("{}:{}", generation->libtpu_name, fmt::join(dims, "x"));
}

Slice parse_slice(std::string_view text) {
  const std::string folded = lower(text);
  const auto colon = std::min(folded.find(':'), folded.size());
  const Generation& g = find(std::string_view(folded).substr(0, colon), text);
  if (colon == folded.size()) return {&g, *parse_dims(g.smallest_slice)};

  auto dims = parse_dims(std::string_view(folded).substr(colon + 1));
  if (!dims) refuse(g, text, "the dimensions are not numbers from 1 with an x between them");
  if (static_cast<int>(dims->size()) > g.dimensions && dims->back() == 1) dims->pop_back();  // v5e:2x2x1
  if (static_cast<int>(dims->size()) != g.dimensions)
    refuse(g, text, fmt::format("it has {} dimensions", g.dimensions));
  int64_t chips = 1;
  for (const int d : *dims) chips = std::min<int64_t>(chips * d, g.pod_chips + 1);
  if (chips > g.pod_chips) refuse(g, text, fmt::format("a pod has {} chips", g.pod_chips));
  return {&g, std::move(*dims)};
}

}  // namespace tpubridge::aot
