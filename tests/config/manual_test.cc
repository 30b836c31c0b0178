// The tables of docs/configuration.md are what this test would write. Run it with TPUBRIDGE_WRITE_DOCS=1 to
// renew them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tpubridge/aot/generations.h"
#include "tpubridge/base/env.h"
#include "tpubridge/config/fields.h"

namespace tpubridge::config {
namespace {

constexpr std::string_view kBegin = "<!-- fields -->\n", kEnd = "<!-- end of fields -->\n";

std::string rows(const Section& section) {
  Config fresh;
  std::string out = fmt::format("### {}\n", section.path.empty() ? "The document itself" : section.path);
  out +=
      "| field | default | allowed | variable | what it is | what acts upon it "
      "|\n|---|---|---|---|---|---|\n";
  for (const Field& f : section.fields) {
    std::string range = allowed(f);
    if (range.empty()) range = type_name(f);
    EXPECT_FALSE(f.effect.empty()) << f.name << " does nothing";
    out += fmt::format("| `{}` | `{}` | {} | {} | {} | {} |\n", f.name,
                       value_text(f.slot(section.of(fresh)), f), range,
                       f.variable.empty() ? "" : fmt::format("`{}`", f.variable), f.description, f.effect);
  }
  return out + "\n";
}

std::string facts() {
  const auto peak = [](std::optional<double> v, int devices) {
    return v ? fmt::format("{:g}", *v * devices / 1e12) : std::string("–");
  };
  std::string out =
      "### Generations\n| | code name | PJRT's name | cores a chip | HBM a chip, GiB | bf16 a chip, TFLOP/s "
      "| "
      "int8 a chip, TOP/s "
      "| fp8 a chip, TFLOP/s | HBM bandwidth a chip, TB/s | most chips | network | source "
      "|\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const auto& g : aot::generations())
    out += fmt::format("| {} | {} | {} | {} | {:g} | {} | {} | {} | {:g} | {} | {}D | {} |\n", g.name,
                       g.code_name, g.device_kind, g.cores_per_chip, g.chip_hbm_gib,
                       peak(g.bf16_flops, g.devices_per_chip), peak(g.int8_ops, g.devices_per_chip),
                       peak(g.fp8_flops, g.devices_per_chip), g.bandwidth * g.devices_per_chip / 1e12,
                       g.pod_chips, g.dimensions, g.source);
  return out;
}

TEST(Manual, HasTheTablesOfTheFields) {
  const Path path = SOURCE_DIR "/docs/configuration.md";
  const std::string manual = read_file(path);
  const auto begin = manual.find(kBegin), end = manual.find(kEnd);
  ASSERT_TRUE(begin != manual.npos && end != manual.npos && begin < end);
  std::string tables;
  for (const Section& s : sections()) tables += rows(s);
  tables += facts();
  const auto from = begin + kBegin.size();
  if (env::flag("TPUBRIDGE_WRITE_DOCS"))
    write_file(path, manual.substr(0, from) + tables + manual.substr(end));
  else
    EXPECT_EQ(manual.substr(from, end - from), tables) << "run with TPUBRIDGE_WRITE_DOCS=1";
}

TEST(Manual, HasEveryMode) {
  const std::string manual = read_file(SOURCE_DIR "/docs/configuration.md");
  for (const auto mode : mode_names())
    EXPECT_NE(manual.find(fmt::format("| `{}` |", mode)), manual.npos) << mode;
}

}  // namespace
}  // namespace tpubridge::config
